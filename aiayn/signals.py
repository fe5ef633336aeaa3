"""SIGTERM, SIGINT (Ctrl-C) and SIGHUP (a closed terminal) as requests to stop.

Training polls a `StopRequest` between updates; preprocessing and generation, whose steps are
long, get an exception where the signal arrives.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from aiayn.errors import Interrupted, Stopped

CONTINUE, TIME_LIMIT, TERMINATED, INTERRUPTED = range(4)
RESUME = "run the same command again to resume"

# When the program started, by time.monotonic, which all processes of a machine share: the
# processes that a launcher starts inherit it.
STARTED = "AIAYN_STARTED"

Handler = Callable[[int, FrameType | None], object]


class StopRequest:
    """Whether this process was asked to stop, by a signal or a time limit."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.signal = CONTINUE
        self.saving = False
        """Whether the run is about to end with everything saved, which nothing interrupts."""

    @property
    def reason(self) -> int:
        """CONTINUE, or why to stop; larger reasons take precedence."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        if self.signal == CONTINUE and late:
            return TIME_LIMIT
        return self.signal

    def receive(self, number: int, _: FrameType | None) -> None:
        """Record a signal; a second Ctrl-C stops at once, unless the run is being saved."""
        if number == signal.SIGINT and self.signal == INTERRUPTED and not self.saving:
            raise KeyboardInterrupt
        self.signal = INTERRUPTED if number == signal.SIGINT else TERMINATED


@contextmanager
def request_on_signals(deadline: float | None) -> Iterator[StopRequest]:
    """Turn signals, and a deadline of time.monotonic, into a request while the block runs."""
    request = StopRequest(deadline)
    with _handled([signal.SIGINT, *termination_signals()], request.receive):
        try:
            yield request
        except KeyboardInterrupt:
            raise Interrupted(
                "stopped at once by a second Ctrl-C, with what was saved before",
                fix="run the same command again to resume from the last checkpoint",
            ) from None


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise Stopped where a signal arrives while the block runs, and Interrupted at Ctrl-C."""
    with _handled(termination_signals(), _raise_stopped):
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted("stopped by Ctrl-C", fix=RESUME) from None


def signals_ignored() -> AbstractContextManager[None]:
    """Let no signal interrupt the block: it saves what was done."""
    return _handled([signal.SIGINT, *termination_signals()], signal.SIG_IGN)


def remember_start() -> None:
    """Note the time, unless a launcher that this process belongs to has noted its own."""
    if STARTED not in os.environ or "RANK" not in os.environ:
        os.environ[STARTED] = str(time.monotonic())


def deadline_after(seconds: float) -> float:
    """Return the time of time.monotonic so many seconds after the program started."""
    return float(os.environ.get(STARTED, time.monotonic())) + seconds


def stopped(reason: int, step: int) -> Stopped:
    """Return the error that ends a training run which was asked to stop."""
    why = {TIME_LIMIT: "the time limit", TERMINATED: "a signal", INTERRUPTED: "Ctrl-C"}[reason]
    kind = Interrupted if reason == INTERRUPTED else Stopped
    return kind(f"stopped by {why} after update {step:,}; everything is saved", fix=RESUME)


def survives_hangup() -> bool:
    """Return whether closing the terminal leaves this process running, as under `nohup`."""
    return not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def termination_signals() -> list[signal.Signals]:
    """Return SIGTERM, and SIGHUP unless it is ignored."""
    return [signal.SIGTERM, *([] if survives_hangup() else [signal.SIGHUP])]


def leave_signals_to_parent() -> None:
    """In a worker: a terminal signals every process, and the parent decides what to do."""
    for number in {signal.SIGINT, *termination_signals()} - {signal.SIGTERM}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _handled(
    numbers: list[signal.Signals], handler: Handler | signal.Handlers
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _raise_stopped(number: int, _: FrameType | None) -> None:
    raise Stopped(f"stopped by {signal.Signals(number).name}", fix=RESUME)
