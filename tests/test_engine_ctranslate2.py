"""`generate --engine ctranslate2`: its search, our lines, the paper's length penalty."""

import json
import os

import pytest
from random_models import random_model
from toy import sentences

from aiayn.checkpoint import load_model, save_model
from aiayn.errors import UsageError

pytest.importorskip("ctranslate2")

from aiayn.data import cache
from aiayn.export.converted import convert_once

LINES = "\n".join([*sentences(20, seed=31), "", "ba " * 300, "  "]).encode()


@pytest.fixture
def model(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return trained / "average.pt"


@pytest.fixture
def both(model, aiayn):
    """Return a function that runs a command line with each engine."""

    def run(*line, stdin=LINES):
        return [
            aiayn("generate", model, *line, "--engine", engine, stdin=stdin)
            for engine in ("torch", "ctranslate2")
        ]

    return run


@pytest.mark.parametrize("line", [["--greedy"], ["--beam", 4, "--alpha", 0], ["--align"]])
def test_both_engines_translate_alike(both, line):
    (code, ours, _), (other_code, theirs, err) = both(*line)
    assert (code, other_code) == (0, 0)
    assert theirs == ours
    assert "searched by CTranslate2" in err
    assert "2 empty (line 21, 23), 1 translated in pieces (line 22)" in err


@pytest.mark.parametrize(
    "line", [[], ["--min-length", 4], ["--no-repeat-ngram", 2], ["--alpha", 2]]
)
def test_scores_are_those_of_our_model(both, line):
    ours, theirs = (
        [json.loads(row) for row in out.splitlines()]
        for _, out, _ in both("--format", "jsonl", *line)
    )
    same = [(a, b) for a, b in zip(ours, theirs, strict=True) if a["text"] == b["text"]]
    assert len(same) > 15
    # Ours leave some probability to padding, which theirs do not have.
    for a, b in same:
        assert b["score"] == pytest.approx(a["score"], rel=1e-2)


def test_prefixes_are_kept_and_count_in_scores(both, tmp_path):
    (tmp_path / "prefixes").write_text("ab\n\nbo\n")
    line = ["--prefix", tmp_path / "prefixes", "--scores", "--greedy"]
    (_, ours, _), (_, theirs, _) = both(*line, stdin=b"ba be\nbi\ngu ko\n")
    pairs = [row.split("\t") for out in (ours, theirs) for row in out.splitlines()]
    assert [text for text, _ in pairs[:3]] == [text for text, _ in pairs[3:]]
    for (_, mine), (_, other) in zip(pairs[:3], pairs[3:], strict=True):
        assert float(other) == pytest.approx(float(mine), rel=1e-2)


def test_hypotheses_stand_in_the_order_of_the_length_penalty(model, aiayn):
    line = ["--nbest", 4, "--format", "jsonl", "--alpha", 2, "--engine", "ctranslate2"]
    _, out, _ = aiayn("generate", model, *line, stdin=b"ba be bi\n")
    found = json.loads(out)["nbest"]
    scores = [one["score"] for one in found if one["finished"]]
    assert len(found) == 4
    assert scores == sorted(scores, reverse=True)


def test_each_sentence_ends_at_its_own_limit(both):
    (_, ours, _), (_, theirs, err) = both("--greedy", "--extra-length", 0, "--min-length", 60)
    assert [len(row) for row in theirs.splitlines()] == [len(row) for row in ours.splitlines()]
    assert "at the length limit" in err


def test_a_file_holds_what_standard_output_would(model, aiayn, tmp_path):
    (tmp_path / "in").write_bytes(LINES)
    line = ["generate", model, "-i", tmp_path / "in", "-o", tmp_path / "out"]
    assert aiayn(*line, "--engine", "ctranslate2")[0] == 0
    _, whole, _ = aiayn("generate", model, "--engine", "ctranslate2", stdin=LINES)
    assert (tmp_path / "out").read_text() == whole


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["--sample"], "--sample"),
        (["--device", "mps"], "--device mps"),
        (["--precision", "float16"], "--precision float16"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(model, aiayn, line, named):
    code, _, err = aiayn("generate", model, "--engine", "ctranslate2", *line, stdin=b"ba\n")
    assert code == 2
    assert named in err


def test_an_ensemble_is_refused(model, aiayn):
    code, _, err = aiayn("generate", model, model, "--engine", "ctranslate2", stdin=b"ba\n")
    assert code == 2
    assert "ensembles" in err


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"attention_window": 5}, "model.attention_window"),
        ({"shared": False, "codec": {"subword": "char", "task": "parsing"}}, "parse"),
    ],
)
def test_models_that_it_cannot_search_are_refused(model, aiayn, tmp_path, settings, named):
    save_model(tmp_path / "odd.pt", random_model(**settings))
    code, _, err = aiayn("generate", tmp_path / "odd.pt", "--engine", "ctranslate2")
    assert code == 2
    assert named in err


def test_a_model_is_converted_once_for_this_user_only(model, tmp_path, capsys):
    file = load_model(model)
    folder = convert_once(model, file)
    (tmp_path / "copy.pt").write_bytes(model.read_bytes())
    assert convert_once(tmp_path / "copy.pt", file) == folder
    assert capsys.readouterr().err.count("for CTranslate2") == 1
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_others_may_write_to_is_refused(model, tmp_path):
    (tmp_path / "cache" / "aiayn").mkdir(parents=True)
    (tmp_path / "cache" / "aiayn").chmod(0o777)
    with pytest.raises(UsageError, match="others may write"):
        convert_once(model, load_model(model))


def test_conversions_that_were_not_used_for_longest_go(model, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "KEPT", 1)
    old = tmp_path / "cache" / "aiayn" / "ctranslate2-of-another-model"
    old.mkdir(parents=True, mode=0o700)
    old.parent.chmod(0o700)
    os.utime(old, (1, 1))
    folder = convert_once(model, load_model(model))
    assert list(folder.parent.iterdir()) == [folder]
