"""Position encodings: section 3.5, the layout of tensor2tensor, and row (E) of table 3."""

import math
from collections.abc import Callable
from typing import assert_never

import torch
from torch import Tensor, nn

from aiayn.config import Positions
from aiayn.errors import DataError, UsageError


class PositionEncoding(nn.Module):
    """Called with (start, stop), returns the rows that are added to the embeddings."""

    limit: int | None = None
    """Positions that exist; None: as many as are asked for."""


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same): 3.5."""
    # float64: in float32 the angle of a late position loses its last digits.
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = pos / 10000 ** (two_i / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def halves(length: int, d_model: int) -> Tensor:
    """Return all sines, then all cosines, as tensor2tensor and fairseq lay the signal out.

    Wavelengths reach exactly 10000 * 2 pi there.
    """
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    timescales = d_model // 2
    j = torch.arange(timescales, dtype=torch.float64)
    angle = pos * torch.exp(-j * math.log(10000) / max(timescales - 1, 1))
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class FixedPositions(PositionEncoding):
    """A signal that is computed, not learned; the table grows with what is asked for."""

    def __init__(self, d_model: int, signal: Callable[[int, int], Tensor]) -> None:
        super().__init__()
        if d_model % 2:
            raise UsageError(
                f"model.d_model is {d_model}, and sine and cosine come in pairs",
                fix="choose an even d_model, or model.positions=learned",
            )
        self.d_model, self.signal = d_model, signal
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)
        self.table: Tensor

    def forward(self, start: int, stop: int) -> Tensor:
        """Return the rows of positions start to stop."""
        if stop > self.table.size(0):
            rows = self.signal(max(256, 2 * stop), self.d_model)
            self.table = rows.to(self.table)
        return self.table[start:stop]


class LearnedPositions(PositionEncoding):
    """One learned vector a position: row (E) of table 3."""

    def __init__(self, d_model: int, limit: int) -> None:
        super().__init__()
        self.limit: int = limit
        # As the token embeddings: N(0, d_model^-0.5), times sqrt(d_model) when used.
        self.scale = math.sqrt(d_model)
        self.table = nn.Parameter(torch.randn(limit, d_model) / self.scale)

    def forward(self, start: int, stop: int) -> Tensor:
        """Return the rows of positions start to stop."""
        if stop > self.limit:
            raise DataError(
                f"a sentence has {stop:,} tokens, and the model knows {self.limit:,} positions",
                fix="cut the sentence, or train with model.positions=sinusoidal",
            )
        return self.table[start:stop] * self.scale


def build_positions(kind: Positions, d_model: int, limit: int) -> PositionEncoding:
    """Return the position encoding of that kind."""
    match kind:
        case "sinusoidal":
            return FixedPositions(d_model, sinusoids)
        case "halves":
            return FixedPositions(d_model, halves)
        case "learned":
            return LearnedPositions(d_model, limit)
        case _:
            assert_never(kind)
