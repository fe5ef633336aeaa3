"""One update: forward and backward over its micro-batches, then one step of the optimizer."""

import hashlib
import sys
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from aiayn.data.batch import Batch
from aiayn.device import autocast, seed_dropout, sum_type
from aiayn.distributed import ProcessGroup
from aiayn.errors import MemoryTooSmall
from aiayn.memory import if_it_fits
from aiayn.training.guided import guided_loss
from aiayn.training.loader import Update
from aiayn.training.loss import batch_loss
from aiayn.training.schedule import learning_rate
from aiayn.training.state import TrainState

# The name that seeds the dropout of a batch, and the batch.
MicroBatch = tuple[str, Batch]


def run_update(
    state: TrainState,
    update: Update,
    group: ProcessGroup,
    dtype: torch.dtype,
    votes: Callable[[], list[int]] = list,
) -> tuple[Tensor, list[int]]:
    """Train on one update.

    Returns smoothed and plain loss of this process, that of guided attention if there is one,
    and the gradient's norm, still on the device, so that nothing waits for them; and for each
    vote the largest of any process.
    """
    micro_batches = [(str(number), batch) for number, batch in update.micro]
    while True:
        losses = accumulate_gradients(state, micro_batches, dtype, group)
        state.gradients.reduce(group)
        fits, agreed = agree(state, group, votes())
        # If memory ran out in some process, what the others have summed is incomplete.
        if losses is not None and fits:
            break
    norm = state.gradients.divide(update.target_tokens)
    # Dividing by a tensor: reading the scale as a number would wait for the device.
    norm /= state.scaler.scale(torch.ones_like(norm))
    take_step(state)
    # One tensor, read when a line is logged: a copy per number would wait for the device.
    return torch.cat([losses, norm[None]]), agreed


def agree(
    state: TrainState, group: ProcessGroup, votes: Sequence[int]
) -> tuple[bool, list[int]]:
    """Make every process split what ran out of memory in one of them.

    Returns whether that is nothing new to this process; and for each vote the largest of any
    process, because all that they decide together travels in one message.
    """
    largest, *agreed = group.max_of_each([-(state.too_large or sys.maxsize), *votes])
    before, state.too_large = state.too_large, 0 if largest == -sys.maxsize else -largest
    return state.too_large == before, agreed


def accumulate_gradients(
    state: TrainState,
    micro_batches: list[MicroBatch],
    dtype: torch.dtype,
    group: ProcessGroup | None = None,
) -> Tensor | None:
    """Sum losses and gradients over micro-batches, and begin to sum them over a group.

    None: memory ran out. What did not fit will be halved; the sum has to begin again, because
    the failed attempt may have left a part of its gradient. It is the same sum over the same
    tokens, and halves draw the dropout of the whole, but for kernels that draw by themselves:
    compiled layers, and attention with dropout on a GPU.
    """
    device, gradients = state.gradients.device, state.gradients
    fitting = [part for each in micro_batches for part in split_to_fit(each, state.too_large)]
    gradients.clear()
    numbers = 3 if state.config.optim.guided else 2
    losses = torch.zeros(numbers, dtype=sum_type(device), device=device)
    for number, (name, batch) in enumerate(fitting, start=1):
        gradients.expect(group if number == len(fitting) else None)
        loss = if_it_fits(partial(backward, state, name, batch, dtype))
        if loss is None:
            state.too_large = batch.padded_tokens
            if batch.rows > 1:
                return None
            raise MemoryTooSmall(
                f"a pair of {state.too_large:,} tokens does not fit in memory by itself",
                fix="preprocess with a smaller --max-length, or train a smaller model",
            )
        losses += loss
    return losses


def backward(state: TrainState, name: str, batch: Batch, dtype: torch.dtype) -> Tensor:
    """Add the gradient of one micro-batch and return its losses."""
    device, config = state.gradients.device, state.config
    # Seeded by its place in the run, not by what ran before: resuming draws the same.
    seed_dropout(device, dropout_seed(config.train.seed, state.progress.step, name))
    with autocast(device, dtype):
        loss = batch_loss(
            state.model,
            batch,
            config.optim.smoothing,
            rdrop=config.optim.rdrop,
            compiled=state.compiled,
        )
    total, losses = loss.smoothed, [loss.smoothed.detach(), loss.plain]
    if config.optim.guided:
        assert batch.guide_BTS is not None
        guided = guided_loss(state.model, batch.guide_BTS)
        total = total + config.optim.guided * guided
        losses.append(guided.detach())
    torch.autograd.backward(state.scaler.scale(total))
    return torch.stack(losses)


def take_step(state: TrainState) -> None:
    """Move the weights along the gradient, with the learning rate of this step."""
    state.progress.step += 1
    for group in state.optimizer.param_groups:
        group["lr"] = current_rate(state)
    if state.scaler.is_enabled():
        state.scaler.step(state.optimizer)
        state.scaler.update()
    else:
        state.optimizer.step()
    if state.average:
        state.average.update(state.progress.step)


def current_rate(state: TrainState) -> float:
    """Return the learning rate of the step that the state is at."""
    optim, d_model = state.config.optim, state.config.model.d_model
    return learning_rate(
        state.progress.step, d_model=d_model, warmup=optim.warmup, factor=optim.factor
    )


def split_to_fit(micro_batch: MicroBatch, too_large: int) -> list[MicroBatch]:
    """Halve a micro-batch until it is smaller than what did not fit before; 0: all fits."""
    name, batch = micro_batch
    if not too_large or batch.padded_tokens < too_large or batch.rows == 1:
        return [micro_batch]
    return [part for half in batch.halves() for part in split_to_fit((name, half), too_large)]


def dropout_seed(seed: int, step: int, name: str) -> int:
    """Return a number that (seed, update, micro-batch) determine, whichever process asks."""
    digest = hashlib.blake2b(f"{seed} {step} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
