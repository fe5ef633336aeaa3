"""One update: forward and backward over its micro-batches, then one step of the optimiser."""

import hashlib
from typing import NamedTuple

import torch
from torch import Tensor

from aiayn.data.batch import Batch
from aiayn.device import autocast, free_memory, is_out_of_memory, seed_dropout, sum_type
from aiayn.distributed import ProcessGroup
from aiayn.errors import MemoryTooSmall
from aiayn.model.transformer import Transformer
from aiayn.training.loader import Update
from aiayn.training.loss import Loss, project_and_compare
from aiayn.training.schedule import learning_rate
from aiayn.training.state import TrainState


class Piece(NamedTuple):
    """A micro-batch, or a half of one, and the name that seeds its dropout."""

    name: str
    batch: Batch


def run_update(
    state: TrainState, update: Update, group: ProcessGroup, dtype: torch.dtype
) -> Tensor:
    """Let the model learn from one update.

    Returns:
        This process's sums of the smoothed and the plain loss, and the norm of the gradient of
        the whole update: still on the device, so that nothing waits for it.
    """
    pieces = [Piece(str(number), batch) for number, batch in update.micro]
    losses = add_gradients(state, pieces, dtype)
    norm = state.gradients.finish(group, update.target_tokens)
    norm /= state.scaler.scale(torch.ones_like(norm))  # asking for the number would wait for it
    take_step(state)
    return torch.cat([losses, norm[None]])


def add_gradients(state: TrainState, pieces: list[Piece], dtype: torch.dtype) -> Tensor:
    """Sum losses and gradients over pieces of work.

    When memory runs out, all pieces of that size are cut in two and the sum begun anew, because
    the failed attempt may have left half a gradient behind. It is the same sum over the same
    tokens; only dropout draws anew for each half.
    """
    device = state.gradients.device
    while True:
        pieces = [part for piece in pieces for part in cut_to_fit(piece, state.too_large)]
        state.gradients.clear()
        losses = torch.zeros(2, dtype=sum_type(device), device=device)
        for piece in pieces:
            loss = backward(state, piece, dtype)
            if loss is None:
                break
            losses += loss
            state.gradients.collect()
        else:
            return losses
        free_memory(device)
        note_too_large(state, piece)


def backward(state: TrainState, piece: Piece, dtype: torch.dtype) -> Tensor | None:
    """Add the gradient of one piece and return its two losses; None if memory ran out."""
    device = state.gradients.device
    config = state.config
    seed_dropout(device, dropout_seed(config.train.seed, state.progress.step, piece.name))
    try:
        with autocast(device, dtype):
            loss = loss_of(state.model, piece.batch, config.optim.smoothing)
        torch.autograd.backward(state.scaler.scale(loss.smoothed))
    except (RuntimeError, MemoryError) as problem:
        if not is_out_of_memory(problem):
            raise
        return None
    return torch.stack([loss.smoothed.detach(), loss.plain])


def loss_of(model: Transformer, batch: Batch, smoothing: float) -> Loss:
    """Return the loss of a batch, summed over its target tokens."""
    states_ND = model.token_states(
        batch.source_BS, batch.target_BT, batch.source_places, batch.target_places
    )
    output = model.output
    return project_and_compare(states_ND, output.weight, batch.gold_N, smoothing, output.bias)


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


def current_rate(state: TrainState) -> float:
    """Return the learning rate of the step that the state is at."""
    optim, d_model = state.config.optim, state.config.model.d_model
    return learning_rate(
        state.progress.step, d_model=d_model, warmup=optim.warmup, factor=optim.factor
    )


def cut_to_fit(piece: Piece, too_large: int) -> list[Piece]:
    """Halve a piece until it is smaller than what did not fit before; 0: everything fits."""
    if not too_large or piece.batch.padded_tokens < too_large or piece.batch.rows == 1:
        return [piece]
    first, second = halves(piece)
    return cut_to_fit(first, too_large) + cut_to_fit(second, too_large)


def note_too_large(state: TrainState, piece: Piece) -> None:
    """Remember the size of what did not fit; one sentence cannot be cut."""
    if piece.batch.rows == 1:
        raise MemoryTooSmall(
            f"a pair of {piece.batch.padded_tokens:,} tokens does not fit in memory by itself",
            fix="preprocess with a smaller --max-length, or train a smaller model",
        )
    state.too_large = piece.batch.padded_tokens


def halves(piece: Piece) -> tuple[Piece, Piece]:
    """Return the upper and the lower rows, each with a name of its own."""
    first, second = piece.batch.halves()
    return Piece(f"{piece.name}.0", first), Piece(f"{piece.name}.1", second)


def dropout_seed(seed: int, step: int, name: str) -> int:
    """Return a number that (seed, update, micro-batch) determine, whichever process asks."""
    digest = hashlib.blake2b(f"{seed} {step} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
