"""The plan of updates: which pairs each update sees, as a function of lengths and settings.

Batching, sharing among processes and resuming are this one mechanism. The pairs of an epoch are
sorted by jittered length and cut into updates of a fixed number of tokens; the updates come in
random order. Every process computes the same plan from the index of the data alone, so nothing
is communicated, and progress is two numbers: epoch and update.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiayn.config import BatchConfig

Lengths = NDArray[np.integer]
PairNumbers = NDArray[np.integer]
# Pairs that are looked at together: with tens of millions, larger temporaries would count.
BLOCK = 2**18
# Half the bits of a key: what numpy sorts in linear time.
HALF = 16


class Place(NamedTuple):
    """How far one of several corpora is, and what it has given."""

    epoch: int = 0
    group: int = 0
    """The next one of the epoch."""
    target_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The updates of one epoch."""

    order: PairNumbers
    """Every pair of the epoch once, sorted by jittered length."""
    bounds: PairNumbers
    """Group g is order[bounds[g]:bounds[g + 1]]."""
    sequence: PairNumbers
    """Update u takes group sequence[u]."""

    def __len__(self) -> int:
        return len(self.sequence)

    def pairs(self, update: int) -> PairNumbers:
        """Return the numbers of the pairs that an update sees."""
        group = self.sequence[update]
        return self.order[self.bounds[group] : self.bounds[group + 1]]


def plan_epoch(
    source_lengths: Lengths,
    target_lengths: Lengths,
    batch: BatchConfig,
    *,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Group pairs of similar length into updates of at most `batch.tokens` on either side."""
    # Differs from the paper, which says "approximately": `tokens` is a limit, on either side.
    random = np.random.default_rng((seed, epoch))
    order = _sort(partial(_keys, source_lengths, target_lengths, batch.jitter), random)
    bounds = _cut(order, (source_lengths, target_lengths), batch.tokens)
    return EpochPlan(order, bounds, random.permutation(len(bounds) - 1))


def _keys(
    source: Lengths, target: Lengths, jitter: float, random: np.random.Generator
) -> Iterator[NDArray[np.uint32]]:
    """Yield the keys that pairs are sorted by, block by block: their jittered lengths."""
    for start in range(0, len(source), BLOCK):
        block = slice(start, start + BLOCK)
        key = np.maximum(source[block], target[block]).astype(np.float32)
        draw = random.random(len(key), dtype=np.float32)
        # One draw serves twice: it stretches the length, and it shuffles pairs of equal length.
        key *= 1 + jitter * (2 * draw - 1)
        key += draw
        # As integers, the bits of numbers that are not negative have the order of the numbers.
        yield key.view(np.uint32)


def _sort(
    keys: Callable[[np.random.Generator], Iterator[NDArray[np.uint32]]],
    random: np.random.Generator,
) -> PairNumbers:
    """Return the numbers of all pairs by key, those with equal keys in their order.

    Pairs go into buckets by the upper half of their keys, and each bucket is sorted by the
    lower half: 6 bytes a pair, where sorting all keys at once takes 20 and 4 times as long.
    """
    counts = np.zeros(1 << HALF, dtype=np.int64)
    for key in keys(deepcopy(random)):
        counts += np.bincount(key >> HALF, minlength=len(counts))
    ends = np.cumsum(counts)
    free, total = ends - counts, int(ends[-1])
    order: PairNumbers = np.empty(total, dtype=np.int32 if total < 2**31 else np.int64)
    lower = np.empty(total, dtype=np.uint16)
    start = 0
    for key in keys(random):
        bucket = (key >> HALF).astype(np.uint16)
        by_bucket = np.argsort(bucket, kind="stable")
        here = np.bincount(bucket, minlength=len(counts))
        places = np.arange(len(key)) + (free - np.cumsum(here) + here)[bucket[by_bucket]]
        order[places] = by_bucket + start
        lower[places] = key[by_bucket] & ((1 << HALF) - 1)
        free += here
        start += len(key)
    for stop, count in zip(ends[counts > 0], counts[counts > 0], strict=True):
        inside = slice(stop - count, stop)
        order[inside] = order[inside][np.argsort(lower[inside], kind="stable")]
    return order


def _cut(order: PairNumbers, sides: tuple[Lengths, Lengths], tokens: int) -> PairNumbers:
    """Cut a sequence of pairs where the next one would exceed `tokens` on either side.

    Block by block, to bound memory; a group that a block does not hold to its end opens the
    next one.
    """
    bounds, size = [0], max(BLOCK, tokens + 1)
    while bounds[-1] < len(order):
        first = bounds[-1]
        block = order[first : first + size]
        is_last = first + size >= len(order)
        sums = [np.cumsum(lengths[block], dtype=np.int64) for lengths in sides]
        start = 0
        while start < len(block):
            before = [int(side[start - 1]) if start else 0 for side in sums]
            ends = [
                np.searchsorted(s, b + tokens, "right")
                for s, b in zip(sums, before, strict=True)
            ]
            start = max(start + 1, int(min(ends)))
            if start < len(block) or is_last:
                bounds.append(first + start)
    return np.array(bounds, dtype=np.int64)


def micro_batches(
    pairs: PairNumbers, source_lengths: Lengths, target_lengths: Lengths, *, limit: int
) -> list[PairNumbers]:
    """Cut the pairs of an update into pieces of at most `limit` padded tokens on either side.

    They are as few as possible and about equally large, so that processes which share them
    finish together. A pair that is longer than the limit is a piece of its own. The longest
    come first, so that memory peaks at once.
    """
    source, target = source_lengths[pairs], target_lengths[pairs]
    longer = np.maximum(source, target)
    by_length = np.lexsort((source, target, longer))[::-1]
    longer = longer[by_length]
    bounds = _cut_padded(longer, limit)
    # Bisect for the smallest limit that needs no more pieces: they are then about equal.
    too_small, enough = 0, limit
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        even = _cut_padded(longer, middle)
        if len(even) > len(bounds):
            too_small = middle
        else:
            enough, bounds = middle, even
    return np.split(pairs[by_length], bounds[1:-1])


def batches_by_length(
    lengths: Sequence[int], limit: int, round_rows: Callable[[int], int] = int
) -> list[list[int]]:
    """Group sequences by length, the longest first; return their numbers.

    A batch has at most `limit` tokens, padding included; `round_rows` rounds how many sequences
    that allows.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    bounds = _cut_padded([lengths[i] for i in order], limit, round_rows)
    return [order[start:stop] for start, stop in pairwise(bounds)]


def _cut_padded(
    falling: Sequence[int] | Lengths, limit: int, round_rows: Callable[[int], int] = int
) -> list[int]:
    """Cut falling lengths where the next one would exceed `limit`, padding included."""
    bounds = [0]
    while bounds[-1] < len(falling):
        rows = round_rows(max(1, limit // int(falling[bounds[-1]])))
        bounds.append(min(bounds[-1] + rows, len(falling)))
    return bounds
