"""The network for the search as compiled code: the encoder in one call, a step in another.

P places; B sentences; J hypotheses of each; S, T source and target length; D d_model;
W vocabulary.
"""

from collections.abc import Sequence
from ctypes import addressof
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from aiayn.generation.decoder import CachedDecoder
from aiayn.generation.step import Ids, Step
from aiayn.kernels.native import (
    DecoderLayerInMemory,
    EncoderLayerInMemory,
    LinearInMemory,
    ModelInMemory,
    NativeLinear,
    NormInMemory,
)
from aiayn.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from aiayn.model.transformer import Transformer

# Self-attention without a window sees any position.
ANYWHERE = 2**31 - 1


class NativeDecoder(Step):
    """A step function for the search, which equals `CachedDecoder` but for rounding.

    What it knows of a sentence stays where it is while the sentence moves from place to place,
    and serves another when it has ended.
    """

    def __init__(self, model: Transformer, width: int) -> None:
        """Decode up to `width` hypotheses of each sentence."""
        self.sentence_P = np.zeros(0, dtype=np.int64)
        """Where each sentence is in memory."""
        self.model, self.width, self.count = model, width, 0
        self.output = cast(NativeLinear, model.output)
        self.kernels = self.output.kernels
        self.network = describe(model)
        self.source_table_SD = self.target_table_TD = torch.empty(0, model.config.d_model)

    def __del__(self) -> None:
        for sentence in self.sentence_P.tolist():
            self.kernels.delete_sentence(sentence)

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room for sentences and outputs of this size; those that are there stay."""
        if source_length > len(self.source_table_SD):
            self.source_table_SD = self.model.source_positions(0, source_length).contiguous()
        if limit > len(self.target_table_TD):
            self.target_table_TD = self.model.target_positions(0, limit).contiguous()
        missing = max(0, places - len(self.sentence_P))
        new = [self.kernels.new_sentence() for _ in range(missing)]
        self.sentence_P = np.append(self.sentence_P, np.array(new, dtype=np.int64))

    def admit(self, sources: Sequence[list[int]]) -> None:
        """Put sentences behind those that are there."""
        first, self.count = self.count, self.count + len(sources)
        lengths_B = np.array([len(source) for source in sources])
        ids = np.array([token for source in sources for token in source])
        self.kernels.encode(
            addressof(self.network),
            self.width,
            len(sources),
            self.sentence_P[first:].ctypes.data,
            lengths_B.ctypes.data,
            ids.ctypes.data,
            self.source_table_SD.data_ptr(),
        )

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> Tensor:
        """Return the logits (B, J, W) of what follows these tokens."""
        tokens_BJ, slots_BJ = map(np.ascontiguousarray, (tokens_BJ, slots_BJ))
        states_BJD = torch.empty(*tokens_BJ.shape, self.model.config.d_model)
        self.kernels.decode(
            addressof(self.network),
            *tokens_BJ.shape,
            self.sentence_P.ctypes.data,
            tokens_BJ.ctypes.data,
            slots_BJ.ctypes.data,
            self.target_table_TD.data_ptr(),
            states_BJD.data_ptr(),
        )
        return cast(Tensor, self.output(states_BJD))

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences to places whose own have ended; `count` sentences are left."""
        ended, moved = self.sentence_P[places], self.sentence_P[origins]
        self.sentence_P[places], self.sentence_P[origins] = moved, ended
        self.count = count


def describe(model: Transformer) -> ModelInMemory:
    """Return a model as the kernels read it; it has to outlive them."""
    c, source, target = model.config, model.source_embedding, model.target_embedding
    encoder = [describe_encoder_layer(cast(EncoderLayer, layer)) for layer in model.encoder]
    decoder = [describe_decoder_layer(cast(DecoderLayer, layer)) for layer in model.decoder]
    return ModelInMemory(
        len(encoder),
        len(decoder),
        c.d_model,
        c.heads,
        c.d_k,
        c.d_v,
        c.attention_window // 2 if c.attention_window else ANYWHERE,
        c.norm_epsilon,
        source.scale,
        target.scale,
        source.weight.data_ptr(),
        target.weight.data_ptr(),
        (EncoderLayerInMemory * len(encoder))(*encoder),
        (DecoderLayerInMemory * len(decoder))(*decoder),
        plain(model.output),
    )


def describe_encoder_layer(layer: EncoderLayer) -> EncoderLayerInMemory:
    """Return an encoder layer as the kernels read it."""
    own = layer.self_attention
    linears = [plain(own.fused_projections), plain(own.w_o), *feed_forward(layer.feed_forward)]
    return EncoderLayerInMemory(*linears, norms(layer.add_1, layer.add_2))


def describe_decoder_layer(layer: DecoderLayer) -> DecoderLayerInMemory:
    """Return a decoder layer as the kernels read it."""
    own, cross = layer.self_attention, layer.cross_attention
    look_back = [plain(own.fused_projections), plain(own.w_o)]
    look_at_source = [plain(cross.w_q), plain(cross.fused_projections), plain(cross.w_o)]
    linears = [*look_back, *look_at_source, *feed_forward(layer.feed_forward)]
    return DecoderLayerInMemory(*linears, norms(layer.add_1, layer.add_2, layer.add_3))


def plain(linear: nn.Module | None) -> LinearInMemory:
    """Return a product without an activation."""
    return cast(NativeLinear, linear).plain


def feed_forward(network: FeedForward) -> tuple[LinearInMemory, LinearInMemory]:
    """Return the two products of equation 2."""
    inner = cast(NativeLinear, network.w_1)
    return inner.described(network.activation), plain(network.w_2)


def norms(*layers: AddAndNorm) -> object:
    """Return layer normalizations as the kernels read them."""
    found = [
        NormInMemory(n.weight.data_ptr(), n.bias.data_ptr()) for n in (x.norm for x in layers)
    ]
    return (NormInMemory * len(found))(*found)


def step_function(model: Transformer, width: int) -> Step:
    """Return the step function of a model, compiled where its layers are."""
    compiled = isinstance(model.output, NativeLinear)
    return (NativeDecoder if compiled else CachedDecoder)(model, width)
