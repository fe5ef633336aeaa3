"""Estimate what one micro-batch of training takes on GPUs, from a trace on the meta device.

    python recipes/bench/roofline.py [--preset base] [--tokens 3168] [--precision bfloat16]

No GPU is needed, and none was measured: each kernel is taken to last as long as its bytes, its
operations or its launch, whichever is longest, at what such a GPU sustains. The optimizer's
step and the sum over processes are not in it.
"""

import argparse
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import torch

from aiayn.data.batch import collate
from aiayn.presets import preset
from aiayn.training.trace import GPUS, trace_micro_batch

WORDS = 37_000
KINDS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--tokens", type=int, default=3168, help="target tokens")
    parser.add_argument("--length", type=int, default=28, help="tokens of a sentence")
    parser.add_argument("--precision", default="bfloat16", choices=["float32", "bfloat16"])
    a = parser.parse_args()
    dtype: torch.dtype = getattr(torch, a.precision)
    ids = np.arange(3, 3 + a.length)
    batch = collate([(ids[: len(ids) - n % 3], ids) for n in range(a.tokens // a.length)])
    codec = SimpleNamespace(sizes=(WORDS, None))
    traced = trace_micro_batch(preset(a.preset), codec, batch, dtype)
    gpus = {name: gpu for name, gpu in GPUS.items() if gpu.bfloat16 or a.precision == "float32"}
    by_name = defaultdict(list)
    for kernel in traced.kernels:
        by_name[kernel.name].append(kernel)
    rows = [(a.preset, traced.kernels), *by_name.items()]
    rows = sorted(rows, key=lambda row: -sum(k.seconds(gpus["A100"], dtype) for k in row[1]))
    print(f"{a.preset}, {a.precision}, {batch.tokens:,} target tokens: estimates, not measured")
    print(f"memory {traced.peak / 1e9:.2f} GB")
    titles = "".join(f"{name + ' ms':>10}" for name in gpus)
    print(f"{'kernel':32}{'calls':>7}{'GB':>8}{'TFLOP':>8}{titles}")
    for name, kernels in rows[: KINDS + 1]:
        moved = sum(k.bytes for k in kernels) / 1e9
        done = sum(k.operations for k in kernels) / 1e12
        seconds = [sum(k.seconds(gpu, dtype) for k in kernels) for gpu in gpus.values()]
        times = "".join(f"{1e3 * each:10.2f}" for each in seconds)
        print(f"{name:32}{len(kernels):7}{moved:8.2f}{done:8.3f}{times}")


if __name__ == "__main__":
    main()
