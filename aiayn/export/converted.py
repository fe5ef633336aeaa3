"""Models that were converted for CTranslate2, kept in a cache folder for the next time."""

import os
import shutil
from pathlib import Path

import ctranslate2

from aiayn import console
from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import file_sha256, lock_folder, write_folder
from aiayn.data.cache import cache_folder
from aiayn.export.ctranslate2 import write

# Another form of what `write` writes gets another number.
FORM = 1
# Conversions that are kept: those that were used last.
KEPT = 8
# Seconds that another process may take to convert.
PATIENCE = 600.0


def convert_once(path: Path, file: ModelFile) -> Path:
    """Return the folder of a converted model file, found by the hash of its content."""
    root = cache_folder()
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
