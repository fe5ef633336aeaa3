"""A sample of fixed size from a stream of unknown length, each item as likely as any other."""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Reservoir(Generic[Item]):
    """Li's algorithm L: random numbers are drawn only for the items that are taken."""

    def __init__(self, size: int, *, seed: int) -> None:
        self.size = size
        self.taken: list[Item] = []
        self._random = Random(seed)
        self._seen = 0
        self._log_threshold = 0.0
        self._next = size - 1

    def offer(self, count: int, items: Callable[[], Sequence[Item]]) -> None:
        """Take a sample of the next `count` items, which are made only if one is taken."""
        start, self._seen = self._seen, self._seen + count
        if start < self.size:
            self.taken.extend(items()[: self.size - start])
            if self._seen < self.size:
                return
            self._skip()
        if self._next < self._seen:
            made = items()
            while self._next < self._seen:
                self.taken[self._random.randrange(self.size)] = made[self._next - start]
                self._skip()

    def _skip(self) -> None:
        """Draw the number of the next item to take."""
        # With a uniform key for each item, the threshold is the largest key in the sample; how
        # many items in a row exceed it follows a geometric distribution.
        self._log_threshold += math.log(self._draw()) / self.size
        log_rest = math.log(-math.expm1(self._log_threshold))
        self._next += 1 + int(math.log(self._draw()) / log_rest)

    def _draw(self) -> float:
        """Return a number between 0 and 1, and neither."""
        # random() can be 0, which has no logarithm; its values are the same in all versions.
        return self._random.random() or 0.5
