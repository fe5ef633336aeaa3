"""Before the first update: new weights or a checkpoint, and checks that fail early."""

import hashlib
import math

import numpy as np
import torch

from aiayn.checkpoint import ModelFile
from aiayn.config import BatchConfig, Config
from aiayn.config_file import change, differences, to_yaml
from aiayn.data.batch import collate
from aiayn.data.folder import DataFolder
from aiayn.data.shards import Corpus
from aiayn.device import choose_precision
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError, UsageError
from aiayn.run_folder import RunFolder, fingerprint
from aiayn.training.state import TrainState, fresh_state
from aiayn.training.update import accumulate_gradients

# Padding makes a batch about a tenth larger.
PADDING = 1.1


def resolve_precision(config: Config, run: RunFolder, group: ProcessGroup) -> Config:
    """Replace `auto` by the precision that the run began with, or that suits the hardware.

    So a run that resumes on other hardware, or with a later version, stays the same run.
    """
    if config.train.precision != "auto":
        return config
    stored = run.stored_config()
    if stored is None:
        best = str(choose_precision("auto", group.device)).removeprefix("torch.")
        found = group.broadcast(best)
    else:
        found = stored.train.precision
    if found == "auto":
        # Earlier versions did not write down what they chose, which was float32 on a CPU.
        found = "bfloat16" if group.device.type == "cuda" else "float32"
    return change(config, [("train", "precision", found)], origin=str(run.path))


def require_same_start(state: TrainState, data: DataFolder, group: ProcessGroup) -> None:
    """Refuse processes that would train on other data, settings or weights than the first."""
    if group.world_size == 1:
        return
    weights = hashlib.sha256()
    for weight in state.model.state_dict().values():
        weights.update(weight.cpu().contiguous().view(torch.uint8).numpy().data)
    own = {
        "data": fingerprint(data),
        "settings": to_yaml(state.config),
        "weights": weights.hexdigest(),
    }
    for rank, theirs in enumerate(group.gather([own], group.world_size)):
        others = [name for name in own if theirs[name] != own[name]]
        if others:
            raise UsageError(
                f"process {group.rank} and process {rank} differ in their {', '.join(others)}",
                fix="give every machine the same data folder, settings and version of aiayn",
            )


def start_or_resume(
    run: RunFolder,
    data: DataFolder,
    config: Config,
    group: ProcessGroup,
    dtype: torch.dtype,
    init_from: ModelFile | None,
) -> TrainState:
    """Return the state of the last checkpoint, or a fresh one."""
    state = fresh_state(config, data.codec, group.device, dtype)
    checkpoint = run.latest()
    if checkpoint is not None:
        state.restore(checkpoint)
    elif init_from is not None:
        state.model.load_state_dict(init_from.weights)
    step = state.progress.step
    group.on_first_rank(lambda: run.discard_after(step))
    if group.max(step) != step:
        raise UsageError(
            f"{run.path} is at update {step} on this machine, and at a later one on another",
            fix="put the run folder where all machines see it",
        )
    require_same_start(state, data, group)
    return state


def check_init_from(init_from: ModelFile, data: DataFolder, config: Config) -> None:
    """Refuse initial weights of a model with another vocabulary or other settings."""
    if init_from.codec.fingerprint != data.codec.fingerprint:
        raise UsageError(
            "the model to start from has another vocabulary than the data",
            fix="preprocess with --vocab-from that model",
        )
    # Not all settings show in the shapes of the weights.
    others = [
        change
        for change in differences(init_from.config, config)
        if change.startswith("model.") and "dropout" not in change
    ]
    if others:
        raise UsageError(
            f"the model to start from has other settings: {'; '.join(others)}",
            fix="give the settings that it has, as `aiayn info` shows them",
        )


def check_lengths(limit: int | None, corpora: dict[str, Corpus | None]) -> None:
    """Refuse pairs with more tokens than a model with learned positions supports."""
    for name, corpus in corpora.items():
        if limit is None or corpus is None:
            continue
        longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
        if longest > limit:
            raise DataError(
                f"a {name} pair has {longest:,} tokens, and the model knows {limit:,}"
                " positions",
                fix=f"pass model.max_positions={longest} or model.positions=sinusoidal, or"
                " preprocess without the long pairs",
            )


def probe_memory(state: TrainState, corpus: Corpus, dtype: torch.dtype) -> None:
    """Run the longest micro-batch once, so that a lack of memory shows now, not in hours."""
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths)
    rows = min(len(longer), max(1, state.config.batch.micro_tokens // int(longer.max())))
    # Numbers of all pairs would take 8 bytes each; those that are long enough are few.
    long = np.flatnonzero(longer >= np.partition(longer, -rows)[-rows])
    longest = long[np.argsort(longer[long])[-rows:]]
    device = state.gradients.device
    batch = collate([corpus.pair(int(i)) for i in longest]).to(device)
    # Adam allocates its two moments at the first step: this takes their place.
    moments = torch.empty(2 * state.gradients.flat.numel(), device=device)
    accumulate_gradients(state, [("probe", batch)], dtype)
    del moments


def idle_processes(batch: BatchConfig, processes: int) -> str:
    """Return a hint if some processes get no micro-batch of an update; else nothing."""
    pieces = math.ceil(PADDING * batch.tokens / batch.micro_tokens)
    if pieces >= processes:
        return ""
    return (
        f"{processes - pieces} of {processes} processes are idle: an update of"
        f" {batch.tokens:,} tokens is {pieces} micro-batch{'es' if pieces > 1 else ''};"
        f" batch.micro_tokens={math.ceil(PADDING * batch.tokens / processes)} shares it"
    )
