"""Models that were converted for CTranslate2, kept in a cache folder for the next time."""

from pathlib import Path

import ctranslate2

from aiayn import console
from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import file_sha256
from aiayn.data.cache import read_or_write
from aiayn.export.ctranslate2 import write

# Another form of what `write` writes gets another number.
FORM = 1


def convert_once(path: Path, file: ModelFile) -> Path:
    """Return the folder of a converted model file, found by the hash of its content."""

    def convert(folder: Path) -> None:
        write(file, folder)
        console.say(f"converted {path} for CTranslate2, kept in {folder.parent}")

    key = f"{ctranslate2.__version__}-{FORM}-{file_sha256(path)}"
    return read_or_write("ctranslate2", key, convert, lambda folder: folder.resolve(True))
