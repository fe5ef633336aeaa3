"""The decoder one token at a time, each step a single call of compiled code.

B sentences; J hypotheses of each; R rows: all of them; D d_model; W vocabulary.
"""

from ctypes import addressof
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from aiayn.generation.decoder import CachedDecoder
from aiayn.generation.step import Choose, Ids
from aiayn.kernels.native import NativeLinear, NativeStep, describe_decoder
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer
from aiayn.special_ids import PAD


class NativeDecoder(CachedDecoder):
    """A step function for the search, which equals `CachedDecoder` but for rounding."""

    def __init__(self, model: Transformer, width: int) -> None:
        """Decode up to `width` hypotheses of each sentence."""
        super().__init__(model, width)
        self.output = cast(NativeLinear, model.output)
        self.kernels = self.output.kernels
        c = model.config
        self.description = describe_decoder(
            (c.d_model, c.heads, c.d_k, c.d_v),
            c.norm_epsilon,
            [describe(cast(DecoderLayer, layer)) for layer in model.decoder],
            self.output.plain,
        )

    def _step(self, y_RD: Tensor, slots_BJ: Ids, first: int) -> Tensor:
        """Return the logits (R, W) that follow the newest position of some places."""
        last = first + len(slots_BJ)
        columns_BJ, past_BJC = self._advance(slots_BJ, first, last)
        columns_BJ, seen_BJC = np.ascontiguousarray(columns_BJ), np.ascontiguousarray(past_BJC)
        # The kernel works in place, and y may be a row of the table of positions.
        y_RD = y_RD.clone(memory_format=torch.contiguous_format)
        logits_RW = y_RD.new_empty(len(y_RD), self.output.out_features)
        source_k, source_v = self.source.of_layer(0, first, last)
        k_BHCK, v_BHCV = self.target.of_layer(0, first, last)
        lengths_B = self.source_length_P[first:last]
        step = NativeStep(
            *slots_BJ.shape,
            len(self.position_P),
            self.target.columns,
            seen_BJC.shape[2],
            self.source.columns,
            *(each.data_ptr() for each in (k_BHCK, v_BHCV, source_k, source_v)),
            *(each.ctypes.data for each in (columns_BJ, seen_BJC, lengths_B)),
            y_RD.data_ptr(),
            logits_RW.data_ptr(),
        )
        self.kernels.decoder_step(addressof(self.description), addressof(step))
        return logits_RW


def describe(layer: DecoderLayer) -> tuple[list[Any], list[nn.LayerNorm]]:
    """Return the products of a layer as the kernels read them, and its norms."""
    own, cross, inner = layer.self_attention, layer.cross_attention, layer.feed_forward
    plain = [own.fused_projections, own.w_o, cross.w_q, cross.w_o]
    first, second = cast(NativeLinear, inner.w_1), cast(NativeLinear, inner.w_2)
    linears = [
        *(cast(NativeLinear, each).plain for each in plain),
        first.described(inner.activation),
        second.plain,
    ]
    return linears, [layer.add_1.norm, layer.add_2.norm, layer.add_3.norm]


def cached_decoder(model: Transformer, width: int) -> CachedDecoder:
    """Return the step function of a model, compiled where its layers are."""
    compiled = isinstance(model.output, NativeLinear)
    return (NativeDecoder if compiled else CachedDecoder)(model, width)


def compiled_choice(model: Transformer) -> Choose | None:
    """Return the choice of the best extensions, where it is compiled."""
    output: object = model.output
    if not isinstance(output, NativeLinear):
        return None
    return partial(output.kernels.largest_sums, first_word=PAD + 1)
