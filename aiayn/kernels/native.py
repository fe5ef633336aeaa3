"""Kernels in C++ that the compiler of this machine makes: `generate --compile`.

`linear` is a product with packed weights, `encode` and `decode` are the two halves of the
network, and `advance` is a step of beam search. native.cpp has the same structures. torch is
not needed: it takes a second to load, in which a thousand sentences are translated.

I, O width of input and output.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiayn.errors import UsageError

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp-simd", "-shared", "-fPIC")
PRECISIONS = ("float32", "bfloat16", "int8")
ACTIVATIONS = ("none", "relu", "swish")
# Inputs of each precision that 32 bits hold.
GROUPS = (1, 2, 4)
# The largest weight in 8 bits.
LARGEST = 127


class LinearInMemory(Structure):
    """A linear layer as native.cpp reads it."""

    _fields_ = (
        ("precision", c_int32),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("activation", c_int32),
        ("panels", c_void_p),
        ("scales", c_void_p),
        ("shifts", c_void_p),
        ("bias", c_void_p),
    )


class NormInMemory(Structure):
    """A layer normalization as native.cpp reads it."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class EncoderLayerInMemory(Structure):
    """An encoder layer as native.cpp reads it."""

    _fields_ = (
        *((f"linear_{n}", LinearInMemory) for n in range(4)),
        ("norms", NormInMemory * 2),
    )


class DecoderLayerInMemory(Structure):
    """A decoder layer as native.cpp reads it."""

    _fields_ = (
        *((f"linear_{n}", LinearInMemory) for n in range(7)),
        ("norms", NormInMemory * 3),
    )


class ModelInMemory(Structure):
    """A Transformer as native.cpp reads it."""

    _fields_ = (
        ("encoder_depth", c_int32),
        ("decoder_depth", c_int32),
        ("d_model", c_int32),
        ("heads", c_int32),
        ("d_k", c_int32),
        ("d_v", c_int32),
        ("reach", c_int32),
        ("epsilon", c_float),
        ("source_scale", c_float),
        ("target_scale", c_float),
        ("source_embedding", c_void_p),
        ("target_embedding", c_void_p),
        ("encoder", POINTER(EncoderLayerInMemory)),
        ("decoder", POINTER(DecoderLayerInMemory)),
        ("output", LinearInMemory),
    )


class SearchInMemory(Structure):
    """A beam search as native.cpp reads it."""

    _fields_ = (
        ("beam", c_int64),
        ("candidates", c_int64),
        ("nbest", c_int64),
        ("penalty", c_void_p),
    )


class NativeKernels:
    """The compiled library."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self.panel_width: int = library.panel_width()
        self._supports = library.supports
        pointer, number = c_void_p, c_int64
        self.new_sentence = library.new_sentence
        self.new_sentence.restype, self.new_sentence.errcheck = pointer, _check_memory
        self.delete_sentence = library.delete_sentence
        self.delete_sentence.argtypes, self.delete_sentence.restype = (pointer,), None
        self.linear = library.linear
        self.linear.argtypes = (pointer, pointer, number, pointer)
        self.encode = library.encode
        self.encode.argtypes = (pointer, number, number, *[pointer] * 4)
        self.decode = library.decode
        self.decode.argtypes = (pointer, number, number, *[pointer] * 5)
        self.begin_search = library.begin_search
        self.begin_search.argtypes = (pointer, pointer, number, pointer, number)
        self.advance = library.advance
        self.advance.argtypes = (pointer, pointer, number, *[pointer] * 3)
        self.best_hypotheses = library.best_hypotheses
        self.best_hypotheses.argtypes = (*[pointer] * 5, number, pointer)
        self.best_hypotheses.restype = number
        for function in (
            self.linear,
            self.encode,
            self.decode,
            self.begin_search,
            self.advance,
        ):
            function.errcheck = _check_memory

    def supports(self, precision: str) -> bool:
        """Whether this processor multiplies in a precision by instructions of its own."""
        return precision in PRECISIONS and bool(self._supports(PRECISIONS.index(precision)))


def _check_memory(found: Any, function: object, arguments: object) -> Any:
    if not found:
        raise MemoryError("compiled code can't allocate memory")
    return found


def compile_once(folder: Path) -> tuple[NativeKernels, float]:
    """Return the kernels, and the seconds that compiling took: 0, if the folder had them."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UsageError(
            f"--compile needs a C++ compiler, and {compiler} is not on the PATH",
            fix="install g++, name it by CXX, or leave --compile out",
        )
    # For the processor that it was compiled on: a home folder may be that of many machines.
    about = f"{compiler} {FLAGS} {_processor()}"
    source = b"".join(path.read_bytes() for path in sorted(SOURCE.parent.glob("native*.[ch]*")))
    key = hashlib.sha256(source + about.encode()).hexdigest()[:32]
    path, begin = folder / f"native-{key}.so", time.perf_counter()
    checksum = path.with_suffix(".sha256")
    # Code that was damaged on disk would be run, too.
    if path.is_file() and checksum.is_file() and checksum.read_text() == _sha256(path):
        return NativeKernels(path), 0.0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / path.name
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.splitlines()
            reason = next((line for line in lines if "error" in line), "\n".join(lines[:1]))
            raise UsageError(
                f"{compiler} does not compile {SOURCE}: {reason}",
                fix="name another compiler by CXX, or leave --compile out",
            )
        written = made.with_suffix(".sha256")
        written.write_text(_sha256(made))
        made.replace(path)
        written.replace(checksum)
    return NativeKernels(path), time.perf_counter() - begin


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _processor() -> str:
    """Return what tells a kind of processor from another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return " ".join(
        sorted({line for line in lines if line.startswith(("flags", "model name"))})
    )


class PackedWeights(NamedTuple):
    """A linear layer with its weights in panels: in float32, bfloat16 or 8 bits."""

    kind: int
    """Its precision, by number."""
    inputs: int
    outputs: int
    panels: NDArray[Any]
    scales: NDArray[np.float32]
    shifts: NDArray[np.int32]
    bias: NDArray[np.float32]

    def described(self, activation: str = "none") -> LinearInMemory:
        """Return the layer as the kernels read it; the arrays have to outlive it."""
        sizes = self.kind, self.inputs, self.outputs, ACTIVATIONS.index(activation)
        return LinearInMemory(*sizes, *(array.ctypes.data for array in self[3:]))

    def multiply(
        self, kernels: NativeKernels, x: NDArray[np.float32], activation: str = "none"
    ) -> NDArray[np.float32]:
        """Return f(x W^T + b)."""
        x = np.ascontiguousarray(x)
        y = np.empty((*x.shape[:-1], self.outputs), dtype=np.float32)
        linear, rows = self.described(activation), x.size // self.inputs
        kernels.linear(ctypes.addressof(linear), x.ctypes.data, rows, y.ctypes.data)
        return y


def pack_weights(
    weight_OI: NDArray[np.float32],
    bias_O: NDArray[np.float32] | None,
    width: int,
    precision: str,
) -> PackedWeights:
    """Lay out a linear layer in panels of `width` outputs."""
    outputs, inputs = weight_OI.shape
    kind = PRECISIONS.index(precision)
    if inputs % GROUPS[kind]:
        kind = 0
    missing = -outputs % width
    padded_OI: NDArray[Any] = np.pad(weight_OI, ((0, missing), (0, 0)))
    scale_O, shift_O = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int32)
    if kind == PRECISIONS.index("int8"):
        largest_O = np.maximum(np.abs(padded_OI).max(axis=1), np.float32(1e-8))
        scale_O = largest_O / np.float32(LARGEST)
        padded_OI = np.rint(padded_OI / scale_O[:, None]).astype(np.int8)
        shift_O = 128 * padded_OI.sum(axis=1, dtype=np.int32)
    elif kind == PRECISIONS.index("bfloat16"):
        padded_OI = to_bfloat16(padded_OI)
    panels = padded_OI.reshape(-1, width, inputs // GROUPS[kind], GROUPS[kind])
    bias = np.zeros(0, dtype=np.float32) if bias_O is None else bias_O
    bias = np.pad(bias, (0, outputs + missing - len(bias)))
    panels = np.ascontiguousarray(panels.transpose(0, 2, 1, 3))
    return PackedWeights(kind, inputs, outputs, panels, scale_O, shift_O, bias)


def to_bfloat16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the upper halves of numbers, rounded to the nearest, and to even between two."""
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)
