"""Import a `transformer` of fairseq: its checkpoint, dictionaries and BPE codes.

fairseq is not needed, and nothing in the checkpoint is run: of its pickle only tensors, plain
values and the namespace of options are read. Three things differ from our Transformer, and all
three go into tables of positions: its sinusoids are those of tensor2tensor, count from 2, and
its decoder starts from the embedding of EOS, which is added to the first target position.
"""

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.config import Config, ModelConfig, Tie, decoder_layers
from aiayn.data.bpe_codes import CodesVocabulary
from aiayn.data.codec import Codec
from aiayn.data.settings import LANGUAGES, CodecSettings, Pretokenize
from aiayn.data.vocabulary import TableVocabulary
from aiayn.errors import DataError, UsageError
from aiayn.export.foreign_files import (
    COPY_AGAIN,
    NOT_OURS,
    check_sizes,
    float_weights,
    load_checkpoint,
    read_bytes,
    share,
    single_values,
    wanted_parameters,
)
from aiayn.export.marian_mt_model import their_name
from aiayn.model.positions import halves
from aiayn.special_ids import EOS

# The first ids of every dictionary, and ours for them.
FIRST = ("<s>", "<pad>", "</s>", "<unk>")
OURS = (3, 0, 1, 2)
# Positions count from here: from the id of padding, and one more.
OFFSET = 2
# Rows of a table of sinusoids: as many tokens as fairseq takes unless told otherwise.
POSITIONS = 1024
NORM_EPSILON = 1e-5

# Options of `fairseq-train`, what they are if a checkpoint does not tell, and what is wanted.
SAME = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "layernorm_embedding": False,
    "no_token_positional_embeddings": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "activation_fn": "relu",
}
DEPTHS = ("encoder_layers", "decoder_layers")
# Sizes that encoder and decoder share in our models.
ON_BOTH_SIDES = ("embed_dim", "ffn_embed_dim", "attention_heads", "learned_pos")
SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT, OLDER_OUTPUT = "decoder.output_projection.weight", "decoder.embed_out"
# What layers' norms were called by number.
NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


class TrainingMeter:
    """Stands in for what a checkpoint tells of its training, which is not read."""


METERS = [
    (TrainingMeter, f"fairseq.meters.{name}")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")
]


def read(path: Path, pretokenize: Pretokenize) -> ModelFile:
    """Return the model of a folder, or of a checkpoint in one, with our ids."""
    checkpoint = path / "model.pt" if path.is_dir() else path
    if not checkpoint.is_file():
        raise UsageError(
            f"{checkpoint} does not exist",
            fix="give a folder with model.pt, dict.*.txt and BPE codes, or a checkpoint in one",
        )
    options, theirs = _read_checkpoint(checkpoint)
    codec = _codec(checkpoint.parent, options, pretokenize)
    _upgrade(theirs)
    _complete(theirs, options, checkpoint)
    config = Config(model=_config(options, theirs, shared=codec.shared))
    wanted = wanted_parameters(config, codec, len(theirs))
    weights = {
        name: _take(theirs, name, parameter.shape)
        for name, parameter in wanted.items()
        if "positions" not in name
    }
    if config.model.tie == "all":
        weights["source_embedding.weight"] = weights["target_embedding.weight"]
    if config.model.tie != "none":
        weights["output.weight"] = weights["target_embedding.weight"]
    for side, table in _positions(theirs, config.model).items():
        weights[f"{side}_positions.table"] = table
    # What the decoder starts from; there only is one such position.
    weights["target_positions.table"][0] += weights["target_embedding.weight"][EOS]
    weights = {name: weights[name] for name in wanted}
    history = {"imported": path.resolve().name}
    return ModelFile(config=config, codec=codec, weights=weights, history=history)


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the options of a checkpoint and its weights; refuse what we cannot represent."""
    content = load_checkpoint(path, [Namespace, *METERS])
    told = (content.get("args") or content.get("cfg")) if isinstance(content, dict) else None
    if not isinstance(told, Namespace | dict) or not told:
        raise DataError(f"{path} is not a checkpoint of fairseq", fix=COPY_AGAIN)
    told = vars(told) if isinstance(told, Namespace) else told
    options = single_values(told)
    for section in ("task", "model"):
        # Newer checkpoints have a section for each component.
        options |= single_values(told.get(section))
    return _check(options, path), float_weights(content.get("model"), path)


def _check(options: dict[str, Any], path: Path) -> dict[str, Any]:
    """Refuse options that our models cannot represent; name them."""
    both = {f"decoder_{size}": f"encoder_{size}" for size in ON_BOTH_SIDES}
    wanted = {**SAME, **{d: options.get(e) for d, e in both.items() if d in options}}
    options["arch"] = str(options.get("arch") or options.get("_name"))
    # `transformer_wmt_en_de_big` is another set of sizes of the one network.
    wanted["arch"] = (
        options["arch"] if options["arch"].startswith("transformer") else "transformer"
    )
    options.setdefault("decoder_layers", options.get("encoder_layers"))
    for name, value in wanted.items():
        # An older fairseq does not tell options that it did not have.
        if (options.get(name, SAME.get(name)) or None) != (value or None):
            raise DataError(
                f"{path}: {name} is {options.get(name)!r}, and {value!r} is wanted",
                fix=NOT_OURS,
            )
    sizes = [f"encoder_{size}" for size in ON_BOTH_SIDES[:-1]]
    check_sizes(options, [*DEPTHS, *sizes], path)
    if options["encoder_embed_dim"] % options["encoder_attention_heads"]:
        reason = "encoder_attention_heads does not divide encoder_embed_dim"
        raise DataError(f"{path}: {reason}", fix=NOT_OURS)
    return options


def _config(options: dict[str, Any], theirs: dict[str, Tensor], *, shared: bool) -> ModelConfig:
    d_model, heads = options["encoder_embed_dim"], options["encoder_attention_heads"]
    source, target, output = (theirs[name] for name in (SOURCE, TARGET, OUTPUT))
    tie: Tie = "none"
    if torch.equal(target, output):
        tie = "all" if shared and torch.equal(source, target) else "target"
    rows = [len(table) - OFFSET for name, table in theirs.items() if _is_table(name)]
    return ModelConfig(
        layers=options["encoder_layers"],
        decoder_layers=decoder_layers(*(options[depth] for depth in DEPTHS)),
        d_model=d_model,
        d_ff=options["encoder_ffn_embed_dim"],
        heads=heads,
        d_k=d_model // heads,
        d_v=d_model // heads,
        norm_epsilon=NORM_EPSILON,
        dropout=share(options, "dropout"),
        attention_dropout=share(options, "attention_dropout"),
        relu_dropout=share(options, "activation_dropout") or share(options, "relu_dropout"),
        positions="learned",
        max_positions=max(min(rows, default=POSITIONS), 1),
        tie=tie,
    )


def _upgrade(theirs: dict[str, Tensor]) -> None:
    """Give weights of older checkpoints their names of today."""
    for name in list(theirs):
        start, joined, kind = name.partition("in_proj_")
        if joined:
            parts = theirs.pop(name).chunk(3)
            for letter, part in zip("qkv", parts, strict=False):
                theirs[f"{start}{letter}_proj.{kind}"] = part
        start, numbered, rest = name.partition("layer_norms.")
        number, _, kind = rest.partition(".")
        stack = NORMS.get(start.partition(".")[0], ())
        if numbered and number.isdigit() and int(number) < len(stack):
            theirs[f"{start}{stack[int(number)]}.{kind}"] = theirs.pop(name)


def _complete(theirs: dict[str, Tensor], options: dict[str, Any], path: Path) -> None:
    """Add matrices that are tied and so not stored; scale embeddings as we do."""
    for name in (SOURCE, TARGET):
        if name not in theirs:
            raise DataError(f"{path} lacks {name}", fix=COPY_AGAIN)
    older = theirs.get(OLDER_OUTPUT, theirs[TARGET])
    theirs.setdefault(OUTPUT, older)
    if options.get("no_scale_embedding"):
        for name in (SOURCE, TARGET):
            # Not in place: the output may be the same matrix.
            theirs[name] = theirs[name] / math.sqrt(options["encoder_embed_dim"])


def _is_table(name: str) -> bool:
    return name.endswith("embed_positions.weight")


def _positions(theirs: dict[str, Tensor], c: ModelConfig) -> dict[str, Tensor]:
    """Return the rows that are added to embeddings; our model multiplies them by sqrt(d)."""
    found = {}
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        learned = theirs.get(f"{stack}.embed_positions.weight")
        if learned is None:
            learned = halves(c.max_positions + OFFSET, c.d_model).float()
        table = learned[OFFSET : OFFSET + c.max_positions] / math.sqrt(c.d_model)
        if table.shape != (c.max_positions, c.d_model):
            raise DataError(
                f"{stack}.embed_positions.weight is {list(learned.shape)}, and"
                f" {[c.max_positions + OFFSET, c.d_model]} is wanted",
                fix=COPY_AGAIN,
            )
        found[side] = table.contiguous()
    return found


def _take(theirs: dict[str, Tensor], name: str, shape: torch.Size) -> Tensor:
    """Return a weight of the shape that options and dictionaries give it."""
    named = OUTPUT if name == "output.weight" else their_name(name).removeprefix("model.")
    found = theirs.get(named)
    if found is None:
        raise DataError(f"the checkpoint lacks {named}", fix=COPY_AGAIN)
    if found.shape != shape:
        raise DataError(
            f"{named} is {list(found.shape)}, and options and dictionaries want {list(shape)}",
            fix="take the files that belong together",
        )
    if name.split(".")[0] not in ("source_embedding", "target_embedding", "output"):
        return found.contiguous()
    rows = found.clone()
    rows[list(OURS)] = found[: len(FIRST)]
    return rows


def _codec(folder: Path, options: dict[str, Any], pretokenize: Pretokenize) -> Codec:
    """Return the vocabularies with our ids."""
    languages = f"{options.get('source_lang')}-{options.get('target_lang')}"
    if not LANGUAGES.fullmatch(languages):
        raise DataError(
            f"the checkpoint's languages are {languages}, and two such as en-fr are wanted",
            fix=NOT_OURS,
        )
    codes = _find_codes(folder)
    sides = []
    for language in languages.split("-"):
        first = [name for _, name in sorted(zip(OURS, FIRST, strict=True))]
        table = (*first, *_read_dictionary(folder / f"dict.{language}.txt"))
        try:
            if codes.suffix in (".model", ".spm"):
                kind = TableVocabulary.of_model(read_bytes(codes)).kind
                sides.append(TableVocabulary(read_bytes(codes), kind, table))
            else:
                sides.append(CodesVocabulary(read_bytes(codes), "bpe", table))
        except (DataError, RuntimeError) as problem:
            raise DataError(
                f"{codes} is not a file of BPE codes: {problem}", fix=COPY_AGAIN
            ) from None
    source, target = sides
    target = source if source.table == target.table else target
    first_language, second = languages.split("-")
    settings = CodecSettings(
        subword=source.kind,
        pretokenize=pretokenize,
        source_language=first_language,
        target_language=second,
    )
    return Codec(source, target, settings)


def _find_codes(folder: Path) -> Path:
    """Return the file of merges, or the SentencePiece model, by the names that are usual."""
    found = sorted({*folder.glob("*code*"), *folder.glob("*.spm"), *folder.glob("*.model")})
    if len(found) != 1:
        raise DataError(
            f"{folder} holds {len(found)} files of BPE codes (bpecodes, code, *.codes,"
            " sentencepiece.bpe.model), and one is wanted",
            fix="put it beside the checkpoint",
        )
    return found[0]


def _read_dictionary(path: Path) -> list[str]:
    """Return the pieces of a dictionary: lines of a piece and its count."""
    try:
        lines = read_bytes(path).decode().rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8", fix=COPY_AGAIN) from None
    pieces: dict[str, None] = dict.fromkeys(FIRST)
    for number, line in enumerate(lines, start=1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not piece or not count.isdecimal() or piece in pieces:
            raise DataError(
                f"{path}, line {number}: {line!r} is not a new piece and its count",
                fix=COPY_AGAIN,
            )
        pieces[piece] = None
    return list(pieces)[len(FIRST) :]
