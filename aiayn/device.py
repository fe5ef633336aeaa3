"""Everything that depends on the hardware: device, precision, memory, random state."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.config import Precision
from aiayn.errors import UsageError
from aiayn.memory import keep_freed_memory


def choose_device(name: str, *, local_rank: int = 0) -> torch.device:
    """Return the device of that name; auto: CUDA, else MPS, else the CPU."""
    name = _find(name)
    if name == "cuda" and torch.cuda.device_count() == 1:
        # Perhaps the only one that a scheduler shows to this process, and not the first one.
        return torch.device(name, 0)
    require_devices(name, local_rank + 1)
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


def require_devices(name: str, processes: int) -> None:
    """Refuse more processes than there are devices of that name on this machine."""
    name = _find(name)
    most = {"cuda": torch.cuda.device_count(), "mps": 1}.get(name, math.inf)
    if processes > most:
        raise UsageError(
            f"process {processes} of this machine has no {name} device: there are {most}",
            fix=f"start at most {most}, or pass --device cpu",
        )


def identity(device: torch.device) -> str:
    """Return what tells a GPU from all others; empty: processes may share the device."""
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def _find(name: str) -> str:
    """Return the name of a device that is here."""
    found = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, there in found.items() if there)
    if name not in found:
        raise UsageError(
            f"there is no device {name!r}", fix="choose one of auto, cpu, cuda and mps"
        )
    if not found[name]:
        raise UsageError(f"torch finds no {name} device here", fix="pass --device auto or cpu")
    return name


def prepare_device(device: torch.device) -> None:
    """Set what makes the device fast without changing its results beyond rounding."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        keep_freed_memory()


@contextmanager
def float32_products(precision: Literal["high", "highest"]) -> Iterator[None]:
    """Let a GPU multiply float32 in TF32 (high: training) or exactly (highest: decoding)."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def elements_at_once(device: torch.device) -> int:
    """Return the size of intermediate results: what a CPU caches, or what fills a GPU."""
    return 2**22 if device.type == "cpu" else 2**26


def spare_rows(device: torch.device) -> int:
    """Return how many rows more than tokens a packed batch has at least.

    torch.compile, which is for GPUs, would compile anew for 0 rows and for 1.
    """
    return 0 if device.type == "cpu" else 2


def sum_type(device: torch.device) -> torch.dtype:
    """Return the type to sum gradients in: on a CPU, one that makes their order irrelevant."""
    # A GPU's kernels sum in an order of their own anyway, and some devices have no float64.
    return torch.float64 if device.type == "cpu" else torch.float32


def choose_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the type that matrix products run in; auto: bfloat16 where the hardware has it."""
    # Differs from the paper, which trained in float32: bfloat16 products where they are fast.
    if precision == "auto":
        fast = device.type == "cpu" and has_bfloat16()
        if device.type == "cuda":
            # A plan may be for a GPU that is not here.
            here = torch.cuda.is_available()
            fast = not here or torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bfloat16" if fast else "float32"
    if precision == "bfloat16" and device.type == "cpu" and _matrix_tiles_crash():
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


@cache
def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 by an instruction of its own."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _matrix_tiles_crash() -> bool:
    """Return whether a bfloat16 product kills the process, by letting a child try one.

    Some virtual machines announce the AMX instructions and then do not have them.
    """
    if not hasattr(os, "fork"):
        return False
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        square = torch.ones(64, 64, dtype=torch.bfloat16)
        os._exit(int(torch.mm(square, square)[0, 0] != 64))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Return a context in which matrix products run in `dtype`."""
    if dtype == torch.float32:
        return nullcontext()
    if device.type == "meta":
        return _autocast_meta(dtype)
    return torch.autocast(device.type, dtype)


@contextmanager
def _autocast_meta(dtype: torch.dtype) -> Iterator[None]:
    """Let `autocast_type` say `dtype` on the meta device, where torch has no autocast."""
    torch.set_autocast_dtype("cuda", dtype)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


def autocast_type(device: torch.device) -> torch.dtype | None:
    """Return the type that products run in here; None: float32, or whatever torch does."""
    # The meta device stands for a GPU.
    kind = "cuda" if device.type == "meta" else device.type
    if torch.compiler.is_compiling() or not torch.amp.is_autocast_available(kind):
        return None
    if not torch.is_autocast_enabled(kind):
        return None
    dtype = torch.get_autocast_dtype(kind)
    fast = kind != "cpu" or (dtype == torch.bfloat16 and has_bfloat16())
    return dtype if fast else None


def can_compile(device: torch.device) -> bool:
    """Whether torch.compile pays: on GPUs from Volta on, where its compiler is installed."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (7, 0):
        return False
    return find_spec("triton") is not None


def has_flash_attention(device: torch.device) -> bool:
    """Whether attention without padding has a kernel: on GPUs from Ampere on."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "meta"


def seed_dropout(device: torch.device, seed: int) -> None:
    """Seed the random numbers that dropout draws on this device."""
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def read_together(floats: Tensor, ids: Tensor) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return what two tensors of a device hold; the host waits for it once."""
    # As bits, which need no type that a device may lack.
    both = torch.cat((floats.contiguous().view(torch.int32), ids.int()), dim=-1).cpu().numpy()
    found, wanted = np.split(both, [floats.size(-1)], axis=-1)
    return np.ascontiguousarray(found).view(np.float32), wanted.astype(np.int64)


def free_memory(device: torch.device) -> int | None:
    """Return the bytes of a GPU that are free; None for devices that share the host's."""
    if device.type != "cuda":
        return None
    # What torch has cached and does not use is free, too.
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def peak_memory(device: torch.device) -> int:
    """Return the peak memory of this process in bytes: of the GPU, or of the host."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return 0


def share_cores(device: torch.device, threads: int) -> int:
    """Return how many processes may translate in parallel; one by itself has all threads.

    On a CPU, small matrix products of one thread each are faster in parallel than one after
    the other with all threads. Only on Linux is a forked process safe to use.
    """
    if threads:
        torch.set_num_threads(min(threads, os.cpu_count() or threads))
    alone = device.type != "cpu" or sys.platform != "linux"
    return 1 if alone else torch.get_num_threads()
