"""Attention: sections 3.2.1 to 3.2.3 of the paper.

B sentences; L, M query and memory length; D d_model; H heads; K, V d_k and d_v per head. What
has no suffix is (B, L, D), or packed rows (R, D), as its layout says.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn

from aiayn.kernels import attention as kernels
from aiayn.kernels.dropout import attention_dropout
from aiayn.kernels.layout import Layout
from aiayn.kernels.linear import Linear, fused_linear
from aiayn.model.restricted import is_worth_blocks, neighborhood, restricted_attention


def attention(
    q_BHLK: Tensor, k_BHMK: Tensor, v_BHMV: Tensor, allowed: Tensor, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation 1.

    Args:
        q_BHLK: Queries.
        k_BHMK: Keys.
        v_BHMV: Values.
        allowed: True where a query may look; broadcasts to (B, H, L, M).
        dropout: Rate at which single weights are dropped; 0 in the paper's translation models.

    Returns:
        The mixed values (B, H, L, V) and the weights (B, H, L, M) before dropout.
    """
    d_k = q_BHLK.size(-1)
    scores_BHLM = q_BHLK @ k_BHMK.mT / math.sqrt(d_k)
    # exp(-inf) = 0: what a query may not look at has no weight.
    weights_BHLM = kernels.softmax(scores_BHLM.masked_fill(~allowed, -math.inf))
    return attention_dropout(weights_BHLM, dropout) @ v_BHMV, weights_BHLM


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, section 3.2.2.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h projections of a kind are stored side
    by side in one matrix, and those that read the same input are applied in a single product.

    Attributes:
        window: r of restricted self-attention, section 4; 0: look everywhere.
        keep_weights: Use the plain path of equation 1 and keep its weights in `weights_BHLM`.
        watched_head: Keep the queries and keys of this head in `watched`, with their layouts.
        fused_projections: The projections that read one input as one layer, where inference has
            made one; training concatenates their matrices at each step, since they learn.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int,
        d_v: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        window: int = 0,
        is_self_attention: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.window = heads, dropout, window
        self.w_q = Linear(d_model, heads * d_k, bias=bias)
        self.w_k = Linear(d_model, heads * d_k, bias=bias)
        self.w_v = Linear(d_model, heads * d_v, bias=bias)
        self.w_o = Linear(heads * d_v, d_model, bias=bias)
        self.is_self_attention = is_self_attention
        self.keep_weights = False
        self.weights_BHLM: Tensor | None = None
        self.watched_head: int | None = None
        self.watched: tuple[Tensor, Tensor, Layout, Layout] | None = None
        self.fused_projections: nn.Module | None = None
        self._initialize()
        if bias:
            # Differs from the paper: a bias of the keys moves all scores of a query alike, so
            # softmax ignores it. Its gradient is rounding, which Adam would turn into a random
            # walk that no two machines share; so it does not learn.
            self.w_k.bias.requires_grad_(False)

    @property
    def projections_of_memory(self) -> list[Linear]:
        """The projections that read the memory; in self-attention, the queries' too."""
        own = [self.w_q] if self.is_self_attention else []
        return [*own, self.w_k, self.w_v]

    def _initialize(self) -> None:
        """Draw Glorot uniform weights and zero biases."""
        # Differs from the paper, which is silent: its code kept the projections that read one
        # input in one variable, so Glorot's fan-out is that of all of them.
        fused = self.projections_of_memory
        for layer in (self.w_q, self.w_k, self.w_v, self.w_o):
            wide = fused if layer in fused else [layer]
            fan_out = sum(each.out_features for each in wide)
            limit = math.sqrt(6 / (layer.in_features + fan_out))
            nn.init.uniform_(layer.weight, -limit, limit)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        queries: Layout,
        keys: Layout,
    ) -> Tensor:
        """Let every position of x look at the memory; self-attention passes x twice.

        Args:
            x: Where the queries come from.
            memory: Where keys and values come from.
            queries: The layout of x.
            keys: The layout of the memory, and which of its positions may be looked at.
        """
        if x is memory:
            # Self-attention: one product makes queries, keys and values.
            q_BHLK, k_BHMK, v_BHMV = self.project(x, keys, self.w_q, self.w_k, self.w_v)
        else:
            (q_BHLK,) = self.project(x, queries, self.w_q)
            k_BHMK, v_BHMV = self.project(memory, keys, self.w_k, self.w_v)
        if (i := self.watched_head) is not None:
            self.watched = q_BHLK[:, i], k_BHMK[:, i], queries, keys
        heads_BHLV = self._attend(q_BHLK, k_BHMK, v_BHMV, queries, keys)
        concat = queries.repack(heads_BHLV.transpose(1, 2).flatten(2))
        return cast(Tensor, self.w_o(concat))

    def project(self, x: Tensor, layout: Layout, *projections: Linear) -> list[Tensor]:
        """Apply projections of one input in one product and split each into its heads."""
        if len(projections) == 1:
            all_heads = projections[0](x)
        elif self.fused_projections is not None:
            all_heads = self.fused_projections(x)
        else:
            all_heads = fused_linear(x, projections)
        widths = [projection.out_features for projection in projections]
        parts = torch.split(layout.unpack(all_heads), widths, dim=-1)
        return [torch.unflatten(part, -1, (self.heads, -1)).transpose(1, 2) for part in parts]

    def _attend(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMV: Tensor, queries: Layout, keys: Layout
    ) -> Tensor:
        """Return head_1, ..., head_h by equation 1, or by a kernel that equals it."""
        if keys.attends_packed:
            return kernels.packed_attention(q_BHLK, k_BHMK, v_BHMV, queries, keys)
        dropout = self.dropout if self.training else 0.0
        if is_worth_blocks(q_BHLK.size(2), self.window) and not self.keep_weights:
            return restricted_attention(
                q_BHLK, k_BHMK, v_BHMV, keys, window=self.window, dropout=dropout
            )
        if self.keep_weights or not kernels.has_fused_attention(q_BHLK, v_BHMV, dropout):
            mask = attention_mask(q_BHLK, k_BHMK, keys, self.window)
            heads_BHLV, weights_BHLM = attention(q_BHLK, k_BHMK, v_BHMV, mask, dropout)
            self.weights_BHLM = weights_BHLM if self.keep_weights else None
            return heads_BHLV
        if self.window:
            keys = Layout(attention_mask(q_BHLK, k_BHMK, keys, self.window))
        return kernels.fused_attention(q_BHLK, k_BHMK, v_BHMV, keys, dropout)


def attention_mask(q_BHLK: Tensor, k_BHMK: Tensor, keys: Layout, window: int = 0) -> Tensor:
    """Return the mask, True where a query may look.

    No query looks at padding. In the decoder none looks at a later position, section 3.2.3:
    padding of the target stands at its end, where no earlier position looks.
    """
    length, memory, device = q_BHLK.size(2), k_BHMK.size(2), q_BHLK.device
    if window:
        i = torch.arange(length, device=device)
        return neighborhood(i, i, keys.allowed, window=window, causal=keys.causal)
    mask = torch.ones(length, memory, dtype=torch.bool, device=device)
    mask = mask.tril() if keys.causal else mask
    return mask if keys.allowed is None else mask & keys.allowed
