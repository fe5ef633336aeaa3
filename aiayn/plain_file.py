"""Torch files of tensors and plain values, read as if an enemy had written them.

Every byte that torch will use is covered by a checksum, no value takes more memory than the
file has bytes (tied weights are counted each time), and nothing is called but what builds
tensors.
"""

import pickletools
import re
import struct
import zipfile
import zlib
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

# What opening a truncated, damaged or foreign file may raise.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    UnpicklingError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)

# What our pickles name; weights_only=True alone would allow more, and `bytearray(10**12)`.
BUILDS_TENSORS = re.compile(
    r"collections OrderedDict|_codecs encode|torch\._utils _rebuild_tensor_v2|torch \w+Storage"
)
NAMES = ("GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4")
# Names for one storage: source embedding, target embedding and output.
TIED = 3

BEGIN = b"PK\x03\x04"
# Signature, numbers of disks and entries, size and place of the index, length of a comment.
END = struct.Struct("<4s4H2LH")
FOLDER = 0x10
IN_ZIP64 = 0xFFFFFFFF


def load_plain(path: Path) -> Any:
    """Return what a file holds, on the CPU; raise one of UNREADABLE if anything is odd."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        _check_index(archive, file.read(len(BEGIN)), _last_bytes(path))
        if archive.testzip() is not None:
            raise ValueError("a checksum is wrong")
        pickles = [name for name in archive.namelist() if name.lower().endswith(".pkl")]
        steps = sum(_count_steps(archive.read(name)) for name in pickles)
    content = torch.load(path, map_location="cpu", weights_only=True)
    _check_size(content, steps, path.stat().st_size)
    return content


def _last_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-END.size, 2)
        return file.read()


def _check_index(archive: zipfile.ZipFile, begin: bytes, end: bytes) -> None:
    """Refuse an archive in which torch could see other entries than zipfile does."""
    signature, *_, place, comment = END.unpack(end)
    if begin != BEGIN or signature != b"PK\x05\x06" or comment:
        raise ValueError("it does not begin and end as an archive")
    if place not in (archive.start_dir, IN_ZIP64):
        raise ValueError("its index is not where it says")
    # torch does not tell upper from lower case.
    if len({name.lower() for name in archive.namelist()}) != len(archive.namelist()):
        raise ValueError("two entries have one name")
    for entry in archive.infolist():
        # Of a folder, torch reads nothing and returns what was in memory before.
        if entry.compress_type != zipfile.ZIP_STORED or entry.external_attr & FOLDER:
            raise ValueError(f"{entry.filename} is not stored as it is")


def _count_steps(pickled: bytes) -> int:
    """Return the steps of a pickle, each of which names something that we write."""
    steps = 0
    for step, argument, _ in pickletools.genops(pickled):
        steps += 1
        if step.name in NAMES and not BUILDS_TENSORS.fullmatch(str(argument)):
            raise UnpicklingError(f"it names {argument}, which is not for tensors")
    return steps


def _check_size(content: Any, most_values: int, most_bytes: int) -> None:
    """Refuse what is larger than it was in the file: a list of ten lists of ten lists ..."""
    values, size, waiting = 0, 0, [content]
    while waiting:
        match waiting.pop():
            case Tensor() as tensor:
                size += tensor.numel() * tensor.element_size()
            case dict() as found:
                waiting += [*found.keys(), *found.values()]
            case list() | tuple() as found:
                waiting += found
        values += 1
        if values > most_values or size > TIED * most_bytes:
            raise ValueError("it is larger than its file")
