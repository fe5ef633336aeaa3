"""Files from elsewhere: nothing in them is run, and no size that they claim is believed."""

import json
import zipfile
import zlib
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from reprlib import Repr
from tokenize import TokenError
from typing import Any
from warnings import catch_warnings

import numpy as np
import torch
import yaml
from numpy.lib import format as npy
from torch import Tensor
from torch.serialization import safe_globals

from aiayn.checkpoint import SkipInit, build_model
from aiayn.config import Config, DecodeConfig
from aiayn.data.codec import Codec
from aiayn.errors import DataError, UsageError

COPY_AGAIN = "take the file from its source again"
NOT_OURS = "this model cannot be imported"
# How far an archive of weights may unpack: random digits hardly do.
LARGEST_RATIO = 20
# Bytes of a vocabulary or of settings; those of a million pieces are a tenth of it.
LARGEST_TEXT = 1 << 28
# A layer is not wider, and a beam not either.
LARGEST_SIZE, LARGEST_BEAM = 1 << 20, 1000
# Arrays that are read, by numpy's name of their type: numbers, and text as bytes.
KINDS = ("f2", "f4", "f8", "i1", "u1")


def short(value: object) -> str:
    """Return what a value is, cut where it is long or deep."""
    spelled = Repr()
    spelled.maxlevel = 2
    return spelled.repr(value)


def check_archive(path: Path) -> None:
    """Refuse a zip archive that claims far more bytes than it has; other files pass."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            claimed = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None
    _check_claim(path, claimed)


def _check_claim(path: Path, claimed: int) -> None:
    size = path.stat().st_size
    if claimed > LARGEST_RATIO * size:
        raise DataError(
            f"{path} claims to unpack to {claimed:,} bytes, and has {size:,}: weights do not"
            " compress like that",
            fix="do not trust this file",
        )


def _unreadable(path: Path, problem: BaseException) -> DataError:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return DataError(f"{path} cannot be read: {reason}", fix=COPY_AGAIN)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file; memory is taken for no more than the file holds."""
    check_archive(path)
    # numpy raises a ValueError for what it does not know, a pickle among it; the others are of
    # an encrypted entry, of a header that is not numpy's, of bytes that do not unpack.
    problems = (ValueError, RuntimeError, MemoryError, TokenError, zlib.error, EOFError)
    try:
        with zipfile.ZipFile(path) as archive:
            return dict(_arrays(archive))
    except (zipfile.BadZipFile, OSError, *problems) as problem:
        raise _unreadable(path, problem) from None


def _arrays(archive: zipfile.ZipFile) -> Iterator[tuple[str, np.ndarray]]:
    for entry in archive.infolist():
        with archive.open(entry) as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_column, dtype = read(file)
            name = entry.filename.removesuffix(".npy")
            if dtype.str[1:] not in KINDS:
                raise ValueError(f"{name} is of type {dtype}, and numbers are wanted")
            wanted = entry.file_size - file.tell()
            claimed = dtype.itemsize
            for length in shape:
                claimed *= length
            if claimed != wanted:
                raise ValueError(f"{name} claims {short(claimed)} bytes, and has {wanted:,}")
            array = np.frombuffer(file.read(), dtype)
        yield name, array.reshape(shape, order="F" if by_column else "C")


def load_checkpoint(path: Path, allowed: Sequence[Any] = ()) -> Any:
    """Return what torch has saved: tensors, plain values and instances of `allowed`."""
    check_archive(path)
    try:
        # Its warnings are for those who write such files.
        with safe_globals(list(allowed)), catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    # A pickle that asks for more than this is refused before any of it runs.
    except (UnpicklingError, RuntimeError, OSError, EOFError, ValueError) as problem:
        raise _unreadable(path, problem) from None
    except (AttributeError, KeyError, TypeError, IndexError) as problem:
        raise _unreadable(path, problem) from None


def float_weights(weights: object, path: Path) -> dict[str, Tensor]:
    """Return vectors and matrices as float32, if a checkpoint holds as much as they claim."""
    is_dense = isinstance(weights, Mapping) and all(
        isinstance(name, str)
        and isinstance(weight, Tensor)
        and (weight.device.type, weight.layout) == ("cpu", torch.strided)
        and not weight.is_complex()
        for name, weight in weights.items()
    )
    if not is_dense:
        raise DataError(f"{path} does not hold the weights of a model", fix=COPY_AGAIN)
    assert isinstance(weights, Mapping)
    # A tensor may repeat a number without storing it twice.
    _check_claim(path, sum(weight.nbytes for weight in weights.values()))
    return {name: weight.float() for name, weight in weights.items() if weight.dim()}


def read_bytes(path: Path) -> bytes:
    """Return a file that belongs to a model."""
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise DataError(f"{path} has more than {LARGEST_TEXT:,} bytes", fix=COPY_AGAIN)
        return path.read_bytes()
    except OSError as problem:
        raise DataError(
            f"{path} cannot be read: {problem.strerror}",
            fix="put all files of the model into one folder",
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Return a file in JSON that has names with values."""
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{path} is not JSON: {problem}", fix=COPY_AGAIN) from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object", fix=COPY_AGAIN)
    return found


def parse_yaml(content: bytes, path: Path, loader: Any = yaml.SafeLoader) -> dict[Any, Any]:
    """Return YAML from a file that has names with values."""
    try:
        found = yaml.load(content.decode(), loader)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise DataError(
            f"{path}: its settings are not YAML: {reason}", fix=COPY_AGAIN
        ) from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: its settings are not names with values", fix=COPY_AGAIN)
    return found


def single_values(settings: object) -> dict[str, Any]:
    """Return settings of one value each; others are spelled, and shortly.

    A few lines can hold lists of lists whose comparison or printing would never end.
    """
    told = vars(settings) if isinstance(settings, Namespace) else settings
    if not isinstance(told, Mapping):
        return {}
    found = {}
    for name, value in told.items():
        is_empty = isinstance(value, list | tuple | dict) and not value
        is_single = value is None or isinstance(value, str | int | float) or is_empty
        if isinstance(name, str):
            found[name] = value if is_single else short(value)
    return found


def check_sizes(settings: dict[str, Any], names: Sequence[str], path: Path) -> None:
    """Refuse settings that are not the size of anything."""
    for name in names:
        value = settings.get(name)
        if type(value) is not int or not 0 < value <= LARGEST_SIZE:
            raise DataError(
                f"{path}: {name} is {short(value)}, and 1 to {LARGEST_SIZE:,} is possible",
                fix=COPY_AGAIN,
            )


def share(settings: dict[str, Any], name: str) -> float:
    """Return a setting of at least 0 and below 1, such as dropout; 0 where there is none."""
    value = settings.get(name) or 0.0
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise DataError(f"{name} is {short(value)}, and a share is wanted", fix=COPY_AGAIN)
    return float(value)


def beam(value: object) -> int:
    """Return the width of a beam, or ours where that is none."""
    is_width = type(value) is int and 0 < value <= LARGEST_BEAM
    return value if type(value) is int and is_width else DecodeConfig().beam


def wanted_parameters(config: Config, codec: Codec, given: int) -> dict[str, Tensor]:
    """Return our parameters for these settings, without their memory; `given` are theirs."""
    c = config.model
    # Each layer has weights of its own, so a claim of more layers is false.
    if (layers := max(c.layers, c.decoder_depth)) > given:
        raise DataError(
            f"the settings have {layers:,} layers, and the weights fewer", fix=COPY_AGAIN
        )
    widest = max(c.d_model, c.d_ff, c.heads * c.d_k, c.heads * c.d_v, c.max_positions)
    if widest > LARGEST_SIZE:
        raise DataError(
            f"a size of {widest:,} is more than the {LARGEST_SIZE:,} that are believed",
            fix=COPY_AGAIN,
        )
    try:
        with torch.device("meta"), SkipInit():
            return dict(build_model(config, codec).state_dict())
    except UsageError as problem:
        raise DataError(problem.message, fix=NOT_OURS) from None
