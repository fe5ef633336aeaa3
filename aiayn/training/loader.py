"""Batches in the order of the plan, prepared while the update before them runs."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from aiayn.config import BatchConfig
from aiayn.data.batch import Batch, collate
from aiayn.data.plan import PairNumbers, micro_batches, plan_epoch
from aiayn.data.shards import Corpus
from aiayn.data.word_links import Guides, pad_guides
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


def updates_from(
    corpus: Corpus,
    batch: BatchConfig,
    group: ProcessGroup,
    *,
    seed: int,
    epoch: int,
    number: int,
    guides: Guides | None = None,
) -> Iterator[Update]:
    """Yield updates endlessly, starting at a position in the plan."""
    while True:
        yield from _updates_of_epoch(corpus, batch, group, seed, epoch, number, guides)
        epoch, number = epoch + 1, 0


def _updates_of_epoch(
    corpus: Corpus,
    batch: BatchConfig,
    group: ProcessGroup,
    seed: int,
    epoch: int,
    number: int,
    guides: Guides | None,
) -> Iterator[Update]:
    """Yield the updates of one epoch; its plan is gone before the next one is made."""
    source, target = corpus.source_lengths, corpus.target_lengths
    plan = plan_epoch(source, target, batch, seed=seed, epoch=epoch)
    for position in range(number, len(plan)):
        pairs = plan.pairs(position)
        last = position + 1 == len(plan)
        pieces = micro_batches(pairs, source, target, limit=batch.micro_limit)
        yield Update(
            epoch=epoch,
            number=position,
            next_position=(epoch + 1, 0) if last else (epoch, position + 1),
            source_tokens=int(source[pairs].sum()),
            target_tokens=int(target[pairs].sum()),
            micro=[
                (n, read_batch(corpus, piece, guides).to(group.device))
                for n, piece in group.share(pieces)
            ],
        )


def read_batch(corpus: Corpus, numbers: PairNumbers, guides: Guides | None) -> Batch:
    """Return pairs of a corpus as a batch, with their guides where attention is guided."""
    pairs = [corpus.pair(int(i)) for i in numbers]
    batch = collate(pairs)
    if guides is None:
        return batch
    rows = pad_guides([guides(int(i), pair) for i, pair in zip(numbers, pairs, strict=True)])
    return replace(batch, guide_BTS=torch.from_numpy(rows))


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
