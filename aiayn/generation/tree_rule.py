"""The rule of parsing: an output is one well-formed tree over the words of the sentence.

Brackets balance and have one root, every word has exactly one tag, a constituent holds a word,
and tags of punctuation stand on punctuation. All of it fits into the length limit.

B sentences; J hypotheses of each; N hypotheses of all sentences; F fields of a state;
C classes of words; W vocabulary.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiayn.data.trees import APOSTROPHE, PUNCTUATION, possible_tags
from aiayn.data.vocabulary import Vocabulary
from aiayn.special_ids import EOS, UNK

Ids = NDArray[np.int64]
Marks = NDArray[np.bool_]

# What a state counts: words that have their tag, brackets opened since the last other symbol,
# brackets that are open; then where the sentence's words are, and how many. A stack follows.
LEAVES, OPENED, DEPTH, FIRST, COUNT, STACK = range(6)
# Constituents that are open at once: at most 28 in the sample of the Penn Treebank.
MOST_OPEN = 64
# Constituents that begin at one word: at most 6 in 76,000 words of the Wall Street Journal. A
# model that has lost its place would open them until the limit.
MOST_OPENED = 8
# Words of every class.
EXAMPLES = ("word", *PUNCTUATION, APOSTROPHE)


class TreeTask(NamedTuple):
    """What to parse: the symbols, and for each word the class of tags it may have."""

    symbols: "TreeSymbols"
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TreeSymbols:
    """The vocabulary of trees: which ids are tags, which open a constituent, which close it."""

    tags: Set[str]
    class_of: dict[Set[str], int]
    """The number of each set of tags that words may have."""
    tags_CW: Marks
    """True at the tags of a class."""
    is_tag_W: Marks
    closing_W: Ids
    """Of an id that opens a constituent, the id that closes it; of others, 0."""
    is_closing_W: Marks

    @classmethod
    def of(cls, vocabulary: Vocabulary, tags: Set[str]) -> "TreeSymbols":
        """Return the symbols of a vocabulary in which these are the tags."""
        pieces = {vocabulary.decode([i]): i for i in range(UNK + 1, len(vocabulary))}
        labels = [x for x in pieces if x not in tags and f"/{x}" in pieces.keys() - tags]
        closing_W = np.zeros(len(vocabulary), dtype=np.int64)
        for label in labels:
            closing_W[pieces[label]] = pieces[f"/{label}"]

        def mark(symbols: Iterable[str]) -> Marks:
            marks = np.zeros(len(vocabulary), dtype=bool)
            marks[[pieces[symbol] for symbol in symbols if symbol in pieces]] = True
            return marks

        known = tags & pieces.keys()
        class_of: dict[Set[str], int] = {}
        for allowed in possible_tags(EXAMPLES, known):
            class_of.setdefault(allowed, len(class_of))
        return cls(
            tags=known,
            class_of=class_of,
            tags_CW=np.stack([mark(allowed) for allowed in class_of]),
            is_tag_W=mark(known),
            closing_W=closing_W,
            is_closing_W=mark(f"/{label}" for label in labels),
        )

    def task(self, words: Sequence[str]) -> TreeTask:
        """Return the task to parse these words."""
        allowed = possible_tags(words, self.tags)
        return TreeTask(self, tuple(self.class_of[each] for each in allowed))


class TreeRule:
    """What may follow a hypothesis, by a state of its own that every token advances.

    A state is a row of numbers: LEAVES, OPENED and so on, then the ids that would close what is
    open, outermost first. The search keeps the states, in its own order.
    """

    def __init__(self, symbols: TreeSymbols) -> None:
        self.symbols = symbols
        self.words = np.zeros(0, dtype=np.int64)
        """The classes of the words of all sentences that are searched, end to end."""

    def start(self, tasks: Sequence[TreeTask]) -> Ids:
        """Return the states (B, 1, F) of sentences without symbols."""
        state_B1F = np.zeros((len(tasks), 1, STACK + MOST_OPEN), dtype=np.int64)
        counts = np.array([len(task.words) for task in tasks], dtype=np.int64)
        state_B1F[:, 0, COUNT] = counts
        state_B1F[:, 0, FIRST] = len(self.words) + np.cumsum(counts) - counts
        self.words = np.concatenate(
            [self.words, *(task.words for task in tasks)], dtype=np.int64
        )
        return state_B1F

    def advance(self, state_BJF: Ids, tokens_BJ: Ids) -> Ids:
        """Return the states after one more token each."""
        symbols, state_NF = self.symbols, state_BJF.reshape(-1, state_BJF.shape[-1]).copy()
        tokens_N, every = tokens_BJ.ravel(), np.arange(len(state_NF))
        closing_N = symbols.closing_W[tokens_N]
        opens_N = (closing_N > 0) & (state_NF[:, DEPTH] < MOST_OPEN)
        closes_N = symbols.is_closing_W[tokens_N] & (state_NF[:, DEPTH] > 0)
        state_NF[every[opens_N], STACK + state_NF[opens_N, DEPTH]] = closing_N[opens_N]
        state_NF[:, DEPTH] += opens_N.astype(np.int64) - closes_N
        state_NF[:, LEAVES] += symbols.is_tag_W[tokens_N]
        state_NF[:, OPENED] = (state_NF[:, OPENED] + 1) * opens_N
        return state_NF.reshape(state_BJF.shape)

    def forbidden(self, state_BJF: Ids, left_B: Ids, forced_B: Marks) -> Marks:
        """Return (B, J, W) which tokens may not follow.

        `left_B` is how many tokens an output of a sentence may still take, EOS included. Where
        the next token is forced, nothing is forbidden.
        """
        slots = state_BJF.shape[1]
        state_NF = state_BJF.reshape(-1, state_BJF.shape[-1])
        allowed_NW = self._allowed(state_NF, np.repeat(left_B, slots))
        allowed_NW |= np.repeat(forced_B, slots)[:, None]
        return ~allowed_NW.reshape(*state_BJF.shape[:2], -1)

    def _allowed(self, state_NF: Ids, left_N: Ids) -> Marks:
        leaves_N, opened_N, depth_N, first_N, count_N = state_NF[:, :STACK].T
        words_left_N = count_N - leaves_N
        unfinished_N, outside_N = words_left_N > 0, depth_N == 0
        # Besides a tag for every word, the brackets that are open, and EOS.
        spare_N = left_N - (words_left_N + depth_N + 1)
        # A bracket takes two symbols, and must hold a word.
        opening_N = unfinished_N & (spare_N >= 2) & (opened_N < MOST_OPENED)
        opening_N &= depth_N < MOST_OPEN
        # A word is the whole tree only where it is the only one, or where no bracket fits.
        alone_N = (count_N == 1) & (leaves_N == 0)
        tagging_N = unfinished_N & (~outside_N | ~opening_N | alone_N)
        # The root closes at the end. Where a forced prefix left a bracket without a word, it
        # has to close all the same.
        closing_N = ~outside_N & (~unfinished_N | (depth_N > 1) & (opened_N == 0))

        word_N = np.where(tagging_N, first_N + leaves_N, 0)
        class_N = self.words[word_N] if len(self.words) else word_N
        allowed_NW: Marks = self.symbols.tags_CW[class_N] & tagging_N[:, None]
        allowed_NW |= (self.symbols.closing_W > 0) & opening_N[:, None]
        rows = np.flatnonzero(closing_N)
        allowed_NW[rows, state_NF[rows, STACK + depth_N[rows] - 1]] = True
        allowed_NW[outside_N & ~unfinished_N, EOS] = True
        return allowed_NW
