"""Memory, kernels and seconds of an update, known without a device."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import fake_cuda
import numpy as np
import pytest
import torch
from toy import tiny_config

from aiayn.data.batch import collate
from aiayn.training.trace import GPUS, META, Kernel, Trace, trace_micro_batch

TORCH = Path(torch.__file__).parent
CODEC = SimpleNamespace(sizes=(100, None))


def batch(tokens: int):
    return collate([(np.arange(3, 13), np.arange(3, 13)) for _ in range(tokens // 10)])


def test_a_trace_counts_the_bytes_that_live_at_the_same_time():
    with Trace() as trace:
        one = torch.zeros(1000, device=META)
        view = one.view(10, 100)
        assert trace.bytes == 4000
        two = view + 1
        del one, view
        three = two.double()
        assert trace.bytes == 4000 + 8000
        del two, three
    assert (trace.bytes, trace.peak) == (0, 4000 + 8000)


def test_a_trace_counts_the_operations_of_products():
    with Trace() as trace:
        torch.zeros(3, 4, device=META) @ torch.zeros(4, 5, device=META)
    product = trace.kernels[-1]
    assert product == Kernel("mm", bytes=4 * (12 + 20 + 15), operations=2 * 3 * 5 * 4)


def test_a_kernel_takes_as_long_as_its_bytes_its_operations_or_its_launch():
    gpu = GPUS["A100"]
    for kernel, seconds in (
        (Kernel("add", 15 * 10**9, 1), 0.01),
        (Kernel("mm", 1, 19 * 10**11), 0.01),
        (Kernel("add", 1, 1), 3.5e-6),
    ):
        assert kernel.seconds(gpu, torch.bfloat16) == pytest.approx(seconds)


def test_memory_grows_with_the_tokens_and_shrinks_with_the_precision():
    config = tiny_config("model.layers=4", "model.d_model=64", "model.d_ff=256")
    small, large, low = (
        trace_micro_batch(config, CODEC, batch(tokens), dtype).peak
        for tokens, dtype in (
            (1000, torch.float32),
            (8000, torch.float32),
            (8000, torch.bfloat16),
        )
    )
    assert max(small, low) < large


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """What an update of base does on fake CUDA tensors, by precision."""
    compiler = shutil.which("g++")
    if compiler is None or sys.platform != "linux":
        pytest.skip("fake CUDA tensors need g++, on Linux")
    folder = tmp_path_factory.mktemp("shim")
    source, shim = folder / "shim.cpp", folder / "shim.so"
    source.write_text(fake_cuda.SOURCE)
    libraries = [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{TORCH / 'lib'}"]
    options = ["-shared", "-fPIC", "-std=c++20", f"-I{TORCH / 'include'}", "-o", shim]
    made = subprocess.run(
        [compiler, source, *options, *libraries], capture_output=True, text=True, timeout=300
    )
    if made.returncode:
        pytest.skip(f"g++ cannot build against this torch: {made.stderr[-200:]}")
    line = [sys.executable, fake_cuda.__file__, shim]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_an_update_on_fake_cuda_tensors_is_few_calls_and_waits_for_nothing(traced, dtype):
    assert traced[dtype]["calls"] <= 900
    assert traced[dtype]["reads"] == []


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_the_memory_that_a_dry_run_estimates_is_that_of_fake_cuda_tensors(traced, dtype):
    assert traced[dtype]["estimate"] == pytest.approx(traced[dtype]["peak"], rel=0.15)
