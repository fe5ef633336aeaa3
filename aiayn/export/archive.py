"""Archives from elsewhere: nothing is unpacked that claims to be larger than it can be."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from aiayn.errors import DataError

COPY_AGAIN = "take the file from its source again"
# How far an archive of weights may unpack: random digits hardly do.
LARGEST_RATIO = 20
# Arrays that are read, by numpy's name of their type: numbers, and text as bytes.
KINDS = ("f2", "f4", "f8", "i1", "u1")


def check_archive(path: Path) -> None:
    """Refuse a zip archive that claims far more bytes than it has; other files pass."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            claimed = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as problem:
        raise DataError(f"{path} cannot be read: {problem}", fix=COPY_AGAIN) from None
    size = path.stat().st_size
    if claimed > LARGEST_RATIO * size:
        raise DataError(
            f"{path} claims to unpack to {claimed:,} bytes, and has {size:,}: weights do not"
            " compress like that",
            fix="do not trust this file",
        )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file; memory is taken for no more than the file holds."""
    check_archive(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return dict(_arrays(archive))
    # numpy raises a ValueError for what it does not know, a pickle among it.
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as problem:
        raise DataError(f"{path} cannot be read: {problem}", fix=COPY_AGAIN) from None


def _arrays(archive: zipfile.ZipFile) -> Iterator[tuple[str, np.ndarray]]:
    for entry in archive.infolist():
        with archive.open(entry) as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_column, dtype = read(file)
            name = entry.filename.removesuffix(".npy")
            if dtype.str[1:] not in KINDS:
                raise ValueError(f"{name} is of type {dtype}, and numbers are wanted")
            wanted = entry.file_size - file.tell()
            claimed = dtype.itemsize
            for length in shape:
                claimed *= length
            if claimed != wanted:
                raise ValueError(f"{name} claims {claimed:,} bytes, and has {wanted:,}")
            array = np.frombuffer(file.read(), dtype)
        yield name, array.reshape(shape, order="F" if by_column else "C")
