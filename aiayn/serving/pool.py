"""The queue between clients and workers.

Requests take turns line by line, so that a long one does not keep short ones waiting, and each
worker has as many lines as it can search at once. All this runs in the thread of the event
loop; workers are processes of their own on a CPU, one a core, and else one thread.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pickle import dumps, loads
from queue import SimpleQueue
from typing import Protocol

import torch

from aiayn.data.workers import end_with_parent
from aiayn.device import share_cores
from aiayn.serving.connection import Refused
from aiayn.serving.languages import LanguagePair
from aiayn.serving.worker import (
    AttentionJob,
    Failure,
    Inbox,
    Job,
    LineJob,
    Reply,
    Result,
    TranslatedLine,
    Wanted,
)
from aiayn.signals import termination_signals

# Lines that a worker has at a time: as many as the engine searches at once with a beam of 4.
LINES_AHEAD = 128
# Lines that are taken and not answered, of all clients.
MOST_LINES = 4096
# For a worker to end by itself.
END_SECONDS = 10
RETRY_SECONDS = "1"

Work = Callable[[Inbox, Reply], None]
"""What a worker runs: jobs from the inbox, until None, and a reply to each."""


class WorkerLink(Protocol):
    """The pool's end of a worker."""

    def listen(self, reply: Reply, lost: Callable[[], None]) -> None:
        """Call one for each result, or the other when the worker is gone, from the loop."""

    def send(self, job: Job) -> None:
        """Give it a job."""

    def close(self) -> None:
        """Let it end."""


class WorkerThread:
    """A worker beside the event loop, for devices that processes do not share."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.inbox: Inbox = SimpleQueue()
        self.thread: threading.Thread | None = None

    def listen(self, reply: Reply, lost: Callable[[], None]) -> None:
        """Begin to work."""
        loop = asyncio.get_running_loop()

        def reply_from_thread(number: int, result: Result) -> None:
            loop.call_soon_threadsafe(reply, number, result)

        self.thread = threading.Thread(
            target=self.work, args=(self.inbox, reply_from_thread), daemon=True
        )
        self.thread.start()

    def send(self, job: Job) -> None:
        """Give it a job."""
        self.inbox.put(job)

    def close(self) -> None:
        """Let it end."""
        self.inbox.put(None)
        if self.thread is not None:
            self.thread.join(END_SECONDS)


class WorkerProcess:
    """A fork of this process with one thread, which shares the models in its memory."""

    def __init__(self, work: Work) -> None:
        context = get_context("fork")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve_pipe, args=(work, there))
        self.process.start()
        there.close()

    def listen(self, reply: Reply, lost: Callable[[], None]) -> None:
        """Watch for results."""
        loop = asyncio.get_running_loop()

        def receive() -> None:
            try:
                reply(*loads(self.pipe.recv_bytes()))
            except (EOFError, OSError):
                loop.remove_reader(self.pipe.fileno())
                lost()

        loop.add_reader(self.pipe.fileno(), receive)

    def send(self, job: Job) -> None:
        """Give it a job."""
        # A thread there reads at any time, so this does not wait.
        self.pipe.send_bytes(dumps(job))

    def close(self) -> None:
        """Let it end."""
        with suppress(OSError):
            self.pipe.send_bytes(dumps(None))
        self.process.join(END_SECONDS)
        self.process.kill()


def _serve_pipe(work: Work, pipe: Pipe) -> None:
    """In the process of a worker: read jobs from a pipe, and write results to it."""
    # The parent answers what was taken before it lets its workers end.
    for number in {signal.SIGINT, *termination_signals()}:
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    inbox: Inbox = SimpleQueue()

    def read() -> None:
        while (job := loads(pipe.recv_bytes())) is not None:
            inbox.put(job)
        inbox.put(None)

    for target in (read, end_with_parent):
        threading.Thread(target=target, daemon=True).start()
    work(inbox, lambda number, result: pipe.send_bytes(dumps((number, result))))
    os._exit(0)


@dataclass(slots=True, eq=False)
class OpenRequest:
    """The jobs of one request."""

    waiting: deque[tuple[int, Job]]
    """Jobs that no worker has yet, with their places among the results."""
    results: list[Result | None]
    done: asyncio.Future[None]
    missing: int


class Pool:
    """Gives lines to workers, and results to those who wait for them."""

    def __init__(self, links: Sequence[WorkerLink], most_lines: int = MOST_LINES) -> None:
        self.links, self.most_lines = links, most_lines
        self.load = [0] * len(links)
        """Jobs that each worker has."""
        self.requests: deque[OpenRequest] = deque()
        """Requests with jobs that wait, in turn."""
        self.sent: dict[int, tuple[OpenRequest, int, int]] = {}
        """The request of each job, its place there and its worker, by the number of the job."""
        self.taken = 0
        """Jobs that are not done."""
        self.numbers = count()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when a worker is gone."""
        for worker, link in enumerate(links):
            link.listen(self._receive, partial(self._lose, worker))

    async def translate(self, wanted: Wanted, lines: Sequence[str]) -> list[TranslatedLine]:
        """Return the translations of lines."""
        found = await self._do([LineJob(0, wanted, line) for line in lines])
        return [result for result in found if isinstance(result, TranslatedLine)]

    async def draw_attention(self, pair: LanguagePair, source: str, target: str | None) -> str:
        """Return the attention page of a sentence pair."""
        (page,) = await self._do([AttentionJob(0, pair, source, target)])
        return str(page)

    def close(self) -> None:
        """Let the workers end."""
        for link in self.links:
            link.close()

    async def _do(self, jobs: Sequence[Job]) -> list[Result | None]:
        """Return the results of jobs; raise Refused if one of them fails, or all are too many.

        Cancelled, it gives up those that no worker has yet.
        """
        if len(jobs) > self.most_lines:
            most = f"at most {self.most_lines:,} are taken at once"
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{len(jobs):,} lines, and {most}"
            )
        if self.taken + len(jobs) > self.most_lines or self.lost.done():
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self.taken:,} lines are waiting already; try again in a moment",
                Retry_After=RETRY_SECONDS,
            )
        done = asyncio.get_running_loop().create_future()
        request = OpenRequest(deque(enumerate(jobs)), [None] * len(jobs), done, len(jobs))
        if jobs:
            self.taken += len(jobs)
            self.requests.append(request)
            self._hand_out()
            try:
                await done
            finally:
                self.taken -= len(request.waiting)
                request.waiting.clear()
        return request.results

    def _hand_out(self) -> None:
        """Give jobs to the workers that have the fewest, as long as there is room."""
        while self.requests:
            worker = min(range(len(self.links)), key=self.load.__getitem__)
            if self.load[worker] >= LINES_AHEAD:
                return
            request = self.requests.popleft()
            if not request.waiting:
                continue  # it was given up
            place, job = request.waiting.popleft()
            number = next(self.numbers)
            self.sent[number] = request, place, worker
            self.load[worker] += 1
            self.links[worker].send(job._replace(number=number))
            if request.waiting:
                self.requests.append(request)

    def _receive(self, number: int, result: Result) -> None:
        """Take a result from a worker."""
        request, place, worker = self.sent.pop(number)
        self.load[worker] -= 1
        self.taken -= 1
        request.results[place] = result
        request.missing -= 1
        if not request.done.done():
            if isinstance(result, Failure):
                request.done.set_exception(Refused(*result))
            elif not request.missing:
                request.done.set_result(None)
        self._hand_out()

    def _lose(self, worker: int) -> None:
        """Answer what a worker had that is gone; the server cannot go on without it."""
        if not self.lost.done():
            self.lost.set_result(None)
        gone = Failure(HTTPStatus.SERVICE_UNAVAILABLE, "the server ends; try again later")
        for number in [number for number, sent in self.sent.items() if sent[2] == worker]:
            self.load[worker] = LINES_AHEAD + 1  # it gets no more
            self._receive(number, gone)


def start_workers(
    work: Work, device: torch.device, threads: int, *, forks: bool
) -> list[WorkerLink]:
    """Start what translates: on a CPU, one worker for each core; else one for the device.

    With `forks` they are processes, where those are safe; else they are threads, for engines
    that compute in threads of their own.
    """
    cores = share_cores(device, threads)
    if forks and device.type == "cpu" and sys.platform == "linux":
        # What is here stays. To look for cycles in it, on either side, would copy memory that
        # the processes share.
        gc.freeze()
        return [WorkerProcess(work) for _ in range(cores)]
    return [WorkerThread(work) for _ in range(1 if forks else cores)]
