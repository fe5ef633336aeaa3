"""Words in capitals that have the pieces of their ordinary spelling, and a mark."""

from random import Random

import pytest
from random_models import random_model
from toy import sentences

from aiayn.config import BatchConfig
from aiayn.data.case_markup import MARK, in_capitals, mark_capitals, restore_capitals
from aiayn.data.codec import Codec
from aiayn.data.folder import DataFolder
from aiayn.data.noise import add_noise
from aiayn.data.resampling import Resampling
from aiayn.data.settings import CodecSettings, Settings
from aiayn.data.subword_sampling import SubwordSampler
from aiayn.data.vocabulary import Vocabulary
from aiayn.errors import UsageError

ODD = [
    *("", " ", "A MAN  RUNS.", "I am, HE IS", "\u0130STANBUL", "STRASSE Stra\u00dfe"),
    *("NASA's U.S. 4K", "BA\u00a0BE\tDU", "\u01c4\u01c5 \u03a3\u03a3"),
    *(MARK, f"A{MARK} {MARK}0 X{MARK}Y BE{MARK}", f"{MARK}0"),
]


@pytest.fixture
def codec():
    lines = sentences(100, seed=3, longest=9)
    both = Vocabulary.train(lines, kind="bpe", size=312, whole=[MARK])
    return Codec(both, both, CodecSettings(case_markup=True))


def test_words_in_capitals_are_in_lower_case_with_a_mark():
    marked = mark_capitals("A RED House in the USA.")
    assert marked == f"A red{MARK} House in the usa.{MARK}"
    assert restore_capitals(f"Ein Mann{MARK}") == "Ein MANN"


@pytest.mark.parametrize("text", ODD)
def test_no_text_is_changed_by_marks_that_are_undone(text, codec):
    assert restore_capitals(mark_capitals(text)) == text
    assert codec.decode_target(codec.encode_target(text)) == text


@pytest.mark.parametrize("text", ODD)
def test_a_text_wholly_in_capitals_is_the_upper_case_of_the_text(text):
    assert restore_capitals(in_capitals(mark_capitals(text))) == text.upper()


def test_a_word_in_capitals_has_the_pieces_of_the_word_and_one_more(codec):
    line = sentences(1, seed=5, longest=9)[0]
    words, capitals = codec.encode_source(line), codec.encode_source(line.upper())
    (mark,) = codec.source.encode_batch([f"a{MARK}"])[0][-2:-1]
    assert [i for i in capitals if i != mark] == words
    assert capitals.count(mark) == len(line.split())


def test_noise_keeps_the_case_of_a_target_that_it_marks():
    pairs = {add_noise("the dog", "der Hund", Random(i), case_markup=True) for i in range(20)}
    capitals = (f"the{MARK} dog{MARK}", f"der{MARK} Hund{MARK}")
    assert capitals in pairs
    assert ("The Dog", "Der Hund") in pairs


def test_noise_and_sampling_draw_marked_text(codec):
    draw = Resampling(codec, BatchConfig(noise=0.99, sampling=0.3), 1, 1000)
    line = sentences(1, seed=5, longest=9)[0]
    pair = codec.encode_source(line), codec.encode_target(line)
    drawn = [draw(pair, epoch=0, number=i) for i in range(20)]
    texts = [codec.decode_target(target) for _, target in drawn]
    assert {line.upper(), line.title()} <= set(texts)
    loud = next(
        source for (source, _), text in zip(drawn, texts, strict=True) if text.isupper()
    )
    assert codec.source.decode(loud) == mark_capitals(line.upper())


def test_pieces_that_are_drawn_leave_the_mark_whole(codec):
    sampler = SubwordSampler(codec.source, 0.5)
    (ids,) = sampler.encode([f"ba{MARK} be{MARK}"], Random(1))
    assert codec.source.pieces(ids).count(MARK) == 2


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


def test_without_it_the_fingerprint_is_what_it_was():
    both = random_model().codec.source
    off, on = (Codec(both, both, CodecSettings(case_markup=x)) for x in (False, True))
    assert off.fingerprint != on.fingerprint
    assert off.fingerprint == random_model().codec.fingerprint


def test_the_setting_is_refused_for_values_without_capitals():
    with pytest.raises(UsageError, match="does not go with --lowercase"):
        Settings(case_markup=True, lowercase=True)
