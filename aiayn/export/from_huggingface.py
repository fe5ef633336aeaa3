"""Import a MarianMTModel of Hugging Face transformers as a model file.

Neither transformers nor a network is needed, and no code of the folder is run.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.config import (
    Activation,
    Config,
    DecodeConfig,
    ModelConfig,
    Tie,
    decoder_layers,
)
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.data.settings import LANGUAGES, CodecSettings, Subword
from aiayn.data.vocabulary import TableVocabulary
from aiayn.errors import DataError, UsageError
from aiayn.export import marian_mt_model
from aiayn.export.foreign_files import (
    COPY_AGAIN,
    NOT_OURS,
    beam,
    check_sizes,
    float_weights,
    load_checkpoint,
    read_bytes,
    read_json,
    share,
    single_values,
    wanted_parameters,
)
from aiayn.special_ids import PAD

# Required values of settings in config.json, if they are there.
WANTED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
# Settings that encoder and decoder share in our models.
ON_BOTH_SIDES = ("ffn_dim", "attention_heads")
DEPTHS = ("encoder_layers", "decoder_layers")
# Our activation for each name of theirs; silu is another name of swish.
ACTIVATIONS: dict[str, Activation] = {
    **{marian_mt_model.their_activation(ours): ours for ours in get_args(Activation)},
    "silu": "swish",
}
SOURCE, TARGET, OUTPUT = (
    marian_mt_model.NAMES[f"{name}.weight"]
    for name in ("source_embedding", "target_embedding", "output")
)
# The pieces of our first three ids, and the defaults of MarianTokenizer.
SPECIAL_TOKENS = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


class IdMap(NamedTuple):
    """Our ids of one side: padding, EOS and unknown first, then as they were."""

    table: tuple[str, ...]
    """The piece of each of our ids."""
    order: Tensor
    """Their id for each of ours."""


def read(folder: Path) -> ModelFile:
    """Return the model of a folder, with our order of dimensions and our ids."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder, and nothing is downloaded",
            fix="give the folder of a MarianMTModel; one from a hub has to be downloaded first",
        )
    settings = _read_settings(folder / "config.json")
    tokenizer = _read_optional(folder / "tokenizer_config.json")
    source, target = _read_ids(folder, settings, tokenizer)
    codec = _codec(folder, tokenizer, source, target)
    theirs = _read_weights(folder)
    _complete(theirs, settings)
    output_bias = bool(theirs.get(marian_mt_model.OUTPUT_BIAS, torch.zeros(1)).any())
    config = _config(settings, _tie(theirs, shared=codec.shared), output_bias)
    rows = {
        "source_embedding.weight": source.order,
        "target_embedding.weight": target.order,
        "output.weight": target.order,
        "output.bias": target.order,
    }
    our_order = marian_mt_model.sines_first(config.d_model).argsort()
    weights = {}
    for name, wanted in wanted_parameters(Config(model=config), codec, len(theirs)).items():
        found = _take(theirs, marian_mt_model.their_name(name), wanted.shape)
        found = found[rows[name]] if name in rows else found
        weights[name] = marian_mt_model.reorder(name, found, our_order).contiguous()
    if weights["target_embedding.weight"][PAD].any():
        raise DataError(
            "the embedding of padding, from which the decoder starts, is not zero",
            fix=NOT_OURS,
        )
    if config.tie != "none":
        weights["output.weight"] = weights["target_embedding.weight"]
    if config.tie == "all":
        weights["source_embedding.weight"] = weights["target_embedding.weight"]
    search = {**settings, **_read_optional(folder / "generation_config.json")}
    # The beam only: their length penalty is another formula, so alpha stays ours.
    decode = DecodeConfig(beam=beam(search.get("num_beams")))
    whole, history = Config(model=config, decode=decode), {"imported": folder.resolve().name}
    return ModelFile(config=whole, codec=codec, weights=weights, history=history)


def _read_settings(path: Path) -> dict[str, Any]:
    """Read config.json; refuse what our models cannot represent."""
    settings = {"model_type": "not given", **single_values(read_json(path))}

    def refuse(name: str, wanted: object, fix: str = NOT_OURS) -> None:
        found = settings.get(name)
        raise DataError(f"{path}: {name} is {found}, expected {wanted}", fix=fix)

    if settings["model_type"] != "marian":
        refuse("model_type", "marian", "give the folder of a MarianMTModel")
    of_encoder = (f"encoder_{name}" for name in ON_BOTH_SIDES)
    sizes = ["vocab_size", "d_model", *DEPTHS, *of_encoder]
    sizes += ["decoder_vocab_size"] * (settings.get("decoder_vocab_size") is not None)
    check_sizes(settings, sizes, path)
    wanted: dict[str, Any] = {name: value for name, value in WANTED.items() if name in settings}
    wanted |= {f"decoder_{name}": settings.get(f"encoder_{name}") for name in ON_BOTH_SIDES}
    wanted["decoder_start_token_id"] = settings.get("pad_token_id")
    for name, value in wanted.items():
        if settings.get(name) != value or value is None:
            refuse(name, value)
    if settings.get("activation_function") not in ACTIVATIONS:
        refuse("activation_function", " or ".join(ACTIVATIONS))
    return settings


def _config(settings: dict[str, Any], tie: Tie, output_bias: bool) -> ModelConfig:
    heads = settings["encoder_attention_heads"]
    return ModelConfig(
        layers=settings["encoder_layers"],
        decoder_layers=decoder_layers(*(settings[depth] for depth in DEPTHS)),
        d_model=settings["d_model"],
        d_ff=settings["encoder_ffn_dim"],
        heads=heads,
        d_k=settings["d_model"] // heads,
        d_v=settings["d_model"] // heads,
        dropout=share({"dropout": 0.1, **settings}, "dropout"),
        attention_dropout=share(settings, "attention_dropout"),
        relu_dropout=share(settings, "activation_dropout"),
        activation=ACTIVATIONS[settings["activation_function"]],
        norm_epsilon=marian_mt_model.NORM_EPSILON,
        positions="sinusoidal",
        tie=tie,
        output_bias=output_bias,
    )


def _read_ids(
    folder: Path, settings: dict[str, Any], tokenizer: dict[str, Any]
) -> tuple[IdMap, IdMap]:
    """Map the ids of both sides, which share one table unless the tokenizer says otherwise."""
    tokens = [tokenizer.get(name, usual) for name, usual in SPECIAL_TOKENS.items()]
    # Older folders describe a token by its content and more.
    tokens = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    if not all(isinstance(token, str) for token in tokens):
        where = folder / "tokenizer_config.json"
        raise DataError(f"{where} does not name its special tokens", fix=COPY_AGAIN)
    source = _order(folder / "vocab.json", settings["vocab_size"], tokens)
    name = "target_vocab.json" if tokenizer.get("separate_vocabs") else "vocab.json"
    size = settings.get("decoder_vocab_size") or settings["vocab_size"]
    target = _order(folder / name, size, tokens)
    for key, wanted in zip(("pad_token_id", "eos_token_id"), target.order, strict=False):
        if settings.get(key) != wanted:
            raise DataError(
                f"{folder / 'config.json'}: {key} is {settings.get(key)}, and {name} says"
                f" {wanted}",
                fix="correct one of the two files",
            )
    return source, target


def _order(path: Path, size: int, tokens: list[str]) -> IdMap:
    ids: dict[str, int] = single_values(read_json(path))
    missing = [token for token in tokens if token not in ids]
    if missing or len(ids) != size or {*ids.values()} != {*range(len(ids))}:
        lack = f"lacks {', '.join(missing)}" if missing else f"has {len(ids):,} ids"
        raise DataError(
            f"{path} {lack}, expected the ids 0 to {size - 1:,} with {', '.join(tokens)}",
            fix="take the file that belongs to the weights",
        )
    first = [ids[token] for token in tokens]
    pieces = {i: piece for piece, i in ids.items()}
    order = first + [i for i in range(size) if i not in first]
    return IdMap(tuple(pieces[i] for i in order), torch.tensor(order))


def _codec(folder: Path, tokenizer: dict[str, Any], source: IdMap, target: IdMap) -> Codec:
    """Return the vocabularies with our ids; a folder that we wrote holds its own."""
    if (folder / VOCABULARY_FOLDER).is_dir():
        return Codec.load(folder / VOCABULARY_FOLDER)
    models = [read_bytes(folder / name) for name in ("source.spm", "target.spm")]
    kinds = {_kind(model, folder) for model in models}
    kind: Subword = "bpe" if kinds == {"bpe"} else "unigram"
    languages = f"{tokenizer.get('source_lang')}-{tokenizer.get('target_lang')}"
    # Our settings name two languages; groups such as ROMANCE are left out.
    first, _, second = languages.partition("-") if LANGUAGES.fullmatch(languages) else ("",) * 3
    return Codec(
        TableVocabulary(models[0], kind, source.table),
        TableVocabulary(models[1], kind, target.table),
        CodecSettings(subword=kind, source_language=first, target_language=second),
    )


def _kind(model: bytes, folder: Path) -> Subword:
    """Return the kind of a SentencePiece model by its scores: those of BPE are ranks."""
    processor = SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except RuntimeError as problem:
        raise DataError(
            f"{folder}: source.spm or target.spm is not a SentencePiece model: {problem}",
            fix=COPY_AGAIN,
        ) from None
    scores = (processor.get_score(i) for i in range(processor.get_piece_size()))
    return "bpe" if all(score == int(score) for score in scores) else "unigram"


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights onto the CPU; opening them never runs code."""
    modern, older = folder / "model.safetensors", folder / "pytorch_model.bin"
    path = modern if modern.is_file() else older
    if not path.is_file():
        raise DataError(
            f"{folder} holds neither {modern.name} nor {older.name}",
            fix="give the folder of a MarianMTModel with its weights",
        )
    try:
        theirs = load_file(path) if path == modern else load_checkpoint(path)
    except (SafetensorError, OSError) as problem:
        raise DataError(f"{path} cannot be read: {problem}", fix=COPY_AGAIN) from None
    return float_weights(theirs, path)  # many are stored in float16


def _complete(theirs: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Add matrices that are tied and so not stored; scale embeddings as we do."""
    for name, instead in (
        (SOURCE, marian_mt_model.SHARED),
        (TARGET, marian_mt_model.SHARED),
        (OUTPUT, TARGET),
    ):
        if name not in theirs and instead in theirs:
            theirs[name] = theirs[instead]
    # Our models multiply embeddings by sqrt(d_model); one that does not is divided by it.
    if not settings.get("scale_embedding", False):
        for name in theirs.keys() & {SOURCE, TARGET}:
            # Not in place: the output may be the same matrix.
            theirs[name] = theirs[name] / math.sqrt(settings["d_model"])


def _tie(theirs: dict[str, Tensor], *, shared: bool) -> Tie:
    """Return which matrices are equal, and so can be tied."""
    source, target, output = (theirs.get(n, torch.empty(0)) for n in (SOURCE, TARGET, OUTPUT))
    if not torch.equal(target, output):
        return "none"
    return "all" if shared and torch.equal(source, target) else "target"


def _take(theirs: dict[str, Tensor], name: str, shape: torch.Size) -> Tensor:
    """Return a weight of the shape that the settings give it."""
    found = theirs.get(name)
    if found is None:
        raise DataError(f"the weights lack {name}", fix=COPY_AGAIN)
    found = found.flatten() if name == marian_mt_model.OUTPUT_BIAS else found
    if found.shape != shape:
        raise DataError(
            f"{name} is {list(found.shape)}, and config.json says {list(shape)}",
            fix="take the config.json that belongs to the weights",
        )
    return found


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}
