"""Reading pairs: every format gives the same text, and what is wrong is named by line."""

import bz2
import gzip
import lzma
import os
import sys

import pytest

from aiayn.data.inputs import (
    PAIRS_PER_BLOCK,
    ParallelText,
    TabbedText,
    Treebank,
    read_blocks,
)
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.data.text import STDIN, count_lines
from aiayn.errors import DataError, UsageError

SOURCE, TARGET = "one\ntwo\nthree\n", "eins\nzwei\ndrei\n"
PAIRS = [("one", "eins"), ("two", "zwei"), ("three", "drei")]


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(*inputs):
    return [pair for block in read_blocks(inputs) for pair in block.text_pairs()]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.xz", lzma.compress), ("a", bytes)],
)
def test_a_packed_file_is_its_text(file, name, pack):
    assert read(ParallelText(file(name, pack(SOURCE.encode())), file("b", TARGET))) == PAIRS


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a", bytes)])
def test_lines_are_counted_in_packed_files_too(file, name, pack):
    assert count_lines(file(name, pack(SOURCE.encode()))) == 3
    assert count_lines(file(name, pack(b"no end"))) == 1


def test_lines_that_cannot_be_read_are_not_counted(file, tmp_path):
    assert count_lines(file("torn.gz", gzip.compress(SOURCE.encode())[:-9])) is None
    assert count_lines(tmp_path / "absent") is None
    os.mkfifo(tmp_path / "pipe")
    assert count_lines(tmp_path / "pipe") is None


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(file):
    source = file("a", b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    target = file("b", TARGET.removesuffix("\n") + "\r")
    assert read(ParallelText(source, target)) == PAIRS


def test_a_last_line_needs_no_end(file):
    source, target = file("a", SOURCE.removesuffix("\n")), file("b", TARGET)
    assert read(ParallelText(source, target)) == PAIRS


def test_exotic_breaks_are_text(file):
    line = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh"
    assert read(ParallelText(file("a", line + "\n"), file("b", line))) == [(line, line)]


def test_blocks_are_cut_at_fixed_pair_numbers_and_at_the_end_of_an_input(file):
    many = "".join(f"{n}\n" for n in range(PAIRS_PER_BLOCK + 1))
    text = ParallelText(file("a", many), file("b", many))
    blocks = list(read_blocks([text, text]))
    assert [block.pairs for block in blocks] == [PAIRS_PER_BLOCK, 1] * 2
    assert [block.line for block in blocks] == [1, PAIRS_PER_BLOCK + 1] * 2
    assert [block.start for block in blocks] == [
        0, PAIRS_PER_BLOCK, PAIRS_PER_BLOCK + 1, 2 * PAIRS_PER_BLOCK + 1,
    ]  # fmt: skip


def test_unequal_files_are_named_with_both_counts(file):
    many = "x\n" * (3 * PAIRS_PER_BLOCK)
    pairs = ParallelText(file("long", many), file("short", many[:-2]))
    with pytest.raises(DataError, match=r"long has 6,000 lines and .*short has 5,999"):
        read(pairs)
    with pytest.raises(DataError, match=r"short has 5,999 lines and .*long has 6,000"):
        read(ParallelText(*reversed(pairs.files)))


@pytest.mark.parametrize(("bad", "said"), [(b"\xe9t\xe9", "0xe9"), (b"a\0b", "NUL")])
def test_what_is_no_text_is_named_with_file_and_line(file, bad, said):
    good = b"x\n" * (PAIRS_PER_BLOCK + 4)
    target = file("b", good + bad + b"\n")
    with pytest.raises(DataError, match=f"b, line {PAIRS_PER_BLOCK + 5}: .*{said}"):
        read(ParallelText(file("a", good + b"x\n"), target))


def test_an_empty_file_is_named(file):
    with pytest.raises(DataError, match="a has no lines"):
        read(ParallelText(file("a", ""), file("b", "")))


def test_a_directory_is_no_file(file, tmp_path):
    with pytest.raises(UsageError, match="directory"):
        read(ParallelText(file("a", SOURCE), tmp_path))


@pytest.mark.parametrize("pack", [gzip, bz2, lzma])
def test_a_packed_file_that_was_cut_short_is_named(file, pack):
    ending = {gzip: "gz", bz2: "bz2", lzma: "xz"}[pack]
    whole = pack.compress("".join(f"{n}\n" for n in range(9999)).encode())
    cut = file(f"cut.{ending}", whole[:-20])
    with pytest.raises(DataError, match=f"cut.{ending} cannot be read past line"):
        read(ParallelText(cut, cut))


def test_tabs_part_source_and_target(file):
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    assert read(TabbedText(file("a", lines), name="-")) == PAIRS


@pytest.mark.parametrize(("line", "tabs"), [("alone", 0), ("a\tb\tc", 2)])
def test_a_line_with_another_number_of_tabs_is_named(file, line, tabs):
    tabbed = TabbedText(file("a", f"a\tb\n{line}\n"), name="standard input")
    with pytest.raises(DataError, match=f"standard input, line 2: {tabs} tabs"):
        read(tabbed)


def test_standard_input_gives_the_same_folder_as_files(file, tmp_path, give_stdin):
    settings = Settings(subword="char")
    text = ParallelText(file("a", SOURCE), file("b", TARGET))
    preprocess({"train": [text]}, tmp_path / "files", settings=settings)
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
    give_stdin(lines)
    stdin = TabbedText(STDIN, name="standard input")
    preprocess({"train": [stdin]}, tmp_path / "stdin", settings=settings)
    for name in ("train-00000.bin", "train-00000.idx", "vocab/shared.model"):
        assert (tmp_path / "files" / name).read_bytes() == (
            tmp_path / "stdin" / name
        ).read_bytes()
    assert not (tmp_path / "stdin" / "stdin.partial").exists()


def test_a_pipe_is_refused_since_text_is_read_twice(file, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = ParallelText(file("a", SOURCE), tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe is a pipe"):
        preprocess({"train": [text]}, tmp_path / "data", settings=Settings(subword="char"))


def test_trees_become_words_and_symbols_and_keep_their_brackets(file):
    trees = "( (S\n (NP-SBJ-1 (NNP John))\n (VP (VBZ has) (NP (-NONE- *T*-1))) (. .)))\n"
    [block] = read_blocks([Treebank(file("a.mrg", trees))])
    assert block.source == "John has .\n"
    assert block.target == "S NP NNP /NP VP VBZ /VP . /S\n"
    assert block.reference == "(TOP (S (NP (NNP John)) (VP (VBZ has)) (. .)))\n"


def test_a_tree_without_words_is_an_empty_pair(file):
    trees = Treebank(file("a.mrg", "((S (-NONE- *)))\n(TOP (S (NN dog)))"))
    assert read(trees) == [("", ""), ("dog", "S NN /S")]


def test_frames_of_zstd_are_read_one_after_another(file):
    zstandard = pytest.importorskip("zstandard", reason="pip install 'aiayn[zst]'")
    long = "word " * 100_000
    packed = [zstandard.compress(part.encode()) for part in ("one\ntwo\n", f"three\n{long}\n")]
    content = f"eins\nzwei\ndrei\n{long}\n"
    inputs = ParallelText(file("a.zst", b"".join(packed)), file("b", content))
    assert read(inputs) == [*PAIRS, (long, long)]


@pytest.mark.parametrize(
    "damage", [lambda x: x[:-3], lambda x: b"text" + x, lambda x: x + b"\0"]
)
def test_a_damaged_file_of_zstd_is_refused(damage, file):
    zstandard = pytest.importorskip("zstandard", reason="pip install 'aiayn[zst]'")
    packed = zstandard.compress(SOURCE.encode())
    with pytest.raises(DataError, match=r"a\.zst cannot be read past line"):
        read(ParallelText(file("a.zst", damage(packed)), file("b", TARGET)))


def test_without_zstandard_the_way_out_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match="packed by zstd") as refusal:
        read(ParallelText(file("a.zst", b""), file("b", TARGET)))
    assert "aiayn[zst]" in refusal.value.fix
