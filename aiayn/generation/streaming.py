"""Lines as they come in, from files or live pipes, in windows."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

from aiayn.data.text import STDIN, decode_line, read_raw_lines
from aiayn.errors import DataError

# Seconds without a new line, and since the first one, after which a live pipe gets answers.
PAUSE, PATIENCE = 0.02, 0.25
# Seconds that a window is to take, since an interruption costs what is not finished.
SECONDS_AT_RISK = 20.0
# The first window, whose pace is not known yet, is the smallest: this part of the largest.
SMALLEST_PART = 32

Item = TypeVar("Item")


class Line(NamedTuple):
    """A line of input."""

    text: str
    prefix: str = ""
    """What the translation has to begin with."""
    raw: bytes = b""
    """The bytes that it was read from."""


def read_input(path: Path, prefixes: Path | None) -> Iterator[Line]:
    """Yield lines; bytes that are not UTF-8 become U+FFFD rather than shift what follows."""
    prefix_lines = iter(()) if prefixes is None else read_raw_lines(prefixes)
    pairs = zip_longest(read_raw_lines(path), prefix_lines)
    for number, (raw, raw_prefix) in enumerate(pairs, start=1):
        if prefixes is not None and (raw is None or raw_prefix is None):
            text = "standard input" if path == STDIN else path
            shorter, longer = (text, prefixes) if raw is None else (prefixes, text)
            raise DataError(
                f"{shorter} ends after line {number - 1:,}, and {longer} has more lines",
                fix="give one prefix a line; an empty line leaves it open",
            )
        prefix = decode_line(raw_prefix, prefixes, number) if prefixes and raw_prefix else ""
        yield Line(raw.decode(errors="replace"), prefix, raw)


def windows(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield what has come in since the last time, at most `most` items at once.

    A thread reads ahead, so that a live pipe is answered without waiting for its end. Where
    items take long, windows have fewer of them.
    """
    limit = least = -(-most // SMALLEST_PART)
    waiting: queue.Queue[list[Item] | BaseException | None] = queue.Queue(2 * most)
    threading.Thread(target=_read, args=(items, waiting.put), daemon=True).start()
    while isinstance(came := waiting.get(), list):
        window, begin = came, time.monotonic()
        with suppress(queue.Empty):
            while len(window) < limit:
                left = begin + PATIENCE - time.monotonic()
                came = (
                    waiting.get(timeout=min(PAUSE, left)) if left > 0 else waiting.get_nowait()
                )
                if not isinstance(came, list):
                    break
                window += came
        # A window is yielded even if what ended it was an error: that comes next.
        begin = time.monotonic()
        yield window
        pace = len(window) / max(time.monotonic() - begin, 1e-9)
        limit = int(min(max(pace * SECONDS_AT_RISK, least), most))
        if not isinstance(came, list):
            break
    if came is not None:
        raise came


def _read(
    items: Iterable[Item], put: Callable[[list[Item] | BaseException | None], None]
) -> None:
    """Put items into a queue, then None or the exception that ended them."""
    try:
        for item in items:
            put([item])
        put(None)
    except BaseException as problem:
        put(problem)
