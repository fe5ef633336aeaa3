"""The search of CTranslate2 in place of ours, with lines in and out as always.

Its beam search ends when as many hypotheses as the beam is wide are complete, while ours ends
when no other can be better: a few translations differ. The hypotheses that it finds are put in
order by the paper's length penalty.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ctranslate2
import numpy as np

from aiayn.generation.engine import Found, NumberedSegment, tokens_at_once
from aiayn.generation.rules import NO_RULES
from aiayn.generation.search import BeamSearch, Hypothesis
from aiayn.generation.segmentation import Segment
from aiayn.generation.streaming import Line
from aiayn.generation.translator import Report, Translation, Translator
from aiayn.generation.word_alignment import AlignedPair, Pair, align_words
from aiayn.special_ids import EOS, PAD

# Tokens, with EOS where it was reached, and log P.
Scored = tuple[list[int], float]


@dataclass(frozen=True, kw_only=True)
class CTranslate2Translator(Translator):
    """A converted model in CTranslate2; `models` stays empty."""

    search: BeamSearch
    engine: ctranslate2.Translator
    table_rows: int
    """Positions that the converted model has vectors for."""

    @property
    def positions(self) -> int:
        """The most tokens of an input or output."""
        # Scoring and aligning an output look at one position more.
        return self.table_rows - 1

    def translate_window(
        self, lines: Sequence[Line], report: Report = lambda lines: None
    ) -> list[Translation]:
        """Translate lines together; `report` is called with how many more are done."""
        return self._translate(lines, report)  # by the workers of CTranslate2 itself

    def steps(
        self, work: deque[NumberedSegment], most: int | None = None
    ) -> Iterator[list[Found]]:
        """Search all the work that is there; yield it, and go on with what came meanwhile."""
        while work:
            numbers, segments = zip(*[work.popleft() for _ in range(len(work))], strict=True)
            found = self._search_all([*segments], lambda lines: None)
            yield list(zip(numbers, found, strict=True))

    def _search_all(self, work: list[Segment], report: Report) -> list[list[Hypothesis]]:
        """Search sentences; the results are in the order of the work."""
        if not work:
            return []
        found = self._search_to(max(segment.task.limit for segment in work), work, report)
        # A call has one limit for all: who went beyond their own are searched again.
        beyond: dict[int, list[int]] = defaultdict(list)
        for number, (segment, scored) in enumerate(zip(work, found, strict=True)):
            if any(len(ids) > segment.task.limit for ids, _ in scored):
                beyond[segment.task.limit].append(number)
        for limit, numbers in beyond.items():
            again = self._search_to(limit, [work[number] for number in numbers])
            for number, scored in zip(numbers, again, strict=True):
                found[number] = scored
        if self.search.rules != NO_RULES or any(segment.task.prefix for segment in work):
            found = self._with_log_p(work, found)
        return [self._in_order(scored)[: self.search.nbest] for scored in found]

    def _search_to(
        self, limit: int, work: list[Segment], report: Report = lambda lines: None
    ) -> list[list[Scored]]:
        """Return the hypotheses of each sentence up to a limit."""
        search = self.search
        prefixes = [self.codec.target.pieces(segment.task.prefix) for segment in work]
        results = self.engine.translate_batch(
            self._sources(segment.source for segment in work),
            prefixes if any(prefixes) else None,
            beam_size=search.beam,
            # With a length penalty, any that the beam holds may be the best.
            num_hypotheses=search.nbest if search.alpha == 0 else search.beam,
            length_penalty=0,
            no_repeat_ngram_size=search.rules.no_repeat,
            disable_unk=not search.rules.unknown,
            min_decoding_length=min(search.rules.min_length, limit),
            max_decoding_length=limit,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
            **self._batches,
        )
        found: list[list[Scored]] = [[] for _ in work]
        # The order in which CTranslate2 takes them, so that progress is steady.
        for number in sorted(range(len(work)), key=lambda number: -len(work[number].source)):
            one = results[number].result()
            ids = [[self._ids[piece] for piece in pieces] for pieces in one.hypotheses]
            found[number] = list(zip(ids, one.scores, strict=True))
            report(int(work[number].first))
        return found

    def _with_log_p(self, work: list[Segment], found: list[list[Scored]]) -> list[list[Scored]]:
        """Return hypotheses with log P of all their tokens.

        CTranslate2's own scores leave prefixes out, and what rules forbid does not count.
        """
        pairs = [
            (segment.source, ids)
            for segment, scored in zip(work, found, strict=True)
            for ids, _ in scored
        ]
        results = iter(
            self.engine.score_batch(
                self._sources(source for source, _ in pairs),
                [self.codec.target.pieces(without_end(ids)) for _, ids in pairs],
                **self._batches,
            )
        )
        # Each has log P of EOS at the end, whether the hypothesis has one or not.
        return [
            [(ids, sum(next(results).log_probs[: len(ids)])) for ids, _ in scored]
            for scored in found
        ]

    def _in_order(self, scored: list[Scored]) -> list[Hypothesis]:
        """Return hypotheses by our length penalty: the completed ones, then others."""
        hypotheses = [
            Hypothesis(
                without_end(ids),
                log_p / self.search.penalty(float(len(ids))),
                finished=ids[-1:] == [EOS],
            )
            for ids, log_p in scored
        ]
        return sorted(hypotheses, key=lambda each: (not each.finished, -each.score))

    def _align_pairs(self, pairs: list[Pair]) -> list[AlignedPair]:
        """Return the alignment of each pair, by the attention of CTranslate2."""
        results = self.engine.translate_batch(
            self._sources(source for source, _ in pairs),
            [self.codec.target.pieces(target[:-1]) for _, target in pairs],
            beam_size=1,
            max_decoding_length=max((len(target) for _, target in pairs), default=1),
            return_attention=True,
            **self._batches,
        )
        found = []
        for pair, one in zip(pairs, results, strict=True):
            weights_TS = np.zeros((len(pair[1]) - 1, len(pair[0])), dtype=np.float32)
            # It leaves out what looks at the EOS that it has added itself.
            for row, weights in zip(weights_TS, one.attention[0], strict=False):
                row[:-1] = weights
            found.append(align_words(self.codec, pair, weights_TS))
        return found

    @property
    def _batches(self) -> dict[str, Any]:
        """How a call is cut into batches, of which each worker takes one at a time."""
        tokens = tokens_at_once(self.batch_tokens, self.search.width)
        return {"max_batch_size": tokens, "batch_type": "tokens", "max_input_length": 0}

    def _sources(self, sources: Iterable[list[int]]) -> list[list[str]]:
        # CTranslate2 adds EOS itself.
        return [self.codec.source.pieces(ids[:-1]) for ids in sources]

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The ids of target pieces, among which padding is not."""
        pieces = self.codec.target.pieces(range(PAD + 1, len(self.codec.target)))
        return {piece: number for number, piece in enumerate(pieces, start=PAD + 1)}


def without_end(ids: list[int]) -> list[int]:
    """Return ids without the EOS that they may end in."""
    return ids[:-1] if ids[-1:] == [EOS] else ids
