"""Word alignments as text, in Pharaoh's form: `0-0 1-2`, source-target, counted from 0.

People who align by hand may be unsure of a link, which is then written `1p2` or `1?2`.
"""

import re
from typing import NamedTuple

from aiayn.errors import DataError

LINK = re.compile(r"(\d{1,6})([-p?])(\d{1,6})")

# The numbers of a source word and of a target word.
Link = tuple[int, int]


class Links(NamedTuple):
    """The links of a sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """Sure ones included."""


def parse_links(line: str, name: str, number: int) -> Links:
    """Read a line; `name` and `number` are the file and the line that an error names."""
    sure, possible = set(), set()
    for word in line.split():
        found = LINK.fullmatch(word)
        if found is None:
            raise DataError(
                f"{name}, line {number:,}: {word[:40]!r} is not a link between two words",
                fix="write source-target, counted from 0, as in: 0-0 1-2 2p2",
            )
        link = int(found[1]), int(found[3])
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))
