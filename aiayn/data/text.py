"""Lines of text from files, plain or compressed, one line at a time.

A line ends at "\\n" and nowhere else: U+2028, U+0085 and a lone "\\r" inside a line are text.
A byte order mark at the start and a "\\r" before the "\\n" are not part of the text.
"""

import bz2
import codecs
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from aiayn.data.zst import open_zst
from aiayn.errors import DataError, UsageError

STDIN = Path("-")
PACKED: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": open_zst,
}
# How packed files begin, and what unpacks them.
MAGIC = {
    b"\x1f\x8b": "zcat",
    b"BZh91AY&SY": "bzcat",
    b"\xfd7zXZ\x00": "xzcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
}
# Enough to tell text from other files.
SAMPLED_BYTES = 4096
# A packed file of a few kB can hold a line that no memory holds.
MOST_LINE_BYTES = 1 << 26
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What reading a damaged file raises, plain or compressed.
UNREADABLE = (EOFError, OSError, lzma.LZMAError, zlib.error)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading; packed ones are unpacked, `-` is standard input."""
    if path == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed", fix="pipe text in, or name a file")
        # Not sys.stdin itself: Python aborts at exit if a thread is still reading it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if path.is_dir():
        raise UsageError(f"{path} is a directory, not a file", fix="name a file in it")
    try:
        file: IO[bytes] = PACKED.get(path.suffix, Path.open)(path, "rb")
        return file
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", fix="check the path") from None
    except PermissionError:
        raise UsageError(f"{path} may not be read", fix="check its permissions") from None


def is_text(path: Path) -> bool:
    """Whether a file begins as text does, in UTF-8."""
    with path.open("rb") as file:
        begin = file.read(SAMPLED_BYTES)
    try:
        # A character may be cut at the end.
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return False
    return begin != b"" and b"\0" not in begin


def stdin_is_terminal() -> bool:
    """Whether standard input is a terminal, where a person types."""
    return sys.stdin is not None and sys.stdin.isatty()


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends; one that is far too long is an OSError."""
    while line := file.readline(MOST_LINE_BYTES):
        if len(line) == MOST_LINE_BYTES:
            raise OSError(f"a line has {MOST_LINE_BYTES:,} bytes or more")
        yield line


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, without their ends and without a byte order mark."""
    number = 0
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(bounded_lines(file), start=1):
                if number == 1:
                    require_unpacked(path, raw)
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        except UNREADABLE as problem:
            raise damaged(path, number, problem) from None


def require_unpacked(path: Path, begin: bytes) -> None:
    """Refuse what begins as packed files do."""
    for magic, unpack in MAGIC.items():
        if begin.startswith(magic):
            name = "standard input" if path == STDIN else str(path)
            raise DataError(
                f"{name} is packed, and its name does not say so",
                fix=f"unpack it with {unpack}, or give it a name that does: .gz .bz2 .xz .zst",
            )


def damaged(path: Path, lines: int, problem: Exception) -> DataError:
    """Return the error for a file of which only some lines can be read."""
    return DataError(
        f"{path} cannot be read past line {lines:,}: {problem}",
        fix="it is damaged, cut short or not compressed: download it again, or rename it",
    )


def count_lines(path: Path) -> int | None:
    """Return how many lines a file has; None where they cannot be read twice, or at all."""
    if not path.is_file():
        return None
    # In large blocks, which is faster than making each line only to count it.
    count, last = 0, b"\n"
    with open_bytes(path) as file, suppress(*UNREADABLE):
        while block := file.read(1 << 20):
            count, last = count + block.count(b"\n"), block[-1:]
        return count + (last != b"\n")  # a last line without an end
    return None


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; what is not text raises a DataError with its line."""
    for number, raw in enumerate(read_raw_lines(path), start=1):
        yield decode_line(raw, path, number)


def decode_line(raw: bytes, path: Path, number: int) -> str:
    """Return the text of one line, or raise a DataError that names the file and the line."""
    if b"\0" in raw:
        raise DataError(
            f"{path}, line {number}: a NUL byte, so this is not a text file",
            fix="give plain text in UTF-8, one sentence a line",
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        byte = raw[problem.start]
        raise DataError(
            f"{path}, line {number}: byte 0x{byte:02x} at column {problem.start + 1}"
            " is not UTF-8",
            fix=f"convert the file, for example: iconv -f latin1 -t utf-8 {path}",
        ) from None
