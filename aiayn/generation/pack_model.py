"""Model files made ready for compiled decoding, once, and kept in the cache folder."""

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from torch import Tensor, nn

from aiayn.checkpoint import ModelFile
from aiayn.generation.native_model import NORM_PARTS, Floats, PackedModel
from aiayn.generation.prepare import prepare
from aiayn.kernels.native import PackedWeights, pack_weights
from aiayn.model.layers import AddAndNorm, DecoderLayer, EncoderLayer

# Positions whose vectors are kept, of any number: more are computed when they are needed.
POSITIONS = 1024


def pack_model(file: ModelFile, panel_width: int, precision: str) -> PackedModel:
    """Return a model in arrays, with products in a precision."""
    model = prepare(file.build())
    linears: dict[str, PackedWeights] = {}
    arrays: dict[str, Floats] = {
        "source_embedding": as_array(model.source_embedding.weight),
        "target_embedding": as_array(model.target_embedding.weight),
    }
    rows = model.longest or POSITIONS
    for side, positions in (
        ("source", model.source_positions),
        ("target", model.target_positions),
    ):
        arrays[f"{side}_positions"] = as_array(positions(0, rows))

    def pack(name: str, layers: Iterable[nn.Module], norms: Sequence[AddAndNorm]) -> None:
        for number, layer in enumerate(layers):
            linears[f"{name}.{number}"] = pack_linear(layer, panel_width, precision)
        for number, norm in enumerate(norms):
            for part in NORM_PARTS:
                arrays[f"{name}.norm.{number}.{part}"] = as_array(getattr(norm.norm, part))

    for number, module in enumerate(model.encoder):
        name, encoder = f"encoder.{number}", cast(EncoderLayer, module)
        pack(name, linears_of_encoder(encoder), [encoder.add_1, encoder.add_2])
    for number, module in enumerate(model.decoder):
        name, decoder = f"decoder.{number}", cast(DecoderLayer, module)
        norms = [decoder.add_1, decoder.add_2, decoder.add_3]
        pack(name, linears_of_decoder(decoder), norms)
    linears["output"] = pack_linear(model.output, panel_width, precision)
    return PackedModel(file.config, file.codec, linears, arrays)


def linears_of_encoder(layer: EncoderLayer) -> list[nn.Module]:
    """Return the linear layers of an encoder layer, in the order of native_network.h."""
    own, network = layer.self_attention, layer.feed_forward
    return [cast(nn.Module, own.fused_projections), own.w_o, network.w_1, network.w_2]


def linears_of_decoder(layer: DecoderLayer) -> list[nn.Module]:
    """Return the linear layers of a decoder layer, in the order of native_network.h."""
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    look_back = [cast(nn.Module, own.fused_projections), own.w_o]
    look_at_source = [cross.w_q, cast(nn.Module, cross.fused_projections), cross.w_o]
    return [*look_back, *look_at_source, network.w_1, network.w_2]


def pack_linear(linear: nn.Module, panel_width: int, precision: str) -> PackedWeights:
    """Return a linear layer with its weights in panels."""
    layer = cast(nn.Linear, linear)
    bias = None if layer.bias is None else as_array(layer.bias)
    return pack_weights(as_array(layer.weight), bias, panel_width, precision)


def as_array(x: Tensor) -> Floats:
    """Return the numbers of a tensor, in float32."""
    return np.ascontiguousarray(x.detach().float().numpy())
