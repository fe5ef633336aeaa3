"""A decoder layer on the newest position of each hypothesis: a decoding step.

B sentences; J hypotheses of each; R rows: all of them; C columns of a cache; H heads; K, V d_k
and d_v per head; N heads of all sentences.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.kernels.attention import step_attention
from aiayn.kernels.linear import concat_weights
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer, Sublayer


class Columns(NamedTuple):
    """What the queries of a step look at."""

    k_NCK: Tensor
    v_NCV: Tensor
    bias: Tensor
    """0 where a query may look and -inf elsewhere; broadcasts to (N, J, C)."""


class NewColumns(NamedTuple):
    """Where keys and values of the newest position are written."""

    k_BCHK: Tensor
    v_BCHV: Tensor
    at: tuple[Tensor, Tensor]
    """Indices of sentences (B, 1) and of columns (B, J)."""


class StepLayer:
    """A decoder layer whose attention reads keys and values from buffers."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross = layer.self_attention, layer.cross_attention
        self.sublayers, self.heads = layer.sublayers, own.heads
        self.widths = [each.out_features for each in own.projections_of_memory]
        # Modules are called past torch's hooks, which take as long as a small product.
        self.qkv, self.join = fused_product(own), own.w_o.forward
        self.cross_q, self.cross_join = cross.w_q.forward, cross.w_o.forward

    def __call__(self, y_RD: Tensor, new: NewColumns, past: Columns, source: Columns) -> Tensor:
        """Return the output for y, the newest position of each hypothesis.

        Self-attention looks at the past, which begins to hold the new columns, and attention
        to the encoder at the source.
        """
        shape = (*new.at[1].shape, self.heads, -1)

        def look_back(y_RD: Tensor) -> Tensor:
            q, k, v = torch.split(self.qkv(y_RD), self.widths, dim=-1)
            new.k_BCHK.index_put_(new.at, k.view(shape))
            new.v_BCHV.index_put_(new.at, v.view(shape))
            return self.join(step_attention(q.view(shape), *past))

        def look_at_source(y_RD: Tensor) -> Tensor:
            return self.cross_join(step_attention(self.cross_q(y_RD).view(shape), *source))

        return self.sublayers(y_RD, look_back, look_at_source)


def fused_product(attention: MultiHeadAttention) -> Sublayer:
    """Return the projections that read one input as one product."""
    if attention.fused_projections is not None:
        return attention.fused_projections.forward
    weight_OI, bias_O = concat_weights(attention.projections_of_memory)
    return lambda x: F.linear(x, weight_OI, bias_O)
