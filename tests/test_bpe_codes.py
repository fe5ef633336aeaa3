"""BPE codes of subword-nmt and fastBPE: the pieces that subword-nmt itself makes."""

import io
import pickle

import pytest
from toy import sentences

from aiayn.data.bpe_codes import CodesVocabulary, Merges
from aiayn.data.codec import Codec, read_vocabulary
from aiayn.data.settings import CodecSettings
from aiayn.errors import DataError

# Merges for "lower", "lowest", "newer" as subword-nmt learns them; the end belongs to a letter.
CODES = b"#version: 0.2\ne r</w>\nl o\nlo w\nn e\nne w\ne s\nes t</w>\nlow er</w>\n"
OLD = b"e r\ner </w>\nl o\nlo w\ne s\nes t\nest </w>\nlow er</w>\n"
WORDS = "lower lowest newer new lowl w er rest \u00e9lower s"


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("lower", ["lower"]),
        ("lowest", ["low@@", "est"]),
        ("newer", ["new@@", "er"]),
        ("slow", ["s@@", "lo@@", "w"]),
        ("x", ["x"]),
    ],
)
def test_the_earliest_merge_that_fits_is_applied_first(word, pieces):
    assert Merges(CODES).segment(word) == pieces


@pytest.mark.parametrize("codes", [CODES, OLD], ids=["0.2", "0.1"])
def test_subword_nmt_makes_the_same_pieces(codes):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe", reason="pip install subword-nmt")
    theirs = apply_bpe.BPE(io.StringIO(codes.decode()))
    vocabulary = CodesVocabulary.of_codes(codes)
    for line in [WORDS, "", "lower  newest", *sentences(5, seed=1)]:
        expected = theirs.process_line(line).split()
        assert vocabulary._segment(line) == expected


def test_counts_of_fastbpe_are_read_over():
    lines = CODES.decode().split("\n", 1)[1].splitlines()
    counted = "".join(f"{line} {100 - i}\n" for i, line in enumerate(lines)).encode()
    assert Merges(counted).ranks == Merges(CODES).ranks
    assert Merges(counted).segment("lowest") == ["low@@", "est"]


@pytest.mark.parametrize("codes", [CODES, OLD], ids=["0.2", "0.1"])
def test_every_word_of_known_letters_has_ids(codes):
    vocabulary = CodesVocabulary.of_codes(codes)
    for word in ("lower", "lowest", "tower", "swore", "tl", "e", "owe", "wert"):
        ids = vocabulary.encode_batch([word])[0]
        assert 2 not in ids
        assert vocabulary.decode(ids) == word


def test_the_unknown_is_shown():
    vocabulary = CodesVocabulary.of_codes(CODES)
    assert vocabulary.decode(vocabulary.encode_batch(["low \u4e2d"])[0]) == "low <unk>"


def test_codes_survive_files_and_processes(tmp_path):
    vocabulary = CodesVocabulary.of_codes(CODES)
    codec = Codec(vocabulary, vocabulary, CodecSettings())
    codec.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "settings.json",
        "shared.codes",
        "shared.table",
    ]
    for again in (Codec.load(tmp_path), pickle.loads(pickle.dumps(codec))):
        assert again.fingerprint == codec.fingerprint
        assert again.source is again.target
        assert again.encode_source(WORDS) == codec.encode_source(WORDS)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "line 1"),
        (b"#version: 0.2\n", "no merges"),
        (b"a b c d\n", "line 1"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_not_a_file_of_merges_is_refused(content, named):
    with pytest.raises(DataError, match=named):
        Merges(content)


def test_a_vocabulary_of_ten_gigabytes_is_not_read(tmp_path):
    with (tmp_path / "large.spm").open("wb") as sparse:
        sparse.truncate(10 * 2**30)
    with pytest.raises(DataError, match=r"large\.spm has more than"):
        read_vocabulary(tmp_path / "large.spm")
