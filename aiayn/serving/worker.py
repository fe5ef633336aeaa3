"""What searches: it owns the models, takes lines as they come in and answers as they end.

Lines of all clients that want the same search share its steps, through the engine of
`aiayn generate`: a line that comes in joins those that are searched at the next step.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import count
from queue import SimpleQueue
from typing import NamedTuple

from aiayn import console
from aiayn.errors import UsageError
from aiayn.generation.engine import NumberedSegment
from aiayn.generation.search import BeamSearch, Hypothesis
from aiayn.generation.segmentation import Segment
from aiayn.generation.streaming import Line
from aiayn.generation.translator import Translator
from aiayn.generation.word_alignment import Alignment
from aiayn.library import Model
from aiayn.memory import is_out_of_memory
from aiayn.serving.languages import LanguagePair

# Subwords of either side whose attention is shown: a page grows with the square.
LONGEST_SHOWN = 128


class Served(NamedTuple):
    """A model that is served."""

    model: Model
    translator: Translator
    """Translates with any search that it is given."""


class Wanted(NamedTuple):
    """A way to translate; lines that want the same one are searched together."""

    pair: LanguagePair
    nbest: int = 1
    aligns: bool = False


class LineJob(NamedTuple):
    """A line to translate."""

    number: int
    wanted: Wanted
    text: str


class AttentionJob(NamedTuple):
    """A sentence pair to draw."""

    number: int
    pair: LanguagePair
    source: str
    target: str | None


class AlignedWords(NamedTuple):
    """The words of a line and of its translation, and which belong together."""

    source: list[str]
    target: list[str]
    pairs: Alignment


class TranslatedLine(NamedTuple):
    """What a line gives; the best comes first."""

    texts: list[str]
    scores: list[float]
    words: AlignedWords | None


class Failure(NamedTuple):
    """A job that could not be done."""

    status: HTTPStatus
    message: str


Job = LineJob | AttentionJob
Result = TranslatedLine | str | Failure
Inbox = SimpleQueue[Job | None]
Reply = Callable[[int, Result], None]


@dataclass(slots=True)
class OpenLine:
    """A line whose segments are searched."""

    job: LineJob
    segments: list[Segment]
    found: list[list[Hypothesis]]
    missing: int


class SharedSearch:
    """The lines of all clients that are searched together."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.work: deque[NumberedSegment] = deque()
        self.steps = translator.steps(self.work)
        self.owners: dict[int, tuple[OpenLine, int]] = {}
        """The line that a segment is of, and its number there, by the number in the search."""
        self.numbers = count()

    @property
    def jobs(self) -> list[LineJob]:
        """What is not done yet."""
        return list({line.job.number: line.job for line, _ in self.owners.values()}.values())

    def add(self, job: LineJob) -> OpenLine | None:
        """Begin a line; return it if it has nothing to search."""
        (segments,) = self.translator.cut([Line(job.text)])
        line = OpenLine(job, segments, [[] for _ in segments], len(segments))
        for place, segment in enumerate(segments):
            number = next(self.numbers)
            self.owners[number] = line, place
            self.work.append((number, segment))
        return None if segments else line

    def step(self) -> list[OpenLine]:
        """Take a step; return the lines that have ended with it."""
        ended = []
        for number, hypotheses in next(self.steps):
            line, place = self.owners.pop(number)
            line.found[place] = hypotheses
            line.missing -= 1
            if not line.missing:
                ended.append(line)
        return ended

    def join(self, line: OpenLine) -> TranslatedLine:
        """Return the result of a line that has ended."""
        lines = [Line(line.job.text)]
        (translation,) = self.translator.join(lines, [line.segments], [line.found])
        outputs, best = translation.outputs, translation.outputs[0]
        words = None
        if best.alignment is not None:
            words = AlignedWords(*self.translator.words_of(best), best.alignment)
        return TranslatedLine([o.text for o in outputs], [o.score for o in outputs], words)


class Worker:
    """Does jobs with the models, until it is told to end."""

    def __init__(
        self,
        models: dict[LanguagePair, Served],
        beam: int | None,
        alpha: float | None,
        reply: Reply,
    ) -> None:
        self.models, self.beam, self.alpha, self.reply = models, beam, alpha, reply
        self.searches: dict[Wanted, SharedSearch] = {}
        self.translators: dict[Wanted, Translator] = {}

    def run(self, inbox: Inbox) -> None:
        """Do what comes in; after None, what has come in before it, and end."""
        ended = False
        while self.searches or not ended:
            # With nothing to search, there is time to wait.
            while not ended and (not self.searches or not inbox.empty()):
                job = inbox.get()
                if job is None:
                    ended = True
                else:
                    self.begin(job)
            for wanted in list(self.searches):
                self.step(wanted)

    def begin(self, job: Job) -> None:
        """Draw attention at once, or add a line to those with which it can share steps."""
        with self.answering(job):
            if isinstance(job, AttentionJob):
                self.reply(job.number, self.draw(job))
                return
            search = self.searches.get(job.wanted) or SharedSearch(self.translator(job.wanted))
            if line := search.add(job):
                self.reply(job.number, search.join(line))
            else:
                self.searches[job.wanted] = search

    def step(self, wanted: Wanted) -> None:
        """Take a step with the lines that want the same; when none is left, forget them."""
        search = self.searches[wanted]
        try:
            ended = search.step()
        except Exception as problem:
            # The search is lost, and so is all that was in it.
            failure = explain(problem)
            for job in search.jobs:
                self.reply(job.number, failure)
            del self.searches[wanted]
            return
        for line in ended:
            with self.answering(line.job):
                self.reply(line.job.number, search.join(line))
        if not search.owners:
            del self.searches[wanted]

    @contextmanager
    def answering(self, job: Job) -> Iterator[None]:
        """Let what goes wrong in the block be the answer to a job, and go on."""
        try:
            yield
        except Exception as problem:
            self.reply(job.number, explain(problem))

    def translator(self, wanted: Wanted) -> Translator:
        """Return what translates in this way."""
        if wanted not in self.translators:
            model, any_search = self.models[wanted.pair]
            beam = None if self.beam is None else max(self.beam, wanted.nbest)
            search = BeamSearch.of(
                model.decode, beam=beam, alpha=self.alpha, nbest=wanted.nbest
            )
            translator = replace(any_search, search=search, aligns=wanted.aligns)
            self.translators[wanted] = translator
        return self.translators[wanted]

    def draw(self, job: AttentionJob) -> str:
        """Return the attention page of a sentence pair."""
        model, translator = self.models[job.pair]
        sides = [model.codec.encode_source(job.source)]
        if job.target is not None:
            sides.append(model.codec.encode_target(job.target))
        if max(map(len, sides)) > LONGEST_SHOWN:
            raise UsageError(
                f"the attention of more than {LONGEST_SHOWN} subwords is not drawn"
            )
        to = translator.tag or None
        return model.attention(job.source, job.target, to=to).html


def explain(problem: Exception) -> Failure:
    """Return what a client may know of a problem; the log has the rest."""
    if isinstance(problem, UsageError):
        return Failure(HTTPStatus.BAD_REQUEST, problem.message)
    console.warn("".join(traceback.format_exception(problem)).rstrip())
    if is_out_of_memory(problem):
        return Failure(HTTPStatus.SERVICE_UNAVAILABLE, "there is not enough memory")
    return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "something is wrong in the server")
