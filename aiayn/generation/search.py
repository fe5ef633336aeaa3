"""Beam search over a step function: section 6.1.

The search knows nothing of networks: it is given a function that scores every next token of
the hypotheses it is building. Only the choice of the best candidates happens on that function's
device; the state of the search is kept in numpy on the host.

B sentences that are still searched; J hypotheses of each; C candidates; T tokens so far;
W vocabulary.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.config import DecodeConfig
from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.tree_rule import TreeRule, TreeTask
from aiayn.kernels.topk import largest_sums, logsumexp
from aiayn.special_ids import EOS, PAD

DEFAULT = DecodeConfig()
Length = TypeVar("Length", float, NDArray[np.float64])


class Task(NamedTuple):
    """What to search for one sentence."""

    limit: int
    """The most tokens its output may have, EOS included."""
    prefix: tuple[int, ...] = ()
    """Tokens that the output has to begin with."""
    seed: int = 0
    """Seeds the random numbers of this sentence."""
    tree: TreeTask | None = None
    """The words, where the output has to be a tree over them."""


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
        """Return the logits (B, J, W) of what follows the last tokens (at first, padding).

        Parents are the hypotheses of the step before that each one continues, counted through
        all sentences; None at the first step, when each sentence has one empty hypothesis.
        Those of finished sentences no longer occur. Log-probabilities will do for logits.
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


def length_penalty(length: Length, alpha: float) -> Length:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, where |Y| counts EOS."""
    penalty: Length = ((5 + length) / 6) ** alpha
    return penalty


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamSearch:
    """Keeps the `beam` best growing hypotheses of each sentence.

    At each step the best 2 * beam extensions are considered: those that end in EOS compete for
    `beam` places among the completed hypotheses, and the best `beam` of the others are extended
    further. A sentence is finished at its length limit, or as soon as no continuation can be
    among its `nbest`: log P only falls, so log P / lp(limit) bounds the score of each.
    """

    beam: int = DEFAULT.beam
    alpha: float = DEFAULT.alpha
    nbest: int = 1
    rules: Rules = NO_RULES

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""
        return self.beam

    def __call__(
        self, step: Step, tasks: list[Task], device: torch.device
    ) -> list[list[Hypothesis]]:
        """Return the `nbest` hypotheses of each sentence, best first."""
        return BeamState(tasks, self).run(step, device)


@dataclass(slots=True)
class ActiveSentences:
    """The sentences that are still searched, one row each."""

    sentence_B: NDArray[np.int64]
    """Which sentence a row belongs to."""
    limit_B: NDArray[np.int64]
    ids_BJT: NDArray[np.int64]
    """Tokens of the hypotheses that are extended, one a sentence at first."""
    sums_BJ: NDArray[np.float32]
    """Their log P."""
    finished_B: NDArray[np.bool_]
    """Whether a row is finished; a few stay for a while, idle."""
    tree_BJF: NDArray[np.int64]
    """States of the rule for trees, where there is one."""

    def select(self, rows: NDArray[np.int64]) -> Self:
        """Return some of the rows."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def length(self) -> int:
        """Tokens of each hypothesis so far."""
        return int(self.ids_BJT.shape[-1])


class SearchState(ABC):
    """Hypotheses of the sentences that are still searched, and the results of the others."""

    def __init__(self, tasks: list[Task], rules: Rules) -> None:
        trees = [task.tree for task in tasks if task.tree is not None]
        self.tree_rule = TreeRule(trees[0].symbols) if trees else None
        no_trees = np.empty((len(tasks), 1, 0), dtype=np.int64)
        # The rules of text could leave nothing of a tree.
        self.tasks, self.rules = tasks, NO_RULES if trees else rules
        self.rows = ActiveSentences(
            sentence_B=np.arange(len(tasks)),
            limit_B=np.array([task.limit for task in tasks], dtype=np.int64),
            ids_BJT=np.empty((len(tasks), 1, 0), dtype=np.int64),
            sums_BJ=np.zeros((len(tasks), 1), dtype=np.float32),
            finished_B=np.zeros(len(tasks), dtype=bool),
            tree_BJF=self.tree_rule.start(trees) if self.tree_rule else no_trees,
        )
        self.results: list[list[Hypothesis]] = [[] for _ in tasks]

    @torch.inference_mode()
    def run(self, step: Step, device: torch.device) -> list[list[Hypothesis]]:
        """Extend hypotheses token by token until every sentence is finished."""
        tokens_BJ = torch.full((len(self.tasks), 1), PAD, device=device)
        parents_BJ = None
        while self.rows.sentence_B.size:
            logits_BJW = step(tokens_BJ, parents_BJ).float()
            # Before the rules: log P is that of the model, whatever they forbid.
            normalizer_BJ = logsumexp(logits_BJW)
            prefixes = [self.tasks[sentence].prefix for sentence in self.rows.sentence_B]
            if self.tree_rule is not None:
                rows, length = self.rows, self.rows.length
                forced_B = np.array([length < len(prefix) for prefix in prefixes])
                self.tree_rule.forbid(
                    logits_BJW, rows.tree_BJF, rows.limit_B - length, forced_B
                )
            self.rules.apply(logits_BJW, self.rows.ids_BJT, prefixes)
            slots_BJ = self.extend(logits_BJW, normalizer_BJ)
            if self.tree_rule is not None:
                before_BJF = np.take_along_axis(self.rows.tree_BJF, slots_BJ[..., None], axis=1)
                tokens = self.rows.ids_BJT[..., -1]
                self.rows.tree_BJF = self.tree_rule.advance(before_BJF, tokens)
            before = np.arange(len(slots_BJ))[:, None] * logits_BJW.size(1)
            kept = self._drop_finished()
            parents_BJ = torch.from_numpy((before + slots_BJ)[kept]).to(device)
            tokens_BJ = torch.from_numpy(self.rows.ids_BJT[..., -1]).to(device)
        return self.results

    @abstractmethod
    def extend(self, logits_BJW: Tensor, normalizer_BJ: Tensor) -> NDArray[np.int64]:
        """Add one token to each hypothesis; return which slot each one continues.

        A logit, -inf where the rules forbid the token, minus the normalizer is log P.
        """

    @abstractmethod
    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each sentence whether its hypotheses are known."""

    @abstractmethod
    def hypotheses_of(self, row: int) -> list[Hypothesis]:
        """Return the hypotheses of a finished sentence."""

    def _drop_finished(self) -> NDArray[np.int64]:
        """Store the results of finished sentences; return the rows that stay, some idle.

        Dropping rows copies all caches, so it waits until some have gathered.
        """
        rows = self.rows
        for row in np.flatnonzero(self.is_finished() & ~rows.finished_B):
            self.results[rows.sentence_B[row]] = self.hypotheses_of(int(row))
            rows.finished_B[row] = True
        active = np.flatnonzero(~rows.finished_B)
        idle = np.flatnonzero(rows.finished_B)[: round_up(len(active)) - len(active)]
        kept = np.sort(np.concatenate([active, idle])) if active.size else active
        if len(kept) < len(rows.finished_B):
            self.rows = rows.select(kept)
        return kept


class BeamState(SearchState):
    """The state of beam search; hypotheses stand best first, -inf where there is none."""

    def __init__(self, tasks: list[Task], search: BeamSearch) -> None:
        super().__init__(tasks, search.rules)
        self.search = search
        self.completed: list[list[Hypothesis]] = [[] for _ in tasks]

    def extend(self, logits_BJW: Tensor, normalizer_BJ: Tensor) -> NDArray[np.int64]:
        """Consider the best 2 * beam extensions; the best that do not end are kept."""
        rows = self.rows
        added_BJ = torch.from_numpy(rows.sums_BJ).to(logits_BJW.device) - normalizer_BJ
        sums_BC, places_BC = (
            part.cpu().numpy()
            for part in largest_sums(logits_BJW, added_BJ, 2 * self.search.beam)
        )
        # A place counts through the vocabulary of each slot in turn.
        slots_BC, tokens_BC = np.divmod(places_BC, logits_BJW.size(-1))
        ids_BCT = np.take_along_axis(rows.ids_BJT, slots_BC[..., None], axis=1)
        ids_BCT = np.concatenate([ids_BCT, tokens_BC[..., None]], axis=-1)
        ends_BC = tokens_BC == EOS
        self._complete(sums_BC, ids_BCT, ends_BC)

        # Stable: among those that do not end, the order of their scores stays.
        kept_BJ = np.argsort(ends_BC, axis=1, kind="stable")[:, : self.search.beam]
        rows.ids_BJT = np.take_along_axis(ids_BCT, kept_BJ[..., None], axis=1)
        rows.sums_BJ = np.take_along_axis(sums_BC, kept_BJ, axis=1)
        rows.sums_BJ[np.take_along_axis(ends_BC, kept_BJ, axis=1)] = -math.inf
        return np.take_along_axis(slots_BC, kept_BJ, axis=1)

    def _complete(
        self,
        sums_BC: NDArray[np.float32],
        ids_BCT: NDArray[np.int64],
        ends_BC: NDArray[np.bool_],
    ) -> None:
        """Add candidates that end in EOS to the completed hypotheses of their sentence."""
        penalty = length_penalty(ids_BCT.shape[-1], self.search.alpha)
        counted_BC = ends_BC & (sums_BC > -math.inf) & ~self.rows.finished_B[:, None]
        if self.search.beam == 1:
            # Differs from the paper, which has no beam of 1: the first EOS is final, as in
            # greedy search.
            counted_BC[:, 1:] = False
        for row, place in np.argwhere(counted_BC):
            completed = self.completed[self.rows.sentence_B[row]]
            score = float(sums_BC[row, place]) / penalty
            ids = ids_BCT[row, place, :-1].tolist()
            completed.append(Hypothesis(ids, score, finished=True))
            completed.sort(key=lambda hypothesis: -hypothesis.score)
            del completed[self.search.beam :]

    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each sentence whether no continuation can be wanted any more."""
        # Differs from the paper, whose code searched a batch until all of it was done: each
        # sentence ends by itself, with the same result.
        rows = self.rows
        to_beat_B = [self._score_to_beat(self.completed[i]) for i in rows.sentence_B]
        bound_B = rows.sums_BJ[:, 0] / length_penalty(
            rows.limit_B.astype(np.float64), self.search.alpha
        )
        return (rows.length >= rows.limit_B) | (bound_B <= np.array(to_beat_B))

    def _score_to_beat(self, completed: list[Hypothesis]) -> float:
        """Return the score that a hypothesis has to exceed to be wanted."""
        if self.search.beam == 1 and completed:
            return math.inf
        wanted = self.search.nbest
        return completed[wanted - 1].score if len(completed) >= wanted else -math.inf

    def hypotheses_of(self, row: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence: the completed ones, then the others."""
        rows = self.rows
        penalty = length_penalty(rows.length, self.search.alpha)
        incomplete = [
            Hypothesis(ids.tolist(), float(total) / penalty, finished=False)
            for ids, total in zip(rows.ids_BJT[row], rows.sums_BJ[row], strict=True)
            if total > -math.inf
        ]
        return (self.completed[rows.sentence_B[row]] + incomplete)[: self.search.nbest]


def round_up(count: int) -> int:
    """Return the next of 4 numbers between powers of two: 8, 10, 12, 14, 16, 20, ...

    Products of a new size take a moment to set up; these are few sizes and an eighth apart.
    """
    step = 1 << max(0, count.bit_length() - 3)
    return -(-count // step) * step
