"""Pairs of text from files, a block at a time: parallel files, tab-separated lines, trees.

Blocks are the unit of all further work: cut at fixed pair numbers, whoever works on them.
"""

import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from aiayn.data.text import BYTE_ORDER_MARK, decode_line, open_bytes
from aiayn.data.trees import clean, linearize, read_trees, write
from aiayn.errors import DataError

PAIRS_PER_BLOCK = 2000


class Rows(NamedTuple):
    """Some consecutive pairs as three texts, each with one line a pair."""

    source: str
    target: str
    reference: str
    """What a translation is scored against: the target, or the whole tree."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive pairs of one input."""

    name: str
    """File that they stand in."""
    line: int
    """Number of the first of them in that file, counted from 1."""
    start: int
    """Number of the first of them among all pairs, counted from 0."""
    pairs: int
    rows: Rows

    def text_pairs(self) -> list[tuple[str, str]]:
        """Return its pairs one by one."""
        sources, targets = split_lines(self.rows.source), split_lines(self.rows.target)
        return list(zip(sources, targets, strict=True))


class Input(Protocol):
    """Something that pairs can be read from."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to read, in order."""

    @property
    def name(self) -> str:
        """What to call it when a line of it is named."""

    def rows(self) -> Iterator[Rows]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Two files whose lines belong together."""

    source: Path
    target: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to read, in order."""
        return self.source, self.target

    @property
    def name(self) -> str:
        """What to call it when a line of it is named."""
        return str(self.source)

    def rows(self) -> Iterator[Rows]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""
        with open_bytes(self.source) as source, open_bytes(self.target) as target:
            for first in count(1, PAIRS_PER_BLOCK):
                left = _take(source, self.source, first)
                right = _take(target, self.target, first)
                if len(left) != len(right):
                    raise self._unequal(
                        _count_lines(source, self.source, first + len(left)),
                        _count_lines(target, self.target, first + len(right)),
                    )
                if not left:
                    _require_lines(first, self.source)
                    return
                targets = _decode(right, self.target, first)
                yield Rows(_decode(left, self.source, first), targets, targets)

    def _unequal(self, source_lines: int, target_lines: int) -> DataError:
        return DataError(
            f"{self.source} has {source_lines:,} lines and {self.target} has"
            f" {target_lines:,}, and each line needs its translation on the same line",
            fix="check that the two files belong together and that neither was cut short",
        )


@dataclass(frozen=True, slots=True)
class TabbedText:
    """Lines of source, tab, target."""

    path: Path
    name: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The file to read."""
        return (self.path,)

    def rows(self) -> Iterator[Rows]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time."""
        with open_bytes(self.path) as file:
            for first in count(1, PAIRS_PER_BLOCK):
                raw = _take(file, Path(self.name), first)
                if not raw:
                    _require_lines(first, Path(self.name))
                    return
                lines = split_lines(_decode(raw, Path(self.name), first))
                sides = [self._part(line, first + i) for i, line in enumerate(lines)]
                source, target = (join_lines(side) for side in zip(*sides, strict=True))
                yield Rows(source, target, target)

    def _part(self, line: str, number: int) -> list[str]:
        sides = line.split("\t")
        if len(sides) != 2:
            raise DataError(
                f"{self.name}, line {number}: {len(sides) - 1} tabs, and one is wanted,"
                " between source and target",
                fix="make the lines with: paste SRC TGT, and check that the text has no tabs",
            )
        return sides


@dataclass(frozen=True, slots=True)
class Treebank:
    """Penn Treebank trees: the words are the source, the symbols of the tree the target."""

    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file to read."""
        return (self.path,)

    @property
    def name(self) -> str:
        """What to call it when a tree of it is named."""
        return str(self.path)

    def rows(self) -> Iterator[Rows]:
        """Yield its pairs, PAIRS_PER_BLOCK at a time; a tree without words is an empty pair."""
        trees = read_trees(self.path)
        while batch := list(islice(trees, PAIRS_PER_BLOCK)):
            lines = []
            for tree in map(clean, batch):
                words, symbols = linearize(tree) if tree else ([], [])
                lines.append((" ".join(words), " ".join(symbols), write(tree) if tree else ""))
            yield Rows(*(join_lines(side) for side in zip(*lines, strict=True)))


def read_blocks(inputs: Sequence[Input]) -> Iterator[Block]:
    """Yield all pairs of the inputs, in order; a block never spans two of them."""
    start = 0
    for each in inputs:
        line = 1
        for rows in each.rows():
            pairs = rows.source.count("\n")
            yield Block(each.name, line, start, pairs, rows)
            line += pairs
            start += pairs


def split_lines(text: str) -> list[str]:
    """Return the lines of a block's text: they end at a line feed and nowhere else."""
    return text.split("\n")[:-1]


def join_lines(lines: Iterable[str]) -> str:
    """Return lines as the text of a block."""
    return "".join(f"{line}\n" for line in lines)


def _take(file: IO[bytes], path: Path, first: int) -> list[bytes]:
    """Return the next raw lines of a file."""
    lines: list[bytes] = []
    try:
        lines.extend(islice(file, PAIRS_PER_BLOCK))
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as problem:
        raise DataError(
            f"{path} cannot be read past line {first - 1 + len(lines):,}: {problem}",
            fix="the file is damaged or cut short; make or download it again",
        ) from None
    return lines


def _count_lines(file: IO[bytes], path: Path, first: int) -> int:
    """Return how many lines a file has, the rest of which begins with number `first`."""
    while lines := _take(file, path, first):
        first += len(lines)
    return first - 1


def _decode(lines: list[bytes], path: Path, first: int) -> str:
    """Return raw lines as text, with one line feed after each and no other line ends."""
    raw = b"".join(lines)
    if first == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    try:
        text = raw.replace(b"\r\n", b"\n").decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        for number, line in enumerate(lines, start=first):
            decode_line(line, path, number)
    return text


def _require_lines(first: int, path: Path) -> None:
    if first == 1:
        raise DataError(f"{path} has no lines", fix="give text with one sentence a line")
