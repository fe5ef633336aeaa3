"""The corpus made by rule: what holds for all of its text, and the promises of its files."""

import hashlib
import re
from pathlib import Path

import pytest
from toy import sample_pairs
from typer.testing import CliRunner

from aiayn.cli import app
from aiayn.errors import UsageError
from aiayn.sample import corpus
from aiayn.sample.corpus import PARTS, part_of, write_sample


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(sample_pairs(50_000, seed=3))


def test_no_english_sentence_has_two_translations(pairs):
    assert len(set(pairs)) == len({english for english, _ in pairs})


def test_a_sentence_has_3_to_40_words(pairs):
    lengths = {len(line.split()) for pair in pairs for line in pair}
    assert min(lengths) == 3
    assert 25 < max(lengths) <= 40


def test_the_english_average_is_9_to_12_words(pairs):
    words = sum(len(english.split()) for english, _ in pairs)
    assert 9 < words / len(pairs) < 12


def test_few_sentences_come_twice(pairs):
    assert len(set(pairs)) > 0.97 * len(pairs)


def test_every_line_is_a_tidy_sentence(pairs):
    word = r"[\w'-]+|[\d:,.]*\d"
    tidy = re.compile(rf"(?=[A-ZÄÖÜ])({word})((,|(?<=\d)\.)? ({word}))*[.?]")
    assert [line for pair in pairs for line in pair if not tidy.fullmatch(line)] == []


def test_a_is_an_before_a_vowel(pairs):
    wrong = re.compile(r"\b[Aa] (?!uni)[aeiou]|\b[Aa]n ([^aeiou]|uni)")
    assert [english for english, _ in pairs if wrong.search(english)] == []


def test_no_german_preposition_is_left_apart_from_its_article(pairs):
    # After a comma it is a relative pronoun: an dem er arbeitet.
    apart = re.compile(r"(?<!,) (in dem|in das|an dem|zu dem|zu der|von dem|bei dem) ")
    assert [german for _, german in pairs if apart.search(german)] == []


def test_the_same_seed_gives_the_same_text_everywhere():
    text = "".join(f"{english}\t{german}\n" for english, german in sample_pairs(2000, seed=1))
    # Changes with any change of words or rules, and with nothing else.
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7cd22ff854f267e8"


def test_another_seed_gives_other_sentences():
    one, two = ({*sample_pairs(500, seed=seed)} for seed in (1, 2))
    assert len(one & two) < 25


def test_a_larger_corpus_begins_with_the_smaller_one():
    assert list(sample_pairs(3000, seed=1))[:100] == list(sample_pairs(100, seed=1))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_six_files_hold_as_many_lines_as_were_asked_for(tmp_path):
    write_sample(tmp_path / "new" / "text", pairs=300, seed=1, valid=20, test=30)
    counts = {path.name: len(lines(path)) for path in (tmp_path / "new" / "text").iterdir()}
    wanted = {"train": 300, "valid": 20, "test": 30}
    assert counts == {
        f"{part}.{side}": wanted[part] for part in wanted for side in ("en", "de")
    }


def test_the_training_files_hold_the_training_pairs(tmp_path):
    write_sample(tmp_path, pairs=300, seed=4, valid=5, test=5)
    english, german = lines(tmp_path / "train.en"), lines(tmp_path / "train.de")
    assert list(zip(english, german, strict=True)) == list(sample_pairs(300, seed=4))


def test_few_training_pairs_bring_as_few_others(tmp_path):
    write_sample(tmp_path, pairs=7, seed=1)
    assert [len(lines(tmp_path / f"{part}.en")) for part in PARTS] == [7, 7, 7]


def test_no_sentence_is_in_two_parts_or_twice_where_it_is_scored(tmp_path):
    write_sample(tmp_path, pairs=3000, seed=1, valid=150, test=150)
    train, valid, test = (lines(tmp_path / f"{part}.en") for part in PARTS)
    assert len({*valid, *test}) == 300
    assert {*valid, *test}.isdisjoint(train)
    assert len({*lines(tmp_path / "test.de")}) == 150


def test_a_sentence_belongs_to_the_same_part_for_every_seed(tmp_path):
    write_sample(tmp_path, pairs=1, seed=77, valid=50, test=50)
    assert {part_of(line) for line in lines(tmp_path / "valid.en")} == {"valid"}
    assert {part_of(line) for line in lines(tmp_path / "test.en")} == {"test"}


def test_two_processes_write_the_same_bytes_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "WORTH_A_PROCESS", 1000)
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, workers in ((one, 1), (two, 2)):
        write_sample(folder, pairs=6000, seed=1, valid=50, test=50, workers=workers)
    assert contents(one) == contents(two)


def test_files_are_replaced_only_by_force(tmp_path):
    write_sample(tmp_path, pairs=5, seed=1)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"train\.en.*already"):
        write_sample(tmp_path, pairs=6, seed=2)
    assert contents(tmp_path) == before
    write_sample(tmp_path, pairs=6, seed=2, force=True)
    assert len(lines(tmp_path / "train.en")) == 6


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        write_sample(tmp_path / "file", pairs=5, seed=1)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        write_sample(tmp_path / "file" / "text", pairs=5, seed=1)


def test_a_run_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def break_down(seed, number, alignments):
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "make_chunk", break_down)
    with pytest.raises(KeyboardInterrupt):
        write_sample(tmp_path, pairs=5, seed=1)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("number", [0, -3])
def test_no_pairs_cannot_be_asked_for(tmp_path, number):
    with pytest.raises(UsageError, match="pairs is"):
        write_sample(tmp_path, pairs=number, seed=1)
    assert (
        CliRunner().invoke(app, ["sample", str(tmp_path), "--pairs", str(number)]).exit_code
        == 2
    )


def test_the_command_writes_what_its_options_say(tmp_path):
    line = f"sample {tmp_path}/text --pairs 40 --seed 9 --valid 3 --test 4 --workers 1"
    assert CliRunner().invoke(app, line).exit_code == 0
    write_sample(tmp_path / "same", pairs=40, seed=9, valid=3, test=4)
    assert contents(tmp_path / "text") == contents(tmp_path / "same")
