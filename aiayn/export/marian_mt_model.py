"""How a MarianMTModel of transformers differs from our Transformer: names, order, epsilon.

It is the same network, with three differences. All sines come before all cosines in it, so
d_model is permuted, which changes no sum. Its layer normalization has another epsilon. And
pieces have other ids.
"""

from collections.abc import Iterator
from typing import assert_never

import torch
from torch import Tensor, nn

from aiayn.config import Activation
from aiayn.model.layers import DecoderLayer, EncoderLayer
from aiayn.model.transformer import Transformer

# Fixed in their layer normalization.
NORM_EPSILON = 1e-5

# The embedding of both sides, if they share one.
SHARED = "model.shared.weight"
OUTPUT_BIAS = "final_logits_bias"

# Our parameters outside of layers, and theirs.
NAMES = {
    "source_embedding.weight": "model.encoder.embed_tokens.weight",
    "target_embedding.weight": "model.decoder.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "output.bias": OUTPUT_BIAS,
}
# Parts of names in layers, ours and theirs.
IN_LAYERS = {
    "self_attention.": "self_attn.",
    "cross_attention.": "encoder_attn.",
    "w_q.": "q_proj.",
    "w_k.": "k_proj.",
    "w_v.": "v_proj.",
    "w_o.": "out_proj.",
    "feed_forward.w_1.": "fc1.",
    "feed_forward.w_2.": "fc2.",
}
# Their names for add_1.norm, add_2.norm, add_3.norm of a layer.
NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


def their_name(name: str) -> str:
    """Return what a parameter of ours is called in a MarianMTModel."""
    if name in NAMES:
        return NAMES[name]
    stack, number, inner = name.split(".", 2)
    for ours, theirs in IN_LAYERS.items():
        inner = inner.replace(ours, theirs)
    for i, theirs in enumerate(NORMS[stack], start=1):
        inner = inner.replace(f"add_{i}.norm.", f"{theirs}.")
    return f"model.{stack}.layers.{number}.{inner}"


def their_activation(activation: Activation) -> str:
    """Return what an activation of ours is called in a MarianMTModel."""
    match activation:
        case "relu" | "swish":
            return activation
        case _:
            assert_never(activation)


def sines_first(d_model: int) -> Tensor:
    """Return our dimension for each of theirs; argsort inverts it."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Permute d_model in the parameter of that name (ours)."""
    module = name.split(".")[-2]
    if module in ("w_o", "w_2", "norm"):
        return weight[order]
    if name.endswith(".weight"):
        return weight[:, order]
    return weight


@torch.no_grad()
def scale_norms(model: Transformer, factor: float) -> None:
    """Multiply epsilon by factor^2, and scale weights such that the output stays the same.

    LayerNorm(f x; f^2 epsilon) = LayerNorm(x; epsilon): the input of each norm is scaled, by
    scaling the norm before it and the sub-layer between. Only the first input of each stack
    stays, as positions cannot be scaled. There the other epsilon has an effect, a negligible
    one beside the variance of embeddings and sines, which is about 1.
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
    # The encoder's output, which every decoder layer reads, has been scaled too.
    for layer in model.decoder:
        assert isinstance(layer, DecoderLayer)
        for reads_memory in (layer.cross_attention.w_k, layer.cross_attention.w_v):
            reads_memory.weight /= factor
    # The last norm feeds the output matrix, which stays as it is.
    _multiply(norm, 1 / factor)


def _sublayers(layer: nn.Module) -> Iterator[tuple[list[nn.Linear], nn.Linear, nn.LayerNorm]]:
    """Yield what reads the input of each sub-layer, what writes its output, and its norm."""
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    own, inner, last = layer.self_attention, layer.feed_forward, layer.add_2
    yield [own.w_q, own.w_k, own.w_v], own.w_o, layer.add_1.norm
    if isinstance(layer, DecoderLayer):
        yield [layer.cross_attention.w_q], layer.cross_attention.w_o, layer.add_2.norm
        last = layer.add_3
    yield [inner.w_1], inner.w_2, last.norm


def _multiply(module: nn.Module, factor: float) -> None:
    for parameter in module.parameters():
        parameter.mul_(factor)
