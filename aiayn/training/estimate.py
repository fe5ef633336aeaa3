"""Estimates for a run before it starts: `aiayn train --dry-run`."""

from typing import Any

import numpy as np
import torch

from aiayn.config import Config, ModelConfig, parse_keep
from aiayn.data.folder import DataFolder
from aiayn.data.plan import micro_batches, plan_epoch
from aiayn.device import sum_type
from aiayn.training.cost import parameters_of, training_flops

# Bytes of a float32: weights, gradients and the optimizer's state.
FLOAT32 = 4
SAMPLED_UPDATES = 50


def estimate(
    data: DataFolder, config: Config, processes: int, device: torch.device
) -> dict[str, Any]:
    """Return a run's parameters, batches, steps, memory, disk space and operations."""
    corpus, codec = data.corpus("train"), data.codec
    source, target = corpus.source_lengths, corpus.target_lengths
    batch = config.batch
    plan = plan_epoch(source, target, batch, seed=config.train.seed, epoch=0)
    chosen = np.linspace(0, len(plan) - 1, min(len(plan), SAMPLED_UPDATES)).astype(int)
    tokens = [int(target[plan.pairs(u)].sum()) for u in chosen]
    micro = [
        len(micro_batches(plan.pairs(u), source, target, limit=batch.micro_tokens))
        for u in chosen
    ]
    per_update = float(np.mean(micro))
    busy = min(processes, round(per_update))
    per_process = round(per_update / busy)
    parameters = parameters_of(config.model, *codec.sizes)
    epochs = config.train.steps / len(plan)
    tokens_in_all = (int(source.sum() * epochs), int(target.sum() * epochs))
    flops = training_flops(config.model, codec.sizes, tokens_in_all)
    last, best = parse_keep(config.train.keep)
    model_bytes = FLOAT32 * parameters["total"]
    sums = sum_type(device)
    sum_bytes = 0 if sums == torch.float32 else sums.itemsize * parameters["total"]
    return {
        "parameters": parameters,
        "update": f"{batch.tokens:,} tokens = {busy} processes"
        f" x {per_process} micro-batches x {round(batch.tokens / busy / per_process):,}"
        + (f", and {processes - busy} idle" if busy < processes else ""),
        "target tokens per update": round(float(np.mean(tokens))),
        "micro-batches per update": round(per_update, 1),
        "updates per epoch": len(plan),
        "steps": config.train.steps,
        "epochs": round(epochs, 2),
        "memory per process": _gigabytes(
            4 * model_bytes + sum_bytes + activation_bytes(config.model, batch.micro_tokens)
        ),
        "disk": _gigabytes((max(last, config.train.average) + best + 1) * model_bytes)
        + f" of weights and {_gigabytes(6 * model_bytes)} to resume from",
        "floating-point operations": f"{flops:.2g}",
    }


def activation_bytes(model: ModelConfig, tokens: int) -> int:
    """Estimate the activations that a micro-batch keeps for the backward pass, in float32.

    Each attention keeps its input, q, k, v, heads, output and the norm's input and output; the
    feed-forward network keeps its inner layer twice.
    """
    attention = 4 * model.d_model + 2 * model.heads * (model.d_k + model.d_v)
    feed_forward = 2 * model.d_ff + 4 * model.d_model
    return FLOAT32 * tokens * model.layers * (3 * attention + 2 * feed_forward)


def _gigabytes(count: float) -> str:
    return f"about {count / 1e9:.1f} GB" if count >= 1e8 else f"about {count / 1e6:.0f} MB"
