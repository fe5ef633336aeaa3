"""Lines of text in, translations out: in order, as soon as they are ready."""

import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from aiayn.data.batch import pad
from aiayn.data.codec import Codec
from aiayn.data.marian_vocabulary import LANGUAGE
from aiayn.data.trees import delinearize, write
from aiayn.data.vocabulary import EOS, SPACE
from aiayn.data.workers import Workers
from aiayn.device import free_memory, is_out_of_memory
from aiayn.errors import DataError, MemoryTooSmall
from aiayn.generation.align import Alignment, Pair, align, join_alignments
from aiayn.generation.decoder import CachedDecoder, Ensemble
from aiayn.generation.search import BeamSearch, Hypothesis, Search, Step, Task, round_up
from aiayn.model.transformer import Transformer

WINDOW = 512
"""Lines for each worker that are looked at together, so that sentences of like length share a
batch; at least twice as many."""
PAUSE, PATIENCE = 0.02, 0.25
"""Seconds without a new line, and since the first one, after which a live pipe gets answers."""
USUAL_BEAM = 4
SENTENCE_ENDS = (".", "!", "?", ";", ":")


Item = TypeVar("Item")
Report = Callable[[int], None]


class Line(NamedTuple):
    """What comes in."""

    text: str
    prefix: str = ""
    """What the translation has to begin with."""
    raw: bytes = b""
    """The bytes that it was read from."""


class Piece(NamedTuple):
    """A line, or a part of one that is very long."""

    source: list[int]
    """Ids that end in EOS."""
    task: Task
    first: bool
    """Whether a line begins here."""


class Output(NamedTuple):
    """One way to translate a line; a line that is cut into pieces joins those of its pieces."""

    text: str
    score: float
    """log P(Y | X) / lp(Y), summed over pieces."""
    finished: bool
    """Whether EOS came before the length limit."""
    pairs: list[Pair]
    """Source and target ids of each piece."""
    alignment: Alignment | None = None
    """Where it was asked for."""


class Translation(NamedTuple):
    """What became of one line; an empty line has one empty output."""

    outputs: list[Output]
    """The best first."""
    pieces: int
    """Into how many the line was cut because it is very long; 0 for an empty line."""
    repairs: dict[str, int]
    """Parsing: how often the best symbols were no tree over the words, by kind."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.outputs[0].text


@dataclass(frozen=True)
class Translator:
    """One model, or several that decide together, with all that translating needs."""

    models: Sequence[Transformer]
    codec: Codec
    search: Search = field(default_factory=BeamSearch)
    extra_length: int = 50
    batch_tokens: int = 4096
    """Padded source tokens that go through the network at once."""
    workers: int = 1
    """Processes that search batches side by side on a CPU, each with one thread."""
    longest: int = 256
    """Subwords that are translated in one piece; a longer line is translated piece by piece."""
    aligns: bool = False
    """Whether to tell which source word each target word comes from."""

    def translate(self, texts: Iterable[str]) -> Iterator[Translation]:
        """Yield one translation a line, in the order of the lines, as soon as it is there."""
        for window in windows(texts, self.window):
            yield from self.translate_window([Line(text) for text in window])

    def translate_window(
        self, lines: Sequence[Line], report: Report = lambda lines: None
    ) -> list[Translation]:
        """Translate lines together; `report` hears how many more are done."""
        texts = [line.text.strip() for line in lines]
        pieces = [self._cut(ids) for ids in self.codec.encode_source_batch(texts)]
        report(sum(not of_line for of_line in pieces))
        work = [
            self._piece(ids, line.prefix if number == 0 else "", first=number == 0)
            for line, of_line in zip(lines, pieces, strict=True)
            for number, ids in enumerate(of_line)
        ]
        found = iter(self._search_all(work, report))
        joined = [
            self._join(text, of_line, [next(found) for _ in of_line])
            for text, of_line in zip(texts, pieces, strict=True)
        ]
        return self._align(joined) if self.aligns else joined

    @property
    def window(self) -> int:
        """Lines that are looked at together."""
        return WINDOW * max(2, self.workers)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self.models[0].parameters()).device

    def _cut(self, ids: list[int]) -> list[list[int]]:
        most = min([self.longest, *(model.longest or self.longest for model in self.models)])
        spell = self.codec.source.pieces
        pieces = cut(ids, most, spell)
        if len(pieces) > 1 and self._opens_with_language(ids):
            return [[ids[0], *piece] for piece in cut(ids[1:], most - 1, spell)]
        return pieces

    def _opens_with_language(self, ids: list[int]) -> bool:
        (first,) = self.codec.source.pieces(ids[:1])
        return LANGUAGE.fullmatch(first) is not None

    def _piece(self, source: list[int], beginning: str, *, first: bool) -> Piece:
        prefix = self.codec.encode_target(beginning.strip())[:-1] if beginning.strip() else []
        # Differs from the paper, whose code took the longest input of the batch: the limit is
        # that of each sentence by itself, so that it does not depend on company.
        limit = max(len(source) - 1, len(prefix) + 1) + self.extra_length
        most = min([limit, *(model.longest or limit for model in self.models)])
        if len(prefix) >= most:
            raise DataError(
                f"the beginning {beginning[:40]!r} has {len(prefix):,} tokens, and the model"
                f" has {most:,} positions for an output and its end",
                fix="give a shorter beginning in its line",
            )
        seed = zlib.crc32(np.array(source).tobytes())
        return Piece(source, Task(most, tuple(prefix), seed), first)

    def _join(
        self, line: str, sources: list[list[int]], found: list[list[Hypothesis]]
    ) -> Translation:
        """Put the pieces of a line together, the best with the best and so on."""
        if not all(found):
            raise DataError(
                f"no translation of {line[:40]!r}: the model's weights are not numbers",
                fix="use an earlier checkpoint of the run",
            )
        ranks = range(max((len(hypotheses) for hypotheses in found), default=1))
        chosen = [
            [of_piece[min(rank, len(of_piece) - 1)] for of_piece in found] for rank in ranks
        ]
        if sources and self.codec.settings.task == "parsing":
            return self._parse(line, sources, chosen)
        outputs = [self._output(sources, parts) for parts in chosen]
        return Translation(outputs, len(sources), {})

    def _output(self, sources: list[list[int]], parts: list[Hypothesis]) -> Output:
        return Output(
            text=" ".join(self.codec.decode_target(part.ids) for part in parts),
            score=sum((part.score for part in parts), start=0.0),
            finished=all(part.finished for part in parts),
            pairs=[(ids, [*part.ids, EOS]) for ids, part in zip(sources, parts, strict=True)],
        )

    def _parse(
        self, line: str, sources: list[list[int]], chosen: list[list[Hypothesis]]
    ) -> Translation:
        """Return trees over the words of the line; symbols that are none are repaired."""
        tags = set(self.codec.settings.tags.split())
        plain = [self._output(sources, parts) for parts in chosen]
        trees = [delinearize(line.split(), output.text.split(), tags) for output in plain]
        outputs = [
            output._replace(text=write(repaired.tree))
            for output, repaired in zip(plain, trees, strict=True)
        ]
        return Translation(outputs, len(sources), dict(trees[0].repairs))

    def _align(self, translations: list[Translation]) -> list[Translation]:
        """Add the alignments of all outputs."""
        pairs = [
            pair for one in translations for output in one.outputs for pair in output.pairs
        ]
        found = iter(align(self.models, self.codec, pairs))

        def aligned(output: Output) -> Output:
            pieces = [next(found) for _ in output.pairs]
            again = any(self._opens_with_language(source) for source, _ in output.pairs)
            return output._replace(alignment=join_alignments(pieces, again=int(again)))

        return [
            one._replace(outputs=[aligned(output) for output in one.outputs])
            for one in translations
        ]

    def _search_all(self, work: list[Piece], report: Report) -> list[list[Hypothesis]]:
        """Search in batches of like length; the results are in the order of the work."""
        found: list[list[Hypothesis]] = [[] for _ in work]
        batches = self._batches([len(piece.source) for piece in work])
        pieces = ([work[i] for i in batch] for batch in batches)
        side_by_side = self.workers > 1 and len(batches) > 1
        results = self._processes.map(pieces) if side_by_side else map(self._search, pieces)
        for batch, of_batch in zip(batches, results, strict=True):
            for place, hypotheses in zip(batch, of_batch, strict=True):
                found[place] = hypotheses
            report(sum(work[i].first for i in batch))
        return found

    @cached_property
    def _processes(self) -> Workers:
        """Copies of this process with one thread each, which share its memory."""
        return Workers(self._search_with_one_thread, self.workers, start="fork")

    def close(self) -> None:
        """End the processes that search, if there are any."""
        if "_processes" in vars(self):
            self._processes.close()

    def _search_with_one_thread(self, work: list[Piece]) -> list[list[Hypothesis]]:
        torch.set_num_threads(1)
        return self._search(work)

    def _batches(self, lengths: list[int]) -> list[list[int]]:
        """Group places by like length, the longest first."""
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        batches = []
        while order:
            # A wide beam takes memory as more sentences would.
            narrower = max(1, self.search.width // USUAL_BEAM)
            rows = round_up(max(1, self.batch_tokens // lengths[order[0]] // narrower))
            batches.append(order[:rows])
            order = order[rows:]
        return batches

    def _search(self, work: list[Piece]) -> list[list[Hypothesis]]:
        """Search at once, or half by half where memory does not suffice."""
        try:
            return self._search_at_once(work)
        except (RuntimeError, MemoryError) as problem:
            if not is_out_of_memory(problem):
                raise
        # Not above: while the exception is alive, so is what the failed attempt has computed.
        free_memory(self.device)
        if len(work) == 1:
            raise MemoryTooSmall(
                f"a sentence of {len(work[0].source):,} tokens does not fit in memory by itself"
                f" with {self.search.width} hypotheses",
                fix="pass a smaller --beam; or smaller --threads and --batch-tokens, for what"
                " is searched beside it",
            )
        half = len(work) // 2
        return self._search(work[:half]) + self._search(work[half:])

    @torch.inference_mode()
    def _search_at_once(self, work: list[Piece]) -> list[list[Hypothesis]]:
        source_BS = pad([piece.source for piece in work]).to(self.device)
        steps: list[Step] = [CachedDecoder(model, source_BS) for model in self.models]
        step = steps[0] if len(steps) == 1 else Ensemble(steps)
        return self.search(step, [piece.task for piece in work], self.device)


def cut(
    ids: list[int], longest: int, spell: Callable[[list[int]], list[str]]
) -> list[list[int]]:
    """Cut ids that end in EOS into pieces that end in EOS and have at most `longest` ids.

    A cut is made after a sentence where one ends in the second half of a piece, else before a
    word, else anywhere.
    """
    most, end = max(longest - 1, 1), len(ids) - 1
    pieces, start = [], 0
    while start < end:
        stop = min(start + most, end)
        if stop < end:
            stop = start + (_place_to_cut(spell(ids[start : stop + 1])) or most)
        pieces.append([*ids[start:stop], EOS])
        start = stop
    return pieces


def _place_to_cut(subwords: list[str]) -> int:
    """Return the best place before the last subword; 0: there is none."""
    words = [i for i, subword in enumerate(subwords) if i and subword.startswith(SPACE)]
    ends = [
        i for i in words if i > len(subwords) // 2 and subwords[i - 1].endswith(SENTENCE_ENDS)
    ]
    return (ends or words or [0])[-1]


def windows(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield what has come in since the last time, at most `most` items at once.

    A thread reads ahead, so that a live pipe is answered without waiting for its end.
    """
    waiting: queue.Queue[list[Item] | BaseException | None] = queue.Queue(2 * most)
    threading.Thread(target=_read, args=(items, waiting.put), daemon=True).start()
    while isinstance(came := waiting.get(), list):
        window, begin = came, time.monotonic()
        with suppress(queue.Empty):
            while len(window) < most:
                left = begin + PATIENCE - time.monotonic()
                came = (
                    waiting.get(timeout=min(PAUSE, left)) if left > 0 else waiting.get_nowait()
                )
                if not isinstance(came, list):
                    break
                window += came
        yield window
        if not isinstance(came, list):
            break
    if came is not None:
        raise came


def _read(
    items: Iterable[Item], put: Callable[[list[Item] | BaseException | None], None]
) -> None:
    """Hand items on, then None or whatever went wrong."""
    try:
        for item in items:
            put([item])
        put(None)
    except BaseException as problem:
        put(problem)
