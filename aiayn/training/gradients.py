"""The gradient of an update: a sum over micro-batches that is independent of their order.

In float32, (a + b) + c and a + (b + c) differ in the last digit, and so would the gradients of
one process and of two that share its micro-batches. That does not stay small: now and then a
last digit decides on which side of zero the input of a ReLU lies, and the weights of two runs
diverge by a thousandth within 50 updates. So on a CPU micro-batches are summed in float64,
which holds the sum of a few float32 exactly, unless one is 10^8 times another: any number of
processes gets the same bits. So does any number of threads, as far as products do: on x86
those of every preset.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from aiayn.device import sum_type
from aiayn.distributed import ProcessGroup

# Numbers that stay in the cache while they are converted to float64 or back.
AT_ONCE = 2**16


class Gradients:
    """All gradients of a model, one after the other.

    Autograd adds to `flat`, of which the gradient of each parameter is a view. `total` is the
    sum over the micro-batches; `flat` itself where float32 serves for it.
    """

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        self.device = parameters[0].device
        self.flat = torch.zeros(sum(p.numel() for p in parameters), device=self.device)
        dtype = sum_type(self.device)
        self.total = self.flat if dtype == self.flat.dtype else self.flat.to(dtype)
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.grad = self.flat[start:stop].view_as(parameter)
            start = stop

    def clear(self) -> None:
        """Start a sum."""
        self.flat.zero_()
        if self.total is not self.flat:
            self.total.zero_()

    def collect(self) -> None:
        """Add the gradient of a micro-batch to the sum."""
        for total, flat in self._pieces():
            total += flat
            flat.zero_()

    def finish(self, group: ProcessGroup, tokens: int) -> Tensor:
        """Sum over all processes, divide by the tokens, and return the norm."""
        group.all_reduce(self.total)
        self.total.div_(tokens)
        for total, flat in self._pieces():
            flat.copy_(total)
        norm: Tensor = torch.linalg.vector_norm(self.total)
        return norm

    def _pieces(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.total is self.flat:
            return iter(())
        pieces = (torch.split(each, AT_ONCE) for each in (self.total, self.flat))
        return zip(*pieces, strict=True)
