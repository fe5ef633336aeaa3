"""Models that were converted for CTranslate2, kept in a cache folder for the next time."""

import os
import shutil
import stat
from pathlib import Path

import ctranslate2

from aiayn import console
from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import file_sha256, lock_folder, write_folder
from aiayn.errors import UsageError
from aiayn.export.ctranslate2 import write

# Another form of what `write` writes gets another number.
FORM = 1
# Conversions that are kept: those that were used last.
KEPT = 8
# Seconds that another process may take to convert.
PATIENCE = 600.0


def convert_once(path: Path, file: ModelFile) -> Path:
    """Return the folder of a converted model file, found by the hash of its content."""
    root = _cache_folder()
    name = f"ctranslate2-{ctranslate2.__version__}-{FORM}-{file_sha256(path)}"
    with lock_folder(root, patience=PATIENCE):
        if not (root / name).is_dir():
            with write_folder(root / name) as folder:
                write(file, folder)
            console.say(f"converted {path} for CTranslate2: {root / name}")
        os.utime(root / name)
        by_use = sorted(root.glob("ctranslate2-*"), key=lambda each: -each.stat().st_mtime)
        for old in by_use[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    return root / name


def _cache_folder() -> Path:
    """Return the folder that only this user can write to."""
    # As the XDG specification says: a relative path does not count.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = (named if named.is_absolute() else Path.home() / ".cache") / "aiayn"
    another = "name another folder by XDG_CACHE_HOME, or pass --engine torch"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"{root} cannot be made ({problem.strerror}), and a converted model is kept in it",
            fix=another,
        ) from None
    about = root.stat()
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if os.name == "posix" and (shared or about.st_uid != os.getuid()):
        raise UsageError(
            f"others may write to {root}, and models are loaded from it",
            fix=f"chmod 700 {root}; or {another}",
        )
    return root
