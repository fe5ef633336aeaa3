"""EVALB's parameters: which labels and words are deleted, and which count as equal.

A file has a keyword and its value on each line, and comments after `#`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aiayn.errors import DataError, did_you_mean

Pairs = frozenset[tuple[str, str]]

FLAGS = ("DEBUG", "MAX_ERROR", "CUTOFF_LEN", "LABELED", "DISC_ONLY")
LISTS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "DELETE_WORD", "QUOTE_LABEL")
PAIRS = ("EQ_LABEL", "EQ_WORD")
TAKES = {
    **dict.fromkeys(FLAGS, "one whole number"),
    **dict.fromkeys(LISTS, "one value"),
    **dict.fromkeys(PAIRS, "two values"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalbParameters:
    """The content of a parameter file; the defaults are those of an empty file."""

    name: str
    labeled: bool = True
    cutoff: int = 40
    """Sentences up to this length get figures of their own."""
    deleted_labels: frozenset[str] = frozenset()
    """A preterminal is deleted with its word; of another node, the children stay."""
    uncounted_labels: frozenset[str] = frozenset()
    """Preterminals that do not count towards a sentence's length."""
    deleted_words: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    """Preterminals whose quote sign may be deleted in one tree and kept in the other."""
    equal_labels: Pairs = frozenset()
    equal_words: Pairs = frozenset()

    def same_label(self, one: str, other: str) -> bool:
        """Return whether two labels count as the same."""
        return one == other or bool({(one, other), (other, one)} & self.equal_labels)

    def same_word(self, one: str, other: str) -> bool:
        """Return whether two words count as the same."""
        return one == other or bool({(one, other), (other, one)} & self.equal_words)

    def deletes_label(self, label: str) -> bool:
        """Return whether a node with this label, or one equal to it, is deleted."""
        return any(self.same_label(label, deleted) for deleted in self.deleted_labels)


# COLLINS.prm, by which parsers of the Penn Treebank are compared.
COLLINS = EvalbParameters(
    name="COLLINS",
    deleted_labels=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    uncounted_labels=frozenset(["-NONE-"]),
    equal_labels=frozenset([("ADVP", "PRT")]),
)


def read_parameters(lines: Iterable[str], name: str) -> EvalbParameters:
    """Read a parameter file; the file of COLLINS by any name is COLLINS."""
    flags: dict[str, int] = {}
    lists: dict[str, list[str]] = {keyword: [] for keyword in LISTS}
    pairs: dict[str, list[tuple[str, str]]] = {keyword: [] for keyword in PAIRS}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        keyword, *values = line.split()
        # DEBUG and MAX_ERROR are read and ignored: messages are short, and no error is fatal.
        if keyword in FLAGS and len(values) == 1 and values[0].isdecimal():
            flags[keyword] = int(values[0])
        elif keyword in LISTS and len(values) == 1:
            lists[keyword].append(values[0])
        elif keyword in PAIRS and len(values) == 2:
            pairs[keyword].append((values[0], values[1]))
        else:
            raise _wrong_line(f"{name}, line {number}", keyword, values)
    if flags.get("DISC_ONLY"):
        raise DataError(
            f"{name}: DISC_ONLY is 1, and bracketed trees have no discontinuous constituents",
            fix="leave DISC_ONLY out",
        )
    empty = EvalbParameters(name=name)
    parameters = replace(
        empty,
        labeled=flags.get("LABELED", empty.labeled) != 0,
        cutoff=flags.get("CUTOFF_LEN", empty.cutoff),
        deleted_labels=frozenset(lists["DELETE_LABEL"]),
        uncounted_labels=frozenset(lists["DELETE_LABEL_FOR_LENGTH"]),
        deleted_words=frozenset(lists["DELETE_WORD"]),
        quote_labels=frozenset(lists["QUOTE_LABEL"]),
        equal_labels=frozenset(pairs["EQ_LABEL"]),
        equal_words=frozenset(pairs["EQ_WORD"]),
    )
    return COLLINS if replace(parameters, name=COLLINS.name) == COLLINS else parameters


def _wrong_line(place: str, keyword: str, values: list[str]) -> DataError:
    if keyword not in TAKES:
        fix = did_you_mean(keyword, {name: name for name in TAKES})
        return DataError(f"{place}: {keyword} is not a parameter of EVALB", fix=fix)
    found = " ".join(values) or "nothing"
    return DataError(
        f"{place}: {keyword} takes {TAKES[keyword]}, and it has {found}",
        fix="write it as COLLINS.prm does",
    )
