"""Processes that train one model together.

Each process takes its share of the micro-batches of an update and adds up their gradients in a
flat buffer; a single all-reduce of torch.distributed then sums the buffers. This rather than
DistributedDataParallel, because DDP averages over processes and wants every process to run
equally many backward passes, while an update here is a sum over micro-batches that need not
divide evenly. So the result is the same for any number of processes.
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
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from aiayn.device import choose_device, prepare_device
from aiayn.errors import AiaynError, Lost, UsageError

SECONDS_BETWEEN_ANSWERS = 0.01
PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h: the signal to get when the parent dies."""
WORDS_OF_LOSS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""What gloo says when another process has gone."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among all processes."""

    rank: int
    world: int
    device: torch.device
    talk: dist.ProcessGroup | None = None
    """Carries small decisions between the hosts, so that no device has to wait for them."""

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def share(self, items: list[Item]) -> list[tuple[int, Item]]:
        """Return this process's items with their numbers among all."""
        return list(enumerate(items))[self.rank :: self.world]

    def sum(self, tensor: Tensor) -> None:
        """Add up a tensor over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor, group=self.talk if tensor.is_cpu else None)

    def gather(self, items: list[Item], total: int) -> list[Item]:
        """Put together what each process made of its `share` of `total` items."""
        if self.world == 1:
            return items
        shares: list[list[Item]] = [[] for _ in range(self.world)]
        dist.all_gather_object(shares, items, group=self.talk)
        return [shares[n % self.world][n // self.world] for n in range(total)]

    def tell(self, value: Item) -> Item:
        """Return the value that the first process has."""
        if self.world == 1:
            return value
        told = [value]
        dist.broadcast_object_list(told, src=0, group=self.talk)
        return told[0]

    def first_does(self, action: Callable[[], object]) -> None:
        """Let the first process do what the others wait for; if it fails, all of them end."""
        problem: AiaynError | OSError | None = None
        if self.first:
            try:
                action()
            except (AiaynError, OSError) as error:
                problem = error
        code = self.agree(getattr(problem, "exit_code", UsageError.exit_code) if problem else 0)
        if problem:
            raise problem
        if code:
            raise SystemExit(code)

    def agree(self, value: int) -> int:
        """Return the largest value that any process brings; all of them wait for it."""
        if self.world == 1:
            return value
        largest = torch.tensor(value)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.talk)
        return int(largest)


@contextmanager
def join_ranks(device_name: str) -> Iterator[Ranks]:
    """Join the processes that torchrun started; without torchrun this process is alone."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = choose_device(device_name, local_rank=local_rank)
    prepare_device(device)
    if "RANK" not in os.environ:
        yield Ranks(0, 1, device)
        return
    end_with_parent()
    store, rank, world = next(rendezvous("env://"))
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(name_attempt(store, rank, world), store),
        rank=rank,
        world_size=world,
    )
    try:
        talk = dist.new_group(backend="gloo")
        yield Ranks(dist.get_rank(), dist.get_world_size(), device, talk)
    except RuntimeError as problem:
        if not any(word in str(problem) for word in WORDS_OF_LOSS):
            raise
        raise Lost(
            "another process of this run has gone",
            fix="see what it said; the same command goes on from what was saved last",
        ) from None
    finally:
        dist.destroy_process_group()


def end_with_parent() -> None:
    """Save and stop when torchrun itself is killed, so that nobody goes on unseen (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def name_attempt(store: Store, rank: int, world: int) -> str:
    """Return a name that the processes of this attempt share, and those of no other.

    torchrun keeps its store when it starts workers anew, and in it the addresses of those that
    are dead. So each process asks under a name that nobody had before, and the first answers
    all that it sees, the dead included, until everyone has thanked it.
    """
    own = uuid.uuid4().hex
    if rank > 0:
        store.set(f"ask {rank}", own)
        name: str = store.get(f"answer {own}").decode()
        store.set(f"thank {rank} {name}", "")
        return name
    waiting = list(range(1, world))
    while waiting:
        for other in waiting:
            store.set(f"answer {store.get(f'ask {other}').decode()}", own)
        time.sleep(SECONDS_BETWEEN_ANSWERS)
        waiting = [other for other in waiting if not store.check([f"thank {other} {own}"])]
    return own
