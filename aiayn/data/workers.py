"""Work shared among processes, with results in the order of the work."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, Literal, TypeVar

from aiayn.errors import Stopped

AHEAD = 4
"""Pieces of work a process that wait or are under way; they bound the memory."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    start: Literal["spawn", "fork"] = "spawn",
) -> Iterator[Result]:
    """Yield function(item) for each item, in order; one worker is this process itself.

    Args:
        function: What the workers do.
        items: What they do it with.
        workers: How many they are.
        start: Workers that are spawned begin anew and get a copy of the function. Those that
            are forked share the memory of this process, and start in a moment; their function
            must not need what another thread of this process may hold, such as a progress bar.
    """
    if workers == 1:
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(
        workers, get_context(start), initializer=_begin, initargs=(function,)
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_work, item))
            if len(waiting) == AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise Stopped(
            "a worker process was killed, perhaps for want of memory",
            fix="run the same command again to go on, with fewer of them if memory is short",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


class _Worker:
    """What a worker process knows: its part of the work comes without the function."""

    function: Callable[[Any], Any]


def _begin(function: Callable[[Any], Any]) -> None:
    _Worker.function = function
    # Ctrl-C reaches every process of the terminal; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the parent has gone, even by kill -9."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work(item: Any) -> Any:
    return _Worker.function(item)
