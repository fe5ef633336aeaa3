"""What files of others can and cannot do: a test for each line of the README's table."""

import gzip
import os
import pkgutil
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import tiny_config

import aiayn as package
from aiayn.checkpoint import ModelFile, build_model, load_model, save_model
from aiayn.config import Config
from aiayn.config_file import read_yaml
from aiayn.data.atomic import atomic_write, open_locked, open_to_append
from aiayn.data.folder import DataFolder
from aiayn.data.text import read_lines
from aiayn.data.unfinished import clear
from aiayn.errors import DataError, UsageError

ROOT = Path(package.__file__).parents[1]


@pytest.fixture(scope="module")
def honest(data, tmp_path_factory) -> Path:
    """A model file that nobody has touched."""
    config = tiny_config()
    weights = dict(build_model(config, data.codec).state_dict())
    path = tmp_path_factory.mktemp("honest") / "model.pt"
    save_model(path, ModelFile(config=config, codec=data.codec, weights=weights))
    return path


def forge(honest: Path, path: Path, **changes: object) -> Path:
    """Write the content of a model file with some of it replaced."""
    content = torch.load(honest, weights_only=True)
    torch.save({**content, **changes}, path)
    return path


def with_pickle(honest: Path, path: Path, pickled: bytes) -> Path:
    """Write a model file with another pickle in it, and right checksums."""
    with zipfile.ZipFile(honest) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            is_pickle = entry.filename.endswith("data.pkl")
            new.writestr(entry.filename, pickled if is_pickle else old.read(entry))
    return path


@pytest.mark.parametrize(
    "pickled",
    [
        b"cos\nsystem\n(X\x0c\x00\x00\x00touch ruined.tR.",
        b"c__builtin__\nbytearray\n(I1000000000000\ntR.",
        b"ctorch\nload\n(X\x01\x00\x00\x00xtR.",
        b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n.",
    ],
)
def test_a_model_file_runs_nothing_and_builds_nothing_but_tensors(
    honest, tmp_path, monkeypatch, pickled
):
    monkeypatch.chdir(tmp_path)
    forged = with_pickle(honest, tmp_path / "model.pt", pickled)
    with pytest.raises(DataError, match="is damaged or is not a model file"):
        load_model(forged)
    assert not (tmp_path / "ruined").exists()


def test_a_model_file_that_is_packed_again_is_refused(honest, tmp_path):
    # Zeros of a terabyte would fit.
    with (
        zipfile.ZipFile(honest) as old,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    with pytest.raises(DataError, match="is damaged"):
        load_model(tmp_path / "packed.pt")


def test_a_value_that_grows_when_it_is_unfolded_is_refused(honest, tmp_path):
    bomb: object = "ha"
    for _ in range(60):
        bomb = [bomb, bomb]
    with pytest.raises(DataError, match="is damaged"):
        load_model(forge(honest, tmp_path / "bomb.pt", history={"steps": bomb}))


def test_weights_that_are_one_number_repeated_are_refused(honest, tmp_path):
    content = torch.load(honest, weights_only=True)
    weights = {n: torch.zeros(1).expand(1 << 20, 1 << 20) for n in content["weights"]}
    with pytest.raises(DataError, match="is damaged"):
        load_model(forge(honest, tmp_path / "wide.pt", weights=weights))


@pytest.mark.parametrize(
    "claims",
    [
        {"layers": 10**9},
        {"layers": 1, "decoder_layers": 10**9},
        {"d_model": 10**9},
        {"d_ff": 10**30},
        {"heads": 10**12},
        {"max_positions": 10**15, "positions": "learned"},
    ],
)
def test_a_model_file_that_claims_to_be_larger_than_its_weights_is_refused(
    honest, tmp_path, claims
):
    config = torch.load(honest, weights_only=True)["config"]
    config["model"] |= claims
    with pytest.raises(DataError, match="is incomplete"):
        load_model(forge(honest, tmp_path / "large.pt", config=config))


@pytest.fixture
def copied(data, tmp_path) -> Path:
    """A data folder to change."""
    return shutil.copytree(data.path, tmp_path / "data")


def change_manifest(folder: Path, old: str, new: str) -> None:
    text = (folder / "manifest.json").read_text()
    assert old in text
    (folder / "manifest.json").write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"train-00000"', '"../../train-00000"'),
        ('"train-00000"', '"/etc/hostname"'),
        ('"valid.src"', '"../valid.src"'),
        ('"valid.src"', '".."'),
        ('"bytes_per_id": 2', '"bytes_per_id": 16'),
        ('"pairs": 400', '"pairs": "400"'),
        ('"read": 400', '"read": true'),
    ],
)
def test_a_manifest_names_no_file_outside_its_folder_and_no_odd_value(copied, old, new):
    change_manifest(copied, old, new)
    with pytest.raises(DataError, match="is not a manifest"):
        DataFolder.open(copied)


def test_a_manifest_that_claims_more_than_the_shard_has_is_refused(copied):
    change_manifest(copied, '"pairs": 400', '"pairs": 400000000000')
    change_manifest(copied, '"read": 400', '"read": 400000000000')
    with pytest.raises(DataError, match="the manifest says"):
        DataFolder.open(copied).corpus("train")


@pytest.mark.parametrize("offset", [-1, 0, 1 << 60])
def test_offsets_that_leave_the_shard_are_refused(copied, offset):
    path = copied / "train-00000.idx"
    offsets = np.fromfile(path, "<i8")
    offsets[7] = offset
    offsets.tofile(path)
    with pytest.raises(DataError, match="its offsets do not rise"):
        DataFolder.open(copied).corpus("train")


def test_a_state_of_preprocess_that_is_damaged_is_no_state(copied):
    (copied / "unfinished").mkdir()
    (copied / "unfinished" / "state.json").write_text('{"job": 3}')
    from aiayn.data.unfinished import State

    assert State.load(copied) is None


def test_what_replaces_a_data_folder_removes_links_and_not_what_they_point_to(copied, tmp_path):
    shutil.rmtree(copied / "vocab")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    (copied / "vocab").symlink_to(tmp_path / "mine")
    clear(copied)
    assert not list(copied.iterdir())
    assert (tmp_path / "mine" / "letter").exists()


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in ("out.partial", "train.log"):
        (tmp_path / name).symlink_to(mine)
    with atomic_write(tmp_path / "out") as file:
        file.write(b"other")
    for open_it in (open_to_append, open_locked):
        with pytest.raises(OSError, match=r"train\.log"):
            open_it(tmp_path / "train.log")
    assert (mine.read_text(), (tmp_path / "out").read_text()) == ("mine", "other")


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    path = tmp_path / "model.pt"
    path.touch(mode=0o600)
    with atomic_write(path) as file:
        file.write(b"secret")
        file.flush()
        partial = (tmp_path / "model.pt.partial").stat()
        assert stat.S_IMODE(partial.st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_commands_never_write_one_output_file(tmp_path):
    first = open_locked(tmp_path / "out.partial")
    with pytest.raises(UsageError, match="another run is writing"):
        open_locked(tmp_path / "out.partial")
    first.close()
    open_locked(tmp_path / "out.partial").close()


def test_settings_are_numbers_choices_and_two_texts_that_are_read_as_numbers(tmp_path):
    texts = {
        f"{section}.{key}"
        for section, values in asdict(Config()).items()
        for key, value in values.items()
        if isinstance(value, str) and section == "train" and not value.isalpha()
    }
    assert texts == {"train.save_every", "train.keep"}
    path = tmp_path / "mine.yaml"
    path.write_text("model: !!python/object/apply:os.system ['touch ruined']")
    with pytest.raises(UsageError, match="expected"):
        read_yaml(path, Config())


def test_packed_text_is_read_as_a_stream_of_lines_that_are_bounded(tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a line\n")
        for _ in range(70):
            file.write(bytes(1 << 20))
    with pytest.raises(DataError, match="past line 1: a line has 67,108,864 bytes or more"):
        list(read_lines(path))


def test_every_dependency_has_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    for line in [*project["dependencies"], *extras]:
        assert re.search(r"<\d|^aiayn\[", line), line


def test_every_module_imports_without_a_warning():
    names = [m.name for m in pkgutil.walk_packages(package.__path__, "aiayn.")]
    # Of an extra that need not be installed.
    others = ("__main__", "export.onnx")
    lines = [f"import {name}" for name in names if not name.endswith(others)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
