"""Batches in the order of the plan, prepared while the update before them runs."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from aiayn.config import BatchConfig
from aiayn.data.batch import Batch, collate
from aiayn.data.plan import Lengths, PairNumbers, micro_batches, plan_epoch
from aiayn.data.resampling import Resampling
from aiayn.data.shards import Corpus, Ids
from aiayn.distributed import ProcessGroup

# Updates that wait in memory, ready to run.
PREFETCH = 2

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Update:
    """The data of one optimizer step."""

    epoch: int
    number: int
    """Position in the epoch, from 0."""
    next_position: tuple[int, int]
    """The epoch and number of the update that follows."""
    source_tokens: int
    target_tokens: int
    """Tokens of the whole update, over all processes, without padding."""
    micro: list[tuple[int, Batch]]
    """This process's micro-batches with their numbers in the update."""


class PairsOfUpdate(NamedTuple):
    """Pairs with their lengths, which every process knows; ids are read where they are used."""

    source_lengths: Lengths
    target_lengths: Lengths
    pair: Callable[[int], tuple[Ids, Ids]]
    """Returns a pair by its place in the update."""


def updates_from(
    corpus: Corpus,
    batch: BatchConfig,
    group: ProcessGroup,
    *,
    seed: int,
    epoch: int,
    number: int,
    resampling: Resampling | None = None,
) -> Iterator[Update]:
    """Yield updates endlessly, starting at a position in the plan."""
    while True:
        for position, last, numbers in _groups_of_epoch(corpus, batch, seed, epoch, number):
            pairs = read_pairs(corpus, numbers, epoch, resampling)
            following = (epoch + 1, 0) if last else (epoch, position + 1)
            yield _update(pairs, batch, group, (epoch, position), following)
        epoch, number = epoch + 1, 0


def _groups_of_epoch(
    corpus: Corpus, batch: BatchConfig, seed: int, epoch: int, number: int
) -> Iterator[tuple[int, bool, PairNumbers]]:
    """Yield the groups of one epoch; its plan is gone before the next one is made."""
    source, target = corpus.source_lengths, corpus.target_lengths
    plan = plan_epoch(source, target, batch, seed=seed, epoch=epoch)
    for position in range(number, len(plan)):
        yield position, position + 1 == len(plan), plan.pairs(position)


def read_pairs(
    corpus: Corpus, numbers: PairNumbers, epoch: int, resampling: Resampling | None
) -> PairsOfUpdate:
    """Return the pairs of these numbers, as they are stored or as the epoch draws them."""
    if resampling is None:
        lengths = corpus.source_lengths[numbers], corpus.target_lengths[numbers]
        return PairsOfUpdate(*lengths, lambda place: corpus.pair(int(numbers[place])))
    # All of them in every process: only what is drawn tells how long it is.
    drawn = [resampling(corpus.pair(i), epoch=epoch, number=i) for i in numbers.tolist()]
    source, target = (np.array([len(ids) for ids in side]) for side in zip(*drawn, strict=True))
    return PairsOfUpdate(source, target, drawn.__getitem__)


def _update(
    pairs: PairsOfUpdate,
    batch: BatchConfig,
    group: ProcessGroup,
    position: tuple[int, int],
    following: tuple[int, int],
) -> Update:
    """Cut pairs into micro-batches, and read those of this process."""
    source, target, pair = pairs
    pieces = micro_batches(np.arange(len(source)), source, target, limit=batch.micro_limit)
    return Update(
        epoch=position[0],
        number=position[1],
        next_position=following,
        source_tokens=int(source.sum()),
        target_tokens=int(target.sum()),
        micro=[
            (n, collate([pair(i) for i in piece.tolist()]).to(group.device))
            for n, piece in group.share(pieces)
        ],
    )


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of an endless iterator, which a thread computes in advance."""
    thread = ThreadPoolExecutor(1)
    try:
        waiting = deque(thread.submit(next, items) for _ in range(PREFETCH))
        while True:
            item = waiting.popleft().result()
            waiting.append(thread.submit(next, items))
            yield item
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
