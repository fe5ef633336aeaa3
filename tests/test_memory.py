"""What a long run keeps: the live part of the C heap, and caches of libraries."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from torch import nn

from aiayn.kernels.cross_entropy import fused_linear_cross_entropy
from aiayn.kernels.linear import ONEDNN_IS_FAST, onednn_linear
from aiayn.kernels.packed import PackedLinear
from aiayn.scoring.bleu import score_text
from aiayn.serving.pool import start_workers


class MallocState(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    _fields_ = (
        ("before", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("between", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 2),
    )


mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
if mallinfo2 is not None:
    mallinfo2.restype = MallocState
needs_onednn = pytest.mark.skipif(
    mallinfo2 is None or not ONEDNN_IS_FAST, reason="needs glibc 2.33 and oneDNN on x86"
)


def live() -> float:
    """Return the megabytes that are allocated and not freed."""
    state = mallinfo2()
    return (state.uordblks + state.hblkhd) / 1e6


@contextmanager
def keeps_at_most(megabytes: float) -> Iterator[None]:
    before = live()
    yield
    assert live() - before < megabytes


@needs_onednn
def test_training_keeps_no_kernel_for_each_number_of_tokens():
    states, weight = torch.randn(513, 16), torch.randn(40, 16, requires_grad=True)
    # For 100 kernels of oneDNN it would be 50 MB.
    with keeps_at_most(20):
        for tokens in range(400, 500):
            gold = torch.zeros(tokens, dtype=torch.long)
            smoothed, _ = fused_linear_cross_entropy(states[:tokens], weight, gold, 0.1)
            smoothed.backward()


@needs_onednn
@torch.inference_mode()
def test_aligning_keeps_no_kernel_for_each_number_of_positions():
    layer = PackedLinear(nn.Linear(24, 48))
    with keeps_at_most(20):
        for positions in range(1, 101):
            layer(torch.ones(2, positions, 24))


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 9), (3, 33), (4, 96)], ids=str)
@torch.inference_mode()
def test_a_product_of_more_rows_has_the_same_bits(shape):
    layer, x = PackedLinear(nn.Linear(64, 96)), torch.randn(*shape, 64)
    assert torch.equal(layer(x), onednn_linear(x, layer.packed, layer.bias_O))


def test_validation_keeps_no_lines():
    score_text(["a translation"], [["a reference"]])
    assert Tokenizer13a.__call__.cache_info().currsize == 0


def private() -> float:
    """Return the megabytes that this process has for itself."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1e3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are threads")
def test_looking_for_cycles_copies_nothing_that_workers_share():
    objects = [[[]] for _ in range(200_000)]  # 30 MB
    cpu = torch.device("cpu")
    workers = start_workers(lambda inbox, reply: inbox.get(), cpu, threads=0, forks=True)
    try:
        before = private()
        gc.collect()
        assert private() - before < 10
    finally:
        for worker in workers:
            worker.close()
        gc.unfreeze()
    assert objects
