"""Updates in the order of the plan, their micro-batches prepared while the last one runs."""

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

AHEAD = 2
"""Updates that wait in memory, ready to run."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Update:
    """What one optimiser step sees."""

    epoch: int
    number: int
    """Place in the epoch, from 0."""
    updates_in_epoch: int
    source_tokens: int
    target_tokens: int
    """Tokens of the whole update, over all processes, without padding."""
    micro: list[tuple[int, Batch]]
    """This process's micro-batches with their numbers in the update."""

    @property
    def next_place(self) -> tuple[int, int]:
        """Return the epoch and number of the update that follows."""
        last = self.number + 1 == self.updates_in_epoch
        return (self.epoch + 1, 0) if last else (self.epoch, self.number + 1)


def updates_from(
    corpus: Corpus,
    batch: BatchConfig,
    group: ProcessGroup,
    *,
    seed: int,
    epoch: int,
    number: int,
) -> Iterator[Update]:
    """Yield updates for ever, from a place in the plan on."""
    source, target = corpus.source_lengths, corpus.target_lengths
    while True:
        plan = plan_epoch(
            source, target, tokens=batch.tokens, jitter=batch.jitter, seed=seed, epoch=epoch
        )
        for place in range(number, len(plan)):
            pairs = plan.pairs(place)
            pieces = micro_batches(pairs, source, target, limit=batch.micro_tokens)
            yield Update(
                epoch=epoch,
                number=place,
                updates_in_epoch=len(plan),
                source_tokens=int(source[pairs].sum()),
                target_tokens=int(target[pairs].sum()),
                micro=[
                    (n, collate([corpus.pair(int(i)) for i in piece]).to(group.device))
                    for n, piece in group.share(pieces)
                ],
            )
        epoch, number = epoch + 1, 0


def prepared_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of an endless iterator that a thread of its own makes in advance."""
    thread = ThreadPoolExecutor(1)
    try:
        waiting = deque(thread.submit(next, items) for _ in range(AHEAD))
        while True:
            item = waiting.popleft().result()
            waiting.append(thread.submit(next, items))
            yield item
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
