"""Checkpoints that are written while training goes on.

A thread writes a copy of the weights and of the optimizer's state, so that no update waits for
a disk. There is one copy at a time: the next save waits for it, files appear in the order of
the saves, and memory is bounded, by 12 bytes a parameter on the host of the first process (16
with `train.ema`).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from aiayn.checkpoint import ModelFile


class CheckpointWriter:
    """Writes model files in the background, one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None

    def start(self, write: Callable[[ModelFile], None], file: ModelFile) -> None:
        """Write a copy of this file as soon as the one before it is on disk."""
        self.wait()
        self._running = self._thread.submit(write, file.copy_to_host())

    def wait(self) -> None:
        """Wait until everything is on disk; raise what went wrong."""
        running, self._running = self._running, None
        if running is not None:
            running.result()
