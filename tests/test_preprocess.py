"""From text to a data folder: what is kept, what is dropped and why, what is stored."""

import json

import pytest

from aiayn.data.codec import Codec
from aiayn.data.folder import DataFolder
from aiayn.data.inputs import ParallelText
from aiayn.data.manifest import MANIFEST_FILE
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.errors import DataError, UsageError

CHARACTERS = Settings(subword="char")
PAIRS = [(f"line {n} is here", f"Zeile {n} ist da") for n in range(50)]


@pytest.fixture
def text(tmp_path):
    """Return a function that writes pairs to two files and names them."""

    def write(pairs, name="train"):
        paths = tmp_path / f"{name}.en", tmp_path / f"{name}.de"
        for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
            path.write_bytes("".join(f"{line}\n" for line in side).encode())
        return ParallelText(*paths)

    return write


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a data folder."""

    def run(*train, settings=CHARACTERS, output="data", **options):
        splits = {name: [options.pop(name)] for name in ("valid", "test") if name in options}
        inputs = {"train": train, **splits}
        return preprocess(inputs, tmp_path / output, settings=settings, **options)

    return run


def kept(folder, split="train"):
    """Return the pairs of a split as text, from their ids."""
    corpus, codec = folder.corpus(split), folder.codec
    pairs = (corpus.pair(i) for i in range(len(corpus)))
    return [
        (codec.source.decode(source), codec.decode_target(target)) for source, target in pairs
    ]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("subword", ["bpe", "unigram", "char", "word"])
def test_pairs_are_in_the_shards_in_the_order_of_the_text(text, make, subword, shared):
    settings = Settings(subword=subword, shared=shared, vocab_size=282)
    assert kept(make(text(PAIRS), settings=settings)) == PAIRS


def test_several_inputs_follow_one_another(text, make):
    assert kept(make(text(PAIRS[:20], "a"), text(PAIRS[20:], "b"))) == PAIRS


def test_ids_end_in_eos_and_are_those_of_the_codec(text, make):
    folder = make(text(PAIRS))
    source, target = folder.corpus("train").pair(7)
    assert source.tolist() == folder.codec.encode_source(PAIRS[7][0])
    assert target.tolist() == folder.codec.encode_target(PAIRS[7][1])


def test_a_pair_with_an_empty_side_is_dropped(text, make):
    folder = make(text([*PAIRS, ("", "x"), ("x", ""), (" \t", "x"), ("x", "\u3000")]))
    assert kept(folder) == PAIRS
    assert folder.manifest.splits["train"].counts.dropped == {"empty": 4}


def test_a_side_that_moses_leaves_empty_is_empty(text, make):
    moses = Settings(subword="char", pretokenize="moses", languages="en-de")
    folder = make(text([*PAIRS[:1], ("\x02", "x")]), settings=moses)
    assert folder.manifest.splits["train"].counts.dropped == {"empty": 1}


def test_max_length_counts_subwords_with_the_end_mark(text, make):
    five, six = ("aaaa", "b"), ("b", "aaaaa")
    # One character is one subword, and the space before a text is one too.
    folder = make(text([five, six]), settings=Settings(subword="char", max_length=6))
    assert kept(folder) == [five]
    assert folder.manifest.splits["train"].counts.dropped == {"length": 1}


def test_max_ratio_holds_for_either_side(text, make):
    pairs = [("aaa", "b"), ("b", "aaa"), ("aaaa", "b"), ("b", "aaaa")]
    folder = make(text(pairs), settings=Settings(subword="char", max_ratio=2))
    assert kept(folder) == pairs[:2]
    assert folder.manifest.splits["train"].counts.dropped == {"ratio": 2}


def test_dedup_keeps_the_first_of_equal_pairs(text, make):
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("c", "b"), ("a", "b")]
    folder = make(
        text(pairs[:3], "a"),
        text(pairs[3:], "b"),
        settings=Settings(subword="char", dedup=True),
    )
    assert kept(folder) == [("a", "b"), ("a", "c"), ("c", "b")]
    assert folder.manifest.splits["train"].counts.dropped == {"duplicate": 2}


def test_pairs_repeat_only_as_pairs(text, make):
    pairs = [("a b", "c"), ("a", "b c"), ("c", "a b")]
    assert kept(make(text(pairs), settings=Settings(subword="char", dedup=True))) == pairs


def test_every_dropped_pair_is_listed_with_line_and_reason(text, make, tmp_path):
    settings = Settings(subword="char", max_length=6, max_ratio=2, dedup=True)
    pairs = [("ab", "ab"), ("", "a"), ("ab", "ab"), ("aaaaaa", "aaa"), ("aaaa", "b")]
    make(text(pairs), settings=settings, dropped=tmp_path / "dropped.tsv")
    rows = [row.split("\t") for row in (tmp_path / "dropped.tsv").read_text().splitlines()]
    assert rows[0][:3] == ["file", "line", "reason"]
    assert [row[1:3] for row in rows[1:]] == [
        ["2", "empty"], ["3", "duplicate"], ["4", "length"], ["5", "ratio"],
    ]  # fmt: skip


def test_no_filter_but_emptiness_touches_validation_and_test(text, make):
    odd = [("a" * 40, "b"), ("", "b"), ("a", "b"), ("a", "b")]
    settings = Settings(subword="char", max_length=30, max_ratio=2, dedup=True)
    folder = make(
        text(PAIRS), valid=text(odd, "valid"), test=text(odd, "test"), settings=settings
    )
    for split in ("valid", "test"):
        assert kept(folder, split) == [odd[0], odd[2], odd[3]]
        assert folder.manifest.splits[split].counts.dropped == {"empty": 1}


def test_the_text_of_validation_is_kept_line_for_line(text, make):
    odd = [("a\u2028b \u0085", "c\rd"), ("", "gone"), ("\ufeffx  y ", "\ttab"), ("e\r", "z")]
    folder = make(text(PAIRS), valid=text(odd, "valid"))
    source, reference = folder.text("valid")
    # The "\r" of the last source line belongs to its line end.
    wanted = [odd[0], odd[2], ("e", "z")]
    assert list(zip(source, reference, strict=True)) == wanted == kept(folder, "valid")


def test_the_settings_of_the_text_are_applied_and_stored(text, make):
    settings = Settings(subword="word", pretokenize="moses", languages="en-de", lowercase=True)
    folder = make(text([("Well-known, no?", "Ja. Nein!")]), settings=settings)
    assert kept(folder) == [("well-known , no ?", "ja. nein!")]
    assert Codec.load(folder.path / "vocab").settings.target_language == "de"


def test_the_counts_are_those_of_the_kept_pairs(text, make):
    folder = make(text([("ab cd", "e"), ("", "x"), ("ab", "fff gg h")]))
    counts = folder.manifest.splits["train"].counts
    assert (counts.read, counts.kept) == (3, 2)
    # Each side: a space before the text, its characters, and EOS.
    assert (counts.source.tokens, counts.source.words) == (7 + 4, 3)
    assert (counts.target.tokens, counts.target.words) == (3 + 10, 4)
    assert counts.source.unknown == counts.source.spelled == 0


def test_what_the_vocabulary_does_not_know_is_counted(text, make):
    folder = make(text(PAIRS), valid=text([("\u4e2d", "\u0416 l")], "valid"))
    counts = folder.manifest.splits["valid"].counts
    assert (counts.source.spelled, counts.target.spelled) == (3, 2)
    words = make(
        text(PAIRS), valid=text([("line x y", "z")], "valid"),
        settings=Settings(subword="word"), output="words",
    )  # fmt: skip
    counts = words.manifest.splits["valid"].counts
    assert (counts.source.unknown, counts.target.unknown) == (2, 1)
    assert counts.source.spelled == counts.target.spelled == 0
    assert any("unknown" in warning for warning in words.warnings())


def test_a_vocabulary_is_used_again(text, make):
    first = make(text(PAIRS))
    settings = Settings(subword="char", vocab_from=first.codec.fingerprint, sample_lines=0)
    other = text([("here is a", "da ist x")], "other")
    second = make(other, settings=settings, codec=first.codec, output="second")
    assert second.codec.fingerprint == first.codec.fingerprint
    assert kept(second) == [("here is a", "da ist x")]


def test_a_large_vocabulary_takes_four_bytes_an_id(text, make):
    words = [(f"w{2 * n} w{2 * n + 1}", "x") for n in range(33_000)]
    folder = make(text(words), settings=Settings(subword="word", vocab_size=70_000))
    assert folder.manifest.bytes_per_id == 4
    assert kept(folder)[-1] == words[-1]


def test_the_sample_bounds_what_is_learned_from(text, make):
    rare = [(f"{chr(0x4E00 + n)} {n}", "x") for n in range(3000)]
    folder = make(text(rare), settings=Settings(subword="word", sample_lines=200))
    assert folder.manifest.source_vocabulary <= 3 + 1 + 2 * 100


def test_a_folder_that_was_tampered_with_does_not_pass(text, make):
    folder = make(text(PAIRS), valid=text(PAIRS, "valid"))
    assert {"train-00000.bin", "train-00000.idx", "valid.src", "vocab"} <= set(folder.verify())
    path = folder.path / "valid.ref"
    path.write_bytes(path.read_bytes().replace(b"Zeile", b"Zeitung", 1))
    with pytest.raises(DataError, match=r"valid\.ref"):
        folder.verify()


def test_a_foreign_vocabulary_is_refused(text, make):
    folder = make(text(PAIRS))
    make(text([("other", "text")], "other"), output="other").codec.save(folder.path / "vocab")
    with pytest.raises(DataError, match="vocab"):
        _ = DataFolder.open(folder.path).codec


def test_what_is_no_data_folder_is_said_to_be_none(text, make, tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            DataFolder.open(path)


def test_another_format_version_is_refused(text, make):
    folder = make(text(PAIRS))
    path = folder.path / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 99}))
    with pytest.raises(UsageError, match="99"):
        DataFolder.open(folder.path)


def test_a_split_that_is_not_there_names_the_option(text, make):
    folder = make(text(PAIRS))
    assert folder.has("train")
    assert not folder.has("valid")
    with pytest.raises(UsageError) as caught:
        folder.corpus("valid")
    assert "--valid" in caught.value.fix
