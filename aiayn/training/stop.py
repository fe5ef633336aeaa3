"""Asking a run to stop: signals and a time limit."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from aiayn.errors import Interrupted, Stopped

GO_ON, TIME_IS_UP, TERMINATED, INTERRUPTED = range(4)


class StopRequest:
    """What this process was asked to do; all processes must agree before one of them stops."""

    def __init__(self, seconds: float | None) -> None:
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.signal = GO_ON

    @property
    def reason(self) -> int:
        """Return GO_ON, or why to stop."""
        if self.signal == GO_ON and self.deadline and time.monotonic() >= self.deadline:
            return TIME_IS_UP
        return self.signal

    def receive(self, number: int, _: FrameType | None) -> None:
        """Take a signal note; a second Ctrl-C stops at once."""
        if number == signal.SIGINT and self.signal == INTERRUPTED:
            raise KeyboardInterrupt
        self.signal = INTERRUPTED if number == signal.SIGINT else TERMINATED


@contextmanager
def stop_on_signals(seconds: float | None) -> Iterator[StopRequest]:
    """Turn SIGTERM, SIGINT and, unless `nohup` is there, SIGHUP into requests meanwhile."""
    request = StopRequest(seconds)
    numbers = [signal.SIGTERM, signal.SIGINT, *([] if outlives_terminal() else [signal.SIGHUP])]
    before = {number: signal.signal(number, request.receive) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def outlives_terminal() -> bool:
    """Tell whether this process goes on when its terminal is closed, as `nohup` wants it to."""
    return not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def stopped(reason: int, step: int) -> Stopped:
    """Return the error that ends a run which was asked to stop."""
    why = {TIME_IS_UP: "the time limit", TERMINATED: "a signal", INTERRUPTED: "Ctrl-C"}[reason]
    kind = Interrupted if reason == INTERRUPTED else Stopped
    return kind(
        f"stopped by {why} after update {step:,}; everything is saved",
        fix="run the same command again to go on",
    )
