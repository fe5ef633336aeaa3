"""Estimates for a run before it starts: `aiayn train --dry-run`."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from aiayn.config import BatchConfig, Config
from aiayn.data.folder import DataFolder
from aiayn.data.plan import EpochPlan, micro_batches, plan_epoch
from aiayn.data.resampling import Resampling, resampling
from aiayn.data.shards import Corpus
from aiayn.device import sum_type
from aiayn.training.cost import parameters_of, training_flops
from aiayn.training.disk import FLOAT32, disk_space, gigabytes
from aiayn.training.loader import read_pairs
from aiayn.training.start import longest_micro_batch, micro_tokens_of
from aiayn.training.trace import GPUS, Gpu, TracedMicroBatch, trace_micro_batch

F32 = torch.float32
SAMPLED_UPDATES = 50


def estimate(
    data: DataFolder, config: Config, processes: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """Return a run's parameters, batches, steps, memory, hours, disk space and operations."""
    corpus, codec = data.corpus("train"), data.codec
    source, target = corpus.source_lengths, corpus.target_lengths
    batch = config.batch
    if batch.micro_tokens == "auto":
        batch = replace(batch, micro_tokens=micro_tokens_of(batch, processes, pieces=1))
    seed = config.train.seed
    plan = plan_epoch(source, target, batch, seed=seed, epoch=0)
    sampled = _sample_updates(corpus, plan, resampling(codec, batch, corpus, seed=seed), batch)
    per_update = sampled.micro_batches
    busy = min(processes, round(per_update))
    per_process = round(per_update / busy)
    parameters = parameters_of(config.model, *codec.sizes)
    epochs = config.train.steps / len(plan)
    of_all = epochs * sampled.growth
    tokens_in_all = (int(source.sum() * of_all), int(target.sum() * of_all))
    flops = training_flops(config.model, codec.sizes, tokens_in_all)
    model_bytes = FLOAT32 * parameters["total"]
    disk = disk_space(config.train, parameters["total"])
    largest = longest_micro_batch(corpus, batch)
    traced = {each: trace_micro_batch(config, codec, largest, each) for each in {dtype, F32}}
    # Where sums are in float64, the mean gradient in float32 is one tensor more.
    sums = sum_type(device).itemsize
    of_sums = parameters["total"] * sums if sums != FLOAT32 else 0
    share = sampled.tokens / busy / largest.tokens
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
        "target tokens per update": round(sampled.tokens),
        "micro-batches per update": round(per_update, 1),
        "updates per epoch": len(plan),
        "steps": config.train.steps,
        "epochs": round(epochs, 2),
        "memory per process": f"about {gigabytes(traced[dtype].peak + of_sums)}",
        "disk": f"about {gigabytes(disk.weights)} of weights and"
        f" {gigabytes(disk.resumable)} to resume from",
        "floating-point operations": f"{flops:.2g}",
        f"hours on {processes} GPUs, a rough estimate": ", ".join(
            f"{name} {value:.2g}" for name, value in hours.items()
        ),
    }


class SampledUpdates(NamedTuple):
    """Means over some updates of an epoch."""

    tokens: float
    """Of the target."""
    micro_batches: float
    growth: float
    """Tokens that are drawn for one that is stored."""


def _sample_updates(
    corpus: Corpus, plan: EpochPlan, drawn: Resampling | None, batch: BatchConfig
) -> SampledUpdates:
    """Read some updates, as training will."""
    chosen = np.linspace(0, len(plan) - 1, min(len(plan), SAMPLED_UPDATES)).astype(int)
    sampled = [read_pairs(corpus, plan.pairs(u), 0, drawn) for u in chosen]
    tokens = [int(pairs.target_lengths.sum()) for pairs in sampled]
    stored = sum(int(corpus.target_lengths[plan.pairs(u)].sum()) for u in chosen)
    micro = [
        len(micro_batches(np.arange(len(s)), s, t, limit=batch.micro_limit))
        for s, t, _ in sampled
    ]
    return SampledUpdates(float(np.mean(tokens)), float(np.mean(micro)), sum(tokens) / stored)


def _seconds(
    traced: dict[torch.dtype, TracedMicroBatch], dtype: torch.dtype, gpu: Gpu
) -> float:
    """Return the time of a micro-batch; a GPU without bfloat16 computes in float32."""
    dtype = dtype if gpu.bfloat16 else F32
    return traced[dtype].seconds(gpu, dtype)
