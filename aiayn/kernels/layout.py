"""How the tokens of a batch lie in memory: padded, or packed without padding.

Attention looks from position to position and wants a rectangle. Everything else works on one
token at a time, and need not be computed for padding, which is about a tenth of a rectangle.
Packing equals boolean indexing of the rectangle.

B sentences; L length; N tokens; R rows: N, rounded up; D width.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.device import spare_rows
from aiayn.kernels.autograd import apply

# Products are fastest for round numbers of rows, and for numbers that they have seen.
MULTIPLE = 32


def packed_rows(tokens: int, device: torch.device) -> int:
    """Return how many rows so many tokens take when they are packed."""
    least = tokens + spare_rows(device)
    return least + -least % MULTIPLE


@dataclass(frozen=True, slots=True)
class Packing:
    """Which positions of a rectangle (B, L) hold tokens."""

    index_R: Tensor
    """Positions in the rectangle, row by row: each token once, then the first one repeated."""
    tokens: int
    """Rows that are tokens; the few that follow have no effect."""
    sentences: int
    length: int
    starts: Tensor | None = None
    """Where each sentence begins in the rows, and where the last one ends: for attention that
    needs no rectangle. The rows that are not tokens are one more sentence."""

    @property
    def longest(self) -> int:
        """Rows of the longest sentence."""
        return max(self.length, self.index_R.size(0) - self.tokens)

    @classmethod
    def of(cls, index_N: Tensor, ids_BL: Tensor, tokens_B: Tensor | None = None) -> "Packing":
        """Return the packing of a rectangle of ids whose tokens stand at these positions.

        With the number of tokens of each sentence, it has `starts`.
        """
        tokens = index_N.size(0)
        index_R = F.pad(index_N, (0, packed_rows(tokens, index_N.device) - tokens))
        starts = None
        if tokens_B is not None:
            ends = F.pad(tokens_B, (1, 0)).cumsum(0, dtype=torch.int32)
            starts = F.pad(ends, (0, 1), value=index_R.size(0))
        return cls(index_R, tokens, ids_BL.size(0), ids_BL.size(1), starts)


@dataclass(frozen=True, slots=True)
class Layout:
    """How one side of a batch lies in memory, and which of its positions may be looked at."""

    allowed: Tensor | None = None
    """True where a position is not padding, (B, 1, 1, L); None: everywhere."""
    causal: bool = False
    """Position i sees positions up to i only."""
    packing: Packing | None = None
    """None: padded."""

    @property
    def attends_packed(self) -> bool:
        """Whether attention takes the rows as they are, without a rectangle."""
        return self.packing is not None and self.packing.starts is not None

    def pack(self, x_BLD: Tensor) -> Tensor:
        """Return the rows (R, D) that are tokens; x itself where it stays padded."""
        if self.packing is None:
            return x_BLD
        p = self.packing
        return cast(Tensor, apply(_Pack, x_BLD.flatten(0, 1), p.index_R, p.tokens))

    def unpack(self, x: Tensor) -> Tensor:
        """Return what attention works on: the rectangle (B, L, D), zero at padding.

        Where it can do without, this is one rectangle of all rows (1, R, D).
        """
        if self.packing is None:
            return x
        return x[None] if self.attends_packed else self._scatter(x, self.packing)

    def rectangle(self, x_BLD: Tensor) -> Tensor:
        """Return what `unpack` returned as a rectangle (B, L, D) of sentences in any case."""
        if self.packing is None or not self.attends_packed:
            return x_BLD
        return self._scatter(x_BLD.squeeze(0), self.packing)

    @staticmethod
    def _scatter(x_RD: Tensor, p: Packing) -> Tensor:
        found: Tensor = apply(_Unpack, x_RD, p.index_R, p.tokens, p.sentences * p.length)
        return torch.unflatten(found, 0, (p.sentences, p.length))

    def repack(self, x_BLD: Tensor) -> Tensor:
        """Undo `unpack`."""
        return x_BLD.squeeze(0) if self.attends_packed else self.pack(x_BLD)


class _Pack(torch.autograd.Function):
    """Indexing by distinct positions, whose gradient therefore need not be accumulated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index_R: Tensor, tokens: int) -> Tensor:
        ctx.save_for_backward(index_R)
        ctx.tokens, ctx.size = tokens, x.size(0)
        return x.index_select(0, index_R)

    @staticmethod
    def backward(ctx: Any, grad_RD: Tensor) -> tuple[Tensor, None, None]:
        (index_R,) = ctx.saved_tensors
        return _scatter(grad_RD, index_R, ctx.tokens, ctx.size), None, None


class _Unpack(torch.autograd.Function):
    """The inverse; rows beyond the tokens go nowhere, and have no gradient."""

    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, index_R: Tensor, tokens: int, size: int) -> Tensor:
        ctx.save_for_backward(index_R)
        ctx.tokens = tokens
        return _scatter(x_RD, index_R, tokens, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (index_R,) = ctx.saved_tensors
        grad_RD = grad.index_select(0, index_R)
        grad_RD[ctx.tokens :] = 0
        return grad_RD, None, None, None


def _scatter(x_RD: Tensor, index_R: Tensor, tokens: int, size: int) -> Tensor:
    rectangle = x_RD.new_zeros(size, x_RD.size(1))
    rectangle[index_R[:tokens]] = x_RD[:tokens]
    return rectangle
