"""Marian's names for the parameters of our Transformer, and the settings in its YAML.

Marian has written the Transformer twice. A `transformer` has names such as encoder_l1_self_Wq,
and its positions are sinusoids in halves. A `transformer-new`, since version 1.12, spells the
way to each parameter out, and can have a table of positions.
"""

from typing import Literal, assert_never

from torch import Tensor

from aiayn.config import Activation, ModelConfig

Type = Literal["transformer", "transformer-new"]

# Fixed in their layer normalization.
NORM_EPSILON = 1e-9
# The embedding of both sides, if they share one.
SHARED = "Wemb"
SOURCE, TARGET = "encoder_Wemb", "decoder_Wemb"
OUTPUT, OUTPUT_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"
# The settings, as an array of bytes that end in a zero.
SETTINGS = "special:model.yml"

OUTSIDE_LAYERS = {
    "source_embedding.weight": SOURCE,
    "target_embedding.weight": TARGET,
    "output.weight": OUTPUT,
    "output.bias": OUTPUT_BIAS,
    "source_positions.table": "TransformerBatchEncoder->encoder->positionEmbedding->embeddings",
    "target_positions.table": "TransformerBatchDecoder->decoder->positionEmbedding->embeddings",
}
# A sub-layer of ours, and theirs in a `transformer`.
SUBLAYERS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
# The sub-layer that each norm follows.
NORMED = {
    "encoder": {"add_1": "self", "add_2": "ffn"},
    "decoder": {"add_1": "self", "add_2": "context", "add_3": "ffn"},
}
# The blocks of a `transformer-new`, and the attention in them.
BLOCKS = {
    ("encoder", "self"): ("selfAttentionBlock", "selfAttention"),
    ("decoder", "self"): ("autoRegressiveBlock", "selfAttention"),
    ("decoder", "context"): ("crossAttentionBlock", "crossAttention"),
    ("encoder", "ffn"): ("filterBlock", ""),
    ("decoder", "ffn"): ("filterBlock", ""),
}
STACKS = {
    "encoder": "TransformerBatchEncoder->encoder->layers->at({})"
    "->as<marian::nn::TransformerEncoderLayer>()",
    "decoder": "TransformerBatchDecoder->decoder->layers->at({})"
    "->as<marian::nn::TransformerDecoderLayerWithCrossAttention>()",
}


def their_name(name: str, type_: Type, activation: Activation) -> str:
    """Return what a parameter of ours is called by Marian."""
    if name in OUTSIDE_LAYERS:
        return OUTSIDE_LAYERS[name]
    stack, number, part, inner, kind = name.split(".")
    match type_:
        case "transformer":
            return f"{stack}_l{int(number) + 1}_{_short(stack, part, inner, kind)}"
        case "transformer-new":
            way = _long(stack, part, inner, activation)
            return f"{STACKS[stack].format(number)}->{way}->{kind}"
        case _:
            assert_never(type_)


def _short(stack: str, part: str, inner: str, kind: str) -> str:
    """Return the name in a layer: self_Wq, ffn_b1, self_Wo_ln_scale."""
    if inner == "norm":
        sublayer = NORMED[stack][part]
        before = "ffn" if sublayer == "ffn" else "Wo"
        return f"{sublayer}_{before}_ln_{'scale' if kind == 'weight' else 'bias'}"
    return f"{SUBLAYERS[part]}_{'W' if kind == 'weight' else 'b'}{inner[-1]}"


def _long(stack: str, part: str, inner: str, activation: Activation) -> str:
    """Return the way to a module of a layer."""
    is_norm = inner == "norm"
    sublayer = NORMED[stack][part] if is_norm else SUBLAYERS[part]
    block, attention = BLOCKS[stack, sublayer]
    if is_norm:
        return f"{block}->postprocessor->norm"
    if attention:
        return f"{block}->{attention}->{inner[-1]}Proj"
    # With ReLU, one layer does what three do with another activation.
    fused = activation == "relu"
    place, module = (0, "LinearReluDropout") if fused else (0, "Linear")
    if inner == "w_2":
        place, module = (1 if fused else 3), "Linear"
    return f"{block}->layers->at({place})->as<marian::nn::{module}>()"


def is_transposed(name: str) -> bool:
    """Whether Marian stores the parameter of that name, ours, as (inputs, outputs)."""
    return name.endswith(".weight") and name.split(".")[-2].startswith("w_")


def as_rows(name: str, weight: Tensor, type_: Type) -> Tensor:
    """Return a parameter of ours in their shape."""
    if is_transposed(name):
        return weight.T
    # A `transformer` has vectors as matrices of one row, and its bias of the output always is.
    is_vector = weight.dim() == 1
    return (
        weight[None] if is_vector and (type_ == "transformer" or "output" in name) else weight
    )


def type_for(config: ModelConfig) -> Type:
    """Return the type whose positions a model has."""
    return "transformer" if config.positions == "halves" else "transformer-new"


# Required values of settings, of which a file need not have all.
WANTED: dict[str, object] = {
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-attention-mask": "default",
    "transformer-ffn-depth": 2,
    "transformer-decoder-dim-ffn": 0,
    "transformer-decoder-ffn-depth": 0,
    "transformer-tied-layers": [],
    "transformer-no-projection": False,
    "transformer-no-bias": False,
    "transformer-no-affine": False,
    "transformer-pool": False,
    "transformer-disable-position-embeddings": False,
    "transformer-alibi-shift": False,
    "transformer-alibi-trainable": False,
    "transformer-rnn-projection": False,
    "input-types": [],
    "factors-dim-emb": 0,
    "lemma-dim-emb": 0,
    "lemma-dependency": "",
    "right-left": False,
    "ulr": False,
}
# Settings that a Transformer does not use, and that Marian reads all the same.
UNUSED: dict[str, object] = {
    "bert-train-type-embeddings": True,
    "bert-type-vocab-size": 2,
    "dec-cell": "gru",
    "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1,
    "dim-rnn": 1024,
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "layer-normalization": False,
    "separator-symbol": "[eos]",
    "skip": False,
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": 2,
    "transformer-aan-nogate": False,
    "transformer-dim-aan": 2048,
    "transformer-guided-alignment-layer": "last",
    "transformer-postprocess-emb": "d",
    "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False,
    "version": "v1.12.42",
}
