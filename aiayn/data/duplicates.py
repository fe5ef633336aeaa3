"""Find pairs that repeat earlier ones, with little memory.

Each pair becomes a digest and its number, in one of many files by its digest; each file is
then sorted on its own, so memory holds one of them at a time. The result is a file with one
byte a pair: 1 if it repeats an earlier one. A collision of 128-bit digests will not happen.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aiayn.data.atomic import write_bytes
from aiayn.data.inputs import Block

PARTS = 64
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("number", "<i8")])


class DuplicateFinder:
    """Takes all blocks of a corpus; see `find_duplicates`."""

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
        # Equal pairs have equal digests, so they meet in one file.
        part = records["high"] % PARTS
        for which in np.unique(part):
            self._files[which].write(records[part == which].tobytes())
        self._pairs += block.pairs

    def repeated(self) -> NDArray[np.uint8]:
        """Return 1 for each pair that repeats an earlier one, else 0."""
        found = np.zeros(self._pairs, np.uint8)
        for file in self._files:
            file.seek(0)
            records = np.frombuffer(file.read(), RECORD)
            # By number last, so that the earliest of equal pairs comes first and is kept.
            ordered = records[np.lexsort((records["number"], records["low"], records["high"]))]
            digests = ordered[["high", "low"]]
            found[ordered["number"][1:][digests[1:] == digests[:-1]]] = 1
        return found


@contextmanager
def find_duplicates(path: Path) -> Iterator[DuplicateFinder]:
    """Take the blocks of a corpus, then write one byte a pair: 1 if it repeats an earlier."""
    with TemporaryDirectory(dir=path.parent) as name, ExitStack() as stack:
        parts = [Path(name) / f"{part:02}" for part in range(PARTS)]
        finder = DuplicateFinder([stack.enter_context(part.open("w+b")) for part in parts])
        yield finder
        write_bytes(path, finder.repeated().tobytes())
