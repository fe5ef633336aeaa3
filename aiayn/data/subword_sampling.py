"""Subwords that are drawn: BPE-dropout, and sampling from a unigram model.

Beyond the paper. SentencePiece draws, too, but from random numbers that no seed repeats in
another process; so its pieces are drawn here, word by word, from a generator that is given.
"""

import math
import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random

from aiayn.data.settings import TAG
from aiayn.data.vocabulary import BYTES, SPACE, Vocabulary, escape_all
from aiayn.special_ids import EOS

# Words that are kept with what can be drawn; a corpus says the same ones again and again.
KEPT_WORDS = 50_000
# What a character that is no piece costs beside the worst piece, as in SentencePiece.
UNKNOWN_PENALTY = 10.0

# Of each end of a piece in a word: where it may begin, and how probable that is.
Lattice = list[tuple[list[int], list[float]]]

# Longer than any wait.
NEVER = sys.maxsize


class _Omissions:
    """Which merges are left out, one after the other, each with the same probability."""

    def __init__(self, probability: float, random: Random) -> None:
        self._log, self._random = math.log1p(-probability), random
        self.wait = self.draw()
        """Merges that are made before the next one is left out."""

    def draw(self) -> int:
        """Return how many merges come before the next that is left out: geometric."""
        return int(math.log(1 - self._random.random()) / self._log) if self._log else NEVER


class SubwordSampler:
    """Draws the pieces of a vocabulary of byte pairs or unigrams.

    BPE-dropout (Provilkov et al. 2020): in each step every merge that fits is left out with
    probability `strength`, and the best of the others is made, until none is left. Unigrams
    (Kudo 2018): a segmentation is drawn by its probability to the power of `strength`.
    """

    def __init__(self, vocabulary: Vocabulary, strength: float) -> None:
        self.kind, self.strength = vocabulary.kind, strength
        self._ids: dict[str, int] = {}
        self._scores: dict[str, float] = {}
        numbers = range(BYTES.stop, len(vocabulary))
        scores = vocabulary.scores(numbers)
        for i, piece, score in zip(numbers, vocabulary.pieces(numbers), scores, strict=True):
            if not TAG.fullmatch(piece):
                self._ids[piece], self._scores[piece] = i, score
        self._longest = max(map(len, self._ids))
        self._unknown = min(self._scores.values()) - UNKNOWN_PENALTY
        self._lattices: dict[str, Lattice] = {}
        # The ids of a word that is left as it is, and how many merges that takes.
        self._whole: dict[str, tuple[list[int], int]] = {}

    def encode(self, texts: Sequence[str], random: Random) -> list[list[int]]:
        """Return drawn ids of texts, each ending in EOS."""
        if self.kind == "bpe":
            draw = partial(self._leave_out, omissions=_Omissions(self.strength, random))
        else:
            draw = partial(self._segment, random=random)
        return [
            [*(i for word in text.split(" ") for i in draw(SPACE + word)), EOS]
            for text in escape_all(texts)
        ]

    def _spell(self, pieces: list[str]) -> list[int]:
        """Return the ids of pieces, or those of the bytes of what is none."""
        ids: list[int] = []
        for piece in pieces:
            known = self._ids.get(piece)
            ids += (BYTES.start + x for x in piece.encode()) if known is None else (known,)
        return ids

    def _leave_out(self, word: str, omissions: "_Omissions") -> list[int]:
        """Return the ids of a word with merges left out; of most words none is."""
        if word not in self._whole:
            if len(self._whole) >= KEPT_WORDS:
                self._whole.clear()
            pieces = self._merge(word, none := _Omissions(0.0, Random()))
            self._whole[word] = self._spell(pieces), NEVER - none.wait
        ids, merges = self._whole[word]
        if merges <= omissions.wait:
            omissions.wait -= merges
            return ids
        return self._spell(self._merge(word, omissions))

    def _merge(self, word: str, omissions: "_Omissions") -> list[str]:
        """Return the byte pairs of a word, with merges left out."""
        pieces, score_of, wait = list(word), self._scores.get, omissions.wait
        scores = [score_of(left + right, -math.inf) for left, right in pairwise(pieces)]
        while True:
            candidates = scores
            # Of all that fit, only those count as left out that would be made now.
            while (best := max(candidates, default=-math.inf)) > -math.inf:
                place = candidates.index(best)
                if wait:
                    wait -= 1
                    break
                wait = omissions.draw()
                candidates = [*candidates]
                candidates[place] = -math.inf
            else:
                omissions.wait = wait
                return pieces
            merged = pieces[place] + pieces.pop(place + 1)
            pieces[place] = merged
            del scores[place]
            # Only the neighbors of what was merged are other pairs than before.
            if place:
                scores[place - 1] = score_of(pieces[place - 1] + merged, -math.inf)
            if place < len(scores):
                scores[place] = score_of(merged + pieces[place + 1], -math.inf)

    def _segment(self, word: str, random: Random) -> list[int]:
        """Return ids of unigrams of a word: the last is drawn first, then those before."""
        if word not in self._lattices:
            if len(self._lattices) >= KEPT_WORDS:
                self._lattices.clear()
            self._lattices[word] = self._lattice(word)
        lattice, end = self._lattices[word], len(word)
        pieces = []
        while end:
            starts, weights = lattice[end]
            start = starts[0] if len(starts) == 1 else random.choices(starts, weights)[0]
            pieces.append(word[start:end])
            end = start
        return self._spell(pieces[::-1])

    def _lattice(self, word: str) -> Lattice:
        """Sum probabilities from the left: forward filtering, for sampling backward."""
        log_sums = [0.0]
        lattice: Lattice = [([], [])]
        for end in range(1, len(word) + 1):
            starts, logs = [], []
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(word[start:end])
                if score is None and start == end - 1:
                    score = self._unknown
                if score is not None:
                    starts.append(start)
                    logs.append(log_sums[start] + self.strength * score)
            most = max(logs)
            weights = [math.exp(log - most) for log in logs]
            log_sums.append(most + math.log(sum(weights)))
            lattice.append((starts, weights))
        return lattice
