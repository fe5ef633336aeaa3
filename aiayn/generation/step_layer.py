"""A decoder layer on the newest position of each hypothesis, in few calls: a decoding step.

It equals `DecoderLayer` of aiayn.model.layers, whose weights it uses. Modules are called past
torch's hooks, what reads one input is one product, and sums are made in place.

B sentences; J hypotheses of each; R rows: all of them; C columns of a cache; H heads; K, V d_k
and d_v per head; N heads of all sentences.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.kernels.attention import step_attention
from aiayn.kernels.linear import concat_weights
from aiayn.kernels.packed import InferenceLinear
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import AddAndNorm, DecoderLayer, FeedForward, activate

Product = Callable[[Tensor], Tensor]


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
    """The three sub-layers of a decoder layer."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross = layer.self_attention, layer.cross_attention
        self.heads = own.heads
        self.widths = [each.out_features for each in own.projections_of_memory]
        self.qkv, self.join = fused_product(own), own.w_o.forward
        self.cross_q, self.cross_join = cross.w_q.forward, cross.w_o.forward
        self.expand = first_product(layer.feed_forward)
        self.contract = layer.feed_forward.w_2.forward
        self.norm_1, self.norm_2, self.norm_3 = map(
            norm_of, (layer.add_1, layer.add_2, layer.add_3)
        )

    def __call__(self, y_RD: Tensor, new: NewColumns, past: Columns, source: Columns) -> Tensor:
        """Return the output for y, the newest position of each hypothesis.

        Self-attention looks at the past, which begins to hold the new columns, and attention
        to the encoder at the source.
        """
        shape = (*new.at[1].shape, self.heads, -1)
        q, k, v = torch.split(self.qkv(y_RD), self.widths, dim=-1)
        new.k_BCHK.index_put_(new.at, k.view(shape))
        new.v_BCHV.index_put_(new.at, v.view(shape))
        heads = step_attention(q.view(shape), *past)
        y_RD = self.norm_1(self.join(heads).add_(y_RD))
        heads = step_attention(self.cross_q(y_RD).view(shape), *source)
        y_RD = self.norm_2(self.cross_join(heads).add_(y_RD))
        return self.norm_3(self.contract(self.expand(y_RD)).add_(y_RD))


def fused_product(attention: MultiHeadAttention) -> Product:
    """Return the projections that read one input as one product."""
    if attention.fused_projections is not None:
        return attention.fused_projections.forward
    weight_OI, bias_O = concat_weights(attention.projections_of_memory)
    return lambda x: F.linear(x, weight_OI, bias_O)


def first_product(network: FeedForward) -> Product:
    """Return the first half of the feed-forward network, its activation included."""
    w_1: nn.Module = network.w_1
    if network.activation == "relu" and isinstance(w_1, InferenceLinear):
        return w_1.relu
    return lambda x: activate(network.w_1.forward(x), network.activation)


def norm_of(add: AddAndNorm) -> Product:
    """Return the normalization of a sub-layer's output."""
    norm = add.norm
    shape, weight, bias, epsilon = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)
