"""Lines of text to translations: encode, search in batches of similar length, decode."""

import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.data.codec import Codec
from aiayn.data.language_tags import tag_length, tag_line
from aiayn.data.trees import delinearize, write
from aiayn.data.workers import Workers
from aiayn.errors import DataError, MemoryTooSmall
from aiayn.generation.engine import ROWS, Found, NumberedSegment
from aiayn.generation.native_model import NativeModel
from aiayn.generation.search import DEFAULT, BeamSearch, Hypothesis, Search, Task
from aiayn.generation.segmentation import Segment, segment
from aiayn.generation.start_search import Network, start_search
from aiayn.generation.streaming import Line, windows
from aiayn.generation.tree_rule import TreeSymbols
from aiayn.generation.word_alignment import (
    AlignedPair,
    Alignment,
    Pair,
    join_alignments,
    spell_words,
    without_tag,
)
from aiayn.memory import if_it_fits
from aiayn.special_ids import EOS

# Lines that are sorted by length together, for each worker and at least two.
WINDOW = 1024
# Parts of them that each worker gets one after the other, unless they would have too few lines.
PARTS, SMALLEST_PART = 2, 16

Report = Callable[[int], None]
# The worth of each of some texts as a translation of the same line.
Utility = Callable[[list[str]], list[float]]


class Output(NamedTuple):
    """One translation of a line; of a line that was cut, its segments joined."""

    text: str
    score: float
    """log P(Y | X) / lp(Y), summed over segments; or its worth, where that ranks outputs."""
    finished: bool
    """Whether EOS came before the length limit."""
    pairs: list[Pair]
    """Source and target ids of each segment."""
    alignment: Alignment | None = None
    """Where it was asked for."""


class Translation(NamedTuple):
    """The result for one line; an empty line has one empty output."""

    outputs: list[Output]
    """The best first."""
    pieces: int
    """Segments into which the line was cut because it is very long; 0 for an empty line."""
    repairs: dict[str, int]
    """Parsing: how often the best symbols were not a tree over the words, by kind."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.outputs[0].text


@dataclass(frozen=True)
class Translator:
    """One model, or an ensemble, with all that translating needs."""

    models: Sequence[Network]
    codec: Codec
    search: Search = field(default_factory=BeamSearch)
    extra_length: int = DEFAULT.extra_length
    batch_tokens: int = DECODING_BATCH_TOKENS
    """Padded source tokens that go through the network at once."""
    rows: int = ROWS
    """Hypotheses of all sentences that grow at once."""
    workers: int = 1
    """Processes that translate in parallel on a CPU, each with one thread."""
    longest: int = DEFAULT.longest
    """Subwords that are translated at once; a longer line is cut into segments."""
    tag: str = ""
    """The language to translate to, put before each line; alignments do not count it."""
    aligns: bool = False
    """Whether to add the source word of each target word."""
    alignment_heads: Sequence[int] = ()
    """How many heads of each model tell it, from the first on; none given: all."""
    utility: Utility | None = None
    """Ranks the outputs of a line, in place of their probability."""
    keeps: int | None = None
    """Outputs of a line that stay; None: all."""

    def translate(self, texts: Iterable[str]) -> Iterator[Translation]:
        """Yield one translation a line, in order, as soon as it is ready."""
        for window in windows(texts, self.window):
            yield from self.translate_window([Line(text) for text in window])

    def translate_window(
        self, lines: Sequence[Line], report: Report = lambda lines: None
    ) -> list[Translation]:
        """Translate lines together; `report` is called with how many more are done."""
        parts = PARTS * self.workers
        if self.workers == 1 or len(lines) < SMALLEST_PART * parts:
            return self._translate(lines, report)
        # Each part has lines of all lengths, and takes about as long as another.
        order = by_length(lines)
        shares = [order[i::parts] for i in range(parts)]
        found: dict[int, Translation] = {}
        results = self._processes.map([lines[number] for number in share] for share in shares)
        for share, of_part in zip(shares, results, strict=True):
            found |= zip(share, of_part, strict=True)
            report(len(share))
        return [found[number] for number in range(len(lines))]

    def _translate(
        self, lines: Sequence[Line], report: Report = lambda lines: None
    ) -> list[Translation]:
        """Translate lines together in this process."""
        cut = self.cut(lines)
        report(sum(not segments for segments in cut))
        # Segments of all lines are searched together, and handed out again line by line.
        found = iter(self._search_all([each for segments in cut for each in segments], report))
        return self.join(lines, cut, [[next(found) for _ in segments] for segments in cut])

    def cut(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """Return what to search for each line: nothing if it is empty, else mostly one."""
        texts = [tag_line(self.tag, line.text.strip()) for line in lines]
        longest = min(self.longest, self.positions or self.longest)
        sources = [
            segment(ids, longest, self.codec.source)
            for ids in self.codec.encode_source_batch(texts)
        ]
        return [
            [
                self._segment(
                    ids,
                    line.prefix if number == 0 else "",
                    # Of a line that was cut, each segment is a tree over its own words.
                    text if len(of_line) == 1 else self.codec.source.decode(ids),
                    first=number == 0,
                )
                for number, ids in enumerate(of_line)
            ]
            for line, text, of_line in zip(lines, texts, sources, strict=True)
        ]

    def join(
        self,
        lines: Sequence[Line],
        cut: Sequence[list[Segment]],
        found: Sequence[list[list[Hypothesis]]],
    ) -> list[Translation]:
        """Return the translations of lines from what their segments gave."""
        joined = [
            self._join(line.text.strip(), segments, of_line)
            for line, segments, of_line in zip(lines, cut, found, strict=True)
        ]
        if self.utility:
            joined = [rank(translation, self.utility, self.keeps) for translation in joined]
        return self._align(joined) if self.aligns else joined

    @property
    def window(self) -> int:
        """Lines that are sorted by length together."""
        return WINDOW * max(2, self.workers)

    @property
    def positions(self) -> int | None:
        """The most tokens of an input or output; None: any number."""
        return min((m.longest for m in self.models if m.longest), default=None)

    def _segment(
        self, source: list[int], prefix_text: str, source_text: str, *, first: bool
    ) -> Segment:
        text = prefix_text.strip()
        prefix = self.codec.encode_target(text)[:-1] if text else []
        # Differs from the paper, whose code took the longest input of the batch: the limit is
        # that of each sentence by itself, so that it is batch-invariant.
        limit = max(len(source) - 1, len(prefix) + 1) + self.extra_length
        most = min(limit, self.positions or limit)
        if len(prefix) >= most:
            raise DataError(
                f"the prefix {prefix_text[:40]!r} has {len(prefix):,} tokens, and the model"
                f" has {most:,} positions for an output and its end",
                fix="give a shorter prefix in its line",
            )
        # Random numbers depend on the sentence and on nothing else.
        seed = zlib.crc32(np.array(source).tobytes())
        tree = self._symbols.task(source_text.split()) if self._symbols else None
        return Segment(source, Task(most, tuple(prefix), seed, tree), first)

    @cached_property
    def _symbols(self) -> TreeSymbols | None:
        """The symbols of trees, where the model parses."""
        settings = self.codec.settings
        if settings.task != "parsing" or not settings.tags:
            return None
        return TreeSymbols.of(self.codec.target, frozenset(settings.tags.split()))

    def _join(
        self, line: str, segments: list[Segment], found: list[list[Hypothesis]]
    ) -> Translation:
        """Join the segments of a line, the best with the best and so on."""
        if not all(found):
            raise DataError(
                f"no translation of {line[:40]!r}: the model's weights are not numbers",
                fix="use an earlier checkpoint of the run",
            )
        ranks = range(max((len(hypotheses) for hypotheses in found), default=1))
        chosen = [[each[min(rank, len(each) - 1)] for each in found] for rank in ranks]
        outputs = [
            Output(
                text=" ".join(
                    self.codec.decode_target(part.ids, forced=len(segment.task.prefix))
                    for segment, part in zip(segments, parts, strict=True)
                ),
                score=sum((part.score for part in parts), start=0.0),
                finished=all(part.finished for part in parts),
                pairs=[
                    (segment.source, [*part.ids, EOS])
                    for segment, part in zip(segments, parts, strict=True)
                ],
            )
            for parts in chosen
        ]
        if not segments or self.codec.settings.task != "parsing":
            return Translation(outputs, len(segments), {})
        # Symbols that are not a tree over the words of the line are repaired.
        tags = set(self.codec.settings.tags.split())
        trees = [delinearize(line.split(), output.text.split(), tags) for output in outputs]
        written = [
            output._replace(text=write(tree))
            for output, (tree, _) in zip(outputs, trees, strict=True)
        ]
        return Translation(written, len(segments), dict(trees[0][1]))

    def _align(self, translations: list[Translation]) -> list[Translation]:
        """Add the alignments of all outputs."""
        pairs = [
            pair for one in translations for output in one.outputs for pair in output.pairs
        ]
        found = iter(self._align_pairs(pairs))

        def aligned(output: Output) -> Output:
            segments = [next(found) for _ in output.pairs]
            tagged = any(tag_length(ids, self.codec.source) for ids, _ in output.pairs)
            links = join_alignments(segments, repeated=int(tagged))
            return output._replace(alignment=without_tag(links) if self.tag else links)

        return [
            one._replace(outputs=[aligned(output) for output in one.outputs])
            for one in translations
        ]

    def words_of(self, output: Output) -> tuple[list[str], list[str]]:
        """Return the words of the source and of the target that an alignment counts."""
        marked = self.codec.settings.case_markup
        source: list[str] = []
        target: list[str] = []
        for number, (source_ids, target_ids) in enumerate(output.pairs):
            # The language to translate to stands before each segment, and counts once, if the
            # line has it.
            repeated = tag_length(source_ids, self.codec.source) if number or self.tag else 0
            source += spell_words(self.codec.source, source_ids[repeated:-1], marked=marked)
            target += spell_words(self.codec.target, target_ids[:-1], marked=marked)
        return source, target

    def _align_pairs(self, pairs: list[Pair]) -> list[AlignedPair]:
        """Return the alignment of each pair of source and target."""
        from aiayn.generation.alignment import align

        models = [m.plain if isinstance(m, NativeModel) else m for m in self.models]
        heads = self.alignment_heads or [model.config.heads for model in models]
        return align(models, self.codec, pairs, heads)

    def _search_all(self, work: list[Segment], report: Report) -> list[list[Hypothesis]]:
        """Search sentences, the longest first; the results are in the order of the work."""
        found: list[list[Hypothesis]] = [[] for _ in work]
        order = sorted(range(len(work)), key=lambda number: -len(work[number].source))
        for number, hypotheses in self._run([(number, work[number]) for number in order]):
            found[number] = hypotheses
        report(sum(segment.first for segment in work))
        return found

    @cached_property
    def _processes(self) -> Workers:
        """Forks of this process with one thread each, which share its memory."""
        return Workers(self._translate_with_one_thread, self.workers, start="fork")

    def close(self) -> None:
        """End the processes that translate, if there are any."""
        if "_processes" in vars(self):
            self._processes.close()

    def _translate_with_one_thread(self, lines: list[Line]) -> list[Translation]:
        # Processes in parallel are faster than threads, whose products are too small.
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        return self._translate(lines)

    def _run(self, work: list[NumberedSegment]) -> list[Found]:
        """Search sentences; where memory does not suffice, fewer of them at once."""
        found: list[Found] = []
        most = len(work)
        while if_it_fits(partial(self._search, work, found, most)) is None:
            done = {number for number, _ in found}
            work = [each for each in work if each[0] not in done]
            if most == 1:
                raise MemoryTooSmall(
                    f"a sentence of {len(work[0][1].source):,} tokens does not fit in memory by"
                    f" itself with {self.search.width} hypotheses",
                    fix="pass a smaller --beam; or smaller --threads and --batch-tokens, for"
                    " what is searched beside it",
                )
            # Batch-invariant: fewer at once give what all would have.
            most = -(-most // 2)
        return found

    def _search(self, work: list[NumberedSegment], found: list[Found], most: int) -> bool:
        """Add what each sentence gives to `found`, in the order in which they end."""
        for ended in self.steps(deque(work), most):
            found += ended  # at once: if memory runs out later, what is found stays
        return True

    def steps(
        self, work: deque[NumberedSegment], most: int | None = None
    ) -> Iterator[list[Found]]:
        """Search so many sentences at once, at most; yield after each step what has ended.

        More may be added to the work between two steps.
        """
        return start_search(
            self.models,
            self.search,
            work,
            batch_tokens=self.batch_tokens,
            rows=self.rows,
            most=most,
            trees=self._symbols is not None,
        )


def by_length(lines: Sequence[Line]) -> list[int]:
    """Return the numbers of lines, the longest first."""
    return sorted(range(len(lines)), key=lambda number: -len(lines[number].text))


def rank(translation: Translation, utility: Utility, keeps: int | None) -> Translation:
    """Put the outputs of a line in the order of their worth, each text once.

    Among equals, what was more probable, or drawn first, comes first.
    """
    worth = utility([output.text for output in translation.outputs])
    outputs = zip(translation.outputs, worth, strict=True)
    once: dict[str, Output] = {}
    # A sorted list keeps the order of equals.
    for output, value in sorted(outputs, key=lambda pair: -pair[1]):
        once.setdefault(output.text, output._replace(score=value))
    return translation._replace(outputs=[*once.values()][:keeps])
