"""Packages of Argos Translate: its tokenizer and its search give what ours give."""

import json
import zipfile

import pytest
from random_models import pairs, random_model
from toy import sentences

from aiayn.errors import UsageError
from aiayn.export.verify import verify

pytest.importorskip("ctranslate2")

from aiayn.export import argos, ctranslate2

KNOWN = {"source_language": "en", "target_language": "de"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Argos makes folders in the user's home."""
    pytest.importorskip("argostranslate", reason="pip install 'aiayn[argos]'")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "package").mkdir()
    return tmp_path / "package"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_argos_opens_the_package_and_translates_alike(kind, home, tmp_path):
    file = random_model(codec={**KNOWN, "subword": kind})
    argos.write(file, home)
    opened = argos.ArgosModel(home, file.codec)
    assert verify(file, pairs(file), opened).difference < 1e-4
    (tmp_path / "plain").mkdir()
    ctranslate2.write(file, tmp_path / "plain")
    plain = ctranslate2.CTranslate2Model(tmp_path / "plain", file.codec)
    lines = [*sentences(10, seed=2), "na\u00efve \u4e2d\u6587, 1/2!"]
    limits = [20] * len(lines)
    assert opened.translate(lines, limits) == plain.translate(lines, limits)


def test_a_run_is_exported_and_verified(trained, home, aiayn):
    line = ("export", trained, "--to", "argos", "-o", home)
    code, _, err = aiayn(*line)
    assert (code, "add --languages" in err) == (2, True)
    code, out, err = aiayn(*line, "--languages", "en-de")
    assert (code, out) == (0, "")
    assert "12 of 12 translations are identical" in err
    assert sorted(path.name for path in home.iterdir()) == ["README.md", "model.argosmodel"]
    assert aiayn(*line, "--languages", "en-de")[0] == 2
    assert aiayn(*line, "--languages", "en-fr", "--force")[0] == 0


def test_a_package_names_its_languages(tmp_path):
    argos.write(random_model(codec=KNOWN), tmp_path)
    with zipfile.ZipFile(tmp_path / "model.argosmodel") as archive:
        names = archive.namelist()
        told = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    assert (told["from_code"], told["to_code"]) == ("en", "de")
    assert {name.split("/")[1] for name in names} == {
        "README.md",
        "metadata.json",
        "model",
        "sentencepiece.model",
    }
    assert "translate-en_de-1_0/model/model.bin" in names


@pytest.mark.parametrize(
    ("variant", "named"),
    [
        ({"shared": False}, "vocabulary is separate"),
        ({"codec": {**KNOWN, "subword": "word"}}, "whole words"),
        ({"codec": {**KNOWN, "lowercase": True}}, "--lowercase"),
        ({"codec": {**KNOWN, "case_markup": True}}, "--case-markup"),
        ({"codec": {**KNOWN, "pretokenize": "moses"}}, "--pretokenize was moses"),
        ({}, "does not know its languages"),
    ],
)
def test_what_a_package_cannot_hold_is_refused_and_named(variant, named, tmp_path):
    with pytest.raises(UsageError, match=named):
        argos.write(random_model(**variant), tmp_path)
    assert list(tmp_path.iterdir()) == []
