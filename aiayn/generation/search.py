"""Beam search over a step function: section 6.1.

The search knows nothing of networks: it is given a function that scores every next token of
the hypotheses it is building. `beams` and `sampling` have its state in arrays, and
`native_beams` as compiled code.

Each sentence has a place. New sentences take places behind those in use; when a sentence ends,
the last one moves to its place. So the places in use are always the first ones.

B sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from aiayn.config import ALPHA_LIMIT, BeamRule, DecodeConfig
from aiayn.errors import UsageError
from aiayn.generation.rules import NO_RULES, Rules
from aiayn.generation.step import Moves, Step
from aiayn.generation.tree_rule import TreeTask

DEFAULT = DecodeConfig()
NOBODY_MOVED = Moves(*np.zeros((2, 0), dtype=np.int64))
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


class Search(Protocol):
    """A strategy: beam search, or sampling."""

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""

    def start(self) -> "SearchState":
        """Return a state without sentences."""


class SearchState(Protocol):
    """The hypotheses of the sentences that are searched."""

    width: int
    """Hypotheses of a sentence that grow at once."""
    count: int
    """Sentences."""

    def reserve(self, places: int, limit: int) -> None:
        """Make room for so many sentences, and for outputs of so many tokens."""

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""

    def advance(self, step: Step) -> None:
        """Extend the hypotheses of all sentences by one token."""

    def take_finished(self) -> tuple[dict[int, list[Hypothesis]], Moves]:
        """Drop the sentences that are finished; return what they gave, and who moved.

        The last sentences move to the places that have become free before them.
        """


def fill_gaps(finished_B: NDArray[np.bool_]) -> tuple[list[int], Moves]:
    """Return the places that become free, and which of the last sentences move there."""
    gone, kept = np.flatnonzero(finished_B), np.flatnonzero(~finished_B)
    return gone.tolist(), Moves(kept[kept >= len(kept)], gone[gone < len(kept)])


def length_penalty(length: Length, alpha: float, rule: BeamRule = "paper") -> Length:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, where |Y| counts EOS; Marian's is |Y|^alpha."""
    penalty: Length = (length if rule == "marian" else (5 + length) / 6) ** alpha
    return penalty


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamSearch:
    """Keeps the `beam` best growing hypotheses of each sentence.

    At each step the best 2 * beam extensions are considered: those that end in EOS compete for
    `beam` places among the completed hypotheses, and the best `beam` of the others are extended
    further. A sentence is finished at its length limit, or as soon as no continuation can be
    among its `nbest`: log P only falls, so log P / lp(limit) bounds the score of each.
    By Marian's rule the best `beam` are considered, and one less for each that has ended.
    """

    beam: int = DEFAULT.beam
    alpha: float = DEFAULT.alpha
    beam_rule: BeamRule = DEFAULT.beam_rule
    nbest: int = 1
    rules: Rules = NO_RULES

    @classmethod
    def of(
        cls,
        decode: DecodeConfig,
        *,
        beam: int | None = None,
        alpha: float | None = None,
        beam_rule: BeamRule | None = None,
        nbest: int | None = None,
        rules: Rules = NO_RULES,
    ) -> "BeamSearch":
        """Return the search that is asked for; what is not given is the model's default.

        Without a beam, it widens to hold the n best.
        """
        count = 1 if nbest is None else nbest
        beam = max(decode.beam, count) if beam is None else beam
        alpha = decode.alpha if alpha is None else alpha
        if not 1 <= count <= beam:
            raise UsageError(
                f"nbest {count:,} does not fit a beam of {beam:,}",
                fix="ask for at least 1, and for at most as many as the beam is wide",
            )
        if not 0 <= alpha < ALPHA_LIMIT:
            raise UsageError(
                f"alpha {alpha:g} is not a length penalty",
                fix=f"give a number of at least 0 and below {ALPHA_LIMIT}; the paper: 0.6",
            )
        rule = beam_rule or decode.beam_rule
        rules = replace(rules, unknown=rules.unknown and rule != "marian")
        return cls(beam=beam, alpha=alpha, beam_rule=rule, nbest=count, rules=rules)

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that grow at once."""
        return self.beam

    @property
    def candidates(self) -> int:
        """Extensions of a sentence that are considered at each step."""
        # Differs from the paper, which has no beam of 1: the first EOS is final, as in greedy
        # search, so that one candidate is enough.
        widens = self.beam > 1 and self.beam_rule == "paper"
        return 2 * self.beam if widens else self.beam

    def penalty(self, length: Length) -> Length:
        """Return lp(Y) for outputs of this length."""
        return length_penalty(length, self.alpha, self.beam_rule)

    def start(self) -> SearchState:
        """Return a state without sentences."""
        # Here, because compiled search does without torch, which takes a second to load.
        from aiayn.generation.beams import BeamState

        return BeamState(self)
