"""Beam search as compiled code: it does what `BeamState` does, where no rule restricts it."""

from collections.abc import Sequence
from ctypes import addressof

import numpy as np

from aiayn.generation.native_decoder import NativeDecoder
from aiayn.generation.search import NOBODY_MOVED, BeamSearch, Hypothesis, Task, fill_gaps
from aiayn.generation.step import Moves, Step
from aiayn.kernels.native import SearchInMemory


class NativeBeams:
    """The hypotheses of the sentences that a compiled decoder has."""

    def __init__(self, search: BeamSearch, decoder: NativeDecoder) -> None:
        self.search, self.decoder, self.width = search, decoder, search.beam
        self.kernels, self.count = decoder.kernels, 0
        self.finished_P = np.zeros(0, dtype=np.bool_)
        self.penalty_T = np.zeros(0)
        """lp(Y) by the length of the output."""
        self.in_memory = SearchInMemory(search.beam, search.candidates, search.nbest)

    def reserve(self, places: int, limit: int) -> None:
        """Make room for so many sentences, and for outputs of so many tokens."""
        self.finished_P = np.zeros(max(places, len(self.finished_P)), dtype=np.bool_)
        if limit >= len(self.penalty_T):
            self.penalty_T = np.array([self.search.penalty(float(n)) for n in range(limit + 1)])
            self.in_memory.penalty = self.penalty_T.ctypes.data

    def admit(self, tasks: Sequence[Task]) -> None:
        """Begin sentences behind those that are there."""
        for task in tasks:
            prefix = np.array(task.prefix, dtype=np.int64)
            self.kernels.begin_search(
                addressof(self.in_memory),
                int(self.decoder.sentence_P[self.count]),
                task.limit,
                prefix.ctypes.data,
                len(prefix),
            )
            self.count += 1

    def advance(self, step: Step) -> None:
        """Extend the hypotheses of all sentences by one token."""
        self.kernels.advance(
            addressof(self.decoder.network),
            addressof(self.in_memory),
            self.count,
            self.decoder.sentence_P.ctypes.data,
            self.decoder.target_table_TD.ctypes.data,
            self.finished_P.ctypes.data,
        )

    def take_finished(self) -> tuple[dict[int, list[Hypothesis]], Moves]:
        """Drop the sentences that are finished; return what they gave, and who moved."""
        finished_B = self.finished_P[: self.count]
        if not finished_B.any():
            return {}, NOBODY_MOVED
        gone, moves = fill_gaps(finished_B)
        found = {place: self._hypotheses_of(place) for place in gone}
        self.count -= len(gone)
        return found, moves

    def _hypotheses_of(self, place: int) -> list[Hypothesis]:
        """Return the hypotheses of a finished sentence."""
        nbest, most = self.search.nbest, len(self.penalty_T)
        scores, lengths = np.zeros(nbest), np.zeros(nbest, dtype=np.int64)
        complete, ids_NT = np.zeros(nbest, dtype=np.bool_), np.zeros((nbest, most), np.int64)
        count = self.kernels.best_hypotheses(
            addressof(self.in_memory),
            int(self.decoder.sentence_P[place]),
            *(array.ctypes.data for array in (scores, lengths, complete)),
            most,
            ids_NT.ctypes.data,
        )
        return [
            Hypothesis(ids_NT[n, : lengths[n]].tolist(), float(scores[n]), bool(complete[n]))
            for n in range(count)
        ]
