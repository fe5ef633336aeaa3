"""Pairs of text from files, a block at a time: parallel files, tab-separated lines, trees.

Blocks are the unit of all further work. They are cut at fixed pair numbers, so the result does
not depend on which process works on them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, zip_longest
from pathlib import Path

from aiayn.data.language_tags import tag_line
from aiayn.data.settings import TAG
from aiayn.data.text import (
    BYTE_ORDER_MARK,
    UNREADABLE,
    bounded_lines,
    damaged,
    decode_line,
    open_bytes,
    read_lines,
)
from aiayn.data.trees import clean, linearize, read_trees, write
from aiayn.errors import DataError, counted

PAIRS_PER_BLOCK = 2000

# Source, target and reference of consecutive pairs, each with one line a pair. One string, not
# a list of lines, because it is sent to another process much faster.
PairTexts = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive pairs of one input."""

    name: str
    """File that they are in."""
    line: int
    """Number of the first of them in that file, counted from 1."""
    start: int
    """Number of the first of them among all pairs, counted from 0."""
    pairs: int
    source: str
    target: str
    reference: str
    """What a translation is scored against: the target, or the whole tree."""
    alignments: str = ""
    """Lines of word alignments, where they were given."""

    def text_pairs(self) -> list[tuple[str, str]]:
        """Return its pairs one by one."""
        sources, targets = split_lines(self.source), split_lines(self.target)
        return list(zip(sources, targets, strict=True))


class Input(ABC):
    """Something that pairs can be read from."""

    def __init__(self, *files: Path, name: str = "", tag: str = "") -> None:
        """Read pairs from files; `name` is what errors and lists call them.

        A tag stands before each source line.
        """
        self.files = files
        self.tag = tag
        self.name = name or str(files[0])

    @abstractmethod
    def read(self) -> Iterator[PairTexts]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""


class ParallelText(Input):
    """Two files; each line of the one is the translation of the same line of the other."""

    def read(self) -> Iterator[PairTexts]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""
        sides = [_read(path) for path in self.files]
        lines = 0
        for source, target in zip_longest(*sides, fillvalue=""):
            counts = [text.count("\n") for text in (source, target)]
            if counts[0] != counts[1]:
                rest = [sum(text.count("\n") for text in side) for side in sides]
                n, m = (lines + here + later for here, later in zip(counts, rest, strict=True))
                raise DataError(
                    f"{self.files[0]} has {n:,} lines and {self.files[1]} has {m:,}, and each"
                    " line needs its translation on the same line",
                    fix="check that the two files belong together and neither is truncated",
                )
            lines += counts[0]
            yield source, target, target


class TabbedText(Input):
    """Lines of source, tab, target."""

    def read(self) -> Iterator[PairTexts]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""
        blocks = _read(self.files[0], self.name)
        for first, text in zip(count(1, PAIRS_PER_BLOCK), blocks, strict=False):
            pairs = [self._split(line, i) for i, line in enumerate(split_lines(text), first)]
            source, target = (join_lines(side) for side in zip(*pairs, strict=True))
            yield source, target, target

    def _split(self, line: str, number: int) -> list[str]:
        sides = line.split("\t")
        if len(sides) != 2:
            raise DataError(
                f"{self.name}, line {number}: {counted(len(sides) - 1, 'tabs')}, expected"
                " one, between source and target",
                fix="make the lines with: paste SRC TGT, and check that the text has no tabs",
            )
        return sides


class Treebank(Input):
    """Penn Treebank trees: the words are the source, the symbols of the tree the target."""

    def read(self) -> Iterator[PairTexts]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time; a tree without words is an empty pair."""
        trees = read_trees(self.files[0])
        while batch := list(islice(trees, PAIRS_PER_BLOCK)):
            lines = []
            for tree in map(clean, batch):
                sides = map(" ".join, linearize(tree)) if tree else ("", "")
                lines.append((*sides, write(tree) if tree else ""))
            words, symbols, brackets = (join_lines(side) for side in zip(*lines, strict=True))
            yield words, symbols, brackets


def read_blocks(inputs: Sequence[Input]) -> Iterator[Block]:
    """Yield all pairs of the inputs, in order; a block never spans two of them."""
    start = 0
    for each in inputs:
        line = 1
        for source, target, reference in each.read():
            pairs = source.count("\n")
            if each.tag:
                source = _with_tag(each, source, line)
            yield Block(each.name, line, start, pairs, source, target, reference)
            line += pairs
            start += pairs
        if line == 1:
            raise DataError(f"{each.name} has no lines", fix="give text, one sentence a line")


def _with_tag(origin: Input, source: str, first: int) -> str:
    """Return lines with the tag before each; refuse one that has a tag of its own."""
    lines = split_lines(source)
    for number, line in enumerate(lines, start=first):
        if own := TAG.match(line.lstrip()):
            raise DataError(
                f"{origin.name}, line {number:,} begins with {own[0]}, and --tag puts"
                f" {origin.tag} before it",
                fix="leave --tag out, and each line says its language itself; or take the tags"
                " out of the text",
            )
    return join_lines(tag_line(origin.tag, line) for line in lines)


def with_alignments(blocks: Iterable[Block], path: Path) -> Iterator[Block]:
    """Add the lines of a file of word alignments, one a pair, to blocks."""
    lines = read_lines(path)
    for block in blocks:
        of_block = list(islice(lines, block.pairs))
        if len(of_block) < block.pairs:
            raise _unequal(path, block.start + len(of_block), "more")
        yield replace(block, alignments=join_lines(of_block))
    if next(lines, None) is not None:
        raise _unequal(path, block.start + block.pairs, "fewer")


def _unequal(path: Path, lines: int, pairs: str) -> DataError:
    where = "ends after" if pairs == "more" else "goes on after"
    return DataError(
        f"{path} {where} line {lines:,}, and there are {pairs} training pairs",
        fix="give one line of alignments for each pair of all training files, in their order",
    )


def split_lines(text: str) -> list[str]:
    """Return the lines of a block's text: they end at a line feed and nowhere else."""
    return text.split("\n")[:-1]


def join_lines(lines: Iterable[str]) -> str:
    """Return lines as the text of a block."""
    return "".join(f"{line}\n" for line in lines)


def _read(path: Path, name: str = "") -> Iterator[str]:
    """Yield the text of a file, PAIRS_PER_BLOCK lines at a time, a line feed after each."""
    shown = Path(name) if name else path
    with open_bytes(path) as file:
        all_lines = bounded_lines(file)
        for first in count(1, PAIRS_PER_BLOCK):
            lines: list[bytes] = []
            try:
                lines.extend(islice(all_lines, PAIRS_PER_BLOCK))
            except UNREADABLE as problem:
                raise damaged(shown, first - 1 + len(lines), problem) from None
            if not lines:
                return
            yield _decode(lines, shown, first)


def _decode(lines: list[bytes], path: Path, first: int) -> str:
    """Return raw lines as text, with one line feed after each and no other line ends."""
    raw = b"".join(lines)
    if first == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    # Much faster than line by line, which is only needed to name the line that is wrong.
    try:
        text = raw.replace(b"\r\n", b"\n").decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        for number, line in enumerate(lines, start=first):
            decode_line(line, path, number)
    return text
