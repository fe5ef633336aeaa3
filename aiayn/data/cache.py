"""The folder for what can be made again: converted models, compiled kernels."""

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from aiayn.data.atomic import lock_folder, write_folder
from aiayn.errors import DataError, UsageError

# Folders of each kind that are kept: those that were used last.
KEPT = 8
# Seconds that another process may take to write one.
PATIENCE = 600.0

Found = TypeVar("Found")

ANOTHER = "name another folder by XDG_CACHE_HOME"


def cache_folder() -> Path:
    """Return a folder that only this user can write to: what is in it will be run."""
    # As the XDG specification says: a relative path does not count.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = (named if named.is_absolute() else Path.home() / ".cache") / "aiayn"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"{root} cannot be made ({problem.strerror})", fix=ANOTHER) from None
    about = root.stat()
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if os.name == "posix" and (shared or about.st_uid != os.getuid()):
        raise UsageError(
            f"others may write to {root}, and what is in it is run",
            fix=f"chmod 700 {root}, or {ANOTHER}",
        )
    return root


def read_or_write(
    kind: str, key: str, write: Callable[[Path], None], read: Callable[[Path], Found]
) -> Found:
    """Return what a folder of the cache holds; if it is not there, it is written first.

    One that cannot be read is written anew.
    """
    root = cache_folder()
    folder = root / f"{kind}-{key}"
    with lock_folder(root, patience=PATIENCE):
        with suppress(OSError):  # the cache may be read-only
            os.utime(folder)
        try:
            return read(folder)
        except (OSError, ValueError, LookupError, TypeError, DataError):
            shutil.rmtree(folder, ignore_errors=True)
        with write_folder(folder, replace=True) as unfinished:
            write(unfinished)
        by_use = sorted(root.glob(f"{kind}-*"), key=lambda each: -each.stat().st_mtime)
        for old in by_use[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
        return read(folder)
