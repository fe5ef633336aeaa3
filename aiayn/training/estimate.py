"""Estimates for a run before it starts: `aiayn train --dry-run`."""

from dataclasses import replace
from typing import Any

import torch

from aiayn.config import Config
from aiayn.data.folder import DataFolder
from aiayn.data.mixture import Mixture
from aiayn.data.resampling import resampling
from aiayn.device import sum_type
from aiayn.training.cost import parameters_of, training_flops
from aiayn.training.disk import FLOAT32, disk_space, gigabytes
from aiayn.training.sampled_updates import sample_updates
from aiayn.training.start import longest_micro_batch, micro_tokens_of
from aiayn.training.trace import GPUS, Gpu, TracedMicroBatch, trace_micro_batch

F32 = torch.float32


def estimate(
    data: DataFolder, config: Config, processes: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """Return a run's parameters, batches, steps, memory, hours, disk space and operations."""
    corpus, codec = data.corpus("train"), data.codec
    batch = config.batch
    if batch.micro_tokens == "auto":
        batch = replace(batch, micro_tokens=micro_tokens_of(batch, processes, pieces=1))
    seed = config.train.seed
    drawn = resampling(codec, batch, corpus, seed=seed)
    sampled = sample_updates(corpus, batch, seed=seed, resampling=drawn)
    per_update = sampled.micro_batches
    busy = min(processes, round(per_update))
    per_process = round(per_update / busy)
    parameters = parameters_of(config.model, *codec.sizes)
    steps = config.train.steps
    tokens_in_all = int(steps * sampled.source_tokens), int(steps * sampled.target_tokens)
    flops = training_flops(config.model, codec.sizes, tokens_in_all, passes=config.optim.passes)
    model_bytes = FLOAT32 * parameters["total"]
    disk = disk_space(config.train, parameters["total"])
    largest = longest_micro_batch(corpus, replace(config, batch=batch))
    traced = {each: trace_micro_batch(config, codec, largest, each) for each in {dtype, F32}}
    # Where sums are in float64, the mean gradient in float32 is one tensor more.
    sums = sum_type(device).itemsize
    of_sums = parameters["total"] * sums if sums != FLOAT32 else 0
    share = sampled.target_tokens / busy / largest.tokens
    hours = {
        name: config.train.steps
        * (share * _seconds(traced, dtype, gpu) + 7 * model_bytes / gpu.bytes_per_second)
        / 3600
        for name, gpu in GPUS.items()
    }
    return {
        "parameters": parameters,
        "update": f"{batch.tokens:,} tokens = {busy} processes"
        f" x {per_process} micro-batches x {round(batch.tokens / busy / per_process):,}"
        + (f", and {processes - busy} idle" if busy < processes else ""),
        "target tokens per update": round(sampled.target_tokens),
        "micro-batches per update": round(per_update, 1),
        "updates per epoch": _by_corpus(data, [round(n) for n in sampled.per_epoch]),
        "steps": config.train.steps,
        "epochs": _by_corpus(data, [round(steps / n, 2) for n in sampled.per_epoch]),
        "memory per process": f"about {gigabytes(traced[dtype].peak + of_sums)}",
        "disk": f"about {gigabytes(disk.weights)} of weights and"
        f" {gigabytes(disk.resumable)} to resume from",
        "floating-point operations": f"{flops:.2g}",
        f"hours on {processes} GPUs, a rough estimate": ", ".join(
            f"{name} {value:.2g}" for name, value in hours.items()
        ),
    }


def _by_corpus(data: DataFolder, numbers: list[float]) -> float | str:
    """Return a number of each corpus, with its name where there are several."""
    if not isinstance(data, Mixture):
        return numbers[0]
    names = [str(folder.path) for folder in data.folders]
    return ", ".join(f"{name} {n:,}" for name, n in zip(names, numbers, strict=True))


def _seconds(
    traced: dict[torch.dtype, TracedMicroBatch], dtype: torch.dtype, gpu: Gpu
) -> float:
    """Return the time of a micro-batch; a GPU without bfloat16 computes in float32."""
    dtype = dtype if gpu.bfloat16 else F32
    return traced[dtype].seconds(gpu, dtype)
