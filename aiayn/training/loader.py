"""Batches in the order of the plan, prepared while the update before them runs."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aiayn.config import BatchConfig
from aiayn.data.batch import Batch, collate
from aiayn.data.plan import micro_batches, plan_epoch
from aiayn.data.shards import Corpus
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
) -> Iterator[Update]:
    """Yield updates endlessly, starting at a position in the plan."""
    source, target = corpus.source_lengths, corpus.target_lengths
    while True:
        plan = plan_epoch(source, target, batch, seed=seed, epoch=epoch)
        for position in range(number, len(plan)):
            pairs = plan.pairs(position)
            last = position + 1 == len(plan)
            pieces = micro_batches(pairs, source, target, limit=batch.micro_tokens)
            yield Update(
                epoch=epoch,
                number=position,
                next_position=(epoch + 1, 0) if last else (epoch, position + 1),
                source_tokens=int(source[pairs].sum()),
                target_tokens=int(target[pairs].sum()),
                micro=[
                    (n, collate([corpus.pair(int(i)) for i in piece]).to(group.device))
                    for n, piece in group.share(pieces)
                ],
            )
        epoch, number = epoch + 1, 0


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
