"""The gradient of an update: a sum over micro-batches that is independent of their order.

In float32, (a + b) + c and a + (b + c) differ in the last digit, and so would the gradients of
one process and of two that share its micro-batches. That does not stay small: now and then a
last digit decides on which side of zero the input of a ReLU lies, and the weights of two runs
diverge by a thousandth within 50 updates. So on a CPU micro-batches are summed in float64,
which holds the sum of a few float32 exactly, unless one is 10^8 times another: any number of
processes gets the same bits. So does any number of threads, as far as products do: on x86
those of every preset.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aiayn.device import sum_type
from aiayn.distributed import ProcessGroup

# Numbers that stay in the cache while they are converted to float64.
AT_ONCE = 2**16
# Numbers that travel between processes together.
BUCKET = 2**22


@dataclass(slots=True)
class Bucket:
    """Parameters whose gradients are collected and travel between processes together."""

    parameters: list[nn.Parameter]
    """Those that learn."""
    total: Tensor
    """The sum over micro-batches, of all of them one after the other."""
    sums: list[Tensor]
    """The same of each, in its shape."""
    missing: int = 0
    """Gradients of this micro-batch that the backward pass has not reached yet."""
    is_new: bool = True
    """Whether the sum holds nothing of this update yet."""

    def collect(self) -> None:
        """Add the gradients of a micro-batch to the sum; the first replaces what it held."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        if self.total.dtype == torch.float32:
            add = torch._foreach_copy_ if self.is_new else torch._foreach_add_
            add(self.sums, grads)
        else:
            for total, grad in zip(self.sums, grads, strict=True):
                pieces = (torch.split(each.view(-1), AT_ONCE) for each in (total, grad))
                for part, addend in zip(*pieces, strict=True):
                    part.copy_(addend) if self.is_new else part.add_(addend)
        self.is_new = False
        for parameter in self.parameters:
            parameter.grad = None


class Gradients:
    """The gradients of all parameters of a model, summed over an update.

    Each is added to its sum as soon as the backward pass has computed those of its bucket. In
    the last micro-batch of an update, the bucket then travels to the other processes while the
    rest is still being computed.
    """

    def __init__(self, model: nn.Module) -> None:
        # The last layers first: the order in which the backward pass gets to them.
        self.parameters = [p for p in model.parameters() if p.requires_grad][::-1]
        self.device = self.parameters[0].device
        size, dtype = sum(p.numel() for p in self.parameters), sum_type(self.device)
        self.total = torch.zeros(size, dtype=dtype, device=self.device)
        self.mean = self.total if dtype == torch.float32 else self.total.float()
        self.buckets = _cut_into_buckets(self.parameters, self.total)
        # By a weak reference: a hook belongs to its parameter, where the garbage collector does
        # not look, so that a cycle through it would never be freed, nor the process group.
        reference = weakref.ref(self)
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket.parameters:
                register: Callable[..., object] = parameter.register_post_accumulate_grad_hook
                register(partial(_report, reference, number))
        self._group: ProcessGroup | None = None
        self._reduced: list[dist.Work | None] = []

    def clear(self) -> None:
        """Start a sum."""
        for bucket in self.buckets:
            bucket.is_new = True
        for parameter in self.parameters:
            parameter.grad = None

    def expect(self, group: ProcessGroup | None = None) -> None:
        """Prepare for a backward pass; if it is the last, for the sum over a group, too."""
        self._group = group
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)

    def _arrived(self, number: int) -> None:
        bucket = self.buckets[number]
        bucket.missing -= 1
        if bucket.missing:
            return
        bucket.collect()
        while self._group and self._next_bucket_is_complete():
            self._reduce_next(self._group)

    def _next_bucket_is_complete(self) -> bool:
        reduced = len(self._reduced)
        return reduced < len(self.buckets) and not self.buckets[reduced].missing

    def _reduce_next(self, group: ProcessGroup) -> None:
        # In this order on every process, whichever bucket was complete first.
        bucket = self.buckets[len(self._reduced)]
        if bucket.is_new:
            bucket.total.zero_()  # this process has no micro-batch
        self._reduced.append(group.start_all_reduce(bucket.total))

    def reduce(self, group: ProcessGroup) -> None:
        """Sum what has not been summed over all processes yet, and wait for all of it."""
        while len(self._reduced) < len(self.buckets):
            self._reduce_next(group)
        for work in self._reduced:
            if work is not None:
                work.wait()
        self._reduced.clear()

    def divide(self, tokens: int) -> Tensor:
        """Give every parameter its mean gradient; return the norm of all of them."""
        norm: Tensor = torch.linalg.vector_norm(self.total) / tokens
        if self.mean is self.total:
            self.total.div_(tokens)
        else:
            pieces = (torch.split(each, AT_ONCE) for each in (self.total, self.mean))
            for total, mean in zip(*pieces, strict=True):
                torch.div(total, tokens, out=mean)
        means = _views(self.parameters, self.mean)
        for parameter, mean in zip(self.parameters, means, strict=True):
            parameter.grad = mean
        return norm


def _report(gradients: weakref.ref[Gradients], number: int, parameter: nn.Parameter) -> None:
    """Say that a gradient of a bucket has been computed, as long as somebody sums them."""
    if (found := gradients()) is not None:
        found._arrived(number)


def _cut_into_buckets(parameters: list[nn.Parameter], total: Tensor) -> list[Bucket]:
    """Cut a sequence of parameters where the next would make a bucket too large."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        if parameter.numel() > room:
            buckets.append([])
            room = BUCKET
        buckets[-1].append(parameter)
        room -= parameter.numel()
    sizes = [sum(p.numel() for p in bucket) for bucket in buckets]
    return [
        Bucket(bucket, part, _views(bucket, part))
        for bucket, part in zip(buckets, torch.split(total, sizes), strict=True)
    ]


def _views(parameters: list[nn.Parameter], flat: Tensor) -> list[Tensor]:
    """Return the part of each parameter in a flat tensor, in its shape."""
    parts = torch.split(flat, [p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]
