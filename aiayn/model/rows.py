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

    places_R: Tensor
    """Places in the rectangle, read row by row: each token once, then the first one again."""
    tokens: int
    """How many rows are tokens; nothing comes of the few that follow."""
    sentences: int
    length: int

    @classmethod
    def of(cls, places_N: Tensor, ids_BL: Tensor) -> "Rows":
        """Return the rows of a rectangle of ids, whose tokens stand at these places."""
        tokens = places_N.size(0)
        return cls(F.pad(places_N, (0, -tokens % MULTIPLE)), tokens, *ids_BL.shape)

    def take(self, x_BLD: Tensor) -> Tensor:
        """Return what stands at the places, (R, D)."""
        x = x_BLD.flatten(0, 1)
        return cast(Tensor, _Take.apply(x, self.places_R, self.tokens))  # type: ignore[no-untyped-call]

    def put(self, x_RD: Tensor) -> Tensor:
        """Return a rectangle (B, L, D) with x at the places, and zero elsewhere."""
        size = self.sentences * self.length
        x = cast(Tensor, _Put.apply(x_RD, self.places_R, self.tokens, size))  # type: ignore[no-untyped-call]
        return torch.unflatten(x, 0, (self.sentences, self.length))


class _Take(torch.autograd.Function):
    """Indexing by places that differ, whose gradient therefore need not be added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places_R: Tensor, tokens: int) -> Tensor:
        ctx.save_for_backward(places_R)
        ctx.tokens, ctx.size = tokens, x.size(0)
        return x.index_select(0, places_R)

    @staticmethod
    def backward(ctx: Any, grad_RD: Tensor) -> tuple[Tensor, None, None]:
        (places_R,) = ctx.saved_tensors
        return _put(grad_RD, places_R, ctx.tokens, ctx.size), None, None


class _Put(torch.autograd.Function):
    """The other way round; rows beyond the tokens go nowhere, and have no gradient."""

    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, places_R: Tensor, tokens: int, size: int) -> Tensor:
        ctx.save_for_backward(places_R)
        ctx.tokens = tokens
        return _put(x_RD, places_R, tokens, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (places_R,) = ctx.saved_tensors
        grad_RD = grad.index_select(0, places_R)
        grad_RD[ctx.tokens :] = 0
        return grad_RD, None, None, None


def _put(x_RD: Tensor, places_R: Tensor, tokens: int, size: int) -> Tensor:
    rectangle = x_RD.new_zeros(size, x_RD.size(1))
    rectangle[places_R[:tokens]] = x_RD[:tokens]
    return rectangle
