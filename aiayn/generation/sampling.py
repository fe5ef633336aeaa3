"""Outputs drawn at random from the model's distribution, batch-invariantly.

B sentences; J samples of each; T tokens so far; W vocabulary.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.search import DEFAULT, Hypothesis, SearchState, Step, Task, length_penalty
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

    def __call__(
        self, step: Step, tasks: list[Task], device: torch.device
    ) -> list[list[Hypothesis]]:
        """Return the samples of each sentence."""
        return SamplingState(tasks, self).run(step, device)


class SamplingState(SearchState):
    """The state of sampling; a sample that has ended stays until all of its sentence have."""

    def __init__(self, tasks: list[Task], sampling: Sampling) -> None:
        super().__init__(tasks, sampling.rules)
        self.sampling, samples = sampling, sampling.samples
        self.random = [
            [np.random.default_rng([sampling.seed, task.seed, j]) for j in range(samples)]
            for task in tasks
        ]

    def extend(self, logits_BJW: Tensor, normalizer_BJ: Tensor) -> NDArray[np.int64]:
        """Draw a token for each sample; at the first step, all from the same distribution."""
        rows, samples = self.rows, self.sampling.samples
        slot_J = np.arange(samples) % rows.ids_BJT.shape[1]
        logits_BJW, normalizer_BJ = logits_BJW[:, slot_J], normalizer_BJ[:, slot_J]
        tokens_BJ = self._draw(logits_BJW)
        log_p_BJ = logits_BJW.gather(-1, tokens_BJ[..., None]).squeeze(-1) - normalizer_BJ

        before_BJT = rows.ids_BJT[:, slot_J]
        # A sample that has ended draws on, but no longer counts.
        growing_BJ = ~(before_BJT == EOS).any(axis=-1)
        added_BJ = np.where(growing_BJ, log_p_BJ.cpu().numpy(), np.float32(0))
        rows.sums_BJ = rows.sums_BJ[:, slot_J] + added_BJ
        newest_BJ1 = tokens_BJ.cpu().numpy()[..., None]
        rows.ids_BJT = np.concatenate([before_BJT, newest_BJ1], axis=-1)
        return np.broadcast_to(slot_J, (len(before_BJT), samples))

    def _draw(self, logits_BJW: Tensor) -> Tensor:
        """Sample by an exponential race (Gumbel-max): the token with the largest p / time.

        Inverting the cumulative distribution would do, too, but rounding, which depends on the
        batch, shifts that sum by more than rare tokens add to it.
        """
        width = logits_BJW.size(-1)
        time_BJW = np.array(
            [
                [random.standard_exponential(width) for random in self.random[sentence]]
                for sentence in self.rows.sentence_B
            ],
            dtype=np.float32,
        )
        p_BJW = truncate(logits_BJW / self.sampling.temperature, self.sampling)
        return (p_BJW / torch.from_numpy(time_BJW).to(p_BJW.device)).argmax(dim=-1)

    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each sentence whether all of its samples have ended."""
        ended_B: NDArray[np.bool_] = (self.rows.ids_BJT == EOS).any(axis=-1).all(axis=-1)
        return ended_B | (self.rows.length >= self.rows.limit_B)

    def hypotheses_of(self, row: int) -> list[Hypothesis]:
        """Return the samples of a sentence; none where a probability is not a number."""
        found = []
        sums = self.rows.sums_BJ[row]
        for ids, total in zip(self.rows.ids_BJT[row].tolist(), sums, strict=True):
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
