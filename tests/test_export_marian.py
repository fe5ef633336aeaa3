"""Models in Marian's own format: equal probabilities, or a clear refusal, and back again."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import pytest
import torch
import yaml
from random_models import pairs, python_in, random_model
from toy import sentences

from aiayn.checkpoint import ModelFile
from aiayn.config import DecodeConfig
from aiayn.errors import UsageError
from aiayn.export import from_marian
from aiayn.export.marian import write
from aiayn.export.pymarian import PROGRAM, PyMarian
from aiayn.export.verify import Greedy, verify
from aiayn.special_ids import UNK

VARIANTS = {
    "as in the paper": {},
    "sinusoids in halves": {"positions": "halves"},
    "halves, two vocabularies": {"positions": "halves", "shared": False},
    "halves, untied": {"positions": "halves", "tie": "none"},
    "halves, output tied to the target": {"positions": "halves", "tie": "target"},
    "halves, swish": {"positions": "halves", "activation": "swish"},
    "halves, no attention bias": {"positions": "halves", "attention_bias": False},
    "halves, output bias": {"positions": "halves", "output_bias": True},
    "learned positions": {"positions": "learned", "max_positions": 64},
    "two vocabularies": {"shared": False},
    "swish, untied": {"activation": "swish", "tie": "none"},
    "one head, one layer": {"heads": 1, "d_k": 32, "d_v": 32, "layers": 1},
    "3 + 1 layers": {"layers": 3, "decoder_layers": 1},
    "halves, 1 + 2 layers": {"positions": "halves", "layers": 1, "decoder_layers": 2},
}


def exported(file: ModelFile, folder: Path) -> Path:
    write(file, folder)
    return folder


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_marian_gives_the_same_probabilities(variant, tmp_path):
    pytest.importorskip("pymarian", reason="pip install 'aiayn[marian]', 600 MB")
    file = random_model(**variant)
    engine = PyMarian(exported(file, tmp_path), file.codec)
    assert verify(file, pairs(file), engine).difference < 1e-4


def test_unknown_words_can_be_scored_where_no_search_finds_them(tmp_path):
    pytest.importorskip("pymarian", reason="pip install 'aiayn[marian]', 600 MB")
    file = random_model(positions="halves")
    file = replace(file, config=replace(file.config, decode=DecodeConfig(beam_rule="marian")))
    engine = PyMarian(exported(file, tmp_path), file.codec)
    assert yaml.safe_load((tmp_path / "decoder.yml").read_text())["allow-unk"] is False
    assert verify(file, [Greedy("ba da", "", [UNK, 260], 20)], engine).difference < 1e-4


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_an_import_of_an_export_is_the_model_again(variant, tmp_path):
    file = random_model(**variant)
    back = from_marian.read(exported(file, tmp_path))
    assert (back.config, back.codec.fingerprint) == (file.config, file.codec.fingerprint)
    assert back.weights.keys() == file.weights.keys()
    # Beside a table of positions embeddings are scaled, and so rounded.
    rounded = {"source_embedding.weight", "target_embedding.weight", "source_positions.table"}
    rounded = {*rounded, "target_positions.table"} if "halves" not in str(variant) else set()
    # The bias of padding, which nobody may choose, is replaced.
    file.weights.get("output.bias", torch.zeros(1))[0] = -1e4
    for name, weight in file.weights.items():
        tolerance = 1e-6 if name in rounded else 0
        torch.testing.assert_close(back.weights[name], weight, rtol=tolerance, atol=0)


@pytest.mark.parametrize("positions", ["sinusoidal", "halves"])
def test_the_import_of_a_tied_export_has_the_same_bits(positions, tmp_path):
    file = random_model(positions=positions)
    back = from_marian.read(exported(file, tmp_path))
    assert all(torch.equal(back.weights[name], file.weights[name]) for name in file.weights)


def test_a_text_in_a_batch_is_translated_as_alone(trained, tmp_path, aiayn):
    pytest.importorskip("pymarian", reason="pip install 'aiayn[marian]', 600 MB")
    line = ("export", trained, "--to", "marian", "-o", tmp_path / "marian")
    code, out, err = aiayn(*line)
    assert (code, out) == (0, "")
    assert "12 of 12 translations are identical" in err
    lines = sentences(20, seed=77)
    text = "".join(f"{line}\n" for line in lines).encode()
    options = {
        "config": str(tmp_path / "marian" / "decoder.yml"),
        "normalize": 0.6,
        "quiet": True,
    }
    program = [sys.executable, "-c", PROGRAM]
    told = json.dumps([{**options, "beam_size": 3, "cpu_threads": 1}, lines])
    theirs = json.loads(subprocess.run(program, input=told, stdout=PIPE, text=True).stdout)
    search = ("--beam", 3, "--alpha", 0.6, "--beam-rule", "marian", "--device", "cpu")
    ours = aiayn("generate", trained, *search, stdin=text)[1].splitlines()
    assert ours == theirs
    assert len(set(ours)) > 10


def test_ctranslate2_converts_sinusoids_in_halves(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    file = random_model(positions="halves", shared=False)
    write(file, tmp_path)
    vocabularies = [str(tmp_path / f"{side}.yml") for side in ("source", "target")]
    converter = ctranslate2.converters.MarianConverter(tmp_path / "model.npz", vocabularies)
    converter.convert(tmp_path / "converted")
    translator = ctranslate2.Translator(str(tmp_path / "converted"))
    wanted = pairs(file)
    sources = [file.codec.encode_source(one.line)[:-1] for one in wanted]
    found = translator.score_batch(
        [file.codec.source.pieces(ids) for ids in sources],
        [file.codec.target.pieces(one.ids) for one in wanted],
    )
    engine = SimpleNamespace(
        translate=lambda lines, limits: [""] * len(lines),
        log_p=lambda lines, targets: [one.log_probs for one in found],
    )
    assert verify(file, wanted, engine).difference < 1e-3


@pytest.mark.parametrize(
    ("variant", "named"),
    [
        ({"attention_window": 5}, r"model\.attention_window is 5"),
        ({"d_k": 8}, r"model\.d_k is 8, and d_model / heads = 16"),
        ({"d_v": 8}, r"model\.d_v is 8"),
        ({"codec": {"subword": "word"}}, "whole words"),
    ],
)
def test_what_marian_cannot_have_is_refused_and_named(variant, named, tmp_path):
    with pytest.raises(UsageError, match=named):
        write(random_model(**variant), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_marian_nothing_is_verified(trained, tmp_path, aiayn, monkeypatch):
    monkeypatch.setattr("aiayn.commands.export.find_spec", lambda name: None)
    line = ("export", trained, "--to", "marian", "-o", tmp_path / "marian")
    code, _, err = aiayn(*line)
    assert (code, "pip install 'aiayn[marian]', or pass --verify 0" in err) == (2, True)
    assert aiayn(*line, "--verify", 0)[0] == 0
    assert aiayn(*line, "--verify", 0)[0] == 2
    assert aiayn(*line, "--verify", 0, "--force")[0] == 0


def test_the_python_of_the_readme_is_about_the_files_beside_it(tmp_path):
    write(random_model(codec={"lowercase": True}), tmp_path)
    code = python_in((tmp_path / "README.md").read_text(encoding="utf-8"), "ba da")
    assert "text.lower()" in code
    assert "config='decoder.yml'" in code
    told = yaml.safe_load((tmp_path / "decoder.yml").read_text())
    assert all((tmp_path / name).is_file() for name in (*told["models"], *told["vocabs"]))
