"""The layers of figure 1: feed-forward network, residual connection, encoder, decoder.

What has no suffix is (B, L, D), or packed rows (R, D), as its layout says.
"""

from collections.abc import Callable
from typing import assert_never, cast

import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.config import Activation
from aiayn.kernels.dropout import dropout
from aiayn.kernels.layout import Layout
from aiayn.kernels.linear import Linear
from aiayn.kernels.norm import LayerNorm
from aiayn.model.attention import MultiHeadAttention

Sublayer = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2.

    Attributes:
        fused_hidden: max(0, x W_1 + b_1) in one pass, where inference has it.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Activation = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.w_1 = Linear(d_model, d_ff)
        self.w_2 = Linear(d_ff, d_model)
        self.activation: Activation = activation
        self.dropout = dropout
        self.fused_hidden: Sublayer | None = None
        for linear in (self.w_1, self.w_2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network to each position by itself."""
        fused = self.fused_hidden
        hidden = fused(x) if fused else activate(self.w_1(x), self.activation)
        return cast(Tensor, self.w_2(dropout(hidden, self.dropout, self.training)))


def activate(x: Tensor, activation: Activation) -> Tensor:
    """max(0, x) in the paper; swish, x sigmoid(x), is for imported models."""
    match activation:
        case "relu":
            return F.relu(x)
        case "swish":
            return F.silu(x)
        case _:
            assert_never(activation)


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's post-norm residual, section 5.4."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = LayerNorm(d_model, eps=epsilon)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply a sub-layer and add what it was given."""
        return cast(Tensor, self.norm(x + dropout(sublayer(x), self.dropout, self.training)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network: the left half of figure 1."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        epsilon: float,
    ) -> None:
        super().__init__()
        d_model = feed_forward.w_1.in_features
        self.self_attention = self_attention
        self.add_1 = AddAndNorm(d_model, dropout, epsilon)
        self.feed_forward = feed_forward
        self.add_2 = AddAndNorm(d_model, dropout, epsilon)

    def forward(self, x: Tensor, source: Layout) -> Tensor:
        """Apply both sub-layers."""
        x = self.add_1(x, lambda x: self.self_attention(x, x, source, source))
        return cast(Tensor, self.add_2(x, self.feed_forward))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder, feed-forward: the right half."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        epsilon: float,
    ) -> None:
        super().__init__()
        d_model = feed_forward.w_1.in_features
        self.self_attention = self_attention
        self.add_1 = AddAndNorm(d_model, dropout, epsilon)
        self.cross_attention = cross_attention
        self.add_2 = AddAndNorm(d_model, dropout, epsilon)
        self.feed_forward = feed_forward
        self.add_3 = AddAndNorm(d_model, dropout, epsilon)

    def forward(self, y: Tensor, memory: Tensor, target: Layout, source: Layout) -> Tensor:
        """Apply the three sub-layers to the target.

        `target` is the layout of y, which is causal, and `source` that of the memory.
        """
        return self.sublayers(
            y,
            lambda y: self.self_attention(y, y, target, target),
            lambda y: self.cross_attention(y, memory, target, source),
        )

    def sublayers(self, y: Tensor, look_back: Sublayer, look_at_source: Sublayer) -> Tensor:
        """Apply the three sub-layers; attention is given, because search reads from a cache."""
        y = self.add_1(y, look_back)
        y = self.add_2(y, look_at_source)
        return cast(Tensor, self.add_3(y, self.feed_forward))
