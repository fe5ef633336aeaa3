"""Pairs that were there before, found with little memory.

Each pair becomes a digest and its number, in one of many files by its digest; each file is
then sorted on its own. What comes out is a file with one byte a pair: 1 if the same pair
stands earlier. Two different pairs share a digest of 128 bits once in many universes.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aiayn.data.atomic import write_whole
from aiayn.data.inputs import Block

PARTS = 64
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("number", "<i8")])


class DuplicateFinder:
    """Takes all blocks of a corpus, then writes which pairs repeat an earlier one."""

    def __init__(self, files: list[IO[bytes]]) -> None:
        self._files = files
        self._pairs = 0

    def add(self, block: Block) -> None:
        """Take the pairs of a block."""
        digests = b"".join(
            blake2b(f"{source}\n{target}".encode(), digest_size=16).digest()
            for source, target in block.text_pairs()
        )
        records = np.empty(block.pairs, RECORD)
        records["high"], records["low"] = np.frombuffer(digests, "<u8").reshape(-1, 2).T
        records["number"] = np.arange(block.start, block.start + block.pairs)
        part = records["high"] % PARTS
        for which in np.unique(part):
            self._files[which].write(records[part == which].tobytes())
        self._pairs += block.pairs

    def write(self, path: Path) -> None:
        """Write one byte a pair: 1 if the same pair stands earlier, else 0."""
        repeated = np.zeros(self._pairs, np.uint8)
        for file in self._files:
            file.seek(0)
            repeated[_repeated_numbers(np.frombuffer(file.read(), RECORD))] = 1
        with write_whole(path) as file:
            file.write(repeated.data)


def _repeated_numbers(records: NDArray[np.void]) -> NDArray[np.int64]:
    order = np.lexsort((records["number"], records["low"], records["high"]))
    ordered = records[order]
    same = (ordered["high"][1:] == ordered["high"][:-1]) & (
        ordered["low"][1:] == ordered["low"][:-1]
    )
    numbers: NDArray[np.int64] = ordered["number"][1:][same]
    return numbers


@contextmanager
def find_duplicates(folder: Path) -> Iterator[DuplicateFinder]:
    """Open a finder that keeps its many files in a folder while it works."""
    with TemporaryDirectory(dir=folder) as name, ExitStack() as stack:
        paths = [Path(name) / f"{part:02}" for part in range(PARTS)]
        yield DuplicateFinder([stack.enter_context(path.open("w+b")) for path in paths])
