"""Continuous batching: new sentences take the places of finished ones while others go on.

So the products of a step have many rows, whenever the sentences around end. Each sentence gets
what it would get by itself.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from aiayn.generation.search import Hypothesis, SearchState
from aiayn.generation.segmentation import Segment
from aiayn.generation.step import Step, round_up

# Hypotheses that grow at once on a CPU: with more, products are hardly faster.
ROWS = 512
# New sentences are encoded together, as soon as this part of the places is free.
ADMITTED_PART = 8
USUAL_BEAM = 4

NumberedSegment = tuple[int, Segment]
Found = tuple[int, list[Hypothesis]]


@dataclass(frozen=True)
class Engine:
    """Searches sentences with one step function, once."""

    state: SearchState
    step: Step
    batch_tokens: int
    """Padded source tokens of all sentences that are searched at once."""
    most: int | None = None
    """Sentences that are searched at once, at most; None: any number."""
    rows: int = ROWS
    """Hypotheses that grow at once, at most."""

    def steps(self, work: deque[NumberedSegment]) -> Iterator[list[Found]]:
        """Yield after each step the hypotheses of what has ended with it, by its number.

        Sentences are taken from the left as places become free: of a text, the longest come
        first. More may be added to the work between two steps.
        """
        state = self.state
        active: list[NumberedSegment] = []
        while work or active:
            if new := self._take(work, active):
                active += new
                segments = [segment for _, segment in new]
                self.step.admit([segment.source for segment in segments])
                limit = max(segment.task.limit for segment in segments)
                state.reserve(self._room(active), limit)
                state.admit([segment.task for segment in segments])
            state.advance(self.step)
            found, (origins, places) = state.take_finished()
            ended = [(active[place][0], of_place) for place, of_place in found.items()]
            if found:
                for origin, place in zip(origins.tolist(), places.tolist(), strict=True):
                    active[place] = active[origin]
                del active[state.count :]
                self.step.move(origins, places, state.count)
            yield ended

    def _take(
        self, work: deque[NumberedSegment], active: list[NumberedSegment]
    ) -> list[NumberedSegment]:
        """Return the sentences to begin, for which there is room from now on."""
        new: list[NumberedSegment] = []
        longest = longest_source(active) if work else 0
        while work:
            longest = max(longest, len(work[0][1].source))
            free = self._places(longest) - len(active) - len(new)
            if free <= 0 or (
                active and not new and free * ADMITTED_PART < self._places(longest)
            ):
                break
            new.append(work.popleft())
        if new:
            limit = max(segment.task.limit for _, segment in active + new)
            self.step.reserve(self._room(active + new), longest_source(active + new), limit)
        return new

    def _room(self, sentences: list[NumberedSegment]) -> int:
        """Return how many places to have for these: hardly more than they need."""
        return min(self._places(longest_source(sentences)), round_up(len(sentences)))

    def _places(self, longest: int) -> int:
        """Return how many sentences are searched at once, of which the longest is so long."""
        width = self.state.width
        tokens = tokens_at_once(self.batch_tokens, width)
        places = max(1, min(tokens // longest, self.rows // width, self.most or self.rows))
        # Few sizes, an eighth apart: room is not made anew for each length.
        step = 1 << max(0, places.bit_length() - 3)
        return places // step * step


def longest_source(sentences: list[NumberedSegment]) -> int:
    """Return the length of the longest source; 0 if there is none."""
    return max((len(segment.source) for _, segment in sentences), default=0)


def tokens_at_once(batch_tokens: int, width: int) -> int:
    """Return the padded source tokens of a batch: a wide beam takes memory as more would."""
    return max(1, batch_tokens // max(1, width // USUAL_BEAM))
