"""The program as a whole: what the system refuses, odd names and closed streams."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy import TINY

from aiayn.cli import load_command
from aiayn.commands.foreign_options import FOREIGN_OPTIONS

LONG = 300 * "x"
EXPORT = "export TRAINED --to huggingface -o /proc/exp"
ODD = "caf\udce9"
"""What Python makes of the bytes caf\\xe9, a name in Latin-1."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="others refuse such names")
PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="nobody may write to /proc")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("score afile/x -i afile", "afile/x: not a directory"),
        (f"score {LONG} -i afile", f"{LONG}: file name too long"),
        (f"generate {LONG}", f"{LONG}: file name too long"),
        ("generate TRAINED -i afile/x", "afile/x: not a directory"),
        (f"generate TRAINED -i {LONG}", f"{LONG}: file name too long"),
        ("train DATA -o afile/run", "afile/run: not a directory"),
        pytest.param("train DATA -o /proc/run", "/proc/run: ", marks=PROC),
        pytest.param(EXPORT, "/proc/exp: ", marks=PROC),
    ],
    ids=lambda text: text.replace(LONG, "LONG"),
)
def test_a_path_that_the_system_refuses_is_a_usage_error(
    aiayn, data, trained, tmp_path, monkeypatch, line, message
):
    if line == EXPORT:
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").touch()
    places = {"DATA": data.path, "TRAINED": trained}
    code, out, err = aiayn(*(places.get(word, word) for word in line.split()))
    assert (code, out) == (2, "")
    assert f"error: {message}" in err
    assert "fix: " in err


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        (
            "train d -o r --steps abc",
            "--steps is 'abc', expected a whole number",
            "give --steps a whole number",
        ),
        (
            "generate m --beam 0",
            "--beam is 0, expected a whole number of at least 1",
            "give --beam a whole number of at least 1",
        ),
        (
            "score r -m blue",
            "--metric is 'blue', expected one of bleu, chrf, ter",
            "did you mean bleu?",
        ),
        (
            "train d -o r --presett tiny",
            "there is no option --presett",
            "did you mean --preset?",
        ),
        ("score r --no-compond", "there is no option --no-compond", "mean --no-compound?"),
        ("train d", "--output is missing", "add --output RUN"),
        ("average -o m", "RUN is missing", "average [OPTIONS] RUN"),
        ("train d -o", "a value is missing after -o", "--help shows what -o takes"),
        ("info --json=1", "--json takes no value", "write --json alone"),
        ("attend m The dog sees", "too many words: sees", "put quotes around a value"),
        (
            "train d -o r batch.tokens 9",
            "'batch.tokens' is not a setting",
            "batch.tokens=VALUE",
        ),
        ("train d -o r --batch.tokens=9", "no option --batch.tokens", "batch.tokens=VALUE"),
        ("train d -o r --preset transformer_base", "no preset", "did you mean base?"),
        ("train d -o r --resume", "no option --resume", "run the same command again"),
        ("train pyproject.toml -o r", "pyproject.toml is a file", "aiayn preprocess SRC TGT"),
        ("info base", "base does not exist", "write --preset base"),
        ("score r -m bleu,ter", "--metric is 'bleu,ter'", "write -m bleu -m ter"),
        ("help train", "there is no command 'help'", "did you mean --help?"),
        ("preprocess tests -o d", "tests is a folder", "tests/train.en tests/train.de"),
        ("preprocess a b --vocab-from nope -o d", "nope does not exist", "name a data folder"),
        ("generate m hello", "hello is not a model", "echo 'A sentence.' | aiayn generate m"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained_with_its_fix(
    aiayn, monkeypatch, line, message, fix
):
    monkeypatch.chdir(Path(__file__).parent.parent)
    code, out, err = aiayn(*line.split())
    assert (code, out) == (2, "")
    assert (message in err, fix in err) == (True, True)
    assert err.startswith("error: ")
    assert err.count("fix: ") == 1


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("train d -o r --arch transformer", "write --preset base"),
        ("train d -o r --max-tokens 4096", "write batch.tokens=N"),
        ("train d -o r --max-update 100", "write --steps N"),
        ("train d -o r --lr 5e-4", "optim.factor=VALUE (Multiplies the learning rate"),
        ("train d -o r lr=5e-4", "did you mean optim.factor=VALUE?"),
        ("train d -o r optim.lr=5e-4", "did you mean optim.factor?"),
        ("train d -o r dropout=0.3", "did you mean model.dropout=0.3?"),
        ("train d -o r --dropout 0.3", "model.dropout=VALUE"),
        ("train d -o r --dim-emb 512", "model.d_model=VALUE"),
        ("train d -o r --early-stopping 5", "write --patience N"),
        ("train d -o r --save_every 5", "write --save-every"),
        ("generate --path m.pt", "name the model first"),
        ("generate m --lenpen 0.6", "write --alpha X"),
        ("generate m --remove-bpe=sentencepiece", "plain text comes out"),
        ("generate m -b 5", "write --beam N"),
        ("generate m --n-best", "write --nbest N"),
        ("preprocess --trainpref t -s en", "name the two files first"),
        ("score --sys h --ref r", "write -i HYP"),
        ("average --inputs r", "name the run folder first"),
    ],
)
def test_options_of_other_toolkits_are_answered_with_ours(aiayn, line, ours):
    code, out, err = aiayn(*line.split())
    assert (code, out) == (2, "")
    assert ours in err


def test_no_option_of_ours_is_taken_for_one_of_another_toolkit():
    for name, foreign in FOREIGN_OPTIONS.items():
        own = {flag for one in load_command(name).params for flag in one.opts}
        assert not own & {f"{dashes}{option}" for option in foreign for dashes in ("-", "--")}


def test_a_device_that_is_missing_is_reported_once_for_all_processes(aiayn, data, tmp_path):
    line = ("train", data.path, "-o", tmp_path / "run", "--nproc", 2, "--device", "gpu")
    code, _, err = aiayn(*line)
    assert (code, err.count("error: there is no device 'gpu'")) == (2, 1)


def test_without_a_command_the_help_is_printed(aiayn):
    code, out, err = aiayn()
    assert (code, err) == (2, "")
    assert out.startswith("Usage: ")


def test_a_name_that_is_not_utf_8_is_escaped_in_a_message(aiayn):
    code, out, err = aiayn("score", f"{ODD}.de")
    assert (code, out) == (2, "")
    assert r"error: caf\udce9.de does not exist" in err


@LINUX
def test_files_and_folders_may_have_names_that_are_not_utf_8(
    aiayn, data, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for side in ("source", "target"):
        shutil.copy(data.path.parent / f"train.{side}", f"{ODD}.{side}")
    text = (f"{ODD}.source", f"{ODD}.target")
    line = ("preprocess", *text, "--valid", *text, "--vocab-size", 320, "--max-length", 6)
    line = (*line, "--dropped", f"{ODD}.tsv", "-o", f"{ODD}.data")
    assert aiayn(*line)[0] == 0
    code, _, err = aiayn(*line)
    assert (code, r"caf\udce9.data is up to date" in err) == (0, True)
    assert b"caf\xe9.source" in Path(f"{ODD}.tsv").read_bytes()
    line = ("train", f"{ODD}.data", "-o", f"{ODD}.run", "--preset", "tiny", *TINY)
    assert aiayn(*line, "--device", "cpu", "train.valid_every=0")[0] == 0
    code, out, _ = aiayn("info", f"{ODD}.data", f"{ODD}.run", "--json")
    found = json.loads(out)
    assert (code, found[0]["data"], found[1]["run"]) == (0, f"{ODD}.data", f"{ODD}.run")
    line = ("generate", f"{ODD}.run", "-i", f"{ODD}.source", "-o", f"{ODD}.hyp", "--greedy")
    assert aiayn(*line)[0] == 0
    assert aiayn("score", f"{ODD}.target", "-i", f"{ODD}.hyp")[0] == 0


@pytest.mark.parametrize(
    ("closing", "code", "said"),
    [(">&-", 2, "error: standard output is closed"), ("2>&-", 0, ""), ("<&-", 0, "")],
)
def test_a_stream_that_is_closed_gives_no_traceback(closing, code, said):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m aiayn info --preset tiny {closing}', sys.executable],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == code
    assert ("optim.warmup" in done.stdout) == (code == 0)
    assert "Traceback" not in done.stderr
    assert said in done.stderr
