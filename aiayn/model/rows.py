"""Tokens laid end to end: a batch without its padding.

B sentences; L length; N tokens; R rows, N and a few to fill up; D width.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

MULTIPLE = 32
"""Products are fastest for round numbers of rows, and for numbers that they have seen."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Which places of a rectangle (B, L) hold tokens.

    Attention looks from place to place. Everything else looks at one token at a time, and need
    not be computed for padding, which is about a tenth of a rectangle.
    """

    places_N: Tensor
    """Places in the rectangle, read row by row; each of them once."""
    sentences: int
    length: int

    @property
    def tokens(self) -> int:
        """How many rows are tokens; the few that follow are never looked at."""
        return self.places_N.size(0)

    def take(self, x_BLD: Tensor) -> Tensor:
        """Return what stands at the places, (R, D)."""
        return cast(Tensor, _Take.apply(x_BLD.flatten(0, 1), self.places_N))  # type: ignore[no-untyped-call]

    def put(self, x_RD: Tensor) -> Tensor:
        """Return a rectangle (B, L, D) with x at the places, and zero elsewhere."""
        size = self.sentences * self.length
        x = cast(Tensor, _Put.apply(x_RD, self.places_N, size))  # type: ignore[no-untyped-call]
        return torch.unflatten(x, 0, (self.sentences, self.length))


class _Take(torch.autograd.Function):
    """Indexing by places that differ, whose gradient therefore need not be added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places_N: Tensor) -> Tensor:
        ctx.save_for_backward(places_N)
        ctx.size = x.size(0)
        return _take(x, places_N)

    @staticmethod
    def backward(ctx: Any, grad_RD: Tensor) -> tuple[Tensor, None]:
        (places_N,) = ctx.saved_tensors
        return _put(grad_RD, places_N, ctx.size), None


class _Put(torch.autograd.Function):
    """The transpose of `_Take`: each is the gradient of the other."""

    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, places_N: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(places_N)
        return _put(x_RD, places_N, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (places_N,) = ctx.saved_tensors
        return _take(grad, places_N), None, None


def _take(x: Tensor, places_N: Tensor) -> Tensor:
    tokens = places_N.size(0)
    x_RD = x.index_select(0, F.pad(places_N, (0, -tokens % MULTIPLE)))
    x_RD[tokens:] = 0
    return x_RD


def _put(x_RD: Tensor, places_N: Tensor, size: int) -> Tensor:
    rectangle = x_RD.new_zeros(size, x_RD.size(1))
    return rectangle.index_copy_(0, places_N, x_RD[: places_N.size(0)])
