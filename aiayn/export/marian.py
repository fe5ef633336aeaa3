"""Export to Marian, a toolkit in C++: weights in a .npz with their YAML, SentencePiece models.

Of its two Transformers, that of all versions has the sinusoids of tensor2tensor: a model with
model.positions=halves becomes one, which CTranslate2's converter reads too. Other positions
need a table, and so the newer one. Its layer normalization has another epsilon, which is
rounding.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.config_file import to_yaml
from aiayn.data.atomic import atomic_write, write_bytes
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.data.vocabulary import TableVocabulary, Vocabulary
from aiayn.errors import UsageError
from aiayn.export import marian_names as names
from aiayn.export.readme import readme
from aiayn.model.transformer import Transformer
from aiayn.special_ids import PAD

MODEL, DECODER, CONFIG = "model.npz", "decoder.yml", "config.yaml"
# Rows of a table of positions: the longest sentence that Marian takes unless told otherwise.
POSITIONS = 1000
# Of CTranslate2's converter, which has other sinusoids and takes a table instead.
CONVERTER_POSITIONS = "Wpos"
# Added to the logit of padding, which no search may choose; float16 can hold it.
NEVER = -1e4


def write(file: ModelFile, folder: Path) -> None:
    """Write a model into an empty folder, with its vocabulary and a README."""
    _check(file)
    rows = [_rows(vocabulary) for vocabulary in (file.codec.source, file.codec.target)]
    model = file.build()
    arrays = {name: weight.numpy() for name, weight in _weights(model, *rows).items()}
    settings = _settings(file, model, rows)
    text = yaml.safe_dump(settings).encode() + b"\0"
    arrays[names.SETTINGS] = np.frombuffer(text, dtype=np.int8)
    with atomic_write(folder / MODEL) as out:
        np.savez(out, allow_pickle=False, **arrays)
    decoder = _decoder(file)
    write_bytes(folder / DECODER, yaml.safe_dump(decoder, sort_keys=False).encode())
    for name, vocabulary in zip(decoder["vocabs"], _vocabularies(file.codec), strict=False):
        write_bytes(folder / name, vocabulary.model_bytes)
        listed = Path(name).with_suffix(".yml")
        write_bytes(folder / listed, _listed(vocabulary).encode())
    # What Marian has no name for; `aiayn import` takes it from here.
    write_bytes(folder / CONFIG, to_yaml(file.config).encode())
    file.codec.save(folder / VOCABULARY_FOLDER)
    write_bytes(folder / "README.md", _readme(file).encode())


def _check(file: ModelFile) -> None:
    """Refuse what a Transformer of Marian cannot be."""
    c, codec = file.config.model, file.codec
    width = f"d_model / heads = {c.d_model / c.heads:g}"
    sides = (codec.source, codec.target)
    same = codec.source.model_bytes == codec.target.model_bytes
    found = {
        f"model.d_k is {c.d_k}, and {width}": c.d_k * c.heads != c.d_model,
        f"model.d_v is {c.d_v}, and {width}": c.d_v * c.heads != c.d_model,
        f"model.attention_window is {c.attention_window}, and 0": c.attention_window,
        "the vocabulary is of whole words, and one of subwords": any(
            side.kind == "word" for side in sides
        ),
        "the vocabulary is of BPE codes, and one of SentencePiece": any(
            side.suffix != "model" for side in sides
        ),
        "the two sides share ids and not their SentencePiece model, and one": (
            codec.shared and not same
        ),
        "the vocabulary has ids that SentencePiece does not know, and the same ids": any(
            isinstance(side, TableVocabulary) and not side.is_of_model for side in sides
        ),
    }
    if reasons := [f"{problem} is wanted" for problem, is_so in found.items() if is_so]:
        raise UsageError(
            f"Marian cannot have this model: {'; '.join(reasons)}",
            fix="export to ctranslate2, which has more forms, or train with these settings",
        )


def _rows(vocabulary: Vocabulary) -> Tensor:
    """Return our id for each id of the SentencePiece model, as which Marian knows the piece."""
    return torch.tensor(vocabulary.ids_of_model())


@torch.no_grad()
def _weights(model: Transformer, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Return the parameters under their names in Marian, with its ids."""
    c = model.config
    type_ = names.type_for(c)
    state = dict(model.state_dict())
    if c.output_bias is False:
        state["output.bias"] = torch.zeros(model.output.out_features)
    # It keeps padding from being chosen.
    state["output.bias"] = state["output.bias"].clone()
    state["output.bias"][PAD] = NEVER
    rows = {"source_embedding": source, "target_embedding": target, "output": target}
    for name in state:
        if (part := name.split(".")[0]) in rows:
            state[name] = state[name][rows[part]]
    if not c.attention_bias:
        projections = [name for name in state if "attention.w_" in name]
        state |= {
            f"{n.removesuffix('weight')}bias": torch.zeros(c.d_model) for n in projections
        }
    for side, positions in (
        ("source", model.source_positions),
        ("target", model.target_positions),
    ):
        # The last row stands for later positions, which our own model refuses.
        row = torch.arange(POSITIONS).clamp(max=(positions.limit or POSITIONS) - 1)
        state[f"{side}_positions.table"] = positions(0, int(row[-1]) + 1)[row]
    if type_ == "transformer-new":
        # Where positions are a table, Marian does not multiply embeddings by sqrt(d_model).
        for embedding in (model.source_embedding, model.target_embedding):
            side = "source" if embedding is model.source_embedding else "target"
            state[f"{side}_embedding.weight"] = (
                state[f"{side}_embedding.weight"] * embedding.scale
            )
    found = {
        names.their_name(name, type_, c.activation): names.as_rows(name, weight, type_)
        for name, weight in state.items()
    }
    return {name: weight.contiguous() for name, weight in _tie(found, model, type_).items()}


def _tie(found: dict[str, Tensor], model: Transformer, type_: names.Type) -> dict[str, Tensor]:
    """Store a matrix once that is used more than once; a scaled embedding is not the output."""
    shared = model.source_embedding.weight is model.target_embedding.weight
    tied = model.output.weight is model.target_embedding.weight
    if tied and type_ == "transformer":
        del found[names.OUTPUT]
    if shared:
        found[names.SHARED] = found.pop(names.SOURCE)
        del found[names.TARGET]
    if type_ == "transformer":
        positions = [name for name in found if name.endswith("positionEmbedding->embeddings")]
        tables = [found.pop(name) for name in positions]
        found[CONVERTER_POSITIONS] = tables[0]
    return found


def _settings(file: ModelFile, model: Transformer, rows: list[Tensor]) -> dict[str, Any]:
    """Return the settings under their names in Marian."""
    c = file.config.model
    type_ = names.type_for(c)
    shared = model.source_embedding.weight is model.target_embedding.weight
    # In the newer type the output is a matrix of its own.
    tied = model.output.weight is model.target_embedding.weight and type_ == "transformer"
    return {
        **names.WANTED,
        **names.UNUSED,
        "type": type_,
        "dim-emb": c.d_model,
        "dim-vocabs": [len(side) for side in rows],
        "enc-depth": c.layers,
        "dec-depth": c.decoder_depth,
        "transformer-heads": c.heads,
        "transformer-dim-ffn": c.d_ff,
        "transformer-ffn-activation": c.activation,
        "transformer-train-position-embeddings": type_ == "transformer-new",
        "tied-embeddings": tied and not shared,
        "tied-embeddings-src": shared and not tied,
        "tied-embeddings-all": shared and tied,
        "output-omit-bias": False,
    }


def _vocabularies(codec: Codec) -> list[Vocabulary]:
    same = codec.source.model_bytes == codec.target.model_bytes
    return [codec.source] if same else [codec.source, codec.target]


def _decoder(file: ModelFile) -> dict[str, Any]:
    """Return the options that marian-decoder reads from a file."""
    files = ["vocab.spm"] * 2
    if len(_vocabularies(file.codec)) == 2:
        files = ["source.spm", "target.spm"]
    return {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": files,
        "beam-size": file.config.decode.beam,
        "normalize": file.config.decode.alpha,
        "word-penalty": 0,
        "max-length": POSITIONS,
        "max-length-crop": True,
        "mini-batch": 64 if names.type_for(file.config.model) == "transformer" else 1,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
        "allow-unk": file.config.decode.beam_rule == "paper",
        "allow-special": True,
    }


def _listed(vocabulary: Vocabulary) -> str:
    """Return the pieces with their ids, as Marian lists those of other vocabularies."""
    pieces = vocabulary.pieces(_rows(vocabulary).tolist())
    escaped = (piece.replace("\\", "\\\\").replace('"', '\\"') for piece in pieces)
    return "".join(f'"{piece}": {i}\n' for i, piece in enumerate(escaped))


# In version 1.12.42, on a CPU: what a beam sees of the source is that of another sentence.
ONE_BY_ONE = """`mini-batch: 1` must stay: with a beam, Marian's
transformer-new mixes up the sentences of a batch. """
NOTES = f"""A sentence has at most {POSITIONS:,}
tokens. `aiayn generate --beam-rule marian` searches as Marian does. SentencePiece knows no
escapes: a text with the signs U+2581 or U+2585 loses them; aiayn keeps them. On the command
line: `marian-decoder -c decoder.yml < text`. `aiayn import` reads this folder."""


def _readme(file: ModelFile) -> str:
    type_ = names.type_for(file.config.model)
    return readme(
        file.codec,
        toolkit="Marian",
        form=f"a {type_}",
        packages=["pymarian"],
        imports=["from pymarian import Translator"],
        load=["translator = Translator(config='decoder.yml', cpu_threads=1, quiet=True)"],
        translate=["(text,) = translator.translate([text])"],
        notes=NOTES if type_ == "transformer" else ONE_BY_ONE + NOTES,
    )
