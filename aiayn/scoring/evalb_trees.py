"""Trees as EVALB reads them: tagged words, labeled spans, and what is broken."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiayn.errors import DataError
from aiayn.scoring.evalb_parameters import EvalbParameters

# EVALB knows the white space of ASCII only: a no-break space is part of a word. A bracket with
# one word in it, even an empty one, is a preterminal.
PIECE = re.compile(
    r"\((?P<label>[^\s()]*)(?P<leaf>\s+(?P<word>[^\s()]*)\))?|(?P<close>\))|(?P<loose>[^\s()]+)",
    re.ASCII,
)

UNLABELED_ROOT = re.compile(r"^\s*\(\s*\(")

# Words that a parser may take for a quote or for a possessive.
QUOTES = ("'", '"', "/")


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
    """A quote sign that one tree may delete and the other keep, and its position."""

    leaf: Leaf
    position: int
    """Words before it."""
    opened: int
    """Brackets opened before it."""
    enclosing: list[Bracket]
    """Brackets that are open at it."""


@dataclass(slots=True)
class EvalbTree:
    """A tree without the words that the parameters delete."""

    length: int = 0
    """Words that count towards the length of the sentence."""
    leaves: list[Leaf] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    """In order of opening."""
    quotes: list[Quote] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_tree(text: str, parameters: EvalbParameters) -> EvalbTree:
    """Read one tree up to the first problem, which is noted in it."""
    tree = EvalbTree()
    stack: list[Bracket] = []
    for piece in PIECE.finditer(text):
        if piece["leaf"]:
            _add_leaf(tree, Leaf(piece["label"], piece["word"]), stack, parameters)
        elif piece["close"]:
            if not stack:
                tree.problems.append("Bracketing unbalance (too many close bracket)")
                break
            stack.pop().end = len(tree.leaves)
        elif piece["loose"]:
            tree.problems.append(f"Reading sentence ({piece['loose']} has no bracket)")
            break
        else:
            bracket = Bracket(piece["label"], len(tree.leaves))
            stack.append(bracket)
            tree.brackets.append(bracket)
    if stack and not tree.problems:
        tree.problems.append("Bracketing is unbalanced (too many open bracket)")
    return tree


def _add_leaf(
    tree: EvalbTree, leaf: Leaf, stack: list[Bracket], parameters: EvalbParameters
) -> None:
    tree.length += leaf.label not in parameters.uncounted_labels
    if leaf.label in parameters.quote_labels and leaf.word in QUOTES:
        position, opened = len(tree.leaves), len(tree.brackets)
        tree.quotes.append(Quote(leaf, position, opened, list(stack)))
    deleted = leaf.label in parameters.deleted_labels or leaf.word in parameters.deleted_words
    if not deleted:
        tree.leaves.append(leaf)


def restore_quotes(gold: EvalbTree, test: EvalbTree, parameters: EvalbParameters) -> None:
    """Restore a quote sign that its tag deletes in one tree and keeps in the other."""
    for number, quote in enumerate(test.quotes):
        position = quote.position
        for gold_number, gold_quote in enumerate(gold.quotes):
            if gold_quote.position != position or gold_quote.leaf.label == quote.leaf.label:
                continue
            gold_deleted = gold_quote.leaf.label in parameters.deleted_labels
            test_deleted = quote.leaf.label in parameters.deleted_labels
            if gold_deleted and not test_deleted:
                _restore(gold, gold_number)
            elif test_deleted and not gold_deleted:
                _restore(test, number)


def _restore(tree: EvalbTree, number: int) -> None:
    quote = tree.quotes[number]
    tree.leaves.insert(quote.position, quote.leaf)
    for bracket in tree.brackets[quote.opened :]:
        bracket.start += 1
        bracket.end += 1
    for bracket in quote.enclosing:
        bracket.end += 1
    for later in tree.quotes[number:]:
        later.position += 1


def split_trees(lines: Sequence[str], name: str) -> list[str]:
    """Return the trees of a file, as many as it has lines unless lines are indented.

    The Penn Treebank ships its trees over several lines, all but the first indented, under
    a root without a label; that root is TOP. Lines between such trees are ignored.
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
            trees.append(UNLABELED_ROOT.sub("(TOP (", tree))
            tree = ""
    if tree:
        raise _unbalanced(f"{name}, line {start}: the tree that begins there is not closed")
    return trees


def _unbalanced(message: str) -> DataError:
    return DataError(
        message, fix="fix the tree, or write one tree per line without indentation"
    )
