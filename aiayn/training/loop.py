"""The training loop: section 5."""

import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from aiayn.checkpoint import ModelFile, save_model
from aiayn.config import Config, parse_interval
from aiayn.data.folder import DataFolder
from aiayn.data.shards import Corpus
from aiayn.device import choose_precision, float32_products, peak_memory
from aiayn.distributed import ProcessGroup, join_process_group
from aiayn.errors import Diverged
from aiayn.run_folder import RunFolder, has_current_average, list_steps
from aiayn.signals import CONTINUE, StopRequest, request_on_signals, stopped
from aiayn.training.average import average, last_checkpoints
from aiayn.training.loader import Update, prefetched, updates_from
from aiayn.training.log import MetricsWriter, TrainingLog, TrainingMetrics
from aiayn.training.loss import validation_loss
from aiayn.training.start import (
    check_init_from,
    check_lengths,
    idle_processes,
    probe_memory,
    resolve_precision,
    start_or_resume,
)
from aiayn.training.state import TrainState
from aiayn.training.update import current_rate, run_update
from aiayn.validation import ScoreModel, Validation, validation_score


@dataclass
class Training:
    """Everything that a run needs while it lasts."""

    config: Config
    state: TrainState
    train: Corpus
    valid: Corpus | None
    score: ScoreModel | None
    group: ProcessGroup
    dtype: torch.dtype
    run: RunFolder
    log: TrainingLog
    stop: StopRequest
    pending: list[tuple[Update, Tensor]] = field(default_factory=list)
    """Updates whose losses are still on the device."""
    reported_memory: bool = False
    logged_at: float = field(default_factory=time.monotonic)
    saved_at: float = field(default_factory=time.monotonic)


def train(
    data: DataFolder,
    run_path: Path,
    config: Config,
    *,
    device: str = "auto",
    seconds: float | None = None,
    init_from: ModelFile | None = None,
    score: ScoreModel | None = None,
    metrics_writer: MetricsWriter | None = None,
) -> None:
    """Train a model, from the start or from the last checkpoint of the run folder.

    After `seconds` it stops, with everything saved. Validation computes the BLEU or F1 of its
    text, unless another `score` is given.
    """
    if init_from is not None:
        check_init_from(init_from, data, config)
    run = RunFolder(run_path)
    with ExitStack() as stack:
        group = stack.enter_context(join_process_group(device))
        stop = stack.enter_context(request_on_signals(seconds))
        group.on_first_rank(lambda: stack.enter_context(run.locked()))
        named, config = config.train.precision, resolve_precision(config, run, group)
        group.on_first_rank(lambda: run.create_or_check(config, data))
        # Differs from the paper: on a GPU products are TF32, unless float32 is named.
        exact = named == "float32"
        stack.enter_context(float32_products("highest" if exact else "high"))
        dtype = choose_precision(config.train.precision, group.device)
        state = start_or_resume(run, data, config, group, dtype, init_from)
        log = TrainingLog(
            run, config.train.steps, enabled=group.is_first, writer=metrics_writer
        )
        stack.callback(log.close)
        valid = data.corpus("valid") if data.has("valid") else None
        if valid is not None and score is None:
            score = validation_score(data, config.decode)
        corpus = data.corpus("train")
        t = Training(config, state, corpus, valid, score, group, dtype, run, log, stop)
        averaged = config.train.average == 1 or has_current_average(run_path)
        if has_ended(t) and averaged:
            log.say(f"up to date: {state.progress.step:,} updates are done")
            return
        if state.progress.step:
            group.on_first_rank(lambda: run.record(config, data))
        announce(t)
        check_lengths(state.model.longest, {"training": t.train, "validation": t.valid})
        probe_memory(state, t.train, dtype)
        share_memory_limit(t)
        loop(t)
        finish(t)


def loop(t: Training) -> None:
    """Take an update, run it, log, validate, save; until all steps are done."""
    progress, settings = t.state.progress, t.config.train
    updates = prefetched(
        updates_from(
            t.train,
            t.config.batch,
            t.group,
            seed=settings.seed,
            epoch=progress.epoch,
            number=progress.update,
        )
    )
    while not has_ended(t):
        update = next(updates)
        t.pending.append((update, run_update(t.state, update, t.group, t.dtype)))
        progress.epoch, progress.update = update.next_position
        progress.source_tokens += update.source_tokens
        progress.target_tokens += update.target_tokens
        last = progress.step == settings.steps
        if last or progress.step % settings.log_every == 0:
            log_metrics(t)
        if last or (settings.valid_every and progress.step % settings.valid_every == 0):
            validate(t)
        # Every process asks the others at the same step, so all of them save and stop together.
        reason, due = t.group.max(t.stop.reason), has_ended(t) or checkpoint_due(t)
        if due or reason != CONTINUE:
            save(t, keep=due)
        if reason != CONTINUE and not has_ended(t):
            raise stopped(reason, progress.step)
    updates.close()


def has_ended(t: Training) -> bool:
    """Return whether all steps are done, or patience has run out."""
    return t.state.progress.step >= t.config.train.steps or out_of_patience(t)


def out_of_patience(t: Training) -> bool:
    """Return whether validation has not improved for as long as `train.patience` allows."""
    patience = t.config.train.patience
    return patience > 0 and t.state.progress.stale >= patience


def announce(t: Training) -> None:
    """Report what starts or resumes."""
    step, group = t.state.progress.step, t.group
    parameters = sum(p.numel() for p in t.state.model.parameters())
    where = f"{group.world_size} x {group.device.type}, {str(t.dtype).removeprefix('torch.')}"
    start = f"resuming after update {step:,}" if step else "starting"
    t.log.say(f"{start}: {len(t.train):,} pairs, {parameters:,} parameters, {where}")
    if hint := idle_processes(t.config.batch, group.world_size):
        t.log.say(hint)


def share_memory_limit(t: Training) -> None:
    """Make every process split what ran out of memory in one of them, and say so once."""
    smallest = -t.group.max(-(t.state.too_large or sys.maxsize))
    if smallest == sys.maxsize:
        return
    if not t.reported_memory:
        t.log.say(
            f"{smallest:,} tokens do not fit in memory at once and are split in two from now"
            f" on; batch.micro_tokens={smallest // 2} avoids it"
        )
    t.state.too_large, t.reported_memory = smallest, True


def log_metrics(t: Training) -> None:
    """Fetch the losses of the updates since the last time, check and log them."""
    if not t.pending:
        return
    share_memory_limit(t)
    progress = t.state.progress
    losses = torch.stack([numbers for _, numbers in t.pending]).cpu().double()
    check_finite(t, losses)
    sums = losses[:, :2].sum(dim=0)
    t.group.all_reduce(sums)
    tokens = sum(update.target_tokens for update, _ in t.pending)
    seconds = time.monotonic() - t.logged_at
    t.logged_at = time.monotonic()
    progress.seconds += seconds
    t.log.training(
        TrainingMetrics(
            step=progress.step,
            epoch=progress.epoch,
            loss=float(sums[0]) / tokens,
            plain_loss=float(sums[1]) / tokens,
            learning_rate=current_rate(t.state),
            gradient_norm=float(losses[-1, 2]),
            tokens=progress.target_tokens,
            tokens_per_second=tokens / seconds,
            seconds=progress.seconds,
            memory=peak_memory(t.group.device),
        )
    )
    t.pending.clear()


def check_finite(t: Training, losses: Tensor) -> None:
    """Stop before anything is saved if a loss or a gradient is not finite."""
    finite = losses.isfinite()
    if t.state.scaler.is_enabled():
        # In float16 a gradient may overflow: the scaler then skips the step and scales down.
        finite = finite[:, :2]
    bad = (~finite.all(dim=1)).nonzero().flatten()
    if not t.group.max(len(bad)):
        return
    which = int(bad[0]) if len(bad) else len(t.pending) - 1
    update, numbers = t.pending[which]
    step = t.state.progress.step - len(t.pending) + which + 1
    raise Diverged(
        f"training diverged at update {step:,} (epoch {update.epoch}, batch {update.number}):"
        f" loss {float(numbers[0]) / update.target_tokens:g}, gradient {float(numbers[2]):g}",
        fix=divergence_fix(t),
    )


def divergence_fix(t: Training) -> str:
    """Say whether a checkpoint is left, and what may help."""
    intact = "the last checkpoint is intact; " if list_steps(t.run.path) else ""
    exact = "" if t.dtype == torch.float32 else ", or use --precision float32"
    return f"{intact}lower optim.factor or raise optim.warmup in a new run{exact}"


def validate(t: Training) -> None:
    """Measure the model on held-out text, and save it if it is the best so far."""
    if t.valid is None:
        return
    log_metrics(t)
    progress = t.state.progress
    model = t.state.model
    model.eval()
    loss = validation_loss(model, t.valid, t.group, t.dtype, t.config.batch.micro_tokens)
    score = t.score(model, t.group) if t.score and math.isfinite(loss) else None
    model.train()
    found = Validation(loss, score)
    if not math.isfinite(found.loss):
        raise Diverged(
            f"training diverged: after update {progress.step:,} the validation loss is"
            f" {found.loss:g}",
            fix=divergence_fix(t),
        )
    best = progress.update_best(found.metrics)
    if best:
        path = t.run.path / "best.pt"
        t.group.on_first_rank(lambda: save_model(path, t.state.to_file(resumable=False)))
    t.log.validation(progress.step, found, best=best)
    t.logged_at = time.monotonic()


def checkpoint_due(t: Training) -> bool:
    """Return whether it is time for a checkpoint; the first process decides by its clock."""
    steps, seconds = parse_interval(t.config.train.save_every)
    if steps:
        return t.state.progress.step % steps == 0
    late = t.group.is_first and time.monotonic() - t.saved_at >= seconds
    return bool(t.group.max(int(late)))


def save(t: Training, *, keep: bool) -> None:
    """Write last.pt, and a checkpoint to average if it is to be kept."""
    log_metrics(t)
    if keep:
        t.group.on_first_rank(lambda: t.run.save_step(t.state.to_file(resumable=False)))
    t.group.on_first_rank(lambda: t.run.save_last(t.state.to_file(resumable=True)))
    t.saved_at = time.monotonic()


def finish(t: Training) -> None:
    """Average the newest checkpoints."""
    progress = t.state.progress
    why = f", no improvement in {progress.stale} validations" if out_of_patience(t) else ""
    t.log.say(f"done: {progress.step:,} updates, {progress.target_tokens:,} target tokens{why}")
    count = min(t.config.train.average, len(list_steps(t.run.path)))
    # A short run has one checkpoint: average.pt exists all the same, for those who expect it.
    if t.group.is_first and t.config.train.average > 1 and count:
        path = t.run.path / "average.pt"
        save_model(path, average(last_checkpoints(t.run.path, count)))
        which = f"last {count} checkpoints" if count > 1 else "only checkpoint"
        t.log.say(f"averaged the {which} into {path}")
