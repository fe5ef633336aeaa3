"""Outputs drawn at random from the model's distribution, batch-invariantly.

P places; B of them; J samples of each; T tokens; W vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.device import read_together
from aiayn.generation.beams import ArrayState
from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.search import DEFAULT, Hypothesis, Task, length_penalty
from aiayn.special_ids import EOS

# Of a hash of 32 bits: odd, so that no two tokens collide, and as signed numbers, which wrap.
STRIDE, FACTORS = 0x9E3779B9 - (1 << 32), (0x7FEB352D, 0x846CA68B - (1 << 32))
# The largest float32 below 1.
BELOW_ONE = 1 - 2.0**-24


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Draws every next token by its probability; the samples come in the order drawn.

    A sentence has random numbers of its own, seeded by its text and the seed: so its samples
    do not depend on what else is translated.
    """

    samples: int = 1
    top_k: int = 0
    """Draw among this many most probable tokens; 0: among all."""
    top_p: float = 1.0
    """Draw among the most probable tokens that together have this probability."""
    temperature: float = 1.0
    """Divides the logits: below 1 the probable becomes more so, above 1 less."""
    alpha: float = DEFAULT.alpha
    """Length penalty of the scores, as in beam search; no effect on what is drawn."""
    seed: int = 1
    rules: Rules = NO_RULES

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""
        return self.samples

    def start(self) -> "SamplingState":
        """Return a state without sentences."""
        return SamplingState(self)


class SamplingState(ArrayState):
    """The state of sampling; a sample that has ended stays until all of its sentence have."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling.samples, sampling.rules)
        self.sampling = sampling
        self.ended_PJ = np.zeros((0, sampling.samples), dtype=bool)

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""
        self.ended_PJ[self.count : self.count + len(tasks)] = False
        super().admit(tasks)

    def extend(self, log_p_BJW: Tensor) -> None:
        """Draw a token for each sample."""
        used = self.used
        tokens_BJ = self._draw(log_p_BJW)
        log_p_BJ = log_p_BJW.gather(-1, tokens_BJ[..., None]).squeeze(-1)
        added_BJ, newest_BJ = read_together(log_p_BJ, tokens_BJ)
        # A sample that has ended draws on, but no longer counts.
        self.sums_PJ[used] += np.where(self.ended_PJ[used], np.float32(0), added_BJ)
        self.ended_PJ[used] |= newest_BJ == EOS
        self.append(np.broadcast_to(np.arange(self.width), newest_BJ.shape), newest_BJ)

    def _draw(self, log_p_BJW: Tensor) -> Tensor:
        """Sample by an exponential race (Gumbel-max): the token with the largest p / time.

        Inverting the cumulative distribution would do, too, but rounding, which depends on the
        batch, shifts that sum by more than rare tokens add to it.
        """
        keys = [
            [
                random_key(self.sampling.seed, self.task_P[place].seed, sample, position)
                for sample in range(self.width)
            ]
            for place, position in enumerate(self.length_P[self.used].tolist())
        ]
        key_BJ = torch.tensor(keys).to(log_p_BJW.device)
        time_BJW = exponential(key_BJ, log_p_BJW.size(-1))
        p_BJW = truncate(log_p_BJW / self.sampling.temperature, self.sampling)
        return (p_BJW / time_BJW).argmax(dim=-1)

    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each sentence whether all of its samples have ended."""
        used = self.used
        ended_B: NDArray[np.bool_] = np.all(self.ended_PJ[used], axis=1)
        return np.logical_or(ended_B, self.length_P[used] >= self.limit_P[used])

    def hypotheses_of(self, place: int) -> list[Hypothesis]:
        """Return the samples of a sentence; none where a probability is not a number."""
        found = []
        ids_JT = self.ids_PJT[place, :, : self.length_P[place]].tolist()
        for ids, total in zip(ids_JT, self.sums_PJ[place], strict=True):
            finished = EOS in ids
            inner = ids[: ids.index(EOS)] if finished else ids
            penalty = length_penalty(len(inner) + finished, self.sampling.alpha)
            if total > -math.inf:
                found.append(Hypothesis(inner, float(total) / penalty, finished))
        return found


def random_key(*numbers: int) -> int:
    """Return 64 random bits that these numbers determine."""
    digest = blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def exponential(key_BJ: Tensor, width: int) -> Tensor:
    """Return a random time for each token, of mean 1: a hash of key and token.

    So it is the same on any device, and costs a CPU as much as the generator of numpy does.
    """
    token_W = torch.arange(width, dtype=torch.int32, device=key_BJ.device) * STRIDE
    bits_BJW = token_W + key_BJ.int()[..., None]
    bits_BJW = (bits_BJW ^ _shift_right(bits_BJW, 16)).mul_(FACTORS[0])
    bits_BJW += (key_BJ >> 32).int()[..., None]
    bits_BJW = (bits_BJW ^ _shift_right(bits_BJW, 15)).mul_(FACTORS[1])
    bits_BJW ^= _shift_right(bits_BJW, 16)
    uniform_BJW = _shift_right(bits_BJW, 1).float().add_(0.5).mul_(2.0**-31)
    # Rounding may give 1, and time without end: also for a token that has no rival.
    return uniform_BJW.clamp_(max=BELOW_ONE).neg_().log1p_().neg_()


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Shift zeros into 32 bits; torch repeats the sign."""
    return (x >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def truncate(logits_BJW: Tensor, sampling: Sampling) -> Tensor:
    """Return the probabilities of the tokens that may be drawn, 0 for all others."""
    if sampling.top_k and sampling.top_k < logits_BJW.size(-1):
        least_BJ1 = logits_BJW.topk(sampling.top_k, dim=-1).values[..., -1:]
        logits_BJW = logits_BJW.masked_fill(logits_BJW < least_BJ1, -math.inf)
    p_BJW = logits_BJW.softmax(dim=-1)
    if sampling.top_p < 1:
        sorted_BJW, order_BJW = p_BJW.sort(dim=-1, descending=True)
        # A token stays if those before it do not have the probability yet.
        sorted_BJW[sorted_BJW.cumsum(dim=-1) - sorted_BJW >= sampling.top_p] = 0
        p_BJW = torch.zeros_like(p_BJW).scatter(-1, order_BJW, sorted_BJW)
    return p_BJW
