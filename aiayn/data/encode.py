"""Encode a block of text on both sides, drop what the filters name, and count."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aiayn.data.codec import Codec
from aiayn.data.inputs import Block, join_lines, split_lines
from aiayn.data.manifest import Counts
from aiayn.data.shards import Ids, IdType, id_type
from aiayn.data.vocabulary import BYTES
from aiayn.data.word_links import LinkNumbers, read_links
from aiayn.special_ids import EOS, UNK

KEPT, EMPTY, DUPLICATE, LENGTH, RATIO = range(5)
# Why a pair is dropped; of several reasons, the first holds.
REASONS = {EMPTY: "empty", DUPLICATE: "duplicate", LENGTH: "length", RATIO: "ratio"}

DROPPED_COLUMNS = ("file", "line", "reason", "source subwords", "target subwords")


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """An encoded block."""

    ids: bytes
    """Ids of the kept pairs, as in a shard."""
    lengths: NDArray[np.int64]
    """Length of each kept sentence, source and target in turn."""
    counts: Counts
    dropped: str
    """A tab-separated line for each dropped pair, see DROPPED_COLUMNS."""
    texts: tuple[str, str]
    """Source and reference lines of the kept pairs, where text is kept."""
    links: list[LinkNumbers] = field(default_factory=list)
    """Of each kept pair, where word alignments were given."""


@dataclass(frozen=True)
class Encoder:
    """Encodes blocks and drops what its filters name; it can be sent to another process.

    A pair with an empty side is always dropped; 0 or None is no further filter.
    """

    codec: Codec
    _: KW_ONLY
    max_length: int = 0
    """Subwords of either side, EOS included."""
    max_ratio: float = 0.0
    """Subwords of the longer side for one of the shorter, without EOS."""
    duplicates: Path | None = None
    """File with one byte a pair, 1 if the pair repeats an earlier one."""
    keep_text: bool = False
    alignments: Path | None = None
    """File that the word alignments of blocks come from."""

    def __call__(self, block: Block) -> Encoded:
        """Encode the pairs of a block and drop what the filters name."""
        sources, targets = split_lines(block.source), split_lines(block.target)
        source_ids = self.codec.encode_source_batch(sources)
        target_ids = self.codec.encode_target_batch(targets)
        both_lengths = np.array([list(map(len, source_ids)), list(map(len, target_ids))])
        codes = self._codes(block, (sources, targets), both_lengths)
        tally = {reason: int((codes == code).sum()) for code, reason in REASONS.items()}
        keep = codes == KEPT
        pairs = compress(zip(source_ids, target_ids, strict=True), keep.tolist())
        flat = np.fromiter(chain.from_iterable(chain.from_iterable(pairs)), self.id_type)
        lengths = both_lengths[:, keep].T.reshape(-1)
        counts = Counts(read=block.pairs, dropped={k: n for k, n in tally.items() if n})
        self._count(counts, flat, lengths)
        dropped: list[int] = np.flatnonzero(codes).tolist()
        counts.source.words = _words(block.source, sources, dropped)
        counts.target.words = _words(block.target, targets, dropped)
        dropped_lines = (
            f"{block.name}\t{block.line + i}\t{REASONS[codes[i]]}"
            f"\t{both_lengths[0, i] - 1}\t{both_lengths[1, i] - 1}\n"
            for i in dropped
        )
        texts = (block.source, block.reference) if self.keep_text else ("", "")
        source, reference = (
            join_lines(compress(split_lines(text), keep.tolist())) for text in texts
        )
        return Encoded(
            ids=flat.tobytes(),
            lengths=lengths,
            counts=counts,
            dropped="".join(dropped_lines),
            texts=(source, reference),
            links=self._links(block, source_ids, target_ids, np.flatnonzero(keep).tolist()),
        )

    def _links(
        self,
        block: Block,
        source_ids: list[list[int]],
        target_ids: list[list[int]],
        kept: list[int],
    ) -> list[LinkNumbers]:
        """Return the links of the kept pairs."""
        if not self.alignments:
            return []
        lines, name = split_lines(block.alignments), str(self.alignments)
        return [
            read_links(
                lines[i],
                name,
                block.start + i + 1,
                self.codec,
                (source_ids[i], target_ids[i]),
            )
            for i in kept
        ]

    def _codes(
        self, block: Block, sides: Sequence[Sequence[str]], both_lengths: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Return KEPT or the reason to drop it for each pair."""
        shorter, longer = both_lengths.min(axis=0), both_lengths.max(axis=0)
        codes = np.zeros(block.pairs, np.uint8)
        # From the last reason to the first, since a later assignment wins.
        if self.max_ratio:
            codes[longer - 1 > self.max_ratio * (shorter - 1)] = RATIO
        if self.max_length:
            codes[longer > self.max_length] = LENGTH
        if self._repeated is not None:
            codes[self._repeated[block.start : block.start + block.pairs] == 1] = DUPLICATE
        for side in sides:
            codes[np.fromiter(map(str.isspace, side), bool)] = EMPTY
        codes[shorter == 1] = EMPTY  # nothing but EOS
        return codes

    def _count(self, counts: Counts, flat: Ids, lengths: NDArray[np.int64]) -> None:
        """Count tokens, and among them those that are unknown and those that are bytes."""
        # Lengths alternate: source, target, source, target.
        counts.source.tokens = int(lengths[0::2].sum())
        counts.target.tokens = int(lengths[1::2].sum())
        # Special tokens and bytes have the lowest ids and are rare: only they are looked at.
        rare = np.flatnonzero((flat < BYTES.stop) & (flat != EOS))
        # The sentence of a token is the first that ends after it; odd sentences are targets.
        sides = np.searchsorted(np.cumsum(lengths), rare, side="right") % 2
        vocabularies = self.codec.source, self.codec.target
        for side, count in enumerate((counts.source, counts.target)):
            ids = flat[rare[sides == side]]
            count.unknown = int((ids == UNK).sum())
            if vocabularies[side].spells_bytes:
                count.spelled = int((ids >= BYTES.start).sum())

    @cached_property
    def _repeated(self) -> NDArray[np.uint8] | None:
        return np.memmap(self.duplicates, np.uint8, mode="r") if self.duplicates else None

    @cached_property
    def id_type(self) -> IdType:
        """Type of the ids on disk."""
        return id_type(max(len(self.codec.source), len(self.codec.target)))


def _words(text: str, lines: Sequence[str], dropped: Sequence[int]) -> int:
    """Return how many words the kept lines have, by their spaces."""
    # Over the whole text at once this is far faster than splitting every line.
    return text.count(" ") + len(lines) - sum(lines[i].count(" ") + 1 for i in dropped)
