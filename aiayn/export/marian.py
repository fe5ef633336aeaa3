"""The MarianMTModel of transformers beside our Transformer: names, order of dimensions, limits.

It is the same network, with three differences. All sines come before all cosines there, so
d_model is put in another order, which no sum feels. Its layer normalization has another
epsilon. And its ids are other ids, but ids are only names.
"""

import re
from collections.abc import Iterator
from typing import assert_never

import torch
from torch import Tensor, nn

from aiayn.config import Activation
from aiayn.model.layers import DecoderLayer, EncoderLayer
from aiayn.model.transformer import Transformer

NORM_EPSILON = 1e-5
"""That of their layer normalization, which no setting changes."""

NAMES = {
    "source_embedding": "model.encoder.embed_tokens",
    "target_embedding": "model.decoder.embed_tokens",
    "output": "lm_head",
    "encoder.N.self_attention.w_q": "model.encoder.layers.N.self_attn.q_proj",
    "encoder.N.self_attention.w_k": "model.encoder.layers.N.self_attn.k_proj",
    "encoder.N.self_attention.w_v": "model.encoder.layers.N.self_attn.v_proj",
    "encoder.N.self_attention.w_o": "model.encoder.layers.N.self_attn.out_proj",
    "encoder.N.add_1.norm": "model.encoder.layers.N.self_attn_layer_norm",
    "encoder.N.feed_forward.w_1": "model.encoder.layers.N.fc1",
    "encoder.N.feed_forward.w_2": "model.encoder.layers.N.fc2",
    "encoder.N.add_2.norm": "model.encoder.layers.N.final_layer_norm",
    "decoder.N.self_attention.w_q": "model.decoder.layers.N.self_attn.q_proj",
    "decoder.N.self_attention.w_k": "model.decoder.layers.N.self_attn.k_proj",
    "decoder.N.self_attention.w_v": "model.decoder.layers.N.self_attn.v_proj",
    "decoder.N.self_attention.w_o": "model.decoder.layers.N.self_attn.out_proj",
    "decoder.N.add_1.norm": "model.decoder.layers.N.self_attn_layer_norm",
    "decoder.N.cross_attention.w_q": "model.decoder.layers.N.encoder_attn.q_proj",
    "decoder.N.cross_attention.w_k": "model.decoder.layers.N.encoder_attn.k_proj",
    "decoder.N.cross_attention.w_v": "model.decoder.layers.N.encoder_attn.v_proj",
    "decoder.N.cross_attention.w_o": "model.decoder.layers.N.encoder_attn.out_proj",
    "decoder.N.add_2.norm": "model.decoder.layers.N.encoder_attn_layer_norm",
    "decoder.N.feed_forward.w_1": "model.decoder.layers.N.fc1",
    "decoder.N.feed_forward.w_2": "model.decoder.layers.N.fc2",
    "decoder.N.add_3.norm": "model.decoder.layers.N.final_layer_norm",
}
"""Our modules and theirs; N is the number of a layer."""
SHARED = "model.shared.weight"
"""Where the one embedding of both sides is, if it is one."""
OUTPUT_BIAS = "final_logits_bias"


def their_name(name: str) -> str:
    """Return what a parameter of ours is called in a MarianMTModel."""
    if name == "output.bias":
        return OUTPUT_BIAS
    module, _, kind = name.rpartition(".")
    number = re.search(r"\.(\d+)\.", module)
    if number is None:
        return f"{NAMES[module]}.{kind}"
    theirs = NAMES[module.replace(number[0], ".N.", 1)]
    return f"{theirs.replace('.N.', number[0])}.{kind}"


def activation_name(activation: Activation) -> str:
    """Return what an activation is called in config.json."""
    match activation:
        case "relu" | "swish":
            return activation
        case _:
            assert_never(activation)


def sines_first(d_model: int) -> Tensor:
    """Return which of our dimensions each of theirs is; argsort gives the way back."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Put d_model in another order, wherever the parameter of that name (ours) has it."""
    module = name.split(".")[-2]
    if module in ("w_o", "w_2", "norm"):
        return weight[order]
    if name.endswith(".weight"):
        return weight[:, order]
    return weight


@torch.no_grad()
def stretch(model: Transformer, factor: float) -> None:
    """Multiply epsilon by factor^2, and weights such that nothing else changes.

    LayerNorm(f x; f^2 epsilon) = LayerNorm(x; epsilon): what is normalized is made larger, by
    way of the norm before it and of the sub-layer in between. Only what comes first in each
    stack stays as it is, as positions cannot be made larger. There the other epsilon is felt,
    and it is next to nothing beside the variance of embeddings and sines, which is about 1.
    """
    for stack in (model.encoder, model.decoder):
        scale = 1.0
        for layer in stack:
            for reads, writes, norm in _sublayers(layer):
                for linear in reads:
                    linear.weight /= scale
                _multiply(writes, scale)
                _multiply(norm, factor)
                norm.eps *= factor**2
                scale = factor
    for layer in model.decoder:
        assert isinstance(layer, DecoderLayer)
        for reads_memory in (layer.cross_attention.w_k, layer.cross_attention.w_v):
            reads_memory.weight /= factor
    _multiply(norm, 1 / factor)


def _sublayers(layer: nn.Module) -> Iterator[tuple[list[nn.Linear], nn.Linear, nn.LayerNorm]]:
    """Yield what reads the input of each sub-layer, what writes its output, and its norm."""
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    own = layer.self_attention
    yield [own.w_q, own.w_k, own.w_v], own.w_o, layer.add_1.norm
    inner = layer.feed_forward
    if isinstance(layer, EncoderLayer):
        yield [inner.w_1], inner.w_2, layer.add_2.norm
    else:
        yield [layer.cross_attention.w_q], layer.cross_attention.w_o, layer.add_2.norm
        yield [inner.w_1], inner.w_2, layer.add_3.norm


def _multiply(module: nn.Module, factor: float) -> None:
    for parameter in module.parameters():
        parameter.mul_(factor)
