"""Kernels in C++ that the compiler of this machine makes: `generate --compile`.

`NativeLinear` equals `F.linear`, and `decoder_step` a step of the decoder with its caches.
native.cpp has the same structures. I, O width of input and output.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from aiayn.errors import UsageError
from aiayn.kernels.packed import LARGEST, InferenceLinear

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp-simd", "-shared", "-fPIC")
PRECISIONS = ("float32", "bfloat16", "int8")
ACTIVATIONS = ("none", "relu", "swish")
# Inputs of each precision that 32 bits hold.
GROUPS = (1, 2, 4)


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


class LayerInMemory(Structure):
    """A decoder layer as native.cpp reads it."""

    _fields_ = (
        *((f"linear_{n}", LinearInMemory) for n in range(6)),
        ("norms", NormInMemory * 3),
    )


class DecoderInMemory(Structure):
    """A decoder as native.cpp reads it."""

    _fields_ = (
        ("layer_count", c_int32),
        ("d_model", c_int32),
        ("heads", c_int32),
        ("d_k", c_int32),
        ("d_v", c_int32),
        ("epsilon", c_float),
        ("layers", POINTER(LayerInMemory)),
        ("output", LinearInMemory),
    )


class NativeStep(Structure):
    """What a step reads and writes; see native.cpp."""

    _fields_ = (
        ("sentences", c_int64),
        ("slots", c_int64),
        ("places", c_int64),
        ("room", c_int64),
        ("columns", c_int64),
        ("source_room", c_int64),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("source_keys", c_void_p),
        ("source_values", c_void_p),
        ("new_columns", c_void_p),
        ("seen", c_void_p),
        ("source_lengths", c_void_p),
        ("y", c_void_p),
        ("logits", c_void_p),
    )


class NativeKernels:
    """The compiled library."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self.panel_width: int = library.panel_width()
        self._supports = library.supports
        self.linear = library.linear
        self.linear.argtypes = (c_void_p, c_void_p, c_int64, c_void_p)
        self.linear.restype = None
        self._largest_sums = library.largest_sums
        self._largest_sums.argtypes = (c_void_p, c_void_p, *[c_int64] * 5, c_void_p, c_void_p)
        self._largest_sums.restype = None
        self.decoder_step = library.decoder_step
        self.decoder_step.argtypes = (c_void_p, c_void_p)
        self.decoder_step.restype = None

    def largest_sums(
        self,
        logits_BJW: Tensor,
        so_far_BJ: NDArray[np.float32],
        count: int,
        *,
        first_word: int = 0,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return what `kernels.topk.largest_sums` returns for log P from a word on."""
        best_BC = np.empty((len(so_far_BJ), count), dtype=np.float32)
        places_BC = np.empty(best_BC.shape, dtype=np.int64)
        logits_BJW, so_far_BJ = logits_BJW.contiguous(), np.ascontiguousarray(so_far_BJ)
        self._largest_sums(
            logits_BJW.data_ptr(),
            so_far_BJ.ctypes.data,
            *logits_BJW.shape,
            first_word,
            count,
            best_BC.ctypes.data,
            places_BC.ctypes.data,
        )
        return best_BC, places_BC

    def supports(self, precision: str) -> bool:
        """Whether this processor multiplies in a precision by instructions of its own."""
        return precision in PRECISIONS and bool(self._supports(PRECISIONS.index(precision)))


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
    key = hashlib.sha256(SOURCE.read_bytes() + about.encode()).hexdigest()[:32]
    path, begin = folder / f"native-{key}.so", time.perf_counter()
    if path.is_file():
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
        made.replace(path)
    return NativeKernels(path), time.perf_counter() - begin


def _processor() -> str:
    """Return what tells a kind of processor from another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return " ".join(
        sorted({line for line in lines if line.startswith(("flags", "model name"))})
    )


class NativeLinear(InferenceLinear):
    """x W^T + b with W laid out in panels, in float32, bfloat16 or 8 bits."""

    def __init__(self, linear: nn.Linear, kernels: NativeKernels, precision: str) -> None:
        super().__init__(linear)
        self.kernels = kernels
        kind = PRECISIONS.index(precision)
        if self.in_features % GROUPS[kind]:
            kind = 0
        width = kernels.panel_width
        missing = -self.out_features % width
        weight_OI = F.pad(linear.weight.detach().float(), (0, 0, 0, missing))
        self.scale_O = self.shift_O = torch.zeros(0)
        if kind == PRECISIONS.index("int8"):
            self.scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-8) / LARGEST
            weight_OI = (weight_OI / self.scale_O[:, None]).round().to(torch.int8)
            self.shift_O = 128 * weight_OI.sum(dim=1, dtype=torch.int32)
        elif kind == PRECISIONS.index("bfloat16"):
            weight_OI = weight_OI.bfloat16()
        panels = weight_OI.view(-1, width, self.in_features // GROUPS[kind], GROUPS[kind])
        self.panels = panels.transpose(1, 2).contiguous()
        bias = torch.zeros(0) if linear.bias is None else linear.bias.detach().float()
        self.bias_O = F.pad(bias, (0, len(weight_OI) - len(bias)))
        self.kind = kind
        self.plain, self.activated = self.described("none"), self.described("relu")

    def described(self, activation: str) -> LinearInMemory:
        """Return the layer as the kernels read it; it has to outlive them."""
        return LinearInMemory(
            self.kind,
            self.in_features,
            self.out_features,
            ACTIVATIONS.index(activation),
            self.panels.data_ptr(),
            self.scale_O.data_ptr(),
            self.shift_O.data_ptr(),
            self.bias_O.data_ptr(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        return self._multiply(x, self.plain)

    def relu(self, x: Tensor) -> Tensor:
        """Return max(0, x W^T + b) in the same pass."""
        return self._multiply(x, self.activated)

    def _multiply(self, x: Tensor, linear: LinearInMemory) -> Tensor:
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], self.out_features)
        rows = x.numel() // self.in_features
        self.kernels.linear(ctypes.addressof(linear), x.data_ptr(), rows, y.data_ptr())
        return y


def describe_decoder(
    sizes: tuple[int, int, int, int],
    epsilon: float,
    layers: Sequence[tuple[Sequence[LinearInMemory], Sequence[nn.LayerNorm]]],
    output: LinearInMemory,
) -> Any:
    """Return a decoder as the kernels read it; sizes are d_model, heads, d_k and d_v."""
    described = (LayerInMemory * len(layers))(
        *(
            LayerInMemory(
                *linears,
                (NormInMemory * 3)(
                    *(NormInMemory(n.weight.data_ptr(), n.bias.data_ptr()) for n in norms)
                ),
            )
            for linears, norms in layers
        )
    )
    return DecoderInMemory(len(layers), *sizes, epsilon, described, output)
