"""The state of a search in arrays, and that of beam search.

Only the choice of the best candidates happens on the device of the step function; the state is
kept in numpy on the host, and is read from the device once a step.

P places; B of them in use; J hypotheses of each; C candidates; T tokens; W vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.device import read_together
from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.search import NOBODY_MOVED, BeamSearch, Hypothesis, Task, fill_gaps
from aiayn.generation.step import Ids, Moves, Step
from aiayn.generation.tree_rule import TreeRule, TreeTask
from aiayn.kernels.topk import largest_sums
from aiayn.special_ids import EOS, PAD


class ArrayState(ABC):
    """The hypotheses of the sentences that are searched, in arrays that have a row a place."""

    def __init__(self, width: int, rules: Rules) -> None:
        self.width, self.rules, self.count = width, rules, 0
        self.task_P = np.zeros(0, dtype=object)
        self.prefix_length_P = np.zeros(0, dtype=np.int64)
        self.limit_P = np.zeros(0, dtype=np.int64)
        self.length_P = np.zeros(0, dtype=np.int64)
        """Tokens of each hypothesis so far."""
        self.ids_PJT = np.zeros((0, width, 0), dtype=np.int64)
        self.sums_PJ = np.zeros((0, width), dtype=np.float32)
        """log P of the hypotheses, -inf where there is none."""
        self.tokens_PJ = np.zeros((0, width), dtype=np.int64)
        """Their last tokens."""
        self.slots_PJ = np.zeros((0, width), dtype=np.int64)
        """Which hypothesis of the step before each one continues."""
        self.tree_rule: TreeRule | None = None
        self.tree_PJF = np.zeros((0, width, 0), dtype=np.int64)
        """The states of that rule, where there is one."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: a for name, a in vars(self).items() if isinstance(a, np.ndarray)}

    def reserve(self, places: int, limit: int) -> None:
        """Make room for so many sentences, and for outputs of so many tokens."""
        places, limit = max(places, len(self.limit_P)), max(limit, self.ids_PJT.shape[2])
        if (places, limit) == self.ids_PJT.shape[::2]:
            return
        for name, array in self._arrays().items():
            rest = (self.width, limit) if name == "ids_PJT" else array.shape[1:]
            larger = np.zeros((places, *rest), dtype=array.dtype)
            larger[tuple(map(slice, array.shape))] = array
            setattr(self, name, larger)

    @property
    def used(self) -> slice:
        """The places in use."""
        return slice(0, self.count)

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""
        new = slice(self.count, self.count + len(tasks))
        self.count = new.stop
        for place, task in enumerate(tasks, start=new.start):
            self.task_P[place], self.limit_P[place] = task, task.limit
            self.prefix_length_P[place] = len(task.prefix)
        self.length_P[new], self.sums_PJ[new] = 0, 0
        self.tokens_PJ[new], self.slots_PJ[new] = PAD, 0
        self._begin_trees(new, [task.tree for task in tasks if task.tree is not None])

    def _begin_trees(self, new: slice, trees: list[TreeTask]) -> None:
        if not trees:
            return
        if self.tree_rule is None:
            self.tree_rule = TreeRule(trees[0].symbols)
            # The rules of text could leave nothing of a tree.
            self.rules = NO_RULES
        state_B1F = self.tree_rule.start(trees)
        if not self.tree_PJF.size:
            places = len(self.limit_P)
            self.tree_PJF = np.zeros((places, self.width, state_B1F.shape[-1]), dtype=np.int64)
        self.tree_PJF[new] = state_B1F

    def advance(self, step: Step) -> None:
        """Extend the hypotheses of all sentences by one token."""
        used = self.used
        logits_BJW = step(self.tokens_PJ[used], self.slots_PJ[used])
        # Before the rules: log P is that of the model, whatever they forbid.
        log_p_BJW = logits_BJW.log_softmax(dim=-1, dtype=torch.float32)
        log_p_BJW[..., PAD] = -math.inf
        self._apply_rules(log_p_BJW)
        self.extend(log_p_BJW)
        if self.tree_rule is not None:
            slots_BJ1 = self.slots_PJ[used, :, None]
            before_BJF = np.take_along_axis(self.tree_PJF[used], slots_BJ1, axis=1)
            self.tree_PJF[used] = self.tree_rule.advance(before_BJF, self.tokens_PJ[used])
        self.length_P[used] += 1

    def _apply_rules(self, log_p_BJW: Tensor) -> None:
        """Set log P of what may not follow to -inf, in place, sentence by sentence."""
        used = self.used
        forced_B = self.length_P[used] < self.prefix_length_P[used]
        if self.tree_rule is not None:
            left_B = self.limit_P[used] - self.length_P[used]
            forbidden_BJW = self.tree_rule.forbidden(self.tree_PJF[used], left_B, forced_B)
            mask_BJW = torch.from_numpy(forbidden_BJW).to(log_p_BJW.device)
            log_p_BJW.masked_fill_(mask_BJW, -math.inf)
        if self.rules == NO_RULES and not forced_B.any():
            return
        for place in range(self.count):
            length, prefix = self.length_P[place], self.task_P[place].prefix
            if self.rules != NO_RULES or forced_B[place]:
                ids_1JT = self.ids_PJT[place : place + 1, :, :length]
                self.rules.apply(log_p_BJW[place : place + 1], ids_1JT, [prefix])

    @abstractmethod
    def extend(self, log_p_BJW: Tensor) -> None:
        """Add a token to each hypothesis; log P is -inf where the rules forbid one."""

    def append(self, slots_BJ: Ids, tokens_BJ: Ids) -> None:
        """Let each hypothesis continue one of those before with a token."""
        used = self.used
        self.slots_PJ[used], self.tokens_PJ[used] = slots_BJ, tokens_BJ
        length_B = self.length_P[used]
        most, row_B1 = int(length_B.max()) + 1, np.arange(len(length_B))[:, None]
        if self.width > 1:
            before = self.ids_PJT[used, :, :most]
            self.ids_PJT[used, :, :most] = before[row_B1, slots_BJ]
        self.ids_PJT[used][row_B1, np.arange(self.width), length_B[:, None]] = tokens_BJ

    @abstractmethod
    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each place in use whether the hypotheses of its sentence are known."""

    @abstractmethod
    def hypotheses_of(self, place: int) -> list[Hypothesis]:
        """Return the hypotheses of a finished sentence."""

    def take_finished(self) -> tuple[dict[int, list[Hypothesis]], Moves]:
        """Drop the sentences that are finished; return what they gave, and who moved."""
        finished_B = self.is_finished()
        if not finished_B.any():
            return {}, NOBODY_MOVED
        gone, moves = fill_gaps(finished_B)
        found = {place: self.hypotheses_of(place) for place in gone}
        self.count -= len(gone)
        if len(moves.places):
            for array in self._arrays().values():
                array[moves.places] = array[moves.origins]
        return found, moves


class BeamState(ArrayState):
    """The state of beam search; hypotheses stand best first."""

    def __init__(self, search: BeamSearch) -> None:
        super().__init__(search.beam, search.rules)
        self.search = search
        self.completed_P = np.zeros(0, dtype=object)
        self.to_beat_P = np.zeros(0)
        """The score that a hypothesis has to exceed to be wanted."""

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""
        for place in range(self.count, self.count + len(tasks)):
            self.completed_P[place], self.to_beat_P[place] = [], -math.inf
        super().admit(tasks)
        # At first there is one hypothesis, the empty one.
        self.sums_PJ[self.count - len(tasks) : self.count, 1:] = -math.inf

    def extend(self, log_p_BJW: Tensor) -> None:
        """Consider the best 2 * beam extensions; the best that do not end are kept."""
        sums_BJ = torch.from_numpy(self.sums_PJ[self.used]).to(log_p_BJW.device)
        best = largest_sums(log_p_BJW, sums_BJ, self.search.candidates)
        sums_BC, where_BC = read_together(*best)
        slots_BC, tokens_BC = np.divmod(where_BC, log_p_BJW.size(-1))
        if self.search.beam_rule == "marian":
            # The place of what has ended stays taken, so fewer continue at each end.
            for sums_C, ended in zip(sums_BC, self.completed_P[self.used], strict=True):
                sums_C[self.width - len(ended) :] = -math.inf
        ends_BC = tokens_BC == EOS
        if ends_BC.any():
            self._complete(sums_BC, slots_BC, ends_BC)
            sums_BC = np.where(ends_BC, np.float32(-math.inf), sums_BC)
            # Stable: among those that do not end, the order of their scores stays.
            order_BC = np.argsort(ends_BC, axis=1, kind="stable")
            row_B1 = np.arange(len(order_BC))[:, None]
            sums_BC, slots_BC, tokens_BC = (
                each[row_B1, order_BC] for each in (sums_BC, slots_BC, tokens_BC)
            )
        self.sums_PJ[self.used] = sums_BC[:, : self.width]
        self.append(slots_BC[:, : self.width], tokens_BC[:, : self.width])

    def _complete(
        self, sums_BC: NDArray[np.float32], slots_BC: Ids, ends_BC: NDArray[np.bool_]
    ) -> None:
        """Add candidates that end in EOS to the completed hypotheses of their sentence."""
        for place, candidate in np.argwhere(ends_BC & (sums_BC > -math.inf)).tolist():
            length = int(self.length_P[place])
            score = float(sums_BC[place, candidate]) / self.search.penalty(float(length + 1))
            ids = self.ids_PJT[place, slots_BC[place, candidate], :length].tolist()
            completed = self.completed_P[place]
            completed.append(Hypothesis(ids, score, finished=True))
            completed.sort(key=lambda hypothesis: -hypothesis.score)
            del completed[self.search.beam :]
            if len(completed) >= self.search.nbest:
                wanted = completed[self.search.nbest - 1].score
                self.to_beat_P[place] = math.inf if self.search.beam == 1 else wanted

    def is_finished(self) -> NDArray[np.bool_]:
        """Return for each sentence whether no continuation can be wanted any more."""
        # Differs from the paper, whose code searched a batch until all of it was done: each
        # sentence ends by itself, with the same result.
        used = self.used
        limit_B = self.limit_P[used]
        bound_B = self.sums_PJ[used, 0] / self.search.penalty(limit_B.astype(np.float64))
        return (self.length_P[used] >= limit_B) | (bound_B <= self.to_beat_P[used])

    def hypotheses_of(self, place: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence: the completed ones, then the others."""
        length = int(self.length_P[place])
        penalty = self.search.penalty(float(length))
        incomplete = [
            Hypothesis(ids.tolist(), float(total) / penalty, finished=False)
            for ids, total in zip(
                self.ids_PJT[place, :, :length], self.sums_PJ[place], strict=True
            )
            if total > -math.inf
        ]
        completed: list[Hypothesis] = self.completed_P[place]
        return (completed + incomplete)[: self.search.nbest]
