"""Shards: token ids of sentence pairs on disk, memory-mapped when they are read.

NAME.bin holds ids, source then target of each pair in turn, every sentence with its EOS;
NAME.idx holds 2n + 1 offsets into it, counted in ids (int64). Both are little-endian.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aiayn.data.atomic import atomic_write, file_sha256
from aiayn.errors import DataError, counted

# Token ids; on disk, uint16 or uint32.
Ids = NDArray[np.integer]
IdType = np.dtype[np.unsignedinteger]
OFFSET = np.dtype("<i8")
# Of source and target.
IdsOfPair = tuple[Ids, Ids]
# Where each target token should look, (target, source): rows sum to 1, or to 0.
Guide = NDArray[np.float32]
# Of the file of word alignments.
ALIGN = ".align"
REPAIR = "copy the folder again, or make it again with aiayn preprocess --force"


def id_type(vocabulary_size: int) -> IdType:
    """Return the smallest type on disk that holds every id of a vocabulary."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """What a manifest says about one shard."""

    name: str
    pairs: int
    tokens: int
    bin_sha256: str
    idx_sha256: str
    align_sha256: str = ""
    """Of word alignments beside the ids, where there are some."""

    @property
    def files(self) -> dict[str, str]:
        """Its files by name, with their checksums."""
        found = {f"{self.name}.bin": self.bin_sha256, f"{self.name}.idx": self.idx_sha256}
        return found | ({f"{self.name}{ALIGN}": self.align_sha256} if self.align_sha256 else {})

    def __post_init__(self) -> None:
        require_plain_name(self.name)


def require_plain_name(name: str) -> None:
    """Refuse, with a ValueError, a name from a file that is not one of a file in its folder."""
    if name in ("", "..") or name != Path(name).name or not name.isprintable():
        raise ValueError(f"{name!r} is not the name of a file in the folder")


class ShardWriter:
    """A shard being written; see `write_shard`."""

    def __init__(self, base: Path, ids: IO[bytes], offsets: IO[bytes]) -> None:
        self.pairs = 0
        self.tokens = 0
        self._base = base
        self._ids = ids
        self._offsets = offsets
        self._offsets.write(np.zeros(1, OFFSET).tobytes())

    @property
    def size(self) -> int:
        """How many bytes of ids there are so far."""
        return self._ids.tell()

    def write(self, ids: bytes, lengths: NDArray[np.integer]) -> None:
        """Add pairs: their ids as on disk, and the lengths of source, target in turn."""
        offsets = np.cumsum(lengths, dtype=OFFSET) + self.tokens
        self._ids.write(ids)
        self._offsets.write(offsets.tobytes())
        self.pairs += len(lengths) // 2
        self.tokens += int(lengths.sum())

    def shard(self) -> Shard:
        """Return what a manifest says about the shard, once it is on disk."""
        return Shard(
            name=self._base.name,
            pairs=self.pairs,
            tokens=self.tokens,
            bin_sha256=file_sha256(self._base.with_suffix(".bin")),
            idx_sha256=file_sha256(self._base.with_suffix(".idx")),
        )


@contextmanager
def write_shard(folder: Path, name: str) -> Iterator[ShardWriter]:
    """Open a shard for writing; it is complete on disk when the block ends without an error."""
    base = folder / name
    # The index opens first and so appears last: where it is, the ids are complete.
    with (
        atomic_write(base.with_suffix(".idx")) as offsets,
        atomic_write(base.with_suffix(".bin")) as ids,
    ):
        yield ShardWriter(base, ids, offsets)


@dataclass(frozen=True, slots=True)
class Part:
    """Pairs of a corpus that were a corpus of their own."""

    first: int
    last: int
    """The number after that of its last pair."""
    share: float = 1.0
    """Of the target tokens of training."""


class Corpus:
    """All pairs of one split, in the order of the text; ids stay on disk until asked for."""

    def __init__(self, folder: Path, shards: Sequence[Shard], dtype: IdType) -> None:
        self._ids = [_map(folder / f"{s.name}.bin", dtype, s.tokens) for s in shards]
        self._offsets = [
            _map(folder / f"{s.name}.idx", OFFSET, 2 * s.pairs + 1) for s in shards
        ]
        self._starts = [0, *np.cumsum([shard.pairs for shard in shards]).tolist()]
        for shard, offsets in zip(shards, self._offsets, strict=True):
            _check_offsets(folder / f"{shard.name}.idx", offsets, shard.tokens)
        self.source_lengths, self.target_lengths = self._lengths()
        """Length of each sentence with its EOS; uint16, unless one is longer than that."""
        self.parts = [Part(0, len(self))]
        self.guide: Callable[[int, IdsOfPair], Guide] | None = None
        """Says where the target tokens of a pair of that number should look, if it is known."""

    @classmethod
    def joined(cls, corpora: Sequence["Corpus"]) -> "Corpus":
        """Return the pairs of several corpora, one after the other."""
        whole = cls(Path(), (), id_type(0))
        whole._ids = [ids for each in corpora for ids in each._ids]
        whole._offsets = [offsets for each in corpora for offsets in each._offsets]
        whole._starts = [0, *accumulate(len(offsets) // 2 for offsets in whole._offsets)]
        whole.source_lengths, whole.target_lengths = whole._lengths()
        bounds = [0, *accumulate(map(len, corpora))]
        whole.parts = [Part(first, last) for first, last in pairwise(bounds)]
        return whole

    def _lengths(self) -> NDArray[np.integer]:
        sides: NDArray[np.integer] = np.empty((2, len(self)), dtype=np.uint16)
        # Not strict: _starts has one more entry, the total number of pairs.
        for start, offsets in zip(self._starts, self._offsets, strict=False):
            lengths = np.diff(offsets)
            if lengths.max(initial=0) > np.iinfo(sides.dtype).max:
                sides = sides.astype(np.int32)
            sides[:, start : start + len(lengths) // 2] = lengths.reshape(-1, 2).T
        return sides

    def __len__(self) -> int:
        return int(self._starts[-1])

    def pair(self, index: int) -> IdsOfPair:
        """Return the ids of source and target sentence, EOS included."""
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        shard = bisect_right(self._starts, index) - 1
        # Two offsets a pair; the third is where the next pair begins.
        first = 2 * (index - self._starts[shard])
        begin, middle, end = self._offsets[shard][first : first + 3].tolist()
        ids = self._ids[shard]
        return ids[begin:middle], ids[middle:end]


def _check_offsets(path: Path, offsets: Ids, tokens: int) -> None:
    """Refuse offsets that leave the ids, or between which there is not even an EOS."""
    if (offsets[0], offsets[-1]) != (0, tokens) or (offsets[1:] <= offsets[:-1]).any():
        raise DataError(f"{path} is damaged: its offsets do not rise", fix=REPAIR)


def _map(path: Path, dtype: np.dtype[np.integer], count: int) -> Ids:
    """Map a file of numbers into memory."""
    wanted = count * dtype.itemsize
    found = path.stat().st_size if path.is_file() else None
    if found != wanted:
        size = "is missing" if found is None else f"has {counted(found, 'bytes')}"
        raise DataError(f"{path} {size}, and the manifest says {wanted:,} bytes", fix=REPAIR)
    if not count:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # As a plain array it stays mapped, and is sliced faster than a memmap.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))
