"""Beam search over a step function: section 6.1.

The search knows nothing of networks. It is given a function that scores every next token of the
hypotheses it is building; a table of three words will do. Only the choice of the best
candidates happens on the step function's device; the books are kept in numpy on the host.

B sentences that are still searched; J hypotheses of each; C candidates; T tokens so far;
W vocabulary.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.data.vocabulary import EOS, PAD
from aiayn.generation.rules import NO_RULES, Rules

ELEMENTS_AT_ONCE = 1 << 19
"""Logits that are looked through together on a CPU: about what its cache holds."""
BLOCK = 64
"""Logits whose largest is found first: a block without a large one is not sorted."""
SAFE = (1e-30, 1e30)
"""Sums of exp that float32 holds without harm."""


class Task(NamedTuple):
    """What is searched for one sentence."""

    limit: int
    """The most tokens its output may have, EOS included."""
    prefix: tuple[int, ...] = ()
    """Tokens that the output has to begin with."""
    seed: int = 0
    """Where random numbers for this sentence start."""


class Hypothesis(NamedTuple):
    """An output of the search."""

    ids: list[int]
    """Tokens without EOS."""
    score: float
    """log P(Y | X) / lp(Y)."""
    finished: bool
    """Whether EOS came before the length limit."""


class Step(Protocol):
    """Extends hypotheses by one token."""

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return the logits (B, J, W) of the token that follows; log-probabilities will do.

        Args:
            tokens_BJ: The last token of each hypothesis; padding before the first.
            parents_BJ: Which hypothesis of the step before each one continues, counted through
                all sentences; those of sentences that are done no longer occur. None at the
                first step, when each sentence has one empty hypothesis.
        """


class Search(Protocol):
    """A strategy: beam search, or sampling."""

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""

    def __call__(
        self, step: Step, tasks: list[Task], device: torch.device
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, where |Y| counts EOS."""
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamSearch:
    """Keeps the `beam` best growing hypotheses of each sentence.

    At each step the best 2 * beam extensions are looked at: those that end in EOS compete for
    `beam` finished places, and the best `beam` of the others grow on. A sentence is done at its
    length limit, or as soon as nothing that still grows can be among its `nbest` in the end:
    log P only falls, so log P / lp(limit) bounds the score of every continuation.
    """

    beam: int = 4
    alpha: float = 0.6
    nbest: int = 1
    rules: Rules = NO_RULES

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""
        return self.beam

    def __call__(
        self, step: Step, tasks: list[Task], device: torch.device
    ) -> list[list[Hypothesis]]:
        """Return the `nbest` hypotheses of each sentence, best first.

        Args:
            step: What scores the next token.
            tasks: What is searched, sentence by sentence.
            device: Where the step function works.
        """
        return Beams(tasks, self).fill(step, device)


class Books(ABC):
    """Hypotheses of the sentences that are still searched, and what was found for the others.

    Attributes:
        sentence_B: Which sentence a row belongs to.
        ids_BJT: Tokens of the hypotheses that grow, one a sentence at first.
        sums_BJ: Their log P.
        over_B: The sentences that are done; a few stay for a while, idle.
        found: The hypotheses of each sentence that is done.
    """

    def __init__(self, tasks: list[Task], rules: Rules) -> None:
        self.tasks, self.rules = tasks, rules
        self.sentence_B = np.arange(len(tasks))
        self.limit_B = np.array([task.limit for task in tasks], dtype=np.int64)
        self.ids_BJT = np.empty((len(tasks), 1, 0), dtype=np.int64)
        self.sums_BJ = np.zeros((len(tasks), 1), dtype=np.float32)
        self.over_B = np.zeros(len(tasks), dtype=bool)
        self.found: list[list[Hypothesis]] = [[] for _ in tasks]

    @torch.inference_mode()
    def fill(self, step: Step, device: torch.device) -> list[list[Hypothesis]]:
        """Extend hypotheses token by token until every sentence is done."""
        tokens_BJ = torch.full((len(self.tasks), 1), PAD, device=device)
        parents_BJ = None
        while self.sentence_B.size:
            logits_BJW = step(tokens_BJ, parents_BJ).float()
            normaliser_BJ = normaliser(logits_BJW)
            prefixes = [self.tasks[sentence].prefix for sentence in self.sentence_B]
            self.rules.apply(logits_BJW, self.ids_BJT, prefixes)
            slots_BJ = self.extend(logits_BJW, normaliser_BJ)
            before = np.arange(len(slots_BJ))[:, None] * logits_BJW.size(1)
            stay = self._leave_out_what_is_over()
            parents_BJ = torch.from_numpy((before + slots_BJ)[stay]).to(device)
            tokens_BJ = torch.from_numpy(self.ids_BJT[..., -1]).to(device)
        return self.found

    @abstractmethod
    def extend(self, logits_BJW: Tensor, normaliser_BJ: Tensor) -> NDArray[np.int64]:
        """Take one more token into each hypothesis; return which slot each one continues.

        Args:
            logits_BJW: Scores of the next token, -inf where the rules forbid it.
            normaliser_BJ: What turns scores into log P: the logarithm of the sum of exp.
        """

    @abstractmethod
    def is_over(self) -> NDArray[np.bool_]:
        """Tell for each sentence whether its hypotheses are known."""

    @abstractmethod
    def harvest(self, row: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence that is done."""

    def _leave_out_what_is_over(self) -> NDArray[np.int64]:
        """Settle the sentences that are done; return the rows that stay, some of them idle.

        Leaving rows out costs a copy of all caches, so it waits until some have gathered.
        """
        for row in np.flatnonzero(self.is_over() & ~self.over_B):
            self.found[self.sentence_B[row]] = self.harvest(int(row))
            self.over_B[row] = True
        going = np.flatnonzero(~self.over_B)
        idle = np.flatnonzero(self.over_B)[: round_up(len(going)) - len(going)]
        stay = np.sort(np.concatenate([going, idle])) if going.size else going
        if len(stay) < len(self.over_B):
            for name in ("sentence_B", "limit_B", "ids_BJT", "sums_BJ", "over_B"):
                setattr(self, name, getattr(self, name)[stay])
        return stay


class Beams(Books):
    """The books of beam search; hypotheses stand best first, -inf where there is none."""

    def __init__(self, tasks: list[Task], search: BeamSearch) -> None:
        super().__init__(tasks, search.rules)
        self.search = search
        self.ended: list[list[Hypothesis]] = [[] for _ in tasks]

    def extend(self, logits_BJW: Tensor, normaliser_BJ: Tensor) -> NDArray[np.int64]:
        """Look at the best 2 * beam extensions; the best that do not end grow on."""
        added_BJ = torch.from_numpy(self.sums_BJ).to(logits_BJW.device) - normaliser_BJ
        sums_BC, places_BC = best_places(logits_BJW, added_BJ, 2 * self.search.beam)
        slots_BC, tokens_BC = np.divmod(places_BC, logits_BJW.size(-1))
        ids_BCT = np.take_along_axis(self.ids_BJT, slots_BC[..., None], axis=1)
        ids_BCT = np.concatenate([ids_BCT, tokens_BC[..., None]], axis=-1)
        ends_BC = tokens_BC == EOS
        self._keep_ended(sums_BC, ids_BCT, ends_BC)

        on_BJ = np.argsort(ends_BC, axis=1, kind="stable")[:, : self.search.beam]
        self.ids_BJT = np.take_along_axis(ids_BCT, on_BJ[..., None], axis=1)
        self.sums_BJ = np.take_along_axis(sums_BC, on_BJ, axis=1)
        self.sums_BJ[np.take_along_axis(ends_BC, on_BJ, axis=1)] = -math.inf
        return np.take_along_axis(slots_BC, on_BJ, axis=1)

    def _keep_ended(
        self,
        sums_BC: NDArray[np.float32],
        ids_BCT: NDArray[np.int64],
        ends_BC: NDArray[np.bool_],
    ) -> None:
        """Give candidates that end in EOS a finished place of their sentence."""
        penalty = length_penalty(ids_BCT.shape[-1], self.search.alpha)
        counted_BC = ends_BC & (sums_BC > -math.inf) & ~self.over_B[:, None]
        if self.search.beam == 1:
            # With nothing to compare it to, the first choice is final, as in greedy search.
            counted_BC[:, 1:] = False
        for row, place in np.argwhere(counted_BC):
            ended = self.ended[self.sentence_B[row]]
            score = float(sums_BC[row, place]) / penalty
            ended.append(Hypothesis(ids_BCT[row, place, :-1].tolist(), score, finished=True))
            ended.sort(key=lambda hypothesis: -hypothesis.score)
            del ended[self.search.beam :]

    def is_over(self) -> NDArray[np.bool_]:
        """Tell for each sentence whether nothing that grows can be wanted in the end."""
        search = self.search
        bars = [self._bar(self.ended[sentence]) for sentence in self.sentence_B]
        bound_B = self.sums_BJ[:, 0] / ((5 + self.limit_B) / 6) ** search.alpha
        return (self.ids_BJT.shape[-1] >= self.limit_B) | (bound_B <= np.array(bars))

    def _bar(self, ended: list[Hypothesis]) -> float:
        """Return the score that a hypothesis has to reach to be wanted."""
        if self.search.beam == 1 and ended:
            return math.inf
        return (
            ended[self.search.nbest - 1].score if len(ended) >= self.search.nbest else -math.inf
        )

    def harvest(self, row: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence: those that ended, then those that grew."""
        penalty = length_penalty(self.ids_BJT.shape[-1], self.search.alpha)
        growing = [
            Hypothesis(ids.tolist(), float(total) / penalty, finished=False)
            for ids, total in zip(self.ids_BJT[row], self.sums_BJ[row], strict=True)
            if total > -math.inf
        ]
        return (self.ended[self.sentence_B[row]] + growing)[: self.search.nbest]


def round_up(count: int) -> int:
    """Return the next of 4 numbers between powers of two: 8, 10, 12, 14, 16, 20, ...

    Products of a new size take a moment to set up; these are few sizes and an eighth apart.
    """
    step = 1 << max(0, count.bit_length() - 3)
    return -(-count // step) * step


def normaliser(logits_BJW: Tensor) -> Tensor:
    """Return the logarithm of the sum of exp(logits)."""
    if not logits_BJW.is_cpu:
        return logits_BJW.logsumexp(dim=-1)
    # In pieces that fit the cache, and without a look for the largest, which is hardly ever
    # so large that exp leaves the range of float32.
    flat_RW = logits_BJW.flatten(0, 1)
    pieces = torch.split(flat_RW, _rows_at_once(flat_RW))
    sums_R = torch.cat([piece.exp().sum(dim=-1) for piece in pieces])
    if bool(((sums_R > SAFE[0]) & (sums_R < SAFE[1])).all()):
        return sums_R.log().view(logits_BJW.shape[:2])
    return logits_BJW.logsumexp(dim=-1)


def best_places(
    logits_BJW: Tensor, added_BJ: Tensor, count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the `count` largest sums of a logit and what is added to its row, best first.

    The places are counted through all rows of a sentence.
    """
    sentences = len(logits_BJW)
    if logits_BJW.is_cpu:
        sentences = _rows_at_once(logits_BJW.flatten(1))
    pieces = zip(
        torch.split(logits_BJW, sentences), torch.split(added_BJ, sentences), strict=True
    )
    found = [_best(logits, added, count) for logits, added in pieces]
    values, places = (torch.cat(part).cpu().numpy() for part in zip(*found, strict=True))
    return values, places


def _rows_at_once(values_RN: Tensor) -> int:
    return max(1, ELEMENTS_AT_ONCE // values_RN.size(1))


def _best(logits_BJW: Tensor, added_BJ: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest sums and their places: topk, but faster.

    The largest lie in the blocks that have the largest maxima, so only those are sorted.
    """
    sentences, slots, width = logits_BJW.shape
    blocks = width // BLOCK
    if slots * blocks < 2 * count:
        sums_BN = (logits_BJW + added_BJ[..., None]).flatten(1)
        return sums_BN.topk(min(count, slots * width), dim=1)
    whole_BJMN = torch.unflatten(logits_BJW[..., : blocks * BLOCK], -1, (blocks, BLOCK))
    largest_BJM = whole_BJMN.amax(dim=-1) + added_BJ[..., None]
    chosen_BC = largest_BJM.flatten(1).topk(count, dim=1).indices
    starts_BC = chosen_BC // blocks * width + chosen_BC % blocks * BLOCK
    inside_BN = (starts_BC[..., None] + _numbers(0, BLOCK, logits_BJW)).flatten(1)
    outside_JN = _numbers(0, slots, logits_BJW)[:, None] * width
    outside_JN = outside_JN + _numbers(blocks * BLOCK, width, logits_BJW)
    outside_BN = outside_JN.flatten().expand(sentences, -1)
    places_BN = torch.cat([inside_BN, outside_BN], dim=1)
    sums_BN = logits_BJW.flatten(1).gather(1, places_BN)
    sums_BN += added_BJ.gather(1, places_BN // width)
    top_BC, order_BC = sums_BN.topk(count, dim=1)
    return top_BC, places_BN.gather(1, order_BC)


def _numbers(start: int, stop: int, like: Tensor) -> Tensor:
    return torch.arange(start, stop, device=like.device)
