"""Import a model of Marian: its .npz, and the SentencePiece models of its vocabularies.

Marian itself is not needed, and nothing in the files is run.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
import yaml
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.config import (
    ALPHA_LIMIT,
    Activation,
    Config,
    DecodeConfig,
    ModelConfig,
    Tie,
    decoder_layers,
)
from aiayn.config_file import read_yaml
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.data.settings import CodecSettings
from aiayn.data.vocabulary import TableVocabulary, Vocabulary
from aiayn.errors import DataError, UsageError
from aiayn.export import marian_names as names
from aiayn.export.foreign_files import (
    COPY_AGAIN,
    NOT_OURS,
    beam,
    check_sizes,
    parse_yaml,
    read_arrays,
    read_bytes,
    single_values,
    wanted_parameters,
)
from aiayn.export.marian import CONFIG, DECODER

DEPTHS = ("enc-depth", "dec-depth")
SIZES = (*DEPTHS, "dim-emb", "transformer-heads", "transformer-dim-ffn")
# Where the output is not tied, older versions stored it the other way round.
OLDER_OUTPUT = "decoder_ff_logit_out_W"
# SentencePiece models beside vocabularies in YAML, as OPUS-MT has them.
SPM = ("source.spm", "target.spm")


class Side(NamedTuple):
    """The vocabulary of one side, and our id for each of theirs."""

    vocabulary: Vocabulary
    ours: list[int]


class Files(NamedTuple):
    """What a folder of Marian's holds."""

    model: Path
    vocabularies: Sequence[Path]
    """Of source and target: SentencePiece models, or YAML with the id of each piece."""
    decode: DecodeConfig
    """The search that marian-decoder would make."""


def read(path: Path) -> ModelFile:
    """Return the model of a folder, or of a .npz file in one, with our ids."""
    files = _find(path)
    arrays = read_arrays(files.model)
    settings = _read_settings(files.model, arrays)
    theirs = {
        name: torch.from_numpy(array.astype(np.float32)) for name, array in arrays.items()
    }
    tables = settings["type"] == "transformer-new" and bool(
        settings.get("transformer-train-position-embeddings")
    )
    _complete(theirs, files.model, scaled=math.sqrt(settings["dim-emb"]) if tables else 1.0)
    folder = files.model.parent
    if (folder / CONFIG).is_file():
        config = _read_our_config(folder / CONFIG)
        codec = Codec.load(folder / VOCABULARY_FOLDER)
        sides = [Side(v, v.ids_of_model()) for v in (codec.source, codec.target)]
    else:
        sides = _read_sides(files.vocabularies)
        codec = _codec(sides)
        model = _config(settings, theirs, tables=tables, shared=codec.shared)
        config = Config(model=model, decode=files.decode)
    wanted = wanted_parameters(config, codec, len(theirs))
    weights = {
        name: _take(theirs, name, parameter, settings, sides)
        for name, parameter in wanted.items()
    }
    # Not the embedding: where positions are a table, scaling it has rounded it.
    if config.model.tie != "none":
        weights["target_embedding.weight"] = weights["output.weight"]
    if config.model.tie == "all" and codec.shared:
        weights["source_embedding.weight"] = weights["output.weight"]
    history = {"imported": path.resolve().name}
    return ModelFile(config=config, codec=codec, weights=weights, history=history)


def _find(path: Path) -> Files:
    """Return the files of a model; what belongs to it lies beside it."""
    folder = path if path.is_dir() else path.parent
    models = [path]
    if path.is_dir():
        models = [x for x in sorted(path.glob("*.npz")) if not x.stem.endswith(".optimizer")]
    if len(models) != 1 or not models[0].is_file():
        raise UsageError(
            f"{path} is not a model of Marian (.npz), nor a folder with one of them",
            fix="where there are several, give the .npz file itself",
        )
    (model,) = models
    listed = next(
        (x for x in (Path(f"{model}.{DECODER}"), folder / DECODER) if x.is_file()), None
    )
    told = parse_yaml(read_bytes(listed), listed) if listed else {}
    vocabs = told.get("vocabs") or []
    if not isinstance(vocabs, list) or not all(isinstance(name, str) for name in vocabs):
        raise DataError(f"{listed}: vocabs is not a list of files", fix=COPY_AGAIN)
    found = [folder / Path(name).name for name in vocabs] or sorted(folder.glob("*.spm"))
    if len(found) == 1:
        found *= 2
    missing = [x for x in found if not x.is_file()]
    if len(found) != 2 or missing:
        has = (
            f"lacks {missing[0].name}" if missing else f"holds {len(found)} vocabularies (.spm)"
        )
        raise DataError(
            f"{folder} {has}, and those of source and target are wanted",
            fix=f"put them beside {model.name}, and name them in {DECODER} as `vocabs`",
        )
    return Files(model, found, _decode(told))


def _decode(told: dict[Any, Any]) -> DecodeConfig:
    """Return the search that a file for marian-decoder describes."""
    alpha = told.get("normalize") or 0
    is_exponent = isinstance(alpha, int | float) and 0 <= alpha < ALPHA_LIMIT
    return DecodeConfig(
        beam=beam(told.get("beam-size")),
        alpha=float(alpha) if is_exponent else 0.0,
        beam_rule="marian",
    )


def _read_our_config(path: Path) -> Config:
    """Return the settings that our export has written."""
    try:
        return read_yaml(path, Config())
    except UsageError as problem:
        raise DataError(problem.message, fix=COPY_AGAIN) from None


def _read_settings(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Read the settings in a .npz file; refuse what our models cannot represent."""
    if names.SETTINGS not in arrays:
        raise DataError(f"{path} has no {names.SETTINGS}", fix="give a model that Marian wrote")
    text = arrays[names.SETTINGS].tobytes().rstrip(b"\0")
    settings = single_values(parse_yaml(text, path))
    for name, allowed in _allowed(settings).items():
        if settings.get(name) not in allowed:
            raise DataError(
                f"{path}: {name} is {settings.get(name)!r}, and"
                f" {' or '.join(map(repr, allowed))} is wanted",
                fix=NOT_OURS,
            )
    check_sizes(settings, SIZES, path)
    if settings["dim-emb"] % settings["transformer-heads"]:
        raise DataError(f"{path}: transformer-heads does not divide dim-emb", fix=NOT_OURS)
    return settings


def _allowed(settings: dict[str, Any]) -> dict[str, Sequence[object]]:
    """Return the values that some settings may have; what a file does not tell is as usual."""
    usual = {name: value for name, value in names.WANTED.items() if name in settings}
    return {
        **{name: [value] for name, value in usual.items()},
        "type": get_args(names.Type),
        "transformer-ffn-activation": get_args(Activation),
        "transformer-postprocess-emb": ["d", "", None],
        "transformer-train-positions": [False, None],
    }


def _complete(theirs: dict[str, Tensor], path: Path, *, scaled: float) -> None:
    """Add matrices that are tied and so not stored; scale embeddings as we do."""
    for name in (names.SOURCE, names.TARGET):
        if name not in theirs and names.SHARED in theirs:
            theirs[name] = theirs[names.SHARED]
        if name not in theirs:
            raise DataError(f"{path} lacks {name}", fix=COPY_AGAIN)
    for name in (OLDER_OUTPUT, *names.OUTSIDE_LAYERS.values()):
        if name in theirs and theirs[name].dim() != 2:
            raise DataError(f"{path}: {name} is not a matrix", fix=COPY_AGAIN)
    if names.OUTPUT not in theirs:
        older = theirs.get(OLDER_OUTPUT)
        theirs[names.OUTPUT] = theirs[names.TARGET] if older is None else older.mT
    for name in (names.SOURCE, names.TARGET):
        theirs[name] = theirs[name] / scaled


def _config(
    settings: dict[str, Any], theirs: dict[str, Tensor], *, tables: bool, shared: bool
) -> ModelConfig:
    heads, d_model = settings["transformer-heads"], settings["dim-emb"]
    tie: Tie = "none"
    if settings.get("tied-embeddings") or settings.get("tied-embeddings-all"):
        tie = "all" if shared and settings.get("tied-embeddings-all") else "target"
    positions = names.OUTSIDE_LAYERS["target_positions.table"]
    rows = theirs.get(positions, torch.empty(0))
    return ModelConfig(
        layers=settings["enc-depth"],
        decoder_layers=decoder_layers(*(settings[depth] for depth in DEPTHS)),
        d_model=d_model,
        d_ff=settings["transformer-dim-ffn"],
        heads=heads,
        d_k=d_model // heads,
        d_v=d_model // heads,
        activation=settings["transformer-ffn-activation"],
        norm_epsilon=names.NORM_EPSILON,
        positions="learned" if tables else "halves",
        max_positions=max(len(rows), 1),
        # A table of positions comes with embeddings that are not scaled, but the output.
        tie="none" if tables else tie,
        output_bias=bool(theirs.get(names.OUTPUT_BIAS, torch.zeros(1)).any()),
    )


def _read_sides(paths: Sequence[Path]) -> list[Side]:
    """Read the vocabularies of source and target; one object if they are the same."""
    source, target = (_read_side(path, name) for path, name in zip(paths, SPM, strict=True))
    if paths[0] == paths[1] and source.vocabulary.model_bytes == target.vocabulary.model_bytes:
        return [source, source]
    return [source, target]


def _read_side(path: Path, beside: str) -> Side:
    model = path if path.suffix == ".spm" else path.with_name(beside)
    try:
        vocabulary = TableVocabulary.of_model(read_bytes(model))
    except RuntimeError as problem:
        raise DataError(
            f"{model} is not a SentencePiece model: {problem}", fix=COPY_AGAIN
        ) from None
    if path == model:
        return Side(vocabulary, vocabulary.ids_of_model())
    # All of it is text for this loader: a piece may be `1` or `no`.
    ids = single_values(parse_yaml(read_bytes(path), path, yaml.BaseLoader))
    marks = ["</s>", "<unk>"]
    if {*ids.values()} != {*map(str, range(len(ids)))} or not ids.keys() >= {*marks}:
        raise DataError(
            f"{path} does not give the ids 0 to {len(ids) - 1:,} with </s> and <unk>",
            fix=COPY_AGAIN,
        )
    pieces = sorted(ids, key=lambda piece: int(ids[piece]))
    table = tuple(dict.fromkeys(["<pad>", *marks, *pieces]))
    ours = {piece: i for i, piece in enumerate(table)}
    listed = TableVocabulary(vocabulary.model_bytes, vocabulary.kind, table)
    return Side(listed, [ours[piece] for piece in pieces])


def _codec(sides: list[Side]) -> Codec:
    kinds = {side.vocabulary.kind for side in sides}
    settings = CodecSettings(subword="bpe" if kinds == {"bpe"} else "unigram")
    return Codec(sides[0].vocabulary, sides[1].vocabulary, settings)


def _take(
    theirs: dict[str, Tensor],
    name: str,
    wanted: Tensor,
    settings: dict[str, Any],
    sides: list[Side],
) -> Tensor:
    """Return a parameter of ours, of the shape that the settings give it."""
    activation = settings["transformer-ffn-activation"]
    their_name = names.their_name(name, settings["type"], activation)
    found = theirs.get(their_name)
    if found is None:
        raise DataError(f"the model lacks {their_name}", fix=COPY_AGAIN)
    part = name.split(".")[0]
    ours = {"source_embedding": sides[0].ours, "target_embedding": sides[1].ours}
    ours["output"] = sides[1].ours
    shape = list(wanted.shape)
    if part in ours:
        shape[0] = len(ours[part])
    if part in ("source_positions", "target_positions"):
        found = found[: shape[0]] / math.sqrt(settings["dim-emb"])
    found = found.mT if names.is_transposed(name) and found.dim() == 2 else found
    found = found.flatten() if wanted.dim() == 1 else found
    if list(found.shape) != shape:
        raise DataError(
            f"{their_name} is {list(found.shape)}, and settings and vocabulary want {shape}",
            fix="take the files that belong together",
        )
    if part not in ours:
        return found.contiguous()
    # Padding, which Marian does not have, is zero.
    rows = torch.zeros(wanted.shape)
    rows[ours[part]] = found
    return rows
