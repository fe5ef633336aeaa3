"""The training loop: section 5."""

import math
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aiayn.checkpoint import ModelFile, has_current_average, list_steps, save_model
from aiayn.config import Config, parse_interval
from aiayn.config_file import differences
from aiayn.data.batch import collate
from aiayn.data.folder import DataFolder
from aiayn.data.shards import Corpus
from aiayn.device import allow_tf32, choose_precision, peak_memory
from aiayn.distributed import ProcessGroup, join_process_group
from aiayn.errors import DataError, Diverged, UsageError
from aiayn.model.transformer import Transformer
from aiayn.signals import CONTINUE, StopRequest, request_on_signals, stopped
from aiayn.training.average import average, last_checkpoints
from aiayn.training.feed import Update, prepared_ahead, updates_from
from aiayn.training.report import Measured, Report, Watch
from aiayn.training.run import RunFolder
from aiayn.training.state import TrainState, fresh_state
from aiayn.training.update import (
    MicroBatch,
    accumulate_gradients,
    current_rate,
    run_update,
)
from aiayn.training.validate import Score, Validation, validation_loss

ScoreText = Callable[[Transformer, ProcessGroup], Score]
"""Translates the validation text and returns its score, the same on every process."""

PADDING = 1.1
"""Tokens with padding for each without, about."""


@dataclass
class Training:
    """Everything that one run needs while it lasts."""

    config: Config
    state: TrainState
    train: Corpus
    valid: Corpus | None
    score_text: ScoreText | None
    group: ProcessGroup
    dtype: torch.dtype
    run: RunFolder
    report: Report
    stop: StopRequest
    pending: list[tuple[Update, Tensor]] = field(default_factory=list)
    """Updates whose numbers are still on the device."""
    told_of_memory: bool = False
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
    score_text: ScoreText | None = None,
    watch: Watch | None = None,
) -> None:
    """Train a model, from the start or from where the run folder is.

    Args:
        data: What to learn from.
        run_path: Where the run is kept.
        config: All settings.
        device: auto, cpu, cuda or mps.
        seconds: Stop after this time, with everything saved.
        init_from: Take the weights of the first step from here.
        score_text: What validation calls beside the loss.
        watch: Is told the numbers that go to metrics.jsonl.
    """
    if init_from is not None:
        check_start(init_from, data, config)
    run = RunFolder(run_path)
    with (
        join_process_group(device) as group,
        request_on_signals(seconds) as stop,
        ExitStack() as folder,
    ):
        group.on_first_rank(lambda: folder.enter_context(run.claimed()))
        group.on_first_rank(lambda: run.begin(config, data))
        allow_tf32(group.device)
        dtype = choose_precision(config.train.precision, group.device)
        state = begin_or_resume(run, data, config, group, dtype, init_from)
        report = Report(run, config.train.steps, speaks=group.is_first, watch=watch)
        valid = data.corpus("valid") if data.has("valid") else None
        corpus = data.corpus("train")
        training = Training(
            config, state, corpus, valid, score_text, group, dtype, run, report, stop
        )
        try:
            if is_finished(training):
                report.say(f"up to date: {state.place.step:,} updates are done")
                return
            if state.place.step:
                group.on_first_rank(lambda: run.record(config, data))
            announce(training)
            check_lengths(training)
            rehearse(training)
            loop(training)
            finish(training)
        finally:
            report.close()


def begin_or_resume(
    run: RunFolder,
    data: DataFolder,
    config: Config,
    group: ProcessGroup,
    dtype: torch.dtype,
    init_from: ModelFile | None,
) -> TrainState:
    """Return the state to go on from: of the last checkpoint, or fresh."""
    state = fresh_state(config, data.codec, group.device, dtype)
    newest = run.newest()
    if newest is not None:
        state.restore(newest)
    elif init_from is not None:
        state.model.load_state_dict(init_from.weights)
    group.on_first_rank(lambda: run.forget_after(state.place.step))
    if group.max(state.place.step) != state.place.step:
        raise UsageError(
            f"{run.path} is at update {state.place.step} here, and further on elsewhere",
            fix="put the run folder where all machines see it",
        )
    return state


def check_start(init_from: ModelFile, data: DataFolder, config: Config) -> None:
    """Refuse to start from the weights of a model that is another one."""
    if init_from.codec.fingerprint != data.codec.fingerprint:
        raise UsageError(
            "the model to start from has another vocabulary than the data",
            fix="preprocess with --vocab-from that model",
        )
    # Not all of them show in the shapes of the weights.
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


def is_finished(t: Training) -> bool:
    """Tell whether there is nothing left to do, averaging included."""
    if t.state.place.step < t.config.train.steps and not out_of_patience(t):
        return False
    return t.config.train.average == 1 or has_current_average(t.run.path)


def announce(t: Training) -> None:
    """Say what begins or goes on."""
    place = t.state.place
    parameters = sum(p.numel() for p in t.state.model.parameters())
    where = (
        f"{t.group.world_size} x {t.group.device.type}, {str(t.dtype).removeprefix('torch.')}"
    )
    done = f"going on after update {place.step:,}" if place.step else "starting"
    t.report.say(f"{done}: {len(t.train):,} pairs, {parameters:,} parameters, {where}")
    batch, world = t.config.batch, t.group.world_size
    pieces = math.ceil(PADDING * batch.tokens / batch.micro_tokens)
    if pieces < world:
        t.report.say(
            f"{world - pieces} of {world} processes have nothing to do: an update of"
            f" {batch.tokens:,} tokens is {pieces} micro-batch{'es' if pieces > 1 else ''};"
            f" batch.micro_tokens={math.ceil(PADDING * batch.tokens / world)} shares it"
        )


def check_lengths(t: Training) -> None:
    """Refuse pairs that have more tokens than a model with learned positions knows."""
    limit = t.state.model.longest
    for name, corpus in (("training", t.train), ("validation", t.valid)):
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


def rehearse(t: Training) -> None:
    """Run the longest micro-batch once, so that a lack of memory shows now and not in hours."""
    corpus, batch = t.train, t.config.batch
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths)
    rows = max(1, batch.micro_tokens // int(longer.max()))
    longest = np.argpartition(longer, -min(rows, len(longer)))[-rows:]
    pair = collate([corpus.pair(int(i)) for i in longest]).to(t.group.device)
    # Adam's two averages do not exist before the first step: this holds their place.
    averages = torch.empty(2 * t.state.gradients.flat.numel(), device=t.group.device)
    accumulate_gradients(t.state, [MicroBatch("rehearsal", pair)], t.dtype)
    del averages
    agree_on_memory(t)


def agree_on_memory(t: Training) -> None:
    """Let all processes cut what did not fit in one of them, and say so once."""
    smallest = -t.group.max(-(t.state.too_large or sys.maxsize))
    if smallest == sys.maxsize:
        return
    if not t.told_of_memory:
        t.report.say(
            f"{smallest:,} tokens do not fit in memory at once and are cut in two from here on;"
            f" batch.micro_tokens={smallest // 2} avoids it"
        )
    t.state.too_large, t.told_of_memory = smallest, True


def loop(t: Training) -> None:
    """Take an update, learn from it, report, validate, save; until the steps are done."""
    place, settings = t.state.place, t.config.train
    updates = prepared_ahead(
        updates_from(
            t.train,
            t.config.batch,
            t.group,
            seed=settings.seed,
            epoch=place.epoch,
            number=place.update,
        )
    )
    while place.step < settings.steps and not out_of_patience(t):
        update = next(updates)
        t.pending.append((update, run_update(t.state, update, t.group, t.dtype)))
        move_on(t, update)
        last = place.step == settings.steps
        if last or place.step % settings.log_every == 0:
            log(t)
        if last or (settings.valid_every and place.step % settings.valid_every == 0):
            validate(t)
        last = last or out_of_patience(t)
        reason, due = t.group.max(t.stop.reason), last or checkpoint_due(t)
        if due or reason != CONTINUE:
            save(t, keep=due)
        if reason != CONTINUE and not last:
            raise stopped(reason, place.step)
    updates.close()


def move_on(t: Training, update: Update) -> None:
    """Count an update as done."""
    place = t.state.place
    place.epoch, place.update = update.next_place
    place.source_tokens += update.source_tokens
    place.target_tokens += update.target_tokens


def log(t: Training) -> None:
    """Fetch the numbers of the updates since the last time, check and report them."""
    if not t.pending:
        return
    agree_on_memory(t)
    place = t.state.place
    losses = torch.stack([numbers for _, numbers in t.pending]).cpu().double()
    norm = float(losses[-1, 2])
    check_finite(t, losses)
    sums = losses[:, :2].sum(dim=0)
    t.group.all_reduce(sums)
    tokens = sum(update.target_tokens for update, _ in t.pending)
    seconds = time.monotonic() - t.logged_at
    t.logged_at = time.monotonic()
    place.seconds += seconds
    t.report.measured(
        Measured(
            step=place.step,
            epoch=place.epoch,
            loss=float(sums[0]) / tokens,
            plain_loss=float(sums[1]) / tokens,
            learning_rate=current_rate(t.state),
            gradient_norm=norm,
            tokens=place.target_tokens,
            tokens_per_second=tokens / seconds,
            seconds=place.seconds,
            memory=peak_memory(t.group.device),
        )
    )
    t.pending.clear()


def check_finite(t: Training, losses: Tensor) -> None:
    """Stop before anything is saved if a loss or a gradient is not a number."""
    finite = losses.isfinite()
    if t.state.scaler.is_enabled():
        # In float16 a gradient may overflow: the scaler then skips the step and scales down.
        finite = finite[:, :2]
    bad = (~finite.all(dim=1)).nonzero().flatten()
    if not t.group.max(len(bad)):
        return
    which = int(bad[0]) if len(bad) else len(t.pending) - 1
    update, numbers = t.pending[which]
    step = t.state.place.step - len(t.pending) + which + 1
    raise Diverged(
        f"training diverged at update {step:,} (epoch {update.epoch}, batch {update.number}):"
        f" loss {float(numbers[0]) / update.target_tokens:g}, gradient {float(numbers[2]):g}",
        fix=after_diverging(t),
    )


def after_diverging(t: Training) -> str:
    """Say what is left, and what may help."""
    intact = "the last checkpoint is intact; " if list_steps(t.run.path) else ""
    exact = "" if t.dtype == torch.float32 else ", or use --precision float32"
    return f"{intact}lower optim.factor or raise optim.warmup in a new run{exact}"


def validate(t: Training) -> None:
    """Measure the model on held-out text and keep it if it is the best so far."""
    if t.valid is None:
        return
    log(t)
    model, place = t.state.model, t.state.place
    limit = t.config.batch.micro_tokens
    found = Validation(validation_loss(model, t.valid, t.group, t.dtype, limit=limit))
    if not math.isfinite(found.loss):
        raise Diverged(
            f"training diverged: after update {place.step:,} the validation loss is"
            f" {found.loss:g}",
            fix=after_diverging(t),
        )
    if t.score_text is not None:
        model.eval()
        found = Validation(found.loss, t.score_text(model, t.group))
        model.train()
    # At first every BLEU is 0, and the loss alone tells that the model learns.
    best = place.best is None or (found.quality, -found.loss) > (place.best, -place.best_loss)
    place.stale = 0 if best else place.stale + 1
    if best:
        place.best, place.best_loss, place.best_step = found.quality, found.loss, place.step
        best_file = t.run.path / "best.pt"
        t.group.on_first_rank(lambda: save_model(best_file, t.state.to_file(whole=False)))
    t.report.validated(place.step, found, best=best)
    t.logged_at = time.monotonic()


def out_of_patience(t: Training) -> bool:
    """Tell whether validation has not improved for as long as was allowed."""
    patience = t.config.train.patience
    return patience > 0 and t.state.place.stale >= patience


def checkpoint_due(t: Training) -> bool:
    """Tell whether it is time for a checkpoint; the first process decides by its clock."""
    steps, seconds = parse_interval(t.config.train.save_every)
    if steps:
        return t.state.place.step % steps == 0
    late = t.group.is_first and time.monotonic() - t.saved_at >= seconds
    return bool(t.group.max(int(late)))


def save(t: Training, *, keep: bool) -> None:
    """Write last.pt, and a checkpoint to average if it is to be kept."""
    log(t)
    if keep:
        t.group.on_first_rank(lambda: t.run.save_step(t.state.to_file(whole=False)))
    t.group.on_first_rank(lambda: t.run.save_last(t.state.to_file(whole=True)))
    t.saved_at = time.monotonic()


def finish(t: Training) -> None:
    """Average the newest checkpoints."""
    place = t.state.place
    why = f", no better in {place.stale} validations" if out_of_patience(t) else ""
    t.report.say(f"done: {place.step:,} updates, {place.target_tokens:,} target tokens{why}")
    count = min(t.config.train.average, len(list_steps(t.run.path)))
    # One checkpoint, of a short run, is an average, too: whoever waits for the file finds it.
    if t.group.is_first and t.config.train.average > 1 and count:
        averaged = average(last_checkpoints(t.run.path, count))
        save_model(t.run.path / "average.pt", averaged)
        which = f"last {count} checkpoints" if count > 1 else "only checkpoint"
        t.report.say(f"averaged the {which} into {t.run.path / 'average.pt'}")
