"""Word alignments: which source word each target word comes from.

S, T source and target length.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiayn.data.case_markup import restore_capitals
from aiayn.data.codec import Codec
from aiayn.data.vocabulary import Vocabulary
from aiayn.data.word_links import words_of

# Source and target ids, each ending in EOS.
Pair = tuple[list[int], list[int]]
# (source word, target word) for each target word, counted from 0.
Alignment = list[tuple[int, int]]


class AlignedPair(NamedTuple):
    """The word alignment of a pair."""

    links: Alignment
    source_words: int
    target_words: int


def align_words(codec: Codec, pair: Pair, weights_TS: NDArray[np.float32]) -> AlignedPair:
    """Return the source word that each target word looks at most."""
    source_of, target_of = (
        words_of(vocabulary, ids[:-1])
        for vocabulary, ids in zip((codec.source, codec.target), pair, strict=True)
    )
    if not source_of or not target_of:
        return AlignedPair([], len(set(source_of)), len(set(target_of)))
    by_word = np.zeros((target_of[-1] + 1, source_of[-1] + 1))
    # add.at, not +=: several subwords of a word add to the same cell.
    np.add.at(by_word, np.ix_(target_of, source_of), weights_TS[:, :-1])
    links = [(int(row.argmax()), word) for word, row in enumerate(by_word)]
    return AlignedPair(links, by_word.shape[1], by_word.shape[0])


def join_alignments(pieces: Iterable[AlignedPair], repeated: int = 0) -> Alignment:
    """Join the pieces of a line, which begin with the same `repeated` source words."""
    links: Alignment = []
    source_start = target_start = 0
    for piece in pieces:
        links += [
            (source if source < repeated else source + source_start, target + target_start)
            for source, target in piece.links
        ]
        source_start += piece.source_words - repeated
        target_start += piece.target_words
    return links


def without_tag(links: Alignment) -> Alignment:
    """Return links that count the words of the source alone, where we added a tag before it."""
    return [(source - 1, target) for source, target in links if source]


def spell_words(vocabulary: Vocabulary, ids: list[int], *, marked: bool = False) -> list[str]:
    """Return the words that alignments count, as text; marks of capitals are undone."""
    found: dict[int, list[int]] = {}
    for token, word in zip(ids, words_of(vocabulary, ids), strict=True):
        found.setdefault(word, []).append(token)
    texts = (vocabulary.decode(tokens).strip() for tokens in found.values())
    return [restore_capitals(text) if marked else text for text in texts]
