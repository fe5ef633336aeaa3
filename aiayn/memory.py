"""Memory that runs out, and memory that is kept."""

import ctypes
import sys
from collections.abc import Callable
from typing import TypeVar

# What torch says; on the CPU and on MPS it raises a plain RuntimeError.
OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")

# glibc's M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD: freed pages stay with the process.
MALLOC_KEEP = ((-1, 1 << 30), (-2, 1 << 26), (-3, 1 << 30))

Result = TypeVar("Result")


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether an exception means that memory ran out."""
    words = str(problem).lower()
    told = isinstance(problem, RuntimeError) and any(w in words for w in OUT_OF_MEMORY_WORDS)
    return told or isinstance(problem, MemoryError)


def if_it_fits(work: Callable[[], Result]) -> Result | None:
    """Return what `work` returns, or None if memory ran out."""
    try:
        return work()
    except (RuntimeError, MemoryError) as problem:
        if not is_out_of_memory(problem):
            raise
    # Not above: while the exception is alive, so is what the failed attempt has computed.
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # so that a smaller batch finds room
    return None


def keep_freed_memory() -> None:
    """Keep memory that is freed for the next use.

    Activations are large blocks that come and go: handing them back to the system after each
    use costs a tenth of the time on the CPU.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: 0)
        for option, value in MALLOC_KEEP:
            mallopt(option, value)
