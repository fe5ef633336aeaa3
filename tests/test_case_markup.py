"""Words in capitals that have the pieces of their ordinary spelling, and a mark."""

from random import Random

import pytest
from random_models import random_model
from toy import sentences

from aiayn.config import BatchConfig
from aiayn.data.case_markup import MARK, CaseMarkup, restore_capitals
from aiayn.data.codec import Codec
from aiayn.data.folder import DataFolder
from aiayn.data.noise import title_case
from aiayn.data.resampling import Resampling
from aiayn.data.settings import CodecSettings, Settings
from aiayn.data.subword_sampling import SubwordSampler
from aiayn.data.vocabulary import Vocabulary
from aiayn.errors import UsageError
from aiayn.generation.search import BeamSearch
from aiayn.generation.segmentation import segment
from aiayn.generation.translator import Output, Translator

ODD = [
    *("", " ", "A MAN  RUNS.", "I am, HE IS", "\u0130STANBUL", "STRASSE Stra\u00dfe"),
    *("NASA's U.S. 4K", "BA\u00a0BE\tDU", "\u01c4\u01c5 \u03a3\u03a3"),
    *(MARK, f"A{MARK} {MARK}0 X{MARK}Y BE{MARK}", f"{MARK}0"),
]


@pytest.fixture
def codec():
    lines = [f"{x.title() if i % 2 else x}." for i, x in enumerate(sentences(100, seed=3))]
    both = Vocabulary.train(lines, kind="bpe", size=340, whole=[MARK])
    return Codec(both, both, CodecSettings(case_markup=True))


@pytest.fixture
def line():
    return sentences(1, seed=5, longest=9)[0]


def german():
    lines = ["der Hund und das Haus", "ein Hund ist rot und das Haus auch"] * 9
    return CaseMarkup(Vocabulary.train(lines, kind="bpe", size=308, whole=[MARK]))


def test_words_in_capitals_are_in_their_usual_case_with_a_mark():
    marked = german().mark("DER Hund UND DAS HAUS, A X.")
    assert marked == f"der{MARK} Hund und{MARK} das{MARK} Haus,{MARK} A X."
    assert restore_capitals(f"Der Hund{MARK}") == "Der HUND"


def test_what_a_prefix_puts_before_more_of_a_word_stays_in_capitals():
    assert restore_capitals(f"ein mann{MARK}, der") == "ein MANN, der"


@pytest.mark.parametrize("text", ODD)
def test_no_text_is_changed_by_marks_that_are_undone(text, codec):
    assert restore_capitals(codec.source_markup.mark(text)) == text
    assert codec.decode_target(codec.encode_target(text)) == text


def test_a_word_in_capitals_has_the_pieces_of_the_word_and_one_more(codec, line):
    plain, capitals = codec.encode_source(line), codec.encode_source(line.upper())
    mark = codec.source.encode_batch([MARK])[0][-2]
    assert capitals.count(mark) == len(line.split())
    assert len(capitals) <= len(plain) + len(line.split())


def test_noise_draws_what_the_text_itself_would_be(codec, line):
    line = f"{line} NASA"
    draw = Resampling(codec, BatchConfig(noise=0.99), 1, 1000)
    pair = codec.encode_source(line), codec.encode_target(line)
    for i in range(20):
        source, target = draw(pair, epoch=0, number=i)
        text = codec.decode_target(target)
        assert text in (line, line.upper(), title_case(line))
        assert list(target) == codec.encode_target(text)
        assert list(source) == codec.encode_source(codec.decode_target(source))


def test_pieces_that_are_drawn_leave_the_mark_whole(codec):
    sampler = SubwordSampler(codec.source, 0.5)
    (ids,) = sampler.encode([f"ba{MARK} be{MARK}"], Random(1))
    assert codec.source.pieces(ids).count(MARK) == 2


def test_a_long_line_in_capitals_is_cut_where_sentences_end(codec):
    text = " ".join(["BA DE GI."] * 40)
    segments = segment(codec.encode_source(text), 60, codec.source)
    assert len(segments) > 2
    assert all(codec.decode_target(ids).endswith("GI.") for ids in segments)


def test_a_forced_prefix_keeps_its_case(codec):
    ids = codec.target.encode_batch([f"ba{MARK} de{MARK} gi{MARK}"])[0]
    end = len(codec.target.encode_batch(["ba"])[0]) - 1
    assert codec.decode_target(ids) == "BA DE GI"
    assert codec.decode_target(ids, forced=end) == "ba DE GI"
    assert codec.decode_target(ids, forced=end + 1) == "BA DE GI"


def test_words_of_alignments_are_as_in_the_text(codec):
    translator = Translator([], codec, BeamSearch(), 50)
    ids = codec.encode_source("BA de GI")
    output = Output("", 0.0, None, [(ids, ids)])
    assert translator.words_of(output) == (["BA", "de", "GI"], ["BA", "de", "GI"])


@pytest.mark.parametrize("option", ["--lowercase", "--subword=word", "--task=parsing"])
def test_what_it_does_not_go_with_is_refused(option, aiayn, tmp_path):
    (text := tmp_path / "a").write_text("ba\n")
    files = (text,) if "parsing" in option else (text, text)
    code, _, err = aiayn("preprocess", *files, "--case-markup", option, "-o", tmp_path / "data")
    assert (code, "--case-markup does not go with" in err) == (2, True)


def test_a_folder_and_its_vocabulary_keep_the_markup(aiayn, tmp_path):
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n{line.upper()}\n" for line in sentences(50, seed=1)))
    line = ("preprocess", text, text, "-o")
    for more in ("--separate", "--shared"):
        folder = tmp_path / more
        code, _, err = aiayn(*line, folder, "--vocab-size", 300, "--case-markup", more)
        assert code == 0, err
        codec = DataFolder.open(folder).codec
        assert (
            codec.settings.case_markup and codec.source.knows(MARK) and codec.target.knows(MARK)
        )
        assert not any(
            MARK in piece and len(piece) > 1 for piece in codec.source.pieces(range(300))
        )
    assert aiayn(*line, tmp_path / "again", "--vocab-from", folder)[0] == 0
    assert DataFolder.open(tmp_path / "again").manifest.settings.case_markup
    model = folder / "vocab" / "shared.model"
    assert aiayn(*line, tmp_path / "own", "--vocab-from", model, "--case-markup")[0] == 0
    (plain := tmp_path / "plain.model").write_bytes(random_model().codec.source.model_bytes)
    code, _, err = aiayn(*line, tmp_path / "no", "--vocab-from", plain, "--case-markup")
    assert (code, "has no piece" in err) == (2, True)
    code, _, err = aiayn(
        "preprocess", text, "--task=parsing", "--vocab-from", folder, "-o", tmp_path / "n"
    )
    assert (code, "is for translation" in err) == (2, True)
    code, _, err = aiayn(*line, tmp_path / "small", "--vocab-size", 262, "--case-markup")
    least = err.split("at least ")[1].split(":")[0]
    assert aiayn(*line, tmp_path / "small", "--vocab-size", least, "--case-markup")[0] == 0


def test_without_it_the_fingerprint_is_what_it_was():
    both = random_model().codec.source
    off, on = (Codec(both, both, CodecSettings(case_markup=x)) for x in (False, True))
    assert off.fingerprint != on.fingerprint
    assert off.fingerprint == random_model().codec.fingerprint


def test_the_setting_is_refused_for_values_without_capitals():
    with pytest.raises(UsageError, match="does not go with --lowercase"):
        Settings(case_markup=True, lowercase=True)
