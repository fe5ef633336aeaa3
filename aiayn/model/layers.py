"""The layers of figure 1: feed-forward network, residual connection, encoder, decoder.

B sentences; L, S, T length; D d_model; R rows without padding.
"""

from typing import cast

from torch import Tensor, nn

from aiayn.config import Activation
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.dropout import dropout
from aiayn.model.linear import Linear
from aiayn.model.norm import LayerNorm
from aiayn.model.rows import Rows

LAYER_NORM_EPSILON = 1e-6


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.w_1 = Linear(d_model, d_ff, activation=activation)
        self.w_2 = Linear(d_ff, d_model)
        self.dropout = dropout
        for linear in (self.w_1, self.w_2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network to each position by itself."""
        return cast(Tensor, self.w_2(dropout(self.w_1(x), self.dropout, self.training)))


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's post-norm residual, section 5.4."""

    def __init__(
        self, d_model: int, dropout: float, *, epsilon: float = LAYER_NORM_EPSILON
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = LayerNorm(d_model, eps=epsilon)

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """Join the input of a sub-layer and its output."""
        return cast(Tensor, self.norm(x + dropout(sublayer, self.dropout, self.training)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network: the left half of figure 1."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        *,
        epsilon: float = LAYER_NORM_EPSILON,
    ) -> None:
        super().__init__()
        d_model = feed_forward.w_1.in_features
        self.self_attention = self_attention
        self.add_1 = AddAndNorm(d_model, dropout, epsilon=epsilon)
        self.feed_forward = feed_forward
        self.add_2 = AddAndNorm(d_model, dropout, epsilon=epsilon)

    def forward(self, x: Tensor, allowed: Tensor | None, rows: Rows | None = None) -> Tensor:
        """Apply both sub-layers to (B, S, D), or to (R, D) with the places of its rows.

        `allowed` hides the padding of the source.
        """
        x = self.add_1(x, self.self_attention(x, x, allowed, rows=rows))
        return cast(Tensor, self.add_2(x, self.feed_forward(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder, feed-forward: the right half."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        *,
        epsilon: float = LAYER_NORM_EPSILON,
    ) -> None:
        super().__init__()
        d_model = feed_forward.w_1.in_features
        self.self_attention = self_attention
        self.add_1 = AddAndNorm(d_model, dropout, epsilon=epsilon)
        self.cross_attention = cross_attention
        self.add_2 = AddAndNorm(d_model, dropout, epsilon=epsilon)
        self.feed_forward = feed_forward
        self.add_3 = AddAndNorm(d_model, dropout, epsilon=epsilon)

    def forward(
        self,
        y: Tensor,
        memory: Tensor,
        allowed: Tensor | None,
        rows: Rows | None = None,
        memory_rows: Rows | None = None,
    ) -> Tensor:
        """Apply the three sub-layers to (B, T, D), or to (R, D) with the places of its rows.

        `allowed` hides the padding of the source. Padding of the target stands at its end,
        where no earlier position looks.
        """
        y = self.add_1(y, self.self_attention(y, y, causal=True, rows=rows))
        crossed = self.cross_attention(y, memory, allowed, rows=rows, memory_rows=memory_rows)
        y = self.add_2(y, crossed)
        return cast(Tensor, self.add_3(y, self.feed_forward(y)))
