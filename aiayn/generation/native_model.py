"""A model as the compiled code reads it, and the folder in which it is kept.

Its weights are in panels, in the precision that is asked for; a copy on disk is as they are in
memory, so that the next command is ready at once.

L positions; D d_model.
"""

import json
import zlib
from collections.abc import Sequence
from ctypes import Array
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aiayn import console
from aiayn.config import Config
from aiayn.config_file import from_settings
from aiayn.data.atomic import file_sha256
from aiayn.data.cache import cache_folder, read_or_write
from aiayn.data.codec import Codec
from aiayn.errors import DataError, UsageError
from aiayn.kernels.native import (
    DecoderLayerInMemory,
    EncoderLayerInMemory,
    LinearInMemory,
    ModelInMemory,
    NativeKernels,
    NormInMemory,
    PackedWeights,
    compile_once,
)

if TYPE_CHECKING:
    from aiayn.model.transformer import Transformer

# Another form of what `save` writes gets another number.
FORM = 2
ABOUT, WEIGHTS = "about.json", "weights.bin"
# Where arrays begin in the file of weights, as vector instructions like it.
ALIGNMENT = 64
# Self-attention without a window sees any position.
ANYWHERE = 2**31 - 1
# Linear layers of an encoder and of a decoder layer, in the order in which they are applied;
# the inner one of the feed-forward network comes last but one.
ENCODER_LINEARS, DECODER_LINEARS = 4, 7
ENCODER_NORMS, DECODER_NORMS = 2, 3

NORM_PARTS = ("weight", "bias")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PackedModel:
    """All that decoding needs of a model file, in arrays."""

    config: Config
    codec: Codec
    linears: dict[str, PackedWeights]
    """By name, as encoder.0.3 for the fourth linear layer of the first encoder layer."""
    arrays: dict[str, Floats]
    """Embeddings, positions and norms."""

    def save(self, folder: Path) -> None:
        """Write everything to a folder."""
        self.codec.save(folder)
        about: dict[str, Any] = {"config": asdict(self.config), "linears": {}, "arrays": {}}
        arrays: dict[str, NDArray[Any]] = dict(self.arrays)
        for name, linear in self.linears.items():
            about["linears"][name] = linear[:3]
            arrays |= {f"{name}.{part}": getattr(linear, part) for part in linear._fields[3:]}
        known: dict[tuple[int, int], int] = {}
        checksum = 0
        with (folder / WEIGHTS).open("wb") as file:
            for name, array in arrays.items():
                # Tied embeddings are written once.
                key = array.ctypes.data, array.size
                if key not in known:
                    gap = bytes(-file.tell() % ALIGNMENT)
                    known[key] = file.tell() + len(gap)
                    for part in (gap, array.tobytes()):
                        file.write(part)
                        checksum = zlib.crc32(part, checksum)
                about["arrays"][name] = known[key], array.dtype.name, array.shape
        about |= {"checksum": checksum, "vocabulary": self.codec.fingerprint}
        (folder / ABOUT).write_text(json.dumps(about))

    @classmethod
    def load(cls, folder: Path) -> "PackedModel":
        """Read what `save` wrote."""
        about = json.loads((folder / ABOUT).read_bytes())
        size = (folder / WEIGHTS).stat().st_size
        memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        memory = memory[start : start + size]
        with (folder / WEIGHTS).open("rb") as file:
            file.readinto(memory.data)
        codec = Codec.load(folder)
        found = zlib.crc32(memory.data), codec.fingerprint
        if found != (about["checksum"], about["vocabulary"]):
            raise DataError(f"{folder} is damaged")
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(memory, kind, int(np.prod(shape)), offset).reshape(shape)
            for name, (offset, kind, shape) in about["arrays"].items()
        }
        linears = {
            name: PackedWeights(
                *sizes, *(arrays.pop(f"{name}.{part}") for part in PackedWeights._fields[3:])
            )
            for name, sizes in about["linears"].items()
        }
        return cls(from_settings(about["config"]), codec, linears, arrays)


@dataclass(frozen=True)
class NativeModel:
    """A model that compiled code decodes with."""

    packed: PackedModel
    kernels: NativeKernels
    file: Path
    """The model file that it was made of."""
    tables: dict[str, Floats] = field(default_factory=dict)
    """Positions beyond those that are packed."""

    @property
    def longest(self) -> int | None:
        """Tokens that a sentence may have; None: any number."""
        c = self.packed.config.model
        return c.max_positions if c.positions == "learned" else None

    def positions(self, side: str, length: int) -> Floats:
        """Return the vectors (L, D) of at least so many positions of the source or target."""
        table = self.tables.get(side, self.packed.arrays[f"{side}_positions"])
        if length <= len(table):
            return table
        if self.longest:
            raise DataError(
                f"a sentence has {length:,} tokens, and the model knows {self.longest:,}"
                " positions",
                fix="cut the sentence",
            )
        # Rarely so many, so torch is loaded for them alone.
        from aiayn.model.positions import build_positions

        c = self.packed.config.model
        rows = build_positions(c.positions, c.d_model, c.max_positions)(0, 2 * length)
        self.tables[side] = np.ascontiguousarray(rows.float().numpy())
        return self.tables[side]

    @cached_property
    def plain(self) -> "Transformer":
        """The network as it was trained, for what decoding does not compute."""
        from aiayn.checkpoint import load_model

        return load_model(self.file).build()

    @cached_property
    def in_memory(self) -> ModelInMemory:
        """The model as the kernels read it; this object has to outlive it."""
        c, arrays = self.packed.config.model, self.packed.arrays
        encoder = [self._encoder_layer(f"encoder.{n}") for n in range(c.layers)]
        decoder = [self._decoder_layer(f"decoder.{n}") for n in range(c.decoder_depth)]
        scale = float(np.sqrt(c.d_model))
        return ModelInMemory(
            len(encoder),
            len(decoder),
            c.d_model,
            c.heads,
            c.d_k,
            c.d_v,
            c.attention_window // 2 if c.attention_window else ANYWHERE,
            c.norm_epsilon,
            scale,
            scale,
            arrays["source_embedding"].ctypes.data,
            arrays["target_embedding"].ctypes.data,
            (EncoderLayerInMemory * len(encoder))(*encoder),
            (DecoderLayerInMemory * len(decoder))(*decoder),
            self.packed.linears["output"].described(),
        )

    def _encoder_layer(self, name: str) -> EncoderLayerInMemory:
        linears = self._linears(name, ENCODER_LINEARS)
        return EncoderLayerInMemory(*linears, self._norms(name, ENCODER_NORMS))

    def _decoder_layer(self, name: str) -> DecoderLayerInMemory:
        linears = self._linears(name, DECODER_LINEARS)
        return DecoderLayerInMemory(*linears, self._norms(name, DECODER_NORMS))

    def _linears(self, layer: str, count: int) -> list[LinearInMemory]:
        activations = ["none"] * count
        activations[-2] = self.packed.config.model.activation
        return [
            self.packed.linears[f"{layer}.{n}"].described(activation)
            for n, activation in enumerate(activations)
        ]

    def _norms(self, layer: str, count: int) -> "Array[NormInMemory]":
        arrays = self.packed.arrays
        found = [
            NormInMemory(*(arrays[f"{layer}.norm.{n}.{x}"].ctypes.data for x in NORM_PARTS))
            for n in range(count)
        ]
        return (NormInMemory * count)(*found)


def compile_kernels(precision: str) -> tuple[NativeKernels, float]:
    """Return the kernels for a precision, and the seconds that compiling took: 0, if cached."""
    kernels, seconds = compile_once(cache_folder())
    if not kernels.supports(precision):
        raise UsageError(
            f"compiled decoding has no precision {precision} on this processor",
            fix="take float32, or do not compile",
        )
    return kernels, seconds


def load_native_models(
    paths: Sequence[Path], kernels: NativeKernels, precision: str
) -> list[NativeModel]:
    """Read one model, or the models of an ensemble, for compiled code."""
    models = [_load(path, kernels, precision) for path in paths]
    require_one_vocabulary(paths, [model.packed.codec for model in models])
    return models


def _load(path: Path, kernels: NativeKernels, precision: str) -> NativeModel:
    """Read what was made of a model file before; else make it."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist", fix="check the path")
    digest = file_sha256(path)

    def pack() -> PackedModel:
        # Loaded here: torch takes a second.
        from aiayn.checkpoint import load_model
        from aiayn.generation.pack_model import pack_model

        file = load_model(path)
        if file_sha256(path) != digest:
            raise DataError(f"{path} was replaced while it was read", fix="run it again")
        return pack_model(file, kernels.panel_width, precision)

    key = f"{FORM}-{kernels.panel_width}-{precision}-{digest}"
    try:
        found = read_or_write(
            "packed", key, lambda folder: pack().save(folder), PackedModel.load
        )
    except OSError as problem:
        console.warn(f"the packed weights are not kept in the cache: {problem.strerror}")
        found = pack()
    return NativeModel(found, kernels, path)


def require_one_vocabulary(paths: Sequence[Path], codecs: Sequence[Codec]) -> None:
    """Refuse models that are no ensemble."""
    for path, codec in zip(paths, codecs, strict=True):
        if codec.fingerprint != codecs[0].fingerprint:
            raise UsageError(
                f"{path} and {paths[0]} have different vocabularies",
                fix="the models of an ensemble are trained on one data folder, or on folders"
                " made with --vocab-from",
            )
