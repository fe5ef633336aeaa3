"""Atomic writes: a temporary file beside the target, fsync, rename."""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TextIO

from aiayn.errors import UsageError

if sys.platform != "win32":
    import fcntl

# What a file's name ends in while it is being written.
TEMPORARY = ".partial"
SECONDS_BETWEEN_TRIES = 0.1
# Windows has no such flag, and hardly any links.
NOT_THROUGH_A_LINK = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only when the block ends without an error."""
    require_writable(path)
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open_new(temporary) as file:
            if path.exists():
                # What was closed to others stays so.
                temporary.chmod(path.stat().st_mode)
            yield file
            # The content before the rename: else a power cut could leave an empty file.
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    temporary.replace(path)
    # The rename is an entry of the folder, which has to reach the disk as well.
    sync(path.parent)


def open_new(path: Path) -> IO[bytes]:
    """Open a file to write, in place of what has its name: a link is not followed."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def open_to_append(path: Path) -> TextIO:
    """Open a text file to write at its end; a link in its place is refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NOT_THROUGH_A_LINK
    descriptor = os.open(path, flags, 0o666)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


def open_locked(path: Path) -> IO[bytes]:
    """Open a file to read and write, or create it, and keep other runs out until it is closed.

    A link in its place is refused.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NOT_THROUGH_A_LINK, 0o666)
        file = os.fdopen(descriptor, "r+b")
        if sys.platform == "win32" or _lock(descriptor):
            # Meanwhile the run that had it may have given it another name.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return file
            file.close()
            continue
        file.close()
        raise _another_run(path)


def require_writable(path: Path, *, reads: Iterable[Path] = (), begins: bytes = b"") -> None:
    """Refuse to write a path: one of those the command `reads`, or of another kind of file.

    Only a file whose first bytes are `begins` may be replaced.
    """
    if any(path.exists() and other.exists() and path.samefile(other) for other in reads):
        raise UsageError(
            f"{path} is the input and the output", fix="choose another name for the output"
        )
    if path.is_dir():
        raise UsageError(f"{path} is a directory, not a file", fix="name a file in it")
    if path.exists() and not path.is_file():
        # A rename would put a regular file in the place of /dev/null.
        raise UsageError(f"{path} is not a regular file", fix="use >, or choose another name")
    if begins and path.exists():
        with path.open("rb") as file:
            if file.read(len(begins)) not in (b"", begins):
                raise UsageError(
                    f"{path} exists, and is another kind of file",
                    fix="choose another name, or delete it",
                )
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} does not exist", fix=f"mkdir -p {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent} may not be written to", fix="choose another place")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file atomically."""
    with atomic_write(path) as file:
        file.write(content)


def write_json(path: Path, value: object) -> None:
    """Write a JSON document atomically."""
    write_bytes(path, to_json(value))


def to_json(value: object) -> bytes:
    """Return a JSON document, indented for people."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # Bytes of a file name that are not UTF-8 become JSON's escapes, which reading undoes.
    return text.encode(errors="backslashreplace")


@contextmanager
def write_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder that appears under its name only when the block ends without an error.

    A folder that holds something is not replaced, unless `replace`.
    """
    if path.is_file():
        raise UsageError(f"{path} is a file, expected a folder", fix="choose another name")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} does not exist", fix=f"mkdir -p {path.parent}")
    if path.is_dir() and any(path.iterdir()) and not replace:
        raise UsageError(f"{path} is not empty", fix="choose another folder with -o")
    temporary = path.with_name(path.name + TEMPORARY)
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed run
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            sync(file)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    if path.is_dir():
        # A rename cannot replace a folder that holds something.
        shutil.rmtree(path)
    temporary.replace(path)
    sync(path.parent)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make a file, or a rename in a folder, survive a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def lock_folder(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Create a folder, and keep other runs out of it during the block.

    Another run that is in it has `patience` seconds to leave; a killed one leaves no lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # Windows cannot open a folder, so there nothing stops a second run.
        if sys.platform != "win32":
            descriptor = os.open(folder, os.O_RDONLY)
            # The system drops the lock with the descriptor, however the process ends.
            stack.callback(os.close, descriptor)
            while not _lock(descriptor):
                if patience <= 0:
                    raise _another_run(folder)
                time.sleep(SECONDS_BETWEEN_TRIES)
                patience -= SECONDS_BETWEEN_TRIES
        yield


def _another_run(path: Path) -> UsageError:
    return UsageError(
        f"another run is writing {path}", fix="wait for it or end it, or choose another name"
    )


def _lock(descriptor: int) -> bool:
    """Return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a network file system without locks
    return True
