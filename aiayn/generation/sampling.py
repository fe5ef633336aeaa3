"""Outputs drawn at random from the model's distribution, the same ones in any company.

B sentences; J samples of each; T tokens so far; W vocabulary.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.data.vocabulary import EOS
from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.search import Books, Hypothesis, Step, Task, length_penalty


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Draws every next token by its probability; the samples come in the order drawn.

    A sentence has random numbers of its own, which begin from its text and the seed: so its
    samples do not depend on what else is translated.
    """

    samples: int = 1
    top_k: int = 0
    """Draw among this many most probable tokens; 0: among all."""
    top_p: float = 1.0
    """Draw among the most probable tokens that together have this probability."""
    temperature: float = 1.0
    """Divides the logits: below 1 the probable becomes more so, above 1 less."""
    alpha: float = 0.6
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
        return Samples(tasks, self).fill(step, device)


class Samples(Books):
    """The books of sampling; a sample that has ended stays until all of its sentence have."""

    def __init__(self, tasks: list[Task], sampling: Sampling) -> None:
        super().__init__(tasks, sampling.rules)
        self.sampling, samples = sampling, sampling.samples
        self.random = [
            [np.random.default_rng([sampling.seed, task.seed, j]) for j in range(samples)]
            for task in tasks
        ]

    def extend(self, logits_BJW: Tensor, normaliser_BJ: Tensor) -> NDArray[np.int64]:
        """Draw a token for each sample; at the first step, all from the same distribution."""
        samples, slots = self.sampling.samples, self.ids_BJT.shape[1]
        slot_J = np.arange(samples) % slots
        logits_BJW, normaliser_BJ = logits_BJW[:, slot_J], normaliser_BJ[:, slot_J]
        tokens_BJ = self._draw(logits_BJW)
        log_p_BJ = logits_BJW.gather(-1, tokens_BJ[..., None]).squeeze(-1) - normaliser_BJ

        before_BJT = self.ids_BJT[:, slot_J]
        growing_BJ = ~(before_BJT == EOS).any(axis=-1)
        added_BJ = np.where(growing_BJ, log_p_BJ.cpu().numpy(), np.float32(0))
        self.sums_BJ = self.sums_BJ[:, slot_J] + added_BJ
        newest_BJ1 = tokens_BJ.cpu().numpy()[..., None]
        self.ids_BJT = np.concatenate([before_BJT, newest_BJ1], axis=-1)
        return np.broadcast_to(slot_J, (len(before_BJT), samples))

    def _draw(self, logits_BJW: Tensor) -> Tensor:
        """Let the tokens race, each as fast as it is probable: the first one is the sample.

        Exponential times make a token the first with its probability. A place in the sum of
        probabilities would do, too, but rounding, which depends on company, shifts that sum by
        more than rare tokens add to it.
        """
        width = logits_BJW.size(-1)
        time_BJW = np.array(
            [[r.standard_exponential(width) for r in self.random[i]] for i in self.sentence_B],
            dtype=np.float32,
        )
        p_BJW = narrow(logits_BJW / self.sampling.temperature, self.sampling)
        return (p_BJW / torch.from_numpy(time_BJW).to(p_BJW.device)).argmax(dim=-1)

    def is_over(self) -> NDArray[np.bool_]:
        """Tell for each sentence whether all of its samples have ended."""
        ended_B: NDArray[np.bool_] = (self.ids_BJT == EOS).any(axis=-1).all(axis=-1)
        return ended_B | (self.ids_BJT.shape[-1] >= self.limit_B)

    def harvest(self, row: int) -> list[Hypothesis]:
        """Return the samples of a sentence; none where a probability is not a number."""
        found = []
        for ids, total in zip(self.ids_BJT[row].tolist(), self.sums_BJ[row], strict=True):
            finished = EOS in ids
            inner = ids[: ids.index(EOS)] if finished else ids
            penalty = length_penalty(len(inner) + finished, self.sampling.alpha)
            if total > -math.inf:
                found.append(Hypothesis(inner, float(total) / penalty, finished))
        return found


def narrow(logits_BJW: Tensor, sampling: Sampling) -> Tensor:
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
