"""The run folder: when it may be begun anew, and what it makes of damaged or foreign files."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from toy import TINY, make_data

from aiayn.checkpoint import load_model
from aiayn.data.inputs import ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.model_path import find_model

COMMAND = ("--preset", "tiny", "--device", "cpu", *TINY)


@pytest.fixture
def copied(trained, tmp_path) -> Path:
    """A copy of a finished run, to be spoiled."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_start_that_failed_leaves_the_folder_to_other_settings_and_data(
    data, tmp_path, aiayn
):
    run = tmp_path / "run"
    other = make_data(tmp_path, shared=False)
    line = (*COMMAND, "train.steps=1")
    assert aiayn("train", other.path, "-o", run, *line, "model.d_model=15")[0] == 2
    code, _, err = aiayn("train", data.path, "-o", run, *line, "model.d_model=16")
    assert code == 0, err
    assert load_model(run / "last.pt").config.model.d_model == 16
    assert "d_model: 16" in (run / "config.yaml").read_text()
    assert [path.name for path in (run / "vocab").glob("*.model")] == ["shared.model"]


@pytest.mark.parametrize("kept", ["last.pt", "average.pt", "checkpoints/step-00000250.pt"])
def test_a_folder_with_any_weights_is_kept_from_other_settings(copied, data, aiayn, kept):
    for path in copied.rglob("*.pt"):
        if path != copied / kept:
            path.unlink()
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND)
    assert code == 2
    assert "holds a run with other settings" in err
    assert (copied / kept).exists()


def test_a_validation_pair_with_too_many_tokens_is_told_at_the_start(data, tmp_path, aiayn):
    text = ParallelText(data.path.parent / "train.source", data.path.parent / "train.target")
    (tmp_path / "long").write_text("ba" + 19 * " ba" + "\n")
    inputs = {"train": [text], "valid": [ParallelText(tmp_path / "long", tmp_path / "long")]}
    folder = preprocess(inputs, tmp_path / "data", settings=Settings(vocab_size=320))
    line = ("train", folder.path, "-o", tmp_path / "run", *COMMAND, "model.positions=learned")
    code, _, err = aiayn(*line, "model.max_positions=12")
    assert code == 3
    assert "a validation pair has 21 tokens, and the model knows 12 positions" in err
    assert not (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "pass model.max_positions=21" in err
    assert aiayn(*line, "model.max_positions=21", "train.steps=1")[0] == 0


@pytest.mark.parametrize("command", ["train", "info"])
def test_a_last_checkpoint_of_weights_only_is_replaced_by_the_one_before(
    copied, data, aiayn, command
):
    shutil.copy(copied / "average.pt", copied / "last.pt")
    options = ("-o", copied, "--config", copied / "config.yaml") if command == "train" else ()
    code, _, err = aiayn(command, data.path if options else copied, *options)
    assert code == 0, err
    assert "last.pt holds weights, and not all that resuming a run needs" in err
    assert "falling back" in err
    assert (copied / "last.pt").exists()


def test_a_run_with_checkpoints_of_weights_only_is_refused(copied, data, aiayn):
    (copied / "previous.pt").unlink()
    shutil.copy(copied / "average.pt", copied / "last.pt")
    line = ("train", data.path, "-o", copied, "--config", copied / "config.yaml")
    code, _, err = aiayn(*line)
    assert code == 3
    assert f"error: {copied / 'last.pt'} holds weights" in err
    assert "fix: put back a whole last.pt" in err


@pytest.mark.parametrize("line", [b'{"step": 3, "lo', b"[3]", b'{"loss": 2}', b"\xff", b""])
def test_a_line_of_metrics_that_is_damaged_is_named_and_train_drops_it(
    copied, data, aiayn, line
):
    path = copied / "metrics.jsonl"
    before = path.read_bytes()
    path.write_bytes(line + b"\n" + before)
    code, _, err = aiayn("info", copied)
    assert code == 3
    assert f"error: {path}, line 1 is not what `aiayn train` writes there" in err
    options = ("-o", copied, "--config", copied / "config.yaml")
    assert aiayn("train", data.path, *options)[0] == 0
    assert path.read_bytes() == before


def test_a_run_with_a_single_checkpoint_has_an_average_and_is_up_to_date_then(
    data, tmp_path, aiayn
):
    line = ("train", data.path, "-o", tmp_path / "run", *COMMAND, "--steps", 3)
    assert aiayn(*line)[0] == 0
    average, last = (load_model(tmp_path / "run" / name) for name in ("average.pt", "last.pt"))
    assert average.history == {"averaged_steps": [3]}
    assert all(torch.equal(average.weights[name], last.weights[name]) for name in last.weights)
    code, _, err = aiayn(*line)
    assert (code, "up to date: 3 updates" in err) == (0, True)


def test_a_run_that_is_extended_and_stopped_is_no_longer_its_old_average(copied, data, aiayn):
    line = ("train", data.path, "-o", copied, "--config", copied / "config.yaml")
    code, _, err = aiayn(*line, "train.steps=100000", "--time-limit", "1s")
    assert code == 75, err
    code, _, err = aiayn("generate", copied, "--greedy", stdin=b"ba\n")
    assert (code, f"model: {copied / 'best.pt'}" in err) == (0, True)


def test_provenance_of_an_earlier_version_keeps_its_sessions(copied, data, aiayn):
    path = copied / "provenance.json"
    found = json.loads(path.read_text())
    found["sittings"] = found.pop("sessions")
    path.write_text(json.dumps(found))
    line = ("train", data.path, "-o", copied, "--config", copied / "config.yaml")
    assert aiayn(*line, "train.steps=251")[0] == 0
    after = json.loads(path.read_text())
    assert after["sessions"][:-1] == found["sittings"]
    assert "sittings" not in after


@pytest.mark.parametrize("name", ["average.pt", "best.pt", "last.pt"])
def test_a_run_folder_stands_for_the_first_of_its_models(copied, name):
    order = ("average.pt", "best.pt", "last.pt")
    for other in order[: order.index(name)]:
        (copied / other).unlink()
    assert find_model(copied) == copied / name


def test_where_the_average_is_torn_the_best_model_stands_for_a_run(copied, aiayn):
    content = (copied / "average.pt").read_bytes()
    (copied / "average.pt").write_bytes(content[: len(content) // 2])
    warning = f"{copied}/average.pt is damaged; taking {copied}/best.pt in its place"
    for line in (("generate", copied), ("info", copied), ("attend", copied, "ba be")):
        code, out, err = aiayn(*line, stdin=b"ba\n")
        assert (code, bool(out), warning in err) == (0, True, True)


def test_a_run_that_cannot_be_resumed_is_described_by_its_model(copied, aiayn):
    for name in ("last.pt", "previous.pt"):
        (copied / name).write_bytes(b"torn")
    code, out, err = aiayn("info", copied, "--json")
    assert (code, json.loads(out)["step"]) == (0, 250)
    assert f"warning: {copied}/previous.pt is text, and not a model file, so {copied}" in err


def test_a_run_without_any_whole_weights_is_to_be_removed(copied, data, aiayn):
    for path in copied.rglob("*.pt"):
        path.write_bytes(b"")
    line = ("train", data.path, "-o", copied, "--config", copied / "config.yaml")
    code, _, err = aiayn(*line)
    assert (code, f"rm -r {copied}, then run the same command again" in err) == (3, True)
