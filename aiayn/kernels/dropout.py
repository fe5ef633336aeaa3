"""Dropout from cheap random bits: equals `F.dropout` in distribution.

A batch that does not fit in memory is computed in parts. Each of them draws for the whole and
takes its own rows, so that they drop what the whole would have dropped.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Differs from the paper: 16 random bits decide on an element, so P_drop is met to 1 in 131,072.
LEVELS = 65_536


class Drawn(NamedTuple):
    """What is drawn for: rows of a larger tensor, from the first one on."""

    first: int
    rows: int

    def shape(self, x: Tensor) -> list[int]:
        """Return the shape of the larger tensor."""
        return [self.rows, *x.shape[1:]]

    def take(self, drawn: Tensor, x: Tensor) -> Tensor:
        """Return the rows of x; those beyond the last are not tokens, and may be any."""
        rows = torch.arange(self.first, self.first + x.size(0), device=drawn.device)
        return drawn.index_select(0, rows.clamp_(max=self.rows - 1))


_parts: ContextVar[tuple[Drawn, Drawn] | None] = ContextVar("parts", default=None)


@contextmanager
def drawn_for(tokens: Drawn, sentences: Drawn) -> Iterator[None]:
    """Let what is computed in the block, by token or by sentence, be a part of a batch."""
    before = _parts.set((tokens, sentences))
    try:
        yield
    finally:
        _parts.reset(before)


def _part_of(x: Tensor) -> Drawn | None:
    """Return what x is a part of: attention's weights (B, H, L, M), or rows (R, D)."""
    # A compiled layer draws by its own kernels, for its own rows.
    if torch.compiler.is_compiling() or (parts := _parts.get()) is None:
        return None
    tokens, sentences = parts
    return sentences if x.dim() == 4 else tokens


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Return x with elements zeroed at `rate`, the others scaled to match, while training."""
    if not training or rate == 0:
        return x
    part = _part_of(x)
    if not x.is_cpu:
        if part is None:
            return torch.native_dropout(x, rate, train=True)[0]
        kept = torch.native_dropout(x.new_empty(part.shape(x)), rate, train=True)[1]
        return x * part.take(kept, x) / (1 - rate)
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    kept = _kept(x.shape if part is None else part.shape(x), dropped)
    mask = (kept if part is None else part.take(kept, x)).to(x.dtype)
    scale = LEVELS / (LEVELS - dropped)
    if x.dtype == torch.float32:
        return x * mask.mul_(scale)
    # A scale that is rounded to bfloat16 would make all elements too large or too small.
    return (x * mask).mul_(scale)


def _kept(shape: Sequence[int], dropped: int) -> Tensor:
    """Return at random, for each element, whether it is not among `dropped` of LEVELS."""
    # F.dropout draws a random float for each element, a tenth of the time of a CPU's update;
    # one 64-bit draw serves four elements here.
    size = math.prod(shape)
    draws = torch.empty((size + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return draws.view(torch.int16)[:size].view(shape) >= dropped - LEVELS // 2


def attention_dropout(weights_BHLM: Tensor, rate: float) -> Tensor:
    """Return F.dropout of attention's weights."""
    part = _part_of(weights_BHLM) if rate else None
    if part is None:
        return F.dropout(weights_BHLM, rate)
    noise = F.dropout(weights_BHLM.new_ones(part.shape(weights_BHLM)), rate)
    return weights_BHLM * part.take(noise, weights_BHLM)
