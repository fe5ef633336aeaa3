"""Batches in the order of the plan, prepared while the update before them runs."""

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from aiayn.config import BatchConfig
from aiayn.data.batch import Batch, collate
from aiayn.data.plan import Lengths, PairNumbers, Place, micro_batches, plan_epoch
from aiayn.data.resampling import Resampling
from aiayn.data.shards import Corpus, Guide, IdsOfPair, Part
from aiayn.data.word_links import pad_guides
from aiayn.distributed import ProcessGroup

# Updates that wait in memory, ready to run.
PREFETCH = 2
# Seconds after which the thread that prepares them lets the update go on: for a device, or the
# threads of a processor, Python's 5 ms are a long wait.
SWITCH_INTERVAL = 0.0005

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
    places: tuple[Place, ...] = ()
    """Of each corpus, where there are several, what follows the update."""


class Group(NamedTuple):
    """Pairs of about one length, that a plan has put together."""

    epoch: int
    number: int
    """Position in the epoch, from 0."""
    following: tuple[int, int]
    """The epoch and number of the group that follows."""
    pairs: PairNumbers


class PairsOfUpdate(NamedTuple):
    """Pairs with their lengths, which every process knows; ids are read where they are used."""

    source_lengths: Lengths
    target_lengths: Lengths
    pair: Callable[[int], tuple[IdsOfPair, Guide | None]]
    """Returns a pair by its place in the update, and where its target should look."""


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
    (whole,) = corpus.parts
    for each in groups_from(corpus, whole, batch, seed=seed, epoch=epoch, number=number):
        pairs = read_pairs(corpus, each.pairs, each.epoch, resampling)
        yield make_update(pairs, batch, group, each)


def groups_from(
    corpus: Corpus, part: Part, batch: BatchConfig, *, seed: int, epoch: int, number: int
) -> Iterator[Group]:
    """Yield the groups of a part endlessly, starting at a position in its plan."""
    while True:
        yield from _groups_of_epoch(corpus, part, batch, seed, epoch, number)
        epoch, number = epoch + 1, 0


def _groups_of_epoch(
    corpus: Corpus, part: Part, batch: BatchConfig, seed: int, epoch: int, number: int
) -> Iterator[Group]:
    """Yield the groups of one epoch; its plan is gone before the next one is made."""
    inside = slice(part.first, part.last)
    source, target = corpus.source_lengths[inside], corpus.target_lengths[inside]
    plan = plan_epoch(source, target, batch, seed=seed, epoch=epoch)
    for position in range(number, len(plan)):
        last = position + 1 == len(plan)
        following = (epoch + 1, 0) if last else (epoch, position + 1)
        yield Group(epoch, position, following, plan.pairs(position) + part.first)


def read_pairs(
    corpus: Corpus, numbers: PairNumbers, epoch: int, resampling: Resampling | None
) -> PairsOfUpdate:
    """Return the pairs of these numbers, as they are stored or as the epoch draws them."""

    def with_guide(number: int, pair: IdsOfPair) -> tuple[IdsOfPair, Guide | None]:
        return pair, corpus.guide(number, pair) if corpus.guide else None

    if resampling is None:
        lengths = corpus.source_lengths[numbers], corpus.target_lengths[numbers]
        every = numbers.tolist()
        return PairsOfUpdate(*lengths, lambda i: with_guide(every[i], corpus.pair(every[i])))
    # All of them in every process: only what is drawn tells how long it is.
    drawn = [resampling(corpus.pair(i), epoch=epoch, number=i) for i in numbers.tolist()]
    source, target = (np.array([len(ids) for ids in side]) for side in zip(*drawn, strict=True))
    return PairsOfUpdate(source, target, lambda i: with_guide(int(numbers[i]), drawn[i]))


def make_update(
    pairs: PairsOfUpdate,
    batch: BatchConfig,
    group: ProcessGroup,
    first: Group,
    places: Sequence[Place] = (),
) -> Update:
    """Cut pairs into micro-batches, and read those of this process."""
    source, target, pair = pairs
    pieces = micro_batches(np.arange(len(source)), source, target, limit=batch.micro_limit)
    return Update(
        epoch=first.epoch,
        number=first.number,
        next_position=places[0][:2] if places else first.following,
        source_tokens=int(source.sum()),
        target_tokens=int(target.sum()),
        micro=[
            (n, _collate([pair(i) for i in piece.tolist()]).to(group.device))
            for n, piece in group.share(pieces)
        ],
        places=tuple(places),
    )


def _collate(pairs: Sequence[tuple[IdsOfPair, Guide | None]]) -> Batch:
    """Pad pairs to rectangles, and what guides attention in them."""
    batch = collate([ids for ids, _ in pairs])
    guides = [guide for _, guide in pairs if guide is not None]
    if not guides:
        return batch
    return replace(batch, guide_BTS=torch.from_numpy(pad_guides(guides)))


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of an endless iterator, which a thread computes in advance."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    thread = ThreadPoolExecutor(1)
    try:
        waiting = deque(thread.submit(next, items) for _ in range(PREFETCH))
        while True:
            item = waiting.popleft().result()
            waiting.append(thread.submit(next, items))
            yield item
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
