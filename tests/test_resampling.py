"""Subwords that are drawn anew: the same draw for (seed, epoch, pair), and the same text."""

import math
import subprocess
import sys
from collections import Counter
from itertools import islice
from random import Random

import pytest
import torch
from random_models import random_model, vocabulary
from toy import run_training, sentences, tiny_config

from aiayn.checkpoint import load_model
from aiayn.config import BatchConfig
from aiayn.data.bpe_codes import CodesVocabulary
from aiayn.data.codec import Codec
from aiayn.data.noise import add_noise, title_case, with_typos
from aiayn.data.resampling import Resampling, resampling
from aiayn.data.settings import CodecSettings
from aiayn.data.subword_sampling import SubwordSampler
from aiayn.distributed import ProcessGroup
from aiayn.errors import UsageError
from aiayn.training.estimate import estimate
from aiayn.training.loader import updates_from

CPU = torch.device("cpu")
LINES = sentences(40, seed=3, longest=9)


def draw_all(codec, *, epoch=0, numbers=range(20), seed=1, longest=1000, **settings):
    """Return the texts and the ids of lines as an epoch draws them."""
    draw = Resampling(codec, BatchConfig(**settings), seed, longest)
    pairs = [(codec.encode_source(x), codec.encode_target(x[::-1])) for x in LINES]
    return [draw(pairs[i], epoch=epoch, number=i) for i in numbers]


def as_lists(pairs):
    return [[list(side) for side in pair] for pair in pairs]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_other_subwords_spell_the_same_text(kind, data):
    both = data.codec.source if kind == "bpe" else vocabulary("unigram")
    codec = Codec(both, both, CodecSettings(subword=kind))
    plain = as_lists((codec.encode_source(x), codec.encode_target(x[::-1])) for x in LINES[:20])
    drawn = as_lists(draw_all(codec, sampling=0.3))
    assert drawn != plain
    for found, line in zip(drawn, LINES, strict=False):
        assert [both.decode(ids) for ids in found] == [line, line[::-1]]


def test_a_draw_depends_on_seed_epoch_and_pair_alone(data):
    settings = {"sampling": 0.2, "noise": 0.2}
    once = as_lists(draw_all(data.codec, **settings))
    backwards = as_lists(draw_all(data.codec, numbers=range(19, -1, -1), **settings))
    assert once == backwards[::-1]
    assert once != as_lists(draw_all(data.codec, epoch=1, **settings))
    assert once != as_lists(draw_all(data.codec, seed=2, **settings))


def test_what_would_become_too_long_stays_as_it_was(data):
    plain = as_lists(
        (data.codec.encode_source(x), data.codec.encode_target(x[::-1])) for x in LINES
    )
    assert as_lists(draw_all(data.codec, sampling=0.9, longest=1)) == plain[:20]


def test_moses_text_is_not_tokenized_twice():
    both = vocabulary("bpe")
    settings = CodecSettings(pretokenize="moses", source_language="en", target_language="de")
    draw = Resampling(Codec(both, both, settings), BatchConfig(sampling=0.5), 1, 1000)
    text = "ba &quot; de , @-@ gi"
    found, _ = draw((both.encode_batch([text])[0], [5, 1]), epoch=0, number=0)
    assert both.decode(found) == text


def refused(codec, **settings):
    with pytest.raises(UsageError) as problem:
        resampling(codec, BatchConfig(**settings), None, seed=1)
    return problem.value.message


def test_what_cannot_be_drawn_is_refused_by_name(data):
    def codec(both, **settings):
        return Codec(both, both, CodecSettings(**settings))

    codes = CodesVocabulary.of_codes(b"#version: 0.2\nb a\nd e\n")
    assert "batch.sampling needs ids" in refused(codec(codes), sampling=0.1)
    assert "batch.noise needs ids" in refused(codec(codes), noise=0.1)
    assert "whole words" in refused(codec(vocabulary("word")), sampling=0.1)
    assert "characters" in refused(codec(vocabulary("char")), sampling=0.1)
    assert "trees" in refused(codec(vocabulary(), task="parsing"), sampling=0.1)
    assert "lower case" in refused(codec(vocabulary(), lowercase=True), noise=0.1)
    assert resampling(random_model().codec, BatchConfig(), None, seed=1) is None


def updates(data, ranks, count, **place):
    config = tiny_config("batch.sampling=0.3", "batch.micro_tokens=100")
    corpus = data.corpus("train")
    draw = resampling(data.codec, config.batch, corpus, seed=1)
    place = {"epoch": 0, "number": 0, **place}
    return list(
        islice(
            updates_from(corpus, config.batch, ranks, seed=1, resampling=draw, **place), count
        )
    )


def test_micro_batches_are_cut_after_drawing(data):
    corpus = data.corpus("train")
    found = updates(data, ProcessGroup(0, 1, CPU), 6)
    assert all(batch.padded_tokens <= 100 for update in found for _, batch in update.micro)
    assert sum(update.target_tokens for update in found) > corpus.target_lengths.sum() / 2
    for update in found:
        assert update.target_tokens == sum(batch.tokens for _, batch in update.micro)


def test_processes_and_a_resumed_run_draw_the_same(data):
    whole = updates(data, ProcessGroup(0, 1, CPU), 9)
    shares = [updates(data, ProcessGroup(rank, 3, CPU), 9) for rank in range(3)]
    for update, *parts in zip(whole, *shares, strict=True):
        together = dict(micro for part in parts for micro in part.micro)
        assert all(torch.equal(together[n].target_BT, b.target_BT) for n, b in update.micro)
    epoch, number = whole[6].next_position
    (again,) = updates(data, ProcessGroup(0, 1, CPU), 1, epoch=epoch, number=number)
    assert torch.equal(again.micro[0][1].source_BS, whole[7].micro[0][1].source_BS)


def test_a_resumed_run_has_the_same_weights(data, tmp_path):
    settings = ("batch.sampling=0.2", "batch.noise=0.1", "train.steps=4", "train.valid_every=0")
    run_training(data.path, tmp_path / "whole", tiny_config(*settings))
    for steps in (2, 4):
        config = tiny_config(*settings, f"train.steps={steps}")
        run_training(data.path, tmp_path / "parts", config)
    whole, parts = (
        load_model(tmp_path / run / "last.pt").weights for run in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_an_estimate_counts_the_tokens_that_are_drawn(data):
    few, more = (
        estimate(data, tiny_config(f"batch.sampling={p}"), 1, CPU, torch.float32)
        for p in (0, 0.5)
    )
    assert more["target tokens per update"] > 1.1 * few["target tokens per update"]
    assert more["updates per epoch"] == few["updates per epoch"]


def test_case_is_changed_on_both_sides_and_typos_stand_in_the_source():
    pairs = {add_noise("a small dog", "ein Hund", Random(seed)) for seed in range(30)}
    assert ("A SMALL DOG", "EIN HUND") in pairs
    assert ("A Small Dog", "Ein Hund") in pairs
    typed = {source for source, target in pairs if target == "ein Hund"}
    assert len(typed) > 3
    assert all(abs(len(source) - len("a small dog")) <= 1 for source in typed)


def test_title_case_leaves_the_inside_of_words_alone():
    assert title_case("don't  be McDonald") == "Don't  Be McDonald"


def test_a_text_of_one_letter_survives_a_typo():
    assert {with_typos("a", Random(seed)) for seed in range(20)} <= {"a", "aa"}


@pytest.mark.parametrize("line", [" ", "ba  de \u2603 g\u2581i", "\u00fcber>>deu<<", "z" * 300])
def test_byte_pairs_are_those_of_sentencepiece_if_no_merge_is_left_out(line, data):
    for text in (*LINES[:20], line):
        found = SubwordSampler(data.codec.source, 0.0).encode([text], Random(1))
        assert data.codec.source.decode(found[0]) == text
        if text not in (" ", "z" * 300):
            assert found == data.codec.source.encode_batch([text])


def test_unigrams_are_drawn_by_their_probability():
    both = vocabulary("unigram")
    sampler, random = SubwordSampler(both, 0.2), Random(1)
    drawn = Counter(tuple(sampler.encode(["ba"], random)[0]) for _ in range(4000))
    (first, many), (second, few) = drawn.most_common(2)
    log_p = [sum(both.scores(ids[:-1])) for ids in (first, second)]
    assert both.decode(first) == both.decode(second) == "ba"
    assert many / few == pytest.approx(math.exp(0.2 * (log_p[0] - log_p[1])), rel=0.3)


def test_another_process_draws_the_same(data):
    code = (
        "import sys; from pathlib import Path; from random import Random;"
        "from aiayn.data.folder import DataFolder;"
        "from aiayn.data.subword_sampling import SubwordSampler;"
        "codec = DataFolder.open(Path(sys.argv[1])).codec;"
        "print(SubwordSampler(codec.source, 0.3).encode(sys.argv[2:], Random('1 2 3')))"
    )
    words = [sys.executable, "-c", code, str(data.path), *LINES[:9]]
    other = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    here = SubwordSampler(data.codec.source, 0.3).encode(LINES[:9], Random("1 2 3"))
    assert other.stdout.strip() == str(here)
