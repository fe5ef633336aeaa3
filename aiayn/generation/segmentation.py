"""Very long lines: cut into segments that are translated one by one and joined again."""

from collections.abc import Callable
from typing import NamedTuple

from aiayn.data.case_markup import MARK
from aiayn.data.language_tags import tag_length
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.generation.search import Task
from aiayn.special_ids import EOS

# Differs from the paper, which is silent about sentences that are too long.
SENTENCE_ENDS = (".", "!", "?", ";", ":")


class Segment(NamedTuple):
    """A line, or a part of one that is very long."""

    source: list[int]
    """Ids that end in EOS."""
    task: Task
    first: bool
    """Whether a line begins here."""


def segment(ids: list[int], longest: int, vocabulary: Vocabulary) -> list[list[int]]:
    """Cut the ids of a line; each segment begins with the language tag that the line has."""
    segments = cut(ids, longest, vocabulary.marked_pieces)
    if len(segments) > 1 and (tag := tag_length(ids, vocabulary)):
        rest = cut(ids[tag:], longest - tag, vocabulary.marked_pieces)
        return [[*ids[:tag], *each] for each in rest]
    return segments


def cut(
    ids: list[int], longest: int, spell: Callable[[list[int]], list[str]]
) -> list[list[int]]:
    """Cut ids that end in EOS into segments that end in EOS and have at most `longest` ids.

    A cut is made after a sentence where one ends in the second half of a segment, else before a
    word, else anywhere.
    """
    most, end = max(longest - 1, 1), len(ids) - 1
    segments, start = [], 0
    while start < end:
        stop = min(start + most, end)
        if stop < end:
            stop = start + (_where_to_cut(spell(ids[start : stop + 1])) or most)
        segments.append([*ids[start:stop], EOS])
        start = stop
    return segments


def _where_to_cut(subwords: list[str]) -> int:
    """Return the best index before the last subword; 0: there is none."""
    words = [i for i, subword in enumerate(subwords) if i and subword.startswith(SPACE)]
    ends = [
        i
        for i in words
        # The mark of a word in capitals comes last.
        if i > len(subwords) // 2
        and subwords[i - 1 - (subwords[i - 1] == MARK)].endswith(SENTENCE_ENDS)
    ]
    return (ends or words or [0])[-1]
