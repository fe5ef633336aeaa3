"""Work shared among processes, with results in the order of the items."""

import gc
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, Literal, TypeVar

from aiayn.errors import Stopped
from aiayn.signals import leave_signals_to_parent

# Items per process, waiting or in progress; this bounds the memory.
AHEAD = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that apply one function to many items, until they are closed."""

    def __init__(
        self,
        function: Callable[[Item], Result],
        count: int,
        *,
        start: Literal["spawn", "fork"] = "spawn",
    ) -> None:
        """Start processes when the first item comes.

        Spawned processes start from scratch and get a copy of the function. Forked ones share
        the memory of this process, and start at once; their function must not need a lock that
        another thread of this process may hold.
        """
        self.count = count
        self.pool = ProcessPoolExecutor(
            count, get_context(start), initializer=_begin, initargs=(function,)
        )

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of each item, in order."""
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(self.pool.submit(_work, item))
                # Not further ahead: a slow reader must not fill the memory with results.
                if len(waiting) == AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise Stopped(
                "a worker process was killed, perhaps because memory ran out",
                fix="run the same command again to resume; with fewer, if memory is short",
            ) from None
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes, each after its current item."""
        self.pool.shutdown(cancel_futures=True)


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Generator[Result, None, None]:
    """Yield function(item) for each item, in order; one worker is this process itself."""
    if workers == 1:
        yield from map(function, items)
        return
    with closing(Workers(function, workers)) as processes:
        yield from processes.map(items)


class _Worker:
    """The function of a worker process, which gets it once and not with every item."""

    function: Callable[[Any], Any]


def _begin(function: Callable[[Any], Any]) -> None:
    _Worker.function = function
    # Lists of ids hold no reference cycles, and looking for some takes 3 to 5% of the time.
    gc.disable()
    leave_signals_to_parent()
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this process when the parent has gone, even by kill -9."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    # Not sys.exit, which would end this thread only.
    os._exit(1)


def _work(item: Any) -> Any:
    return _Worker.function(item)
