"""Processes that work together: training, validation and generation.

An update is a sum over micro-batches that need not divide evenly among processes, so gradients
go through one all-reduce of a flat buffer rather than through DistributedDataParallel, which
averages and wants every process to run equally many backward passes. The result is the same
for any number of processes.
"""

import ctypes
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from aiayn.device import choose_device, identity, prepare_device
from aiayn.errors import AiaynError, ProcessLost, UsageError

SECONDS_BETWEEN_REPLIES = 0.01
# After the first process: without torchrun, nobody tells of one that dies before it is there.
LATEST_START = timedelta(minutes=10)
# For a process that is there.
LATEST_ANSWER = timedelta(minutes=30)
# From Linux's prctl.h: the signal to receive when the parent dies.
PR_SET_PDEATHSIG = 1
# What gloo reports when another process has died.
CONNECTION_LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """This process among the processes that share one job."""

    rank: int
    world_size: int
    device: torch.device
    cpu_group: dist.ProcessGroup | None = None
    """Carries small decisions between the hosts, so that no device has to wait for them."""

    @property
    def is_first(self) -> bool:
        """Whether this process reads input, writes files and reports."""
        return self.rank == 0

    def share(self, items: list[Item]) -> list[tuple[int, Item]]:
        """Return this process's items with their numbers among all."""
        return list(enumerate(items))[self.rank :: self.world_size]

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum a tensor over all processes, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor, group=self.cpu_group if tensor.is_cpu else None)

    def start_all_reduce(self, tensor: Tensor) -> dist.Work | None:
        """Begin to sum a tensor over all processes, in place; None: there is no other one."""
        if self.world_size == 1:
            return None
        group = self.cpu_group if tensor.is_cpu else None
        work: dist.Work = dist.all_reduce(tensor, group=group, async_op=True)
        return work

    def max(self, value: int) -> int:
        """Return the largest value of any process."""
        return self.max_of_each([value])[0]

    def max_of_each(self, values: list[int]) -> list[int]:
        """Return the largest first value of any process, the largest second one, and so on."""
        if self.world_size == 1:
            return values
        largest = torch.tensor(values)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.cpu_group)
        return [int(value) for value in largest]

    def gather(self, items: list[Item], total: int) -> list[Item]:
        """Return the results of all items, where each process passes those of its `share`."""
        if self.world_size == 1:
            return items
        shares: list[list[Item]] = [[] for _ in range(self.world_size)]
        dist.all_gather_object(shares, items, group=self.cpu_group)
        return [shares[n % self.world_size][n // self.world_size] for n in range(total)]

    def broadcast(self, value: Item) -> Item:
        """Return the value of the first process."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self.cpu_group)
        return values[0]

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor by that of the first process, in place."""
        if self.world_size > 1:
            dist.broadcast(tensor, src=0, group=self.cpu_group if tensor.is_cpu else None)

    def from_first_rank(self, action: Callable[[], Item]) -> Item:
        """Return what an action returns on the first process, where alone it runs."""
        found: list[Item | None] = [None]

        def run() -> None:
            found[0] = action()

        self.on_first_rank(run)
        return cast(Item, self.broadcast(found[0]))

    def on_first_rank(self, action: Callable[[], object]) -> None:
        """Run an action on the first process while the others wait; if it fails, all exit."""
        self.together(lambda: action() if self.is_first else None)

    def together(self, action: Callable[[], Item]) -> Item:
        """Return what an action returns in this process; if it fails in any, all exit."""
        found: list[Item] = []
        problem: AiaynError | OSError | None = None
        try:
            found.append(action())
        except (AiaynError, OSError) as error:
            problem = error
        code = self.max(getattr(problem, "exit_code", UsageError.exit_code) if problem else 0)
        if problem:
            raise problem
        if code:
            raise SystemExit(code)
        return found[0]


@contextmanager
def join_process_group(device_name: str) -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started; without torchrun, a group of one."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = choose_device(device_name, local_rank=local_rank)
    prepare_device(device)
    if "RANK" not in os.environ:
        yield ProcessGroup(0, 1, device)
        return
    if sys.platform == "linux":
        # When torchrun itself is killed, its workers get SIGTERM, so they save and stop.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    group = None
    try:
        group = _meet_others(device)
        yield group
    except RuntimeError as problem:
        lost = any(words in str(problem) for words in CONNECTION_LOST)
        if not lost and not isinstance(problem, dist.DistError):
            raise
        if group is None:
            reason = str(problem).partition("\n")[0]
            raise ProcessLost(
                f"the processes of this run did not find one another: {reason}",
                fix="see their messages; MASTER_ADDR and MASTER_PORT say where the first is",
            ) from None
        raise ProcessLost(
            "another process of this run has died",
            fix="see its error message; the same command resumes from the last checkpoint",
        ) from None
    # Only after success: a collective that another process will never join would be waited for.
    dist.destroy_process_group()


def leave_at_once(code: int) -> NoReturn:
    """End this process, one of several, without taking the interpreter down.

    Threads of gloo outlive their group, and one that frees a tensor while the interpreter ends
    aborts the process: a run that has saved everything would count as failed, and torchrun on
    other nodes would wait five minutes for this one.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _meet_others(device: torch.device) -> ProcessGroup:
    """Wait for all processes of this run, and form a group with them."""
    store, rank, world_size = next(rendezvous("env://", timeout=LATEST_START))
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(agree_on_prefix(store, rank, world_size), store),
        rank=rank,
        world_size=world_size,
    )
    store.set_timeout(LATEST_ANSWER)
    group = ProcessGroup(rank, world_size, device, dist.new_group(backend="gloo"))
    require_own_devices(group)
    return group


def require_own_devices(group: ProcessGroup) -> None:
    """Refuse processes that have the same GPU, with which NCCL cannot work."""
    found = group.gather([identity(group.device)], group.world_size)
    sharing = [rank for rank, other in enumerate(found) if other == found[group.rank] != ""]
    if len(sharing) > 1:
        raise UsageError(
            f"processes {', '.join(map(str, sharing))} have the same GPU",
            fix="start as many processes on a machine as it has GPUs, or pass --device cpu",
        )


def agree_on_prefix(store: Store, rank: int, world_size: int) -> str:
    """Return a key prefix that the processes of this attempt share, and no earlier attempt had.

    When torchrun restarts workers, its store still holds the addresses of the dead ones, and
    joining by them fails or hangs. The restart count is no prefix either: torchrun agents on
    several nodes may count differently. So each process sends a request of its own, and the
    first answers every request it finds, stale ones too, until all processes acknowledge.
    """
    own = uuid.uuid4().hex
    if rank > 0:
        store.set(f"request {rank}", own)
        prefix: str = store.get(f"reply {own}").decode()
        store.set(f"acknowledge {rank} {prefix}", "")
        return prefix
    waiting = list(range(1, world_size))
    deadline = time.monotonic() + LATEST_START.total_seconds()
    while waiting:
        if time.monotonic() > deadline:
            raise dist.DistStoreError(f"{len(waiting)} of {world_size} do not answer")
        for other in waiting:
            store.set(f"reply {store.get(f'request {other}').decode()}", own)
        time.sleep(SECONDS_BETWEEN_REPLIES)
        waiting = [n for n in waiting if not store.check([f"acknowledge {n} {own}"])]
    return own
