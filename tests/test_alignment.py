"""Which source word a target word comes from: words of subwords, and the weights between."""

import numpy as np
import pytest
from random_models import random_model, vocabulary
from toy import sentences

from aiayn.checkpoint import load_model
from aiayn.data.codec import Codec
from aiayn.data.settings import CodecSettings
from aiayn.data.vocabulary import Vocabulary
from aiayn.generation.alignment import align
from aiayn.generation.search import BeamSearch
from aiayn.generation.translator import Translator
from aiayn.generation.word_alignment import AlignedPair, align_words, join_alignments, words_of
from aiayn.model_path import find_model
from aiayn.special_ids import EOS, UNK

WORDS = Codec(vocabulary("word"), vocabulary("word"), CodecSettings(subword="word"))


class Pieces(Vocabulary):
    """A vocabulary whose pieces are told, to say what SentencePiece rarely does."""

    kind = "bpe"

    def __init__(self, *pieces: str) -> None:
        self.named = [piece.replace("_", "\u2581") for piece in pieces]

    def pieces(self, ids):
        return [self.named[i] for i in ids]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("_a b _c", [0, 0, 1]),
        ("_ a _b _ c", [0, 0, 1, 1, 2]),
        ("_a _ _ _b", [0, 0, 0, 1]),
        ("_ _ _a", [0, 0, 0]),
        ("__a b", [0, 0]),
        ("_", [0]),
        ("<0xE4> <0xBD> _b", [0, 0, 1]),
    ],
)
def test_a_word_begins_after_a_space(pieces, words):
    found = Pieces(*pieces.split())
    assert words_of(found, list(range(len(words)))) == words


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
@pytest.mark.parametrize("space", [" ", "  "])
def test_there_are_as_many_words_as_the_text_has(kind, space):
    for line in sentences(20, seed=3):
        text = line.replace(" ", space) + f"{space}xyz"
        numbers = words_of(vocabulary(kind), vocabulary(kind).encode_batch([text])[0][:-1])
        assert sorted(set(numbers)) == list(range(len(text.split())))


def test_whole_words_are_a_word_each_known_or_not():
    assert words_of(vocabulary("word"), [5, UNK, 6, 5]) == [0, 1, 2, 3]
    assert words_of(vocabulary("word"), []) == []


def test_a_target_word_goes_with_the_source_word_it_looks_at_most():
    # The end of the source draws most weight, and is no word.
    weights = np.array([[0.1, 0.3, 0.6], [0.2, 0.1, 0.7]], dtype=np.float32)
    pair = ([5, 6, EOS], [7, 8, EOS])
    assert align_words(WORDS, pair, weights) == AlignedPair([(1, 0), (0, 1)], 2, 2)


def test_a_word_has_the_weights_of_all_its_subwords():
    source, target = Pieces("_a", "_b", "c", "</s>"), Pieces("_x", "y", "</s>")
    codec = Codec(source, target, CodecSettings())
    weights = np.array([[0.4, 0.3, 0.3, 0], [0.45, 0.25, 0.3, 0]])
    assert align_words(codec, ([0, 1, 2, 3], [0, 1, 2]), weights).links == [(1, 0)]
    weights[1] = [0.9, 0.1, 0, 0]
    assert align_words(codec, ([0, 1, 2, 3], [0, 1, 2]), weights).links == [(0, 0)]


def test_an_empty_target_has_no_links():
    assert align_words(WORDS, ([5, 6, EOS], [EOS]), np.ones((0, 3))) == AlignedPair([], 2, 0)


def test_pieces_of_a_line_count_on_from_one_another():
    pieces = [
        AlignedPair([(1, 0), (0, 1)], 3, 2),
        AlignedPair([], 2, 0),
        AlignedPair([(1, 0)], 2, 1),
    ]
    assert join_alignments(pieces) == [(1, 0), (0, 1), (6, 2)]
    assert join_alignments([]) == []


def test_words_that_every_piece_begins_with_are_those_of_the_line():
    pieces = [AlignedPair([(1, 0), (0, 1)], 3, 2), AlignedPair([(0, 0), (1, 1)], 2, 2)]
    assert join_alignments(pieces, repeated=1) == [(1, 0), (0, 1), (0, 2), (3, 3)]


@pytest.fixture(scope="module")
def translator(trained):
    file = load_model(find_model(trained))
    return Translator([file.build()], file.codec, BeamSearch(), aligns=True)


def test_a_trained_model_aligns_most_words_rightly(translator):
    # The toy language keeps the order of words.
    links = [
        link
        for found in translator.translate(sentences(60, seed=41))
        for link in found.outputs[0].alignment
    ]
    assert len(links) > 100
    assert sum(source == target for source, target in links) > 0.8 * len(links)


def test_alignments_are_batch_invariant(translator):
    lines = sentences(50, seed=42)
    together = [found.outputs[0].alignment for found in translator.translate(lines)]
    for line, alignment in zip(lines[:8], together, strict=False):
        assert next(translator.translate([line])).outputs[0].alignment == alignment


def test_each_target_word_has_one_link_in_order(translator):
    for found in translator.translate(["ba be", "", " bi  bo ", "xyz"]):
        words = range(len(found.text.split()))
        assert [target for _, target in found.outputs[0].alignment] == list(words)


def test_an_output_as_long_as_the_model_has_positions_is_aligned():
    file = random_model(positions="learned", max_positions=8)
    translator = Translator([file.build()], file.codec, BeamSearch(beam=1), aligns=True)
    (found,) = translator.translate(["ba be bi"])
    assert len(found.outputs[0].pairs[0][1]) > 8
    assert found.outputs[0].alignment


def test_an_ensemble_aligns_by_the_mean_of_its_weights():
    file = random_model(layers=1)
    pairs = [(file.codec.encode_source("ba be"), file.codec.encode_target("ab eb"))]
    model = file.build()
    both, one = ([model] * count for count in (2, 1))
    assert align(both, file.codec, pairs, [2, 2]) == align(one, file.codec, pairs, [2])
