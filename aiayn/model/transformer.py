"""The Transformer of figure 1.

B sentences; S, T source and target length; W vocabulary. What has no suffix is (B, L, D), or
packed rows (R, D), as its layout says.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.config import ModelConfig
from aiayn.kernels.dropout import dropout
from aiayn.kernels.layout import Layout
from aiayn.kernels.linear import Linear
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer, EncoderLayer, FeedForward
from aiayn.model.positions import build_positions
from aiayn.special_ids import PAD


class Embedding(nn.Module):
    """E[t] * sqrt(d_model), section 3.4; padding is the zero vector."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.randn(vocabulary, d_model) / self.scale)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the vectors of ids."""
        # Not padding_idx: padding is a row of the shared matrix, which the output trains.
        return F.embedding(ids, self.weight) * self.scale * (ids != PAD)[..., None]


class Transformer(nn.Module):
    """An encoder and a decoder of N layers each between shared embeddings.

    Beyond the paper: the decoder may have another number of layers.
    """

    def __init__(
        self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int | None = None
    ) -> None:
        """Build the model with fresh weights; without a target vocabulary, one is shared."""
        super().__init__()
        c = self.config = config
        shared = target_vocabulary is None
        # Every matrix is drawn before some are tied, so that a seed gives the same layers.
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
            EncoderLayer(self._attention(), self._feed_forward(), c.dropout, c.norm_epsilon)
            for _ in range(c.layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                self._attention(),
                self._attention(is_self_attention=False),
                self._feed_forward(),
                c.dropout,
                c.norm_epsilon,
            )
            for _ in range(c.decoder_depth)
        )
        self._tie(shared)

    def _attention(self, *, is_self_attention: bool = True) -> MultiHeadAttention:
        c = self.config
        return MultiHeadAttention(
            c.d_model,
            c.heads,
            c.d_k,
            c.d_v,
            bias=c.attention_bias,
            dropout=c.attention_dropout,
            window=c.attention_window if is_self_attention else 0,
            is_self_attention=is_self_attention,
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

    def states(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source: Layout | None = None,
        target: Layout | None = None,
    ) -> Tensor:
        """Return the decoder's output: everything but the last product. None: padded."""
        source = source or Layout(is_token(source_BS))
        memory = self.encode(source_BS, source)
        return self.decode(
            shift_right(target_BT), memory, target or Layout(causal=True), source
        )

    def encode(self, source_BS: Tensor, source: Layout) -> Tensor:
        """Return the memory that the decoder looks at."""
        x = self.source_embedding(source_BS) + self.source_positions(0, source_BS.size(1))
        x = dropout(source.pack(x), self.config.dropout, self.training)
        for layer in self.encoder:
            x = layer(x, source)
        return cast(Tensor, x)

    def decode(
        self, shifted_BT: Tensor, memory: Tensor, target: Layout, source: Layout
    ) -> Tensor:
        """Return the decoder's output for a target that is shifted right."""
        y = self.target_embedding(shifted_BT) + self.target_positions(0, shifted_BT.size(1))
        y = dropout(target.pack(y), self.config.dropout, self.training)
        for layer in self.decoder:
            y = layer(y, memory, target, source)
        return cast(Tensor, y)

    def logits(self, states: Tensor) -> Tensor:
        """Return y E^T: no scale, and no bias unless the settings ask for one."""
        return cast(Tensor, self.output(states))


def is_token(ids_BL: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, L) that hides padding from every query."""
    return (ids_BL != PAD)[:, None, None, :]


def shift_right(target_BT: Tensor) -> Tensor:
    """Return the decoder's input: the target moved one place to the right, after padding."""
    return F.pad(target_BT[:, :-1], (1, 0), value=PAD)
