"""Attention: sections 3.2.1 and 3.2.2 of the paper.

B sentences; L, M query and memory length; D d_model; H heads; K, V d_k and d_v per head;
R rows without padding.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from aiayn.model.linear import Linear, linear
from aiayn.model.local import LONG, local_attention, neighbourhood
from aiayn.model.rows import Rows


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
    weights_BHLM = softmax(scores_BHLM.masked_fill(~allowed, -math.inf))
    return F.dropout(weights_BHLM, dropout) @ v_BHMV, weights_BHLM


def softmax(x: Tensor) -> Tensor:
    """Return softmax over the last dimension."""
    if x.is_cpu and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return cast(Tensor, _Softmax.apply(x))  # type: ignore[no-untyped-call]
    return x.softmax(dim=-1)


class _Softmax(torch.autograd.Function):
    """Softmax with a gradient that any number of threads finds; torch's differs in a digit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        p = x.softmax(dim=-1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        weighted: Tensor = grad * p
        return weighted.sub_(p * weighted.sum(dim=-1, keepdim=True))


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, section 3.2.2.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h projections of a kind lie side by side
    in one matrix, and those that read the same input are applied in a single product.

    Attributes:
        window: r of restricted self-attention, section 4; 0: look everywhere.
        reference: Take the plain path of equation 1 instead of the fused kernel, and keep its
            weights in `weights_BHLM`.
        fused: `together` as one layer, where inference has made one; training joins the
            matrices anew at each step, since they learn.
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
        reads_itself: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.window = heads, dropout, window
        self.w_q = Linear(d_model, heads * d_k, bias=bias)
        self.w_k = Linear(d_model, heads * d_k, bias=bias)
        self.w_v = Linear(d_model, heads * d_v, bias=bias)
        self.w_o = Linear(heads * d_v, d_model, bias=bias)
        self.reference = False
        self.weights_BHLM: Tensor | None = None
        self.reads_itself = reads_itself
        self.fused: nn.Module | None = None
        self._initialise()
        if bias:
            # Differs from the paper: softmax does not feel a bias of the keys, which moves all
            # scores of a query alike. Its gradient is rounding, of which Adam would make a
            # random walk that no two machines share; so it stays where it is.
            self.w_k.bias.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]

    @property
    def together(self) -> list[Linear]:
        """The projections that read the same input."""
        return [self.w_q, self.w_k, self.w_v] if self.reads_itself else [self.w_k, self.w_v]

    def _initialise(self) -> None:
        """Draw Glorot uniform weights and zero biases.

        The paper is silent. Its code kept the projections that read one input in one variable
        (Q, K, V in self-attention; K, V towards the encoder), so Glorot's fan-out is that of
        all of them.
        """
        wide = sum(layer.out_features for layer in self.together)
        for layer in (self.w_q, self.w_k, self.w_v, self.w_o):
            fan_out = wide if layer in self.together else layer.out_features
            limit = math.sqrt(6 / (layer.in_features + fan_out))
            nn.init.uniform_(layer.weight, -limit, limit)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        allowed: Tensor | None = None,
        *,
        causal: bool = False,
        rows: Rows | None = None,
        memory_rows: Rows | None = None,
    ) -> Tensor:
        """Let every position of x look at the memory; self-attention passes x twice.

        Args:
            x: What asks, (B, L, D).
            memory: What is looked at, (B, M, D).
            allowed: True where a query may look; broadcasts to (B, H, L, M). None: everywhere.
            causal: Position i sees the memory up to i only; goes without `allowed`.
            rows: Where the tokens of x stand, if it is (R, D), without padding.
            memory_rows: The same of the memory.
        """
        if x is memory:
            q_BHLK, k_BHMK, v_BHMV = self.project(x, self.w_q, self.w_k, self.w_v, rows=rows)
        else:
            (q_BHLK,) = self.project(x, self.w_q, rows=rows)
            k_BHMK, v_BHMV = self.project(memory, self.w_k, self.w_v, rows=memory_rows)
        heads_BHLV = self.mix(
            q_BHLK, k_BHMK, v_BHMV, allowed, causal=causal, window=self.window
        )
        return self.join(heads_BHLV, rows)

    def project(self, x: Tensor, *linears: Linear, rows: Rows | None = None) -> list[Tensor]:
        """Apply projections of one input in one product and cut each into its heads."""
        widths = [layer.out_features for layer in linears]
        if len(linears) == 1:
            whole = linears[0](x)
        elif self.fused is not None:
            whole = self.fused(x)
        else:
            whole = linear(x, *side_by_side(linears))
        whole_BLD = whole if rows is None else rows.put(whole)
        parts = torch.split(whole_BLD, widths, dim=-1)
        return [torch.unflatten(part, -1, (self.heads, -1)).transpose(1, 2) for part in parts]

    def mix(
        self,
        q_BHLK: Tensor,
        k_BHMK: Tensor,
        v_BHMV: Tensor,
        allowed: Tensor | None,
        *,
        causal: bool = False,
        window: int = 0,
    ) -> Tensor:
        """Return head_1, ..., head_h of projected queries, keys and values.

        With a window, queries and keys are those of the same positions.
        """
        dropout = self.dropout if self.training else 0.0
        length = q_BHLK.size(2)
        if window and (self.reference or length < max(LONG, 4 * window)):
            i = torch.arange(length, device=q_BHLK.device)
            allowed = neighbourhood(i, i, allowed, window=window, causal=causal)
            causal, window = False, 0
        # Where torch has no fused kernel, its plain path differs with the number of threads.
        fused = not dropout and q_BHLK.size(-1) == v_BHMV.size(-1)
        exact = q_BHLK.is_cpu and torch.is_grad_enabled() and not fused and not window
        if self.reference or exact:
            seen = torch.ones(
                q_BHLK.size(2), k_BHMK.size(2), dtype=torch.bool, device=q_BHLK.device
            )
            seen = seen.tril() if causal else seen
            seen = seen if allowed is None else seen & allowed
            heads_BHLV, weights_BHLM = attention(q_BHLK, k_BHMK, v_BHMV, seen, dropout)
            self.weights_BHLM = weights_BHLM if self.reference else None
            return heads_BHLV
        if window:
            return local_attention(
                q_BHLK, k_BHMK, v_BHMV, allowed, window=window, causal=causal, dropout=dropout
            )
        return F.scaled_dot_product_attention(
            q_BHLK, k_BHMK, v_BHMV, attn_mask=allowed, dropout_p=dropout, is_causal=causal
        )

    def join(self, heads_BHLV: Tensor, rows: Rows | None = None) -> Tensor:
        """Concat(head_1, ..., head_h) W^O."""
        heads_BLD = heads_BHLV.transpose(1, 2).flatten(2)
        out: Tensor = self.w_o(heads_BLD if rows is None else rows.take(heads_BLD))
        return out


def side_by_side(linears: Sequence[Linear]) -> tuple[Tensor, Tensor | None]:
    """Return the weights of several projections as one matrix, and their biases as one."""
    weight = torch.cat([layer.weight for layer in linears])
    if linears[0].bias is None:
        return weight, None
    return weight, torch.cat([layer.bias for layer in linears])
