"""The Transformer of figure 1.

B sentences; S, T source and target length; D d_model; W vocabulary; N tokens and R rows without
padding.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.config import ModelConfig
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.dropout import dropout
from aiayn.model.layers import DecoderLayer, EncoderLayer, FeedForward
from aiayn.model.linear import Linear
from aiayn.model.positions import build_positions
from aiayn.model.rows import Rows
from aiayn.model.skip_init import SkipInit

PAD = 0
"""The id that fills up a batch, and from which the decoder starts; its embedding is zero."""


class Embedding(nn.Module):
    """E[t] * sqrt(d_model), section 3.4; padding is the zero vector."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.randn(vocabulary, d_model) / self.scale)

    def forward(self, ids: Tensor) -> Tensor:
        """Look the vectors of ids up."""
        return F.embedding(ids, self.weight) * self.scale * (ids != PAD)[..., None]


class Transformer(nn.Module):
    """An encoder and a decoder of N layers each between shared embeddings."""

    def __init__(
        self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int | None = None
    ) -> None:
        """Build the model with fresh weights; without a target vocabulary, one is shared."""
        super().__init__()
        c = self.config = config
        shared = target_vocabulary is None
        target_vocabulary = target_vocabulary or source_vocabulary
        self.source_embedding = Embedding(source_vocabulary, c.d_model)
        self.target_embedding = Embedding(target_vocabulary, c.d_model)
        self.output = Linear(c.d_model, target_vocabulary, bias=c.output_bias)
        nn.init.normal_(self.output.weight, std=c.d_model**-0.5)
        if c.output_bias:
            nn.init.zeros_(self.output.bias)
        self.source_positions = build_positions(c.positions, c.d_model, c.max_positions)
        self.target_positions = build_positions(c.positions, c.d_model, c.max_positions)
        self.encoder = nn.ModuleList(
            EncoderLayer(
                self._attention(), self._feed_forward(), c.dropout, epsilon=c.norm_epsilon
            )
            for _ in range(c.layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                self._attention(),
                self._attention(reads_itself=False),
                self._feed_forward(),
                c.dropout,
                epsilon=c.norm_epsilon,
            )
            for _ in range(c.layers)
        )
        self._tie(shared)

    def _attention(self, *, reads_itself: bool = True) -> MultiHeadAttention:
        c = self.config
        return MultiHeadAttention(
            c.d_model,
            c.heads,
            c.d_k,
            c.d_v,
            bias=c.attention_bias,
            dropout=c.attention_dropout,
            window=c.attention_window if reads_itself else 0,
            reads_itself=reads_itself,
        )

    def _feed_forward(self) -> FeedForward:
        c = self.config
        return FeedForward(c.d_model, c.d_ff, activation=c.activation, dropout=c.relu_dropout)

    def _tie(self, shared: bool) -> None:
        """Make the embeddings and the output one matrix, as far as the vocabularies allow."""
        if self.config.tie != "none":
            self.output.weight = self.target_embedding.weight
        if self.config.tie == "all" and shared:
            self.source_embedding.weight = self.target_embedding.weight

    @property
    def longest(self) -> int | None:
        """Tokens that a sentence may have; None: any number."""
        return self.target_positions.limit

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Return the logits (B, T, W) of each target token, given those before it."""
        return self.logits(self.states(source_BS, target_BT))

    def states(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Return the decoder's output (B, T, D): everything but the last product."""
        allowed = source_allowed(source_BS)
        return self.decode(shift_right(target_BT), self.encode(source_BS, allowed), allowed)

    def token_states(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_places: Tensor,
        target_places: Tensor,
    ) -> Tensor:
        """Return `states` (N, D) of the target tokens, with padding in attention only.

        Args:
            source_BS: The source.
            target_BT: The target.
            source_places: Where in the source its tokens stand, read row by row.
            target_places: The same of the target, (N,).
        """
        source, target = Rows.of(source_places, source_BS), Rows.of(target_places, target_BT)
        allowed = source_allowed(source_BS)
        memory_RD = self.encode(source_BS, allowed, source)
        states_RD = self.decode(shift_right(target_BT), memory_RD, allowed, target, source)
        return states_RD[: target.tokens]

    def encode(self, source_BS: Tensor, allowed: Tensor, rows: Rows | None = None) -> Tensor:
        """Return the memory (B, S, D) that the decoder looks at, or its rows (R, D)."""
        x = self.source_embedding(source_BS) + self.source_positions(0, source_BS.size(1))
        x = x if rows is None else rows.take(x)
        x = dropout(x, self.config.dropout, self.training)
        for layer in self.encoder:
            x = layer(x, allowed, rows)
        return cast(Tensor, x)

    def decode(
        self,
        shifted_BT: Tensor,
        memory: Tensor,
        allowed: Tensor,
        rows: Rows | None = None,
        memory_rows: Rows | None = None,
    ) -> Tensor:
        """Return the decoder's output for a target that is shifted right, as `encode` does."""
        y = self.target_embedding(shifted_BT) + self.target_positions(0, shifted_BT.size(1))
        y = y if rows is None else rows.take(y)
        y = dropout(y, self.config.dropout, self.training)
        for layer in self.decoder:
            y = layer(y, memory, allowed, rows, memory_rows)
        return cast(Tensor, y)

    def logits(self, states_BTD: Tensor) -> Tensor:
        """Return y E^T: no scale, and no bias unless the settings ask for one."""
        return cast(Tensor, self.output(states_BTD))

    def use_reference_attention(self, wanted: bool = True) -> None:
        """Take the plain path of equation 1 everywhere; each layer keeps its weights."""
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                module.reference = wanted


def source_allowed(source_BS: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, S) that hides padding from every query."""
    return (source_BS != PAD)[:, None, None, :]


def shift_right(target_BT: Tensor) -> Tensor:
    """Return the decoder's input: the target moved one place to the right, from padding on."""
    return F.pad(target_BT[:, :-1], (1, 0), value=PAD)


def count_parameters(model: Transformer) -> dict[str, int]:
    """Return the number of parameters by part and in total; a shared matrix counts once."""
    parts: dict[str, int] = {"embeddings": 0, "positions": 0}
    for name, parameter in model.named_parameters():
        room, *rest = name.split(".")
        if room in ("encoder", "decoder"):
            sublayer = rest[1] if "add" not in rest[1] else "layer_norm"
            part = f"{room}.{sublayer}"
        else:
            part = "positions" if "positions" in room else "embeddings"
        parts[part] = parts.get(part, 0) + parameter.numel()
    return {**parts, "total": sum(parts.values())}


def parameters_of(
    config: ModelConfig, source_vocabulary: int, target_vocabulary: int | None = None
) -> dict[str, int]:
    """Count the parameters of a model without building it in memory."""
    with torch.device("meta"), SkipInit():
        return count_parameters(Transformer(config, source_vocabulary, target_vocabulary))
