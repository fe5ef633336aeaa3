"""Penn Treebank trees: read, cleaned, written as a sequence of symbols and back (section 6.3).

The parser of the paper is a translator: words in, symbols out. A bare label opens a
constituent, "/" and the label close it, and a part-of-speech tag stands for each word:
"John has a dog ." becomes `S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S`.
Nothing here recurses, so a tree may have any depth.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from aiayn.data.text import read_lines
from aiayn.errors import DataError

TOP = "TOP"
ROOTS = frozenset({"", TOP, "ROOT", "S1"})  # what treebanks and parsers write at the root
TRACE = "-NONE-"
UNKNOWN_TAG = "XX"

UNBALANCED = "unbalanced"
WRONG_LABEL = "wrong closing label"
WRONG_LEAVES = "wrong leaf count"
EMPTY = "empty constituent"
UNREADABLE = "unreadable symbol"
WRONG_TAG = "punctuation tag"
REPAIRS = (UNBALANCED, WRONG_LABEL, WRONG_LEAVES, EMPTY, UNREADABLE, WRONG_TAG)

# Words that are always punctuation, and their tags.
PUNCTUATION = {
    **dict.fromkeys(".?!", "."),
    **dict.fromkeys([":", ";", "-", "--", "..."], ":"),
    **dict.fromkeys(["`", "``"], "``"),
    **{mark: mark for mark in (",", "''")},
}
PUNCTUATION_TAGS = frozenset(PUNCTUATION.values())
# Closes a quotation, or is a genitive: which of the two, a word does not tell.
APOSTROPHE, OPENING_QUOTE, CLOSING_QUOTE = "'", "`", "''"

# re.ASCII: a no-break space is part of a word.
ATOM = re.compile(r"[^()\s]+", re.ASCII)
TOKEN = re.compile(rf"[()]|{ATOM.pattern}", re.ASCII)
COMMENT = re.compile(r"\s*[*;%#<]")
ROOT_AT_MARGIN = re.compile(r"\((\s*(\(|$)|(TOP|ROOT|S1)([\s(]|$))")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent with its children, or a part-of-speech tag with its word."""

    label: str
    children: tuple["Tree", ...] = ()
    word: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and _outline(self) == _outline(other)

    def __hash__(self) -> int:
        return hash(tuple(_outline(self)))

    def __repr__(self) -> str:
        return write(self)


@dataclass(slots=True)
class _Bracket:
    """A bracket that is still open."""

    label: str = ""
    children: list[Tree] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def walk(tree: Tree) -> Iterator[tuple[Tree, bool]]:
    """Yield each node, depth first, with True; a constituent, when it ends, with False."""
    # An explicit stack: recursion would fail on deep trees, which models do write.
    stack = [(tree, True)]
    while stack:
        node, opens = stack.pop()
        yield node, opens
        if opens and not node.word:
            stack.append((node, False))
            stack.extend((child, True) for child in reversed(node.children))


def _outline(tree: Tree) -> list[tuple[str, str, bool]]:
    return [(node.label, node.word, opens) for node, opens in walk(tree)]


def write(tree: Tree) -> str:
    """Return the tree on one line; a bracket in a word is written -LRB- or -RRB-."""
    pieces = []
    for node, opens in walk(tree):
        if node.word:
            word = node.word.replace("(", "-LRB-").replace(")", "-RRB-")
            pieces.append(f" ({node.label} {word})")
        else:
            pieces.append(f" ({node.label}" if opens else ")")
    # Every piece that opens has a space before it; the first needs none.
    return "".join(pieces)[1:]


def read_trees(path: Path) -> Iterator[Tree]:
    """Yield the trees of a file as they are, one or several lines each.

    Between trees, a line that begins with one of `* ; % # <` is a comment. Whatever else is
    not a tree raises a DataError that names the line on which the tree begins.
    """
    tokens: list[str] = []
    start = depth = 0
    for number, line in enumerate(read_lines(path), start=1):
        if depth and ROOT_AT_MARGIN.match(line):
            break  # a second tree in an open one: a bracket is missing before this line
        if not depth and COMMENT.match(line):
            continue
        for token in TOKEN.findall(line):
            start = start if depth else number
            depth += (token == "(") - (token == ")")
            tokens.append(token)
            # Below 0, a bracket closes nothing, and _assemble raises the error.
            if depth <= 0:
                yield _assemble(tokens, f"{path}, line {start}")
                tokens = []
    if tokens:
        yield _assemble(tokens, f"{path}, line {start}")
    if not start:
        raise DataError(f"{path} holds no trees", fix="give a treebank with trees in brackets")


def parse_tree(text: str, where: str = "this text") -> Tree:
    """Return the one tree that the text holds; `where` begins the message of a DataError."""
    return _assemble(TOKEN.findall(text), where)


def _assemble(tokens: Iterable[str], where: str) -> Tree:
    """Return the tree that the tokens spell, or raise a DataError."""
    path = [_Bracket()]
    before = ""
    for token in tokens:
        if token == "(":
            path.append(_Bracket())
        elif token == ")":
            closed = path.pop()
            if not path:
                raise _malformed(where, 'a ")" that this tree or the last did not open')
            path[-1].children.append(_closed(closed, where))
        elif before == "(":
            path[-1].label = token
        else:
            path[-1].words.append(token)
        before = token
    if len(path) > 1:
        raise _malformed(where, f"the tree ends with {len(path) - 1} of its brackets open")
    outside = path[0]
    if len(outside.children) != 1 or outside.words:
        beside = f"{outside.words[0]!r} outside brackets" if outside.words else ""
        found = beside or f"{len(outside.children)} trees"
        raise _malformed(where, f"{found}, expected one tree in brackets")
    return outside.children[0]


def _closed(bracket: _Bracket, where: str) -> Tree:
    label, children, words = bracket.label, bracket.children, bracket.words
    if words and children:
        raise _malformed(where, f"{words[0]!r} has no tag in ({label} ...)")
    if len(words) > 1:
        raise _malformed(where, f"({label} {words[0]} ...) gives {len(words)} words one tag")
    # A parser that failed writes (()) or (TOP).
    if not words and not children and label not in ROOTS:
        raise _malformed(where, f"({label}) holds neither a word nor a constituent")
    return Tree(label, tuple(children), "".join(words))


def _malformed(where: str, problem: str) -> DataError:
    return DataError(
        f"{where}: {problem}",
        fix="write each word as (TAG word), as .mrg files do, and close every bracket",
    )


def clean(tree: Tree) -> Tree | None:
    """Return what parsers learn and are scored on, under TOP; None if no word is left.

    Traces go, with the nodes they leave empty; function tags and indices go. A bracket that
    only marks the root is replaced by TOP.
    """
    path: list[list[Tree]] = [[]]
    for node, opens in walk(tree):
        if node.word:
            if node.label != TRACE:
                path[-1].append(Tree(category(node.label), word=node.word))
        elif opens:
            path.append([])
        else:
            children = path.pop()
            if children and node.label not in ROOTS:
                children = [Tree(category(node.label), tuple(children))]
            path[-1].extend(children)
    return Tree(TOP, tuple(path[0])) if path[0] else None


@cache
def category(label: str) -> str:
    """Return a label without function tags, index and second choice; -LRB- and such are whole.

    NP-SBJ-1 and NP=2 are NP. ADVP|PRT is ADVP: where the annotators could not choose, the
    first choice holds, as most parsers have it.
    """
    if label.startswith(("-", "=", "|")):
        return label
    return re.split("[-=|]", label, maxsplit=1)[0]


def linearize(tree: Tree) -> tuple[list[str], list[str]]:
    """Return the words of a cleaned tree, and its symbols without TOP."""
    words, symbols = [], []
    for node, opens in walk(tree):
        if node.word:
            words.append(node.word)
        if node is not tree or node.label != TOP:
            symbols.append(node.label if opens else f"/{node.label}")
    return words, symbols


def tag_inventory(trees: Iterable[Tree]) -> frozenset[str]:
    """Return the symbols that stand for a word in these trees.

    A symbol that is now a tag, now a label, counts as what it is more often. No rule could
    be right each time: (S (X (X a) (X b))) and (S (X a) (X (X b))) have the same symbols.
    """
    surplus: Counter[str] = Counter()
    for tree in trees:
        for node, opens in walk(tree):
            if opens:
                surplus[node.label] += 1 if node.word else -1
    return frozenset(label for label, count in surplus.items() if count > 0)


def possible_tags(words: Sequence[str], tags: Set[str]) -> list[Set[str]]:
    """Return for each word which of the tags it may have; all, where none of them would fit.

    Punctuation has its own tag and other words have none of these, `$ % & #` included. An
    apostrophe may close a quotation that another apostrophe of the sentence has opened.
    """
    # Differs from the paper: EVALB drops a sentence with a punctuation tag on a word.
    other = frozenset(tags - PUNCTUATION_TAGS) or tags
    after_quote = frozenset(tags - PUNCTUATION_TAGS | tags & {CLOSING_QUOTE}) or tags
    own = {tag: frozenset({tag}) if tag in tags else other for tag in PUNCTUATION_TAGS}
    found: list[Set[str]] = []
    quoted = False
    for word in words:
        quoted |= word == OPENING_QUOTE
        if word in PUNCTUATION:
            found.append(own[PUNCTUATION[word]])
        else:
            found.append(after_quote if quoted and word == APOSTROPHE else other)
    return found


def delinearize(
    words: Sequence[str], symbols: Iterable[str], tags: Set[str]
) -> tuple[Tree, Counter[str]]:
    """Return one well-formed tree over exactly these words, whatever the symbols are.

    Also return how many repairs of each kind in REPAIRS it took. The symbols of `linearize`
    give its tree back, without repairs. Else a missing bracket is added at the start, at the
    end (Vinyals et al. 2015) or where the parent closes; any other closing symbol closes the
    innermost constituent, whatever its label; tags beyond the words are dropped, words beyond
    the tags join the root; what holds no word is pruned; and a tag of punctuation is given to
    punctuation only, because scorers leave words out by their tag. A symbol that is neither one
    of the `tags` (see `tag_inventory`) nor begins with "/" opens a constituent.
    """
    repairs: Counter[str] = Counter()
    path = [_Bracket()]
    leaves = 0
    possible = possible_tags(words, tags)
    for symbol in symbols:
        if symbol in tags:
            if leaves < len(words):
                word, fits = words[leaves], symbol in possible[leaves]
                repairs[WRONG_TAG] += not fits
                tag = symbol if fits else _usual_tag(word, tags)
                path[-1].children.append(Tree(tag, word=word))
            leaves += 1
        elif not ATOM.fullmatch(symbol) or symbol == "/":
            repairs[UNREADABLE] += 1
        elif symbol.startswith("/"):
            _close(symbol[1:], path, repairs)
        else:
            path.append(_Bracket(symbol))
    while len(path) > 1:
        repairs[UNBALANCED] += 1
        _close_innermost(path, repairs)
    repairs[WRONG_LEAVES] += abs(len(words) - leaves)
    # Scorers that leave punctuation out go by the tag.
    missing = [Tree(_usual_tag(word, tags), word=word) for word in words[leaves:]]
    return Tree(TOP, _join(path[0].children, missing)), +repairs


def _usual_tag(word: str, tags: Set[str]) -> str:
    tag = PUNCTUATION.get(word)
    return tag if tag is not None and tag in tags else UNKNOWN_TAG


def _close(label: str, path: list[_Bracket], repairs: Counter[str]) -> None:
    """Close the innermost constituent, and its parent with it if the label is the parent's.

    Where none is open, one is opened at the start.
    """
    if len(path) == 1:
        repairs[UNBALANCED] += 1
        top = path[0]
        # A model that repeats itself closes its root many times; that is not a new constituent.
        if top.children and [child.label for child in top.children] != [label]:
            top.children = [Tree(label, tuple(top.children))]
        return
    if label not in (path[-1].label, path[-2].label):
        repairs[WRONG_LABEL] += 1
    elif label != path[-1].label:
        repairs[UNBALANCED] += 1
        _close_innermost(path, repairs)
    _close_innermost(path, repairs)


def _close_innermost(path: list[_Bracket], repairs: Counter[str]) -> None:
    closed = path.pop()
    if closed.children:
        path[-1].children.append(Tree(closed.label, tuple(closed.children)))
    else:
        repairs[EMPTY] += 1


def _join(children: list[Tree], missing: list[Tree]) -> tuple[Tree, ...]:
    """Put the missing leaves at the end of the root: the only constituent, or TOP itself."""
    if len(children) == 1 and not children[0].word:
        root = children[0]
        return (replace(root, children=(*root.children, *missing)),)
    return (*children, *missing)
