"""Atomic writes: a file or folder is complete or absent. Locks on folders."""

import hashlib
import json
import os

import pytest

from aiayn.data.atomic import (
    atomic_write,
    file_sha256,
    lock_folder,
    write_bytes,
    write_folder,
    write_json,
)
from aiayn.errors import UsageError


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    with atomic_write(tmp_path / "a") as file:
        file.write(b"half")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"half"


def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path):
    write_bytes(tmp_path / "a", b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "a") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_directory_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is a directory"):
        write_bytes(tmp_path, b"")


def test_a_missing_folder_is_refused_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(UsageError) as refusal:
        write_bytes(tmp_path / "no" / "a", b"")
    assert refusal.value.fix == f"mkdir -p {tmp_path / 'no'}"


def test_a_folder_appears_only_when_it_is_whole(tmp_path):
    (tmp_path / "a").mkdir()
    with write_folder(tmp_path / "a") as folder:
        (folder / "b").write_bytes(b"content")
        assert not any((tmp_path / "a").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a" / "b").read_bytes() == b"content"


def test_a_folder_that_failed_leaves_what_was_there_and_nothing_else(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with pytest.raises(ZeroDivisionError), write_folder(tmp_path / "a", replace=True) as folder:
        (folder / "new").touch()
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "old"]


def test_a_folder_that_holds_something_is_replaced_only_if_asked(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with pytest.raises(UsageError, match="is not empty"), write_folder(tmp_path / "a"):
        pass
    with write_folder(tmp_path / "a", replace=True) as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("name", "reason"), [("file", "is a file"), ("no/a", "does not exist")]
)
def test_a_place_where_no_folder_can_be_is_refused(name, reason, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=reason), write_folder(tmp_path / name):
        pass


def test_a_file_name_that_is_not_utf8_survives_json(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "a", {"path": name})
    assert json.loads((tmp_path / "a").read_bytes()) == {"path": name}


def test_the_hash_of_a_file_is_its_sha256(tmp_path):
    write_bytes(tmp_path / "a", b"content")
    assert file_sha256(tmp_path / "a") == hashlib.sha256(b"content").hexdigest()


def test_a_folder_is_locked_until_the_block_ends(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path / "a"):
        with pytest.raises(UsageError, match="another run"), lock_folder(tmp_path / "a"):
            pass
        raise ZeroDivisionError
    with lock_folder(tmp_path / "a", patience=0.1):
        pass
