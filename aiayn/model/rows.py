"""Tokens laid end to end: a batch without its padding.

B sentences; L length; N tokens; D width.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor


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

    def take(self, x_BLD: Tensor) -> Tensor:
        """Return what stands at the places, (N, D)."""
        return cast(Tensor, _Take.apply(x_BLD.flatten(0, 1), self.places_N))  # type: ignore[no-untyped-call]

    def put(self, x_ND: Tensor) -> Tensor:
        """Return a rectangle (B, L, D) with x at the places, and zero elsewhere."""
        size = self.sentences * self.length
        x = cast(Tensor, _Put.apply(x_ND, self.places_N, size))  # type: ignore[no-untyped-call]
        return torch.unflatten(x, 0, (self.sentences, self.length))


class _Take(torch.autograd.Function):
    """Indexing by places that differ, whose gradient therefore need not be added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places_N: Tensor) -> Tensor:
        ctx.save_for_backward(places_N)
        ctx.size = x.size(0)
        return x.index_select(0, places_N)

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, None]:
        (places_N,) = ctx.saved_tensors
        return cast(Tensor, _Put.apply(grad_ND, places_N, ctx.size)), None  # type: ignore[no-untyped-call]


class _Put(torch.autograd.Function):
    """The transpose of `_Take`, and each is the gradient of the other."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, places_N: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(places_N)
        return x_ND.new_zeros(size, x_ND.size(1)).index_copy_(0, places_N, x_ND)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (places_N,) = ctx.saved_tensors
        return cast(Tensor, _Take.apply(grad, places_N)), None, None  # type: ignore[no-untyped-call]
