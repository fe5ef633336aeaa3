"""Trees as EVALB reads them: words with tags, spans with labels, and what is broken."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiayn.errors import DataError
from aiayn.scoring.parameters import Parameters

# EVALB knows the white space of ASCII only: a no-break space is part of a word. A bracket with
# one word in it, even an empty one, is a preterminal.
PIECE = re.compile(
    r"\((?P<label>[^\s()]*)(?P<leaf>\s+(?P<word>[^\s()]*)\))?|(?P<close>\))|(?P<loose>[^\s()]+)",
    re.ASCII,
)

UNLABELLED_ROOT = re.compile(r"^\s*\(\s*\(")

QUOTES = ("'", '"', "/")
"""Words that a parser may take for a quote or for a possessive."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its tag."""

    label: str
    word: str


@dataclass(slots=True)
class Bracket:
    """A node above the tags: its label, and the words from `start` up to `end`."""

    label: str
    start: int
    end: int = 0


@dataclass(slots=True)
class Quote:
    """A quote sign that the other tree may treat otherwise, and where it stands."""

    leaf: Leaf
    place: int
    """Words before it."""
    opened: int
    """Brackets opened before it."""
    around: list[Bracket]
    """Brackets open at it."""


@dataclass(slots=True)
class Reading:
    """What is in a tree after the parameters took their words out."""

    length: int = 0
    """Words that count towards the length of the sentence."""
    leaves: list[Leaf] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    """In order of opening."""
    quotes: list[Quote] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_tree(text: str, parameters: Parameters) -> Reading:
    """Read one tree as far as it goes; what is broken is in the reading's problems."""
    reading = Reading()
    stack: list[Bracket] = []
    for piece in PIECE.finditer(text):
        if piece["leaf"]:
            _add_leaf(reading, Leaf(piece["label"], piece["word"]), stack, parameters)
        elif piece["close"]:
            if not stack:
                reading.problems.append("Bracketing unbalance (too many close bracket)")
                break
            stack.pop().end = len(reading.leaves)
        elif piece["loose"]:
            reading.problems.append(f"Reading sentence ({piece['loose']} has no bracket)")
            break
        else:
            bracket = Bracket(piece["label"], len(reading.leaves))
            stack.append(bracket)
            reading.brackets.append(bracket)
    if stack and not reading.problems:
        reading.problems.append("Bracketing is unbalanced (too many open bracket)")
    return reading


def _add_leaf(
    reading: Reading, leaf: Leaf, stack: list[Bracket], parameters: Parameters
) -> None:
    reading.length += leaf.label not in parameters.uncounted_labels
    if leaf.label in parameters.quote_labels and leaf.word in QUOTES:
        place, opened = len(reading.leaves), len(reading.brackets)
        reading.quotes.append(Quote(leaf, place, opened, list(stack)))
    if not parameters.deletes_leaf(leaf.label, leaf.word):
        reading.leaves.append(leaf)


def restore_quotes(gold: Reading, test: Reading, parameters: Parameters) -> None:
    """Put back a quote sign that was deleted in one tree and kept, by its tag, in the other."""
    for number, quote in enumerate(test.quotes):
        place = quote.place
        for gold_number, gold_quote in enumerate(gold.quotes):
            if gold_quote.place != place or gold_quote.leaf.label == quote.leaf.label:
                continue
            gold_deleted = gold_quote.leaf.label in parameters.deleted_labels
            test_deleted = quote.leaf.label in parameters.deleted_labels
            if gold_deleted and not test_deleted:
                _put_back(gold, gold_number)
            elif test_deleted and not gold_deleted:
                _put_back(test, number)


def _put_back(reading: Reading, number: int) -> None:
    quote = reading.quotes[number]
    reading.leaves.insert(quote.place, quote.leaf)
    for bracket in reading.brackets[quote.opened :]:
        bracket.start += 1
        bracket.end += 1
    for bracket in quote.around:
        bracket.end += 1
    for later in reading.quotes[number:]:
        later.place += 1


def split_trees(lines: Sequence[str], name: str) -> list[str]:
    """Return the trees of a file, as many as it has lines unless lines are indented.

    The Penn Treebank ships its trees over several lines, all but the first indented, under
    a root without a label; that root is TOP. Lines between such trees are no trees.
    """
    if not any(line[:1].isspace() and line.strip() for line in lines):
        return list(lines)
    trees: list[str] = []
    tree = ""
    depth = start = 0
    for number, line in enumerate(lines, start=1):
        if not tree and not line.lstrip().startswith("("):
            continue
        start = start if tree else number
        tree += line + " "
        depth += line.count("(") - line.count(")")
        if depth < 0:
            raise _unbalanced(f"{name}, line {number}: a bracket is closed and none is open")
        if depth == 0:
            trees.append(UNLABELLED_ROOT.sub("(TOP (", tree))
            tree = ""
    if tree:
        raise _unbalanced(f"{name}, line {start}: the tree that begins there is not closed")
    return trees


def _unbalanced(message: str) -> DataError:
    return DataError(message, fix="mend the tree, or write one tree a line without indentation")
