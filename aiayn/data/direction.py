"""Whether held-out text runs in the direction of the training text, told by its words."""

from collections.abc import Iterable, Sequence
from itertools import chain

Side = Sequence[str]
# Of the words of a language, nearly all occur in other text of it, and about a third, names and
# punctuation, in text of another: the two sides together then differ by more than 1.
CLEARLY_MORE = 0.5


def is_reversed(training: tuple[Side, Side], held_out: tuple[Side, Side]) -> bool:
    """Whether each side of the held-out text has the words of the other training side."""
    known = [set(_words(side)) for side in training]
    straight, crossed = (
        sum(_share(vocabulary, side) for vocabulary, side in zip(order, held_out, strict=True))
        for order in (known, known[::-1])
    )
    return crossed > straight + CLEARLY_MORE


def _words(lines: Iterable[str]) -> list[str]:
    return [*chain.from_iterable(line.split() for line in lines)]


def _share(vocabulary: set[str], lines: Side) -> float:
    """Return the share of words that a vocabulary has."""
    words = _words(lines)
    return sum(word in vocabulary for word in words) / max(1, len(words))
