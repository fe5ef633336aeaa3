"""Before the first update: new weights or a checkpoint, and checks that fail early."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from aiayn.checkpoint import ModelFile
from aiayn.config import BatchConfig, Config
from aiayn.config_file import change, differences
from aiayn.data.batch import Batch, collate
from aiayn.data.folder import DataFolder
from aiayn.data.shards import Corpus
from aiayn.data.word_links import Guides
from aiayn.device import choose_precision
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError, UsageError, counted
from aiayn.run_folder import RunFolder, open_model
from aiayn.training.state import TrainState, fresh_state
from aiayn.training.update import accumulate_gradients, agree

# Padding makes a batch about a tenth larger.
PADDING = 1.1


def resolve_settings(config: Config, run: RunFolder, group: ProcessGroup) -> Config:
    """Replace `auto` by what the run began with: the precision, and the size of micro-batches.

    So a run that resumes on other hardware, or with a later version, stays the same run.
    """
    return group.from_first_rank(lambda: resolve_auto(config, run, group.device))


def resolve_auto(config: Config, run: RunFolder, device: torch.device) -> Config:
    """Replace `auto` by what the run folder holds, or else by what suits the device."""
    stored = run.stored_config()
    found = []
    if config.batch.micro_tokens == "auto" and (stored or device.type != "cuda"):
        tokens = (stored or Config()).batch.micro_tokens
        found.append(("batch", "micro_tokens", str(tokens)))
    if config.train.precision == "auto":
        found.append(("train", "precision", _stored_or_best_precision(stored, device)))
    return change(config, found, origin=str(run.path))


def _stored_or_best_precision(stored: Config | None, device: torch.device) -> str:
    if stored is None:
        return str(choose_precision("auto", device)).removeprefix("torch.")
    if stored.train.precision == "auto":
        # Earlier versions did not write down what they chose, which was float32 on a CPU.
        return "bfloat16" if device.type == "cuda" else "float32"
    return stored.train.precision


def require_same_inputs(config: Config, data: DataFolder, group: ProcessGroup) -> None:
    """Refuse processes that would train on other data, or by other settings, than the first."""
    own = (config, data.training_sha256)
    for rank, (settings, pairs) in enumerate(group.gather([own], group.world_size)):
        others = differences(config, settings)
        if pairs != own[1]:
            others.append("the data")
        if others:
            raise _differing(group.rank, rank, "; ".join(others))


def require_same_weights(state: TrainState, group: ProcessGroup) -> None:
    """Refuse processes that would start with other weights than the first."""
    if group.world_size == 1:
        return
    weights = hashlib.sha256()
    for weight in state.model.state_dict().values():
        weights.update(weight.cpu().contiguous().view(torch.uint8).numpy().data)
    own = weights.hexdigest()
    for rank, other in enumerate(group.gather([own], group.world_size)):
        if other != own:
            raise _differing(group.rank, rank, "the first weights")


def _differing(rank: int, other: int, what: str) -> UsageError:
    return UsageError(
        f"process {rank} and process {other} of this run differ: {what}",
        fix="give every machine the same data folder, settings and versions of aiayn and torch",
    )


def start_or_resume(
    run: RunFolder,
    data: DataFolder,
    config: Config,
    group: ProcessGroup,
    dtype: torch.dtype,
    init_from: Path | None,
) -> TrainState:
    """Return the state of the last checkpoint, or a fresh one; only the first rank reads."""
    state = fresh_state(config, data.codec, group.device, dtype)

    def load() -> bool:
        checkpoint = run.resume()
        if checkpoint is not None:
            state.restore(checkpoint)
        elif init_from is not None:
            model = open_model(init_from)
            check_init_from(model, data, config)
            state.model.load_state_dict(model.weights)
            if state.average:
                state.average.restart()
        run.discard_after(state.progress.step)
        return checkpoint is not None or init_from is not None

    if group.from_first_rank(load):
        share_state(state, group)
    else:
        require_same_weights(state, group)
    # The next start may make another machine the first.
    if group.max(int((run.path / "last.pt").exists())) and not state.progress.step:
        raise UsageError(
            f"{run.path} holds a checkpoint on another machine, and none on the first",
            fix="put the run folder where all machines see it",
        )
    return state


def share_state(state: TrainState, group: ProcessGroup) -> None:
    """Give every process the state of the first, tensor by tensor: no second copy is made."""
    if group.world_size == 1:
        return
    outline = tree_map_only(Tensor, lambda x: x.to("meta"), state.optimizer.state_dict())
    found = group.broadcast((outline, state.scaler.state_dict(), state.progress))
    if not group.is_first:
        outline, scaler, state.progress = found
        state.optimizer.load_state_dict(
            tree_map_only(Tensor, lambda x: torch.empty_like(x, device=group.device), outline)
        )
        state.scaler.load_state_dict(scaler)
    averaged = state.average.state_dict() if state.average else {}
    state_dicts = state.model.state_dict(), state.optimizer.state_dict(), averaged
    tensors = [x for x in tree_leaves(state_dicts) if isinstance(x, Tensor)]
    # Tied weights have several names.
    for tensor in {x.data_ptr(): x for x in tensors}.values():
        group.broadcast_tensor(tensor)


def check_init_from(init_from: ModelFile, data: DataFolder, config: Config) -> None:
    """Refuse initial weights of a model with another vocabulary or other settings."""
    if init_from.codec.fingerprint != data.codec.fingerprint:
        raise UsageError(
            "the model to start from and the data have different vocabularies",
            fix="preprocess the text anew with --vocab-from and that model",
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
            fix="leave --preset and these settings out, and its own are taken",
        )


def open_corpus(data: DataFolder, config: Config) -> Corpus:
    """Return the training pairs, with what guides attention if it is guided."""
    model = config.model
    if config.optim.rdrop and not any(
        (model.dropout, model.attention_dropout, model.relu_dropout)
    ):
        raise UsageError(
            f"optim.rdrop is {config.optim.rdrop}, and without dropout two passes are the same",
            fix="set model.dropout, or leave optim.rdrop out",
        )
    corpus = data.corpus("train")
    if not config.optim.guided:
        return corpus
    links = data.word_links()
    if links is None:
        raise UsageError(
            f"optim.guided is {config.optim.guided}, and {data.path} has no word alignments",
            fix="preprocess with --alignments FILE, or leave optim.guided out",
        )
    corpus.guide = Guides(data.codec, links)
    return corpus


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


def choose_micro_tokens(
    state: TrainState, corpus: Corpus, group: ProcessGroup, dtype: torch.dtype
) -> Config:
    """Return settings in which micro-batches are as large as the memory of every GPU allows.

    An update is cut into one piece for each process, or two, or three, until one fits.
    """
    config, pieces = state.config, 0
    while config.batch.micro_tokens == "auto" or state.too_large:
        pieces, state.too_large = pieces + 1, 0
        tokens = micro_tokens_of(config.batch, group.world_size, pieces)
        triple = ("batch", "micro_tokens", str(tokens))
        state.config = config = change(config, [triple], origin="choosing micro-batches")
        probe_memory(state, corpus, group, dtype)
    return config


def longest_micro_batch(corpus: Corpus, config: Config) -> Batch:
    """Return the longest pairs, as many as go through the network at once."""
    batch = config.batch
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths)
    rows = min(len(longer), max(1, min(batch.micro_limit, batch.tokens) // int(longer.max())))
    # Numbers of all pairs would take 8 bytes each; those that are long enough are few.
    long = np.flatnonzero(longer >= np.partition(longer, -rows)[-rows])
    longest = long[np.argsort(longer[long])[-rows:]]
    found = collate([corpus.pair(int(i)) for i in longest])
    if not config.optim.guided:
        return found
    # A guide without links takes as much memory as any other.
    sizes = found.rows, found.target_BT.size(1), found.source_BS.size(1)
    return replace(found, guide_BTS=torch.zeros(sizes))


def probe_memory(
    state: TrainState, corpus: Corpus, group: ProcessGroup, dtype: torch.dtype
) -> None:
    """Run the longest micro-batch once, so that a lack of memory shows now, not in hours."""
    device = state.gradients.device
    batch = longest_micro_batch(corpus, state.config).to(device)
    # Adam allocates its two moments at the first step: this takes their place.
    moments = torch.empty(2 * state.gradients.total.numel(), device=device)
    while accumulate_gradients(state, [("probe", batch)], dtype) is None:
        pass  # it is halved
    agree(state, group, ())
    del moments


def require_work(corpus: Corpus, batch: BatchConfig, processes: int) -> None:
    """Refuse more processes than an update has micro-batches.

    They are not cut further to occupy all: what dropout draws is seeded by micro-batch, and
    even without dropout other pieces round otherwise, so that the number of processes would
    change the weights. Whoever wants other pieces asks for them by a setting, which the run
    keeps.
    """
    if batch.micro_tokens == "auto":
        return  # chosen for as many processes as there are
    # A corpus may have fewer tokens than an update would take.
    sides = corpus.source_lengths, corpus.target_lengths
    whole = min(batch.tokens, *(int(lengths.sum()) for lengths in sides))
    batch = replace(batch, tokens=whole)
    pieces = math.ceil(PADDING * whole / batch.micro_limit)
    if pieces < processes:
        raise UsageError(
            f"{processes - pieces} of {processes} processes would be idle: an update of"
            f" {whole:,} tokens is {pieces} micro-batch{'es' if pieces > 1 else ''} of at most"
            f" {batch.micro_limit:,}",
            fix=f"start {pieces}, or pass batch.micro_tokens="
            f"{micro_tokens_of(batch, processes, pieces=1)}, which gives each process a share"
            " (dropout then draws otherwise)",
        )


def long_pairs(corpus: Corpus, batch: BatchConfig) -> str:
    """Return a warning about pairs that alone exceed an update; nothing if there are none."""
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths)
    count = int((longer > batch.tokens).sum())
    if not count:
        return ""
    return (
        f"batch.tokens={batch.tokens} is less than {counted(count, 'pairs')} of {len(longer):,}"
        f" have, the longest {int(longer.max()):,}: each is an update of its own, which exceeds"
        " that"
    )


def micro_tokens_of(batch: BatchConfig, processes: int, pieces: int) -> int:
    """Return the size of micro-batches that gives each process so many of them."""
    return math.ceil(PADDING * batch.tokens / processes / pieces)
