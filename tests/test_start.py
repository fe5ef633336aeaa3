"""Before the first update: what `train` and `train --dry-run` look at, and what they refuse."""

import shutil
from pathlib import Path

import pytest
from toy import TINY

from aiayn.checkpoint import load_model

COMMAND = ("--preset", "tiny", "--device", "cpu", *TINY)


@pytest.fixture
def copied(trained, tmp_path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_dry_run_looks_at_the_run_folder_too(copied, data, tmp_path, aiayn):
    line = ("train", data.path, "--config", copied / "config.yaml", "--dry-run", "-o")
    code, out, err = aiayn(*line, copied, "train.steps=260")
    assert (code, f"{copied} would resume after update 250" in err) == (0, True)
    code, out, err = aiayn(*line, copied, "batch.tokens=390")
    assert (code, "updates per epoch" in out) == (2, True)
    assert "holds a run with other settings: batch.tokens: 1000 -> 390" in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, out, err = aiayn(*line, tmp_path / "full")
    assert (code, "full is not empty and holds no run" in err) == (2, True)


@pytest.mark.parametrize("option", ["--dry-run", "--steps=1"])
def test_pairs_that_are_longer_than_an_update_are_told(data, tmp_path, aiayn, option):
    line = ("train", data.path, "-o", tmp_path / "new", *COMMAND, "batch.tokens=6", option)
    code, _, err = aiayn(*line)
    assert code == 0
    longer = [max(map(len, pair)) for pair in map(data.corpus("train").pair, range(400))]
    count = sum(length > 6 for length in longer)
    assert f"batch.tokens=6 is less than {count} pairs of 400 have" in err
    assert f"the longest {max(longer)}" in err


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_a_disk_that_is_too_small_is_told_before_anything_is_trained(
    data, tmp_path, aiayn, monkeypatch, options
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 10**5))
    line = ("train", data.path, "-o", tmp_path / "new", *COMMAND, *options)
    code, _, err = aiayn(*line)
    assert (code, "has room for 0 MB, and the checkpoints of this run take" in err) == (2, True)
    assert not (tmp_path / "new" / "config.yaml").exists()


def test_a_run_takes_the_architecture_of_the_model_that_it_begins_with(
    copied, data, tmp_path, aiayn
):
    line = ("train", data.path, "-o", tmp_path / "new", "--init-from", copied, "--steps=1")
    code, _, err = aiayn(*line, "--device=cpu", "batch.tokens=400")
    assert code == 0
    assert f"the architecture is that of {copied}: model.layers=1, model.d_model=32" in err
    assert load_model(tmp_path / "new" / "last.pt").config.model.layers == 1
    shutil.rmtree(copied)  # a run that has begun needs it no longer
    code, _, err = aiayn(*line, "--device=cpu", "batch.tokens=400", "--steps=2")
    assert code == 0
    assert f"{tmp_path / 'new'} has begun, and --init-from is not read again" in err


def test_idle_processes_are_an_error_with_the_way_out(data, tmp_path, aiayn):
    line = ("train", data.path, "-o", tmp_path / "new", *COMMAND, "--nproc", 2)
    code, _, err = aiayn(*line, "batch.micro_tokens=500")
    assert (code, (tmp_path / "new").exists()) == (2, False)
    assert "1 of 2 processes would be idle: an update of 400 tokens is 1 micro-batch" in err
    assert "start 1, or pass batch.micro_tokens=221" in err
