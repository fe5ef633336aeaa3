"""Word alignments beside the ids of a shard, and what they say about subwords.

NAME.align holds n + 1 offsets (int64), counted in links, of the n pairs of shard NAME; then
their links, the numbers of a source and of a target word each (uint32). Both are little-endian.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aiayn.data.atomic import atomic_write, file_sha256
from aiayn.data.codec import Codec
from aiayn.data.language_tags import tag_length
from aiayn.data.pharaoh import parse_links
from aiayn.data.shards import ALIGN, OFFSET, REPAIR, Guide, IdsOfPair, Shard
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.errors import DataError

NUMBER = np.dtype("<u4")

# Source and target word of each link, (n, 2).
LinkNumbers = NDArray[np.unsignedinteger[Any]]


def words_of(vocabulary: Vocabulary, ids: Sequence[int]) -> list[int]:
    """Return the number of the word that each subword belongs to."""
    words, inside = -1, False
    numbers = []
    for piece in vocabulary.marked_pieces(ids):
        inside = inside and not piece.startswith(SPACE) and vocabulary.kind != "word"
        if not inside and piece.strip(SPACE):
            words, inside = words + 1, True
        numbers.append(max(words, 0))
    return numbers


def count_words(vocabulary: Vocabulary, ids: Sequence[int]) -> int:
    """Return how many words a sentence has, which ends in EOS."""
    return max(words_of(vocabulary, ids[:-1]), default=-1) + 1


def read_links(
    line: str, name: str, number: int, codec: Codec, pair: tuple[list[int], list[int]]
) -> LinkNumbers:
    """Return the links of a pair of ids; an error names the line of the file `name`.

    The language tag before a source is none of its words for who aligned it.
    """
    links = sorted(parse_links(line, name, number).possible)
    vocabularies = (codec.source, codec.target)
    counts = [count_words(v, ids) for v, ids in zip(vocabularies, pair, strict=True)]
    tags = int(tag_length(pair[0], codec.source) > 0)
    counts[0] -= tags
    for link in links:
        for side, word, words in zip(("source", "target"), link, counts, strict=True):
            if word >= words:
                raise DataError(
                    f"{name}, line {number:,}: the link {link[0]}-{link[1]} names {side} word"
                    f" {word}, and the {side} has {words:,}, counted from 0",
                    fix="align this text; words are what spaces separate after --pretokenize",
                )
    return np.array([(source + tags, target) for source, target in links], NUMBER).reshape(
        -1, 2
    )


def write_links(path: Path, links: Sequence[LinkNumbers]) -> str:
    """Write the links of all pairs of a shard; return the checksum of the file."""
    offsets = np.cumsum([0, *map(len, links)], dtype=OFFSET)
    with atomic_write(path) as file:
        file.write(offsets.tobytes())
        for of_pair in links:
            file.write(of_pair.tobytes())
    return file_sha256(path)


class WordLinks:
    """The links of all pairs of a corpus; they stay on disk until asked for."""

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._shards = [_map(folder / f"{s.name}{ALIGN}", s.pairs) for s in shards]
        self._starts = [0, *np.cumsum([shard.pairs for shard in shards]).tolist()]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the links of several corpora, one after the other."""
        whole = cls(Path(), ())
        whole._shards = [shard for part in parts for shard in part._shards]
        whole._starts = [0, *accumulate(len(offsets) - 1 for offsets, _ in whole._shards)]
        return whole

    def of_pair(self, index: int) -> LinkNumbers:
        """Return the links of a pair."""
        shard = bisect_right(self._starts, index) - 1
        offsets, links = self._shards[shard]
        begin, end = offsets[index - self._starts[shard] :][:2].tolist()
        return links[begin:end]


def _map(path: Path, pairs: int) -> tuple[NDArray[np.int64], LinkNumbers]:
    """Map a file of links into memory."""
    found = path.stat().st_size if path.is_file() else 0
    first = (pairs + 1) * OFFSET.itemsize
    if found >= first:
        offsets = np.memmap(path, OFFSET, mode="r", shape=(pairs + 1,))
        if found == first + int(offsets[-1]) * 2 * NUMBER.itemsize:
            # An empty rest cannot be mapped.
            rest = np.empty(0, NUMBER)
            if found > first:
                rest = np.asarray(np.memmap(path, NUMBER, mode="r", offset=first))
            return np.asarray(offsets), rest.reshape(-1, 2)
    raise DataError(f"{path} is missing, or is not what preprocess wrote", fix=REPAIR)


class Guides:
    """The guides of the pairs of a corpus, in whatever subwords they come."""

    def __init__(self, codec: Codec, links: WordLinks) -> None:
        self.codec, self.links = codec, links

    def __call__(self, number: int, pair: IdsOfPair) -> Guide:
        """Return the guide of a pair by its number in the corpus."""
        return guide(self.codec, pair, self.links.of_pair(number))


def guide(codec: Codec, pair: IdsOfPair, links: LinkNumbers) -> Guide:
    """Return where each target token of a pair should look.

    A subword of a word that is linked looks at all subwords of the words that it is linked to,
    equally. What is not linked, and the end of the sentence, has no say.
    """
    source_of, target_of = (
        np.array([*words_of(vocabulary, ids[:-1].tolist()), -1])
        for vocabulary, ids in zip((codec.source, codec.target), pair, strict=True)
    )
    linked = np.zeros((target_of.max() + 2, source_of.max() + 2), np.float32)
    # Text that was changed after it was aligned may have fewer words.
    fits = (links[:, 0] < linked.shape[1] - 1) & (links[:, 1] < linked.shape[0] - 1)
    linked[links[fits, 1], links[fits, 0]] = 1
    # The last row and column, which -1 names, are those of EOS: nothing is linked to it.
    rows = linked[np.ix_(target_of, source_of)]
    total = rows.sum(axis=1, keepdims=True)
    found: Guide = rows / np.maximum(total, 1)
    return found


def pad_guides(guides: Sequence[Guide]) -> NDArray[np.float32]:
    """Return guides as one rectangle."""
    sizes = [max(each.shape[side] for each in guides) for side in (0, 1)]
    rectangle = np.zeros((len(guides), *sizes), np.float32)
    for each, place in zip(guides, rectangle, strict=True):
        place[: each.shape[0], : each.shape[1]] = each
    return rectangle
