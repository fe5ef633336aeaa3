"""Outputs drawn at random from the model's distribution, batch-invariantly.

P places; B of them; J samples of each; T tokens; W vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.search import DEFAULT, ArrayState, Hypothesis, Task, length_penalty
from aiayn.special_ids import EOS


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
        self.random_P = np.zeros(0, dtype=object)
        self.ended_PJ = np.zeros((0, sampling.samples), dtype=bool)

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""
        for place, task in enumerate(tasks, start=self.count):
            seeds = ([self.sampling.seed, task.seed, j] for j in range(self.width))
            self.random_P[place] = [np.random.default_rng(seed) for seed in seeds]
            self.ended_PJ[place] = False
        super().admit(tasks)

    def extend(self, log_p_BJW: Tensor) -> None:
        """Draw a token for each sample."""
        used = self.used
        tokens_BJ = self._draw(log_p_BJW)
        drawn_BJ = log_p_BJW.gather(-1, tokens_BJ[..., None]).squeeze(-1)
        # A sample that has ended draws on, but no longer counts.
        growing_BJ = ~self.ended_PJ[used]
        self.sums_PJ[used] += np.where(growing_BJ, drawn_BJ.cpu().numpy(), np.float32(0))
        newest_BJ = tokens_BJ.cpu().numpy()
        self.ended_PJ[used] |= newest_BJ == EOS
        self.append(np.broadcast_to(np.arange(self.width), newest_BJ.shape), newest_BJ)

    def _draw(self, log_p_BJW: Tensor) -> Tensor:
        """Sample by an exponential race (Gumbel-max): the token with the largest p / time.

        Inverting the cumulative distribution would do, too, but rounding, which depends on the
        batch, shifts that sum by more than rare tokens add to it.
        """
        width = log_p_BJW.size(-1)
        time_BJW = np.array(
            [
                [random.standard_exponential(width) for random in of_place]
                for of_place in self.random_P[self.used]
            ],
            dtype=np.float32,
        )
        p_BJW = truncate(log_p_BJW / self.sampling.temperature, self.sampling)
        return (p_BJW / torch.from_numpy(time_BJW).to(p_BJW.device)).argmax(dim=-1)

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
