"""The training loop: section 5."""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from aiayn.checkpoint import save_model
from aiayn.config import Config, parse_interval
from aiayn.data.folder import DataFolder
from aiayn.data.resampling import Resampling, resampling
from aiayn.data.shards import Corpus
from aiayn.device import choose_precision, float32_products, peak_memory
from aiayn.distributed import ProcessGroup, join_process_group
from aiayn.errors import Diverged, counted
from aiayn.model_path import has_current_average
from aiayn.run_folder import RunFolder, list_steps
from aiayn.signals import CONTINUE, StopRequest, request_on_signals, stopped
from aiayn.training.average import average, last_checkpoints
from aiayn.training.cost import parameters_of
from aiayn.training.disk import require_room
from aiayn.training.loader import Update, prefetched
from aiayn.training.log import MetricsWriter, TrainingLog, TrainingMetrics
from aiayn.training.loss import validation_loss
from aiayn.training.mixing import all_updates
from aiayn.training.start import (
    check_lengths,
    choose_micro_tokens,
    long_pairs,
    open_corpus,
    probe_memory,
    require_same_inputs,
    require_work,
    resolve_settings,
    start_or_resume,
)
from aiayn.training.state import TrainState
from aiayn.training.update import current_rate, run_update
from aiayn.training.writer import CheckpointWriter
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
    resampling: Resampling | None = None
    writer: CheckpointWriter = field(default_factory=CheckpointWriter)
    pending: list[tuple[Update, Tensor]] = field(default_factory=list)
    """Updates whose losses are still on the device."""
    reported_memory: bool = False
    logged_at: float = field(default_factory=time.monotonic)
    saved_at: float = field(default_factory=time.monotonic)

    def votes(self) -> list[int]:
        """Return why to stop, and whether it is time for a checkpoint: the largest counts.

        All processes so decide alike; the first one looks at the clock.
        """
        _, seconds = parse_interval(self.config.train.save_every)
        waited = time.monotonic() - self.saved_at
        late = self.group.is_first and 0 < seconds <= waited
        return [self.stop.reason, int(late)]


def train(
    data: DataFolder,
    run_path: Path,
    config: Config,
    *,
    device: str = "auto",
    deadline: float | None = None,
    init_from: Path | None = None,
    score: ScoreModel | None = None,
    metrics_writer: MetricsWriter | None = None,
) -> None:
    """Train a model, from the start or from the last checkpoint of the run folder.

    At a `deadline` of time.monotonic it stops, with everything saved. Validation computes the
    BLEU, chrF or F1 of its text, unless another `score` is given.
    """
    run, corpus = RunFolder(run_path), open_corpus(data, config)
    with ExitStack() as stack:
        group = stack.enter_context(join_process_group(device))
        stop = stack.enter_context(request_on_signals(deadline))
        require_same_inputs(config, data, group)
        group.on_first_rank(lambda: stack.enter_context(run.locked()))
        named, config = config.train.precision, resolve_settings(config, run, group)
        group.on_first_rank(lambda: prepare_folder(run, data, config, group.world_size))
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
            score = validation_score(data, config.decode, config.train.metric)
        drawn = resampling(data.codec, config.batch, corpus, seed=config.train.seed)
        t = Training(config, state, corpus, valid, score, group, dtype, run, log, stop, drawn)
        stack.callback(t.writer.wait)
        averaged = group.from_first_rank(lambda: has_current_average(run_path))
        if has_ended(t) and (averaged or not writes_average(t)):
            log.say(f"up to date: {counted(state.progress.step, 'updates')} done")
            return
        if state.progress.step:
            group.on_first_rank(lambda: run.record(config, data))
        check_lengths(state.model.longest, {"training": t.train, "validation": t.valid})
        if config.batch.micro_tokens == "auto":
            t.config = choose_micro_tokens(state, t.train, group, dtype)
            group.on_first_rank(lambda: run.save_config(t.config))
        announce(t)
        probe_memory(state, t.train, group, dtype)
        loop(t)
        finish(t)


def prepare_folder(run: RunFolder, data: DataFolder, config: Config, processes: int) -> None:
    """Create the run folder, or find the same run in it; refuse what could not go well."""
    require_work(data.corpus("train"), config.batch, processes)
    run.refuse_other(config, data)
    parameters = parameters_of(config.model, *data.codec.sizes)["total"]
    require_room(run.path, config.train, parameters)
    run.create(config, data)


def loop(t: Training) -> None:
    """Take an update, run it, log, validate, save; until all steps are done."""
    progress, settings = t.state.progress, t.config.train
    updates = prefetched(
        all_updates(
            t.train,
            t.config.batch,
            t.group,
            progress,
            seed=settings.seed,
            resampling=t.resampling,
        )
    )
    while not has_ended(t):
        update = next(updates)
        numbers, (reason, late) = run_update(t.state, update, t.group, t.dtype, t.votes)
        t.pending.append((update, numbers))
        report_memory_limit(t)
        progress.epoch, progress.update = update.next_position
        progress.places = [list(place) for place in update.places]
        progress.source_tokens += update.source_tokens
        progress.target_tokens += update.target_tokens
        last = progress.step == settings.steps
        if last or progress.step % settings.log_every == 0:
            log_metrics(t)
        if last or (settings.valid_every and progress.step % settings.valid_every == 0):
            validate(t)
        due = has_ended(t) or bool(late) or checkpoint_due(t)
        if due or reason != CONTINUE:
            t.stop.saving = reason != CONTINUE or has_ended(t)
            save(t, keep=due)
        if reason != CONTINUE and not has_ended(t):
            t.group.on_first_rank(t.writer.wait)
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
    if decay := t.config.train.ema:
        t.log.say(f"validation and best.pt take a moving average of the weights, decay {decay}")
    if warning := long_pairs(t.train, t.config.batch):
        t.log.say(warning)


def report_memory_limit(t: Training) -> None:
    """Say once that micro-batches are split because memory ran out."""
    if t.state.too_large and not t.reported_memory:
        t.reported_memory = True
        t.log.say(
            f"{t.state.too_large:,} tokens do not fit in memory at once and are split in two"
            f" from now on; batch.micro_tokens={t.state.too_large // 2} avoids it"
        )


def log_metrics(t: Training) -> None:
    """Fetch the losses of the updates since the last time, check and log them."""
    if not t.pending:
        return
    progress = t.state.progress
    losses = torch.stack([numbers for _, numbers in t.pending]).cpu().double()
    check_finite(t, losses)
    sums = losses[:, :-1].sum(dim=0)
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
            gradient_norm=float(losses[-1, -1]),
            tokens=progress.target_tokens,
            tokens_per_second=tokens / seconds,
            seconds=progress.seconds,
            memory=peak_memory(t.group.device),
            guided_loss=float(sums[2]) / tokens if t.config.optim.guided else None,
        )
    )
    t.pending.clear()


def check_finite(t: Training, losses: Tensor) -> None:
    """Stop before anything is saved if a loss or a gradient is not finite."""
    finite = losses.isfinite()
    if t.state.scaler.is_enabled():
        # In float16 a gradient may overflow: the scaler then skips the step and scales down.
        finite = finite[:, :-1]
    bad = (~finite.all(dim=1)).nonzero().flatten()
    if not t.group.max(len(bad)):
        return
    which = int(bad[0]) if len(bad) else len(t.pending) - 1
    update, numbers = t.pending[which]
    step = t.state.progress.step - len(t.pending) + which + 1
    raise Diverged(
        f"training diverged at update {step:,} (epoch {update.epoch}, batch {update.number}):"
        f" loss {float(numbers[0]) / update.target_tokens:g}, gradient {float(numbers[-1]):g}",
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
    # Decoding forks, which is safest while no thread writes.
    t.group.on_first_rank(t.writer.wait)
    progress = t.state.progress
    model = t.state.model
    with t.state.averaged():
        model.eval()
        loss = validation_loss(model, t.valid, t.group, t.dtype, t.config.batch.micro_limit)
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
            write, file = partial(save_model, t.run.path / "best.pt"), t.state.to_file
            t.group.on_first_rank(lambda: t.writer.start(write, file(resumable=False)))
    t.log.validation(progress.step, found, best=best)
    t.logged_at = time.monotonic()


def checkpoint_due(t: Training) -> bool:
    """Return whether this update is one after which a checkpoint is saved."""
    steps, _ = parse_interval(t.config.train.save_every)
    return bool(steps) and t.state.progress.step % steps == 0


def save(t: Training, *, keep: bool) -> None:
    """Start to write last.pt, and a checkpoint to average if it is to be kept."""
    log_metrics(t)
    write = partial(t.run.save, keep=keep)
    t.group.on_first_rank(lambda: t.writer.start(write, t.state.to_file(resumable=True)))
    t.saved_at = time.monotonic()


def finish(t: Training) -> None:
    """Wait for the last checkpoint, and average the newest ones, unless all are averaged."""
    t.group.on_first_rank(t.writer.wait)
    progress = t.state.progress
    why = f", no improvement in {progress.stale} validations" if out_of_patience(t) else ""
    updates = counted(progress.step, "updates")
    t.log.say(f"done: {updates}, {progress.target_tokens:,} target tokens{why}")
    if not (t.group.is_first and writes_average(t)):
        return
    path = t.run.path / "average.pt"
    count = min(t.config.train.average, len(list_steps(t.run.path)))
    if decay := t.config.train.ema:
        with t.state.averaged():
            save_model(path, replace(t.state.to_file(resumable=False), history={"ema": decay}))
        t.log.say(f"wrote the moving average of the weights to {path}")
    # A short run has one checkpoint: average.pt exists all the same, for those who expect it.
    elif count:
        save_model(path, average(last_checkpoints(t.run.path, count)))
        which = f"last {count} checkpoints" if count > 1 else "only checkpoint"
        t.log.say(f"averaged the {which} into {path}")


def writes_average(t: Training) -> bool:
    """Return whether the run ends with an average.pt."""
    return bool(t.config.train.ema) or t.config.train.average > 1
