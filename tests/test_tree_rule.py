"""The rule of parsing: whatever a model prefers, its output is a tree over the words."""

import random
import zlib
from typing import NamedTuple

import numpy as np
import pytest
import random_models
import torch
from test_search import TableStep, run

from aiayn.checkpoint import build_model
from aiayn.config import Config, ModelConfig
from aiayn.data.codec import Codec
from aiayn.data.settings import CodecSettings
from aiayn.data.trees import delinearize, parse_tree, possible_tags, walk
from aiayn.data.vocabulary import Vocabulary
from aiayn.generation.sampling import Sampling
from aiayn.generation.search import BeamSearch, Hypothesis, Search, Task
from aiayn.generation.translator import Translator
from aiayn.generation.tree_rule import TreeSymbols
from aiayn.special_ids import EOS

TAGS = frozenset(["NN", "DT", "VBZ", "POS", ",", ".", ":", "``", "''", "$"])
LABELS = ("S", "NP", "VP")
WORDS = ["dog", "a", "runs", ",", ".", "--", "``", "''", "`", "'", "$", "%", "&", "#", "?"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    symbols = [*TAGS, *LABELS, *(f"/{label}" for label in LABELS)]
    return Vocabulary.train([" ".join(symbols)] * 2, kind="word", size=99)


class Preference(NamedTuple):
    """Random logits of the next token, which depend on the sentence and all tokens so far."""

    seed: int
    size: int
    favorites: tuple[int, ...] = ()

    def __call__(self, prefix: tuple[int, ...]) -> torch.Tensor:
        random = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**40)
        logits = 4 * torch.randn(self.size, generator=random)
        logits[list(self.favorites)] += 20
        return logits


def seed_of(words: list[str]) -> int:
    return zlib.crc32(" ".join(words).encode())


def parse(
    search: Search,
    vocabulary: Vocabulary,
    sentences: list[list[str]],
    limits: list[int],
    **settings: tuple[int, ...],
) -> list[list[Hypothesis]]:
    symbols = TreeSymbols.of(vocabulary, TAGS)
    tasks = [Task(n, tree=symbols.task(w)) for w, n in zip(sentences, limits, strict=True)]
    size = len(vocabulary)
    tables = [Preference(seed_of(words), size, **settings) for words in sentences]
    return run(search, TableStep(tables, size), tasks)


def draw_sentences(seed: int, count: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.randint(1, 7)) for _ in range(count)]


SEARCHES = {
    "greedy": BeamSearch(beam=1),
    "beam": BeamSearch(beam=3, nbest=3),
    "sampling": Sampling(samples=2),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_every_output_is_a_tree_over_the_words_and_needs_no_repair(search, vocabulary):
    sentences = draw_sentences(1, 12)
    limits = [len(words) + 1 + extra for extra, words in enumerate(sentences)]
    for words, found in zip(
        sentences, parse(search, vocabulary, sentences, limits), strict=True
    ):
        for hypothesis in found:
            symbols = vocabulary.decode(hypothesis.ids).split()
            _, repairs = delinearize(words, symbols, TAGS)
            assert (repairs, hypothesis.finished) == ({}, True)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_tree_has_one_root_where_brackets_fit(search, vocabulary):
    sentences = draw_sentences(3, 12)
    for words, found in zip(
        sentences, parse(search, vocabulary, sentences, [40] * 12), strict=True
    ):
        for hypothesis in found:
            symbols = vocabulary.decode(hypothesis.ids).split()
            assert len(delinearize(words, symbols, TAGS)[0].children) == 1


def test_a_model_that_has_lost_its_place_opens_eight_constituents_at_a_word(vocabulary):
    opening = tuple(vocabulary.encode_batch(["S"])[0][:-1])
    words = ["a", "dog"]
    ((found,),) = parse(BeamSearch(beam=1), vocabulary, [words], [90], favorites=opening)
    symbols = vocabulary.decode(found.ids).split()
    assert symbols[:9].count("S") == 8 and symbols[8] in TAGS


@pytest.mark.parametrize("symbol", ["S", "/S", ",", "NN"])
def test_a_model_that_wants_one_symbol_only_still_gives_a_tree(symbol, vocabulary):
    favorites = tuple(vocabulary.encode_batch([symbol])[0][:-1])
    words = ["a", "dog", "runs"]
    ((found,),) = parse(BeamSearch(beam=2), vocabulary, [words], [12], favorites=favorites)
    assert delinearize(words, vocabulary.decode(found.ids).split(), TAGS)[1] == {}
    assert found.finished


def test_brackets_stop_where_the_limit_leaves_no_room(vocabulary):
    opening = tuple(vocabulary.encode_batch(["S"])[0][:-1])
    for limit, brackets in [(2, 0), (3, 0), (4, 1), (9, 3)]:
        ((found,),) = parse(
            BeamSearch(beam=1), vocabulary, [["dog"]], [limit], favorites=opening
        )
        assert vocabulary.decode(found.ids).split().count("S") == brackets


def test_sentences_are_parsed_alike_in_any_batch(vocabulary):
    sentences = draw_sentences(2, 9)
    together = parse(BeamSearch(beam=3), vocabulary, sentences, [20] * 9)
    alone = [parse(BeamSearch(beam=3), vocabulary, [words], [20])[0] for words in sentences]
    assert together == alone


def test_a_score_is_the_models_own_log_probability(vocabulary):
    words = ["a", "dog"]
    ((found,),) = parse(BeamSearch(beam=2, alpha=0), vocabulary, [words], [12])
    table = Preference(seed_of(words), len(vocabulary))
    tokens = [*found.ids, EOS]
    total = sum(
        table(tuple(tokens[:i])).log_softmax(0)[token].item() for i, token in enumerate(tokens)
    )
    assert found.score == pytest.approx(total, abs=1e-3)


def test_a_forced_beginning_is_kept_and_the_rest_is_a_tree(vocabulary):
    symbols = TreeSymbols.of(vocabulary, TAGS)
    prefix = tuple(vocabulary.encode_batch(["S NP DT"])[0][:-1])
    task = Task(20, prefix, tree=symbols.task(["a", "dog"]))
    size = len(vocabulary)
    ((found,),) = run(BeamSearch(beam=2), TableStep([Preference(5, size)], size), [task])
    written = vocabulary.decode(found.ids).split()
    assert written[:3] == ["S", "NP", "DT"]
    assert delinearize(["a", "dog"], written, TAGS)[1] == {}


def test_a_forced_beginning_that_is_no_tree_still_comes_to_an_end(vocabulary):
    symbols = TreeSymbols.of(vocabulary, TAGS)
    prefix = tuple(vocabulary.encode_batch(["/NP NN NN NN S"])[0][:-1])
    task = Task(20, prefix, tree=symbols.task(["a", "dog"]))
    size = len(vocabulary)
    ((found,),) = run(BeamSearch(beam=2), TableStep([Preference(5, size)], size), [task])
    assert vocabulary.decode(found.ids) == "/NP NN NN NN S /S"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_an_untrained_parser_writes_needs_no_repair(vocabulary, workers):
    words = random_models.vocabulary("bpe")
    settings = CodecSettings(task="parsing", tags=" ".join(sorted(TAGS)))
    codec = Codec(words, vocabulary, settings)
    config = Config(model=ModelConfig(**random_models.SMALL, tie="none"))
    torch.manual_seed(1)
    model = build_model(config, codec)
    # The last line is cut into segments.
    lines = ["a dog", "`` Yes , '' he said .", "", "5 % & $ #", "word " * 40]
    translator = Translator([model], codec, BeamSearch(beam=3), longest=20, workers=workers)
    try:
        found = list(translator.translate(lines))
    finally:
        translator.close()
    for line, translation in zip(lines, found, strict=True):
        assert translation.repairs == {}
        if line:
            leaves = [n.word for n, opens in walk(parse_tree(translation.text)) if n.word]
            assert leaves == line.split()
    assert found[-1].pieces > 1


def test_tags_of_punctuation_fit_punctuation_only():
    (dog, percent, comma, dash) = possible_tags(["dog", "%", ",", "--"], TAGS)
    assert dog == percent == {"NN", "DT", "VBZ", "POS", "$"}
    assert (comma, dash) == ({","}, {":"})


def test_an_apostrophe_closes_a_quotation_only_where_one_was_opened():
    genitive, _, closing = possible_tags(["'", "`", "'"], TAGS)
    assert "''" not in genitive and "''" in closing and "POS" in closing


def test_punctuation_without_a_tag_of_its_own_takes_any_other():
    assert possible_tags([","], {"NN", "PUNCT"}) == [{"NN", "PUNCT"}]


def test_a_label_that_nothing_closes_never_opens(vocabulary):
    words = Vocabulary.train(["S /S NN X"] * 2, kind="word", size=99)
    symbols = TreeSymbols.of(words, {"NN"})
    opened = np.flatnonzero(symbols.closing_W)
    assert words.decode(opened) == "S"
