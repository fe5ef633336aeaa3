"""Export to CTranslate2, an inference engine in C++.

Everything is exported but padding, which it does not have: a switch makes the decoder start
from the zero vector, and no search can choose what is not in the vocabulary.
"""

from pathlib import Path
from typing import Any, assert_never

import ctranslate2
import torch
from torch import Tensor, nn

from aiayn.checkpoint import ModelFile
from aiayn.config import Activation
from aiayn.data.atomic import write_bytes
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.errors import UsageError
from aiayn.export.readme import readme
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import AddAndNorm, DecoderLayer, EncoderLayer
from aiayn.model.positions import PositionEncoding
from aiayn.model.transformer import Embedding, Transformer
from aiayn.special_ids import EOS, PAD, UNK

# Rows of the exported table of sinusoids, and so the longest sentence.
POSITIONS = 2048


def write(file: ModelFile, folder: Path, *, int8: bool = False) -> None:
    """Write a model into an empty folder, with its vocabulary and a README."""
    if file.config.model.attention_window:
        raise UsageError(
            "model.attention_window is set, and CTranslate2 looks at every position",
            fix="export a model with model.attention_window=0",
        )
    spec = _specification(file.build(), file.codec, file.config.alignment_heads)
    # Raises if a weight was not set.
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))
    file.codec.save(folder / VOCABULARY_FOLDER)
    write_bytes(folder / "README.md", _readme(file, int8=int8).encode())


@torch.no_grad()
def _specification(model: Transformer, codec: Codec, alignment_heads: int) -> Any:
    """Return the model as a specification of CTranslate2."""
    c = model.config
    sizes = {"num_heads": c.heads, "head_dim": max(c.d_k, c.d_v)}
    kind = {"pre_norm": False, "activation": _activation(c.activation)}
    encoder = ctranslate2.specs.TransformerEncoderSpec(c.layers, **sizes, **kind)
    # What `generate --align` looks at.
    alignment = {"alignment_layer": c.alignment_layer, "alignment_heads": alignment_heads}
    decoder = ctranslate2.specs.TransformerDecoderSpec(
        c.decoder_depth, **sizes, **kind, **alignment
    )
    _set_input(encoder, encoder.embeddings[0], model.source_embedding, model.source_positions)
    _set_input(decoder, decoder.embeddings, model.target_embedding, model.target_positions)
    decoder.start_from_zero_embedding = True
    for specs, layers in ((encoder, model.encoder), (decoder, model.decoder)):
        for spec, layer in zip(specs.layer, layers, strict=True):
            _set_layer(spec, layer)
    decoder.projection.weight = model.output.weight.detach()[PAD + 1 :]
    if c.output_bias:
        decoder.projection.bias = model.output.bias.detach()[PAD + 1 :]
    whole = ctranslate2.specs.TransformerSpec(encoder, decoder)
    whole.register_source_vocabulary(_tokens(codec.source))
    whole.register_target_vocabulary(_tokens(codec.target))
    unknown, end = codec.target.pieces([UNK, EOS])
    whole.config.unk_token, whole.config.eos_token = unknown, end
    # Any token will do: the decoder starts from the zero vector instead of its embedding.
    whole.config.decoder_start_token = end
    whole.config.add_source_eos = True
    whole.config.layer_norm_epsilon = c.norm_epsilon
    return whole


def _activation(activation: Activation) -> Any:
    match activation:
        case "relu":
            return ctranslate2.specs.Activation.RELU
        case "swish":
            return ctranslate2.specs.Activation.SWISH
        case _:
            assert_never(activation)


def _tokens(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.pieces(range(PAD + 1, len(vocabulary)))


def _set_input(
    spec: Any, table: Any, embedding: Embedding, positions: PositionEncoding
) -> None:
    table.weight = embedding.weight.detach()[PAD + 1 :]
    spec.scale_embeddings = embedding.scale
    # CTranslate2 takes a table, of sinusoids as of learned positions.
    spec.position_encodings.encodings = positions(0, positions.limit or POSITIONS).detach()


def _set_layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    _set_attention(spec.self_attention, layer.self_attention, layer.add_1, fused=(3,))
    last = layer.add_2
    if isinstance(layer, DecoderLayer):
        _set_attention(spec.attention, layer.cross_attention, layer.add_2, fused=(1, 2))
        last = layer.add_3
    _set_linear(spec.ffn.linear_0, layer.feed_forward.w_1)
    _set_linear(spec.ffn.linear_1, layer.feed_forward.w_2)
    _set_norm(spec.ffn.layer_norm, last)


def _set_attention(
    spec: Any, own: MultiHeadAttention, add: AddAndNorm, *, fused: tuple[int, ...]
) -> None:
    """Concatenate the projections that read the same input; `fused` says how many they are."""
    # Queries, keys and values must have one width a head. Zeros fill up the narrower ones: they
    # change neither the dot products nor, with zero rows in W^O, the output.
    d_k, d_v = (linear.out_features // own.heads for linear in (own.w_q, own.w_v))
    width = max(d_k, d_v)
    linears = [own.w_q, own.w_k, own.w_v]
    for linear_spec, count in zip(spec.linear[:-1], fused, strict=True):
        together, linears = linears[:count], linears[count:]
        weights = [_widen(linear.weight, own.heads, width) for linear in together]
        linear_spec.weight = torch.cat(weights)
        if own.w_q.bias is not None:
            biases = [_widen(linear.bias, own.heads, width) for linear in together]
            linear_spec.bias = torch.cat(biases)
    _set_linear(spec.linear[-1], own.w_o)
    spec.linear[-1].weight = _widen(own.w_o.weight.T, own.heads, width).T.contiguous()
    # By the model's d_k, not by the width with zeros.
    spec.queries_scale = d_k**-0.5
    _set_norm(spec.layer_norm, add)


def _widen(rows: Tensor, heads: int, width: int) -> Tensor:
    """Return rows with zeros added to those of each head, up to `width`."""
    of_heads = rows.reshape(heads, -1, *rows.shape[1:])
    wide = rows.new_zeros(heads, width, *rows.shape[1:])
    wide[:, : of_heads.size(1)] = of_heads
    return wide.flatten(0, 1)


def _set_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight = linear.weight.detach()
    if linear.bias is not None:
        spec.bias = linear.bias.detach()


def _set_norm(spec: Any, add: AddAndNorm) -> None:
    spec.gamma, spec.beta = add.norm.weight.detach(), add.norm.bias.detach()


class CTranslate2Model:
    """The exported model in CTranslate2, for `verify`."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        self._codec = codec
        self._ids = {piece: i for i, piece in enumerate(_tokens(codec.target), PAD + 1)}
        self._translator = ctranslate2.Translator(
            str(folder), compute_type="default", intra_threads=torch.get_num_threads()
        )

    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each up to its limit of tokens."""
        found = self._translator.translate_batch(
            self._sources(lines),
            beam_size=1,
            max_batch_size=64,
            max_input_length=0,
            max_decoding_length=max(limits),
            min_decoding_length=0,
        )
        return [
            self._text(one.hypotheses[0][:limit])
            for one, limit in zip(found, limits, strict=True)
        ]

    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations and of their EOS."""
        pieces = [self._codec.target.pieces(ids) for ids in targets]
        found = self._translator.score_batch(
            self._sources(lines), pieces, max_batch_size=64, max_input_length=0
        )
        return [one.log_probs for one in found]

    def _text(self, pieces: list[str]) -> str:
        return self._codec.decode_target(self._ids[piece] for piece in pieces)

    def _sources(self, lines: list[str]) -> list[list[str]]:
        # CTranslate2 adds EOS itself.
        encoded = self._codec.encode_source_batch(lines)
        return [self._codec.source.pieces(ids[:-1]) for ids in encoded]


def _readme(file: ModelFile, *, int8: bool) -> str:
    codec, model, decode = file.codec, file.config.model, file.config.decode
    positions = model.max_positions if model.positions == "learned" else POSITIONS
    names = ("shared", "shared") if codec.source is codec.target else ("source", "target")
    package, imported = "sentencepiece", "from sentencepiece import SentencePieceProcessor"
    load = "SentencePieceProcessor(model_file='vocab/{}.model')"
    to_tokens, to_text = "source.encode(text, out_type=str)", "target.decode(tokens)"
    # SentencePiece itself would merge neighboring unknown words.
    if codec.source.kind == "word":
        to_tokens = f"['{SPACE}' + word for word in text.split()]"
    if codec.target.kind == "word":
        to_text = f"' '.join(tokens).replace('{SPACE}', '')"
    if codec.source.suffix == "codes":
        package, imported = "subword-nmt", "from subword_nmt.apply_bpe import BPE"
        load = "BPE(open('vocab/{}.codes', encoding='utf-8'))"
        to_tokens = "source.process_line(text).split()"
        to_text = "' '.join(tokens).replace('@@ ', '')"
    return readme(
        codec,
        toolkit="CTranslate2",
        form="8-bit integers" if int8 else "float32",
        packages=["ctranslate2", package],
        imports=["import ctranslate2", imported],
        load=[
            "translator = ctranslate2.Translator('.')",
            f"source = {load.format(names[0])}",
            f"target = {load.format(names[1])}",
        ],
        translate=[
            f"tokens = {to_tokens}",
            f"search = dict(beam_size={decode.beam}, length_penalty={decode.alpha})",
            "found = translator.translate_batch([tokens], **search)",
            "tokens = found[0].hypotheses[0]",
            f"text = {to_text}",
        ],
        notes=f"A sentence has at most {positions:,} tokens.",
    )
