"""A process without others, where a group of processes would share the work."""

from collections.abc import Callable
from typing import TypeVar

Item = TypeVar("Item")


class SingleProcess:
    """Does what a `ProcessGroup` of one does, without loading torch."""

    rank, world_size, is_first = 0, 1, True

    def share(self, items: list[Item]) -> list[tuple[int, Item]]:
        """Return all items with their numbers."""
        return list(enumerate(items))

    def gather(self, items: list[Item], total: int) -> list[Item]:
        """Return all results."""
        return items

    def broadcast(self, value: Item) -> Item:
        """Return the value."""
        return value

    def together(self, action: Callable[[], Item]) -> Item:
        """Return what an action returns."""
        return action()
