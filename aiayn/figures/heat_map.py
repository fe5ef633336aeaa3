"""Attention in the terminal: a row for each query, a column for each key, in percent."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from aiayn.figures.tokens import is_right_to_left, shorten

WIDEST_LABEL, WIDEST_COLUMN = 20, 10
# One cell of shade and a number of three digits.
NARROWEST_COLUMN = 4
SHADES = " \u2591\u2592\u2593\u2588"
COLD, HOT = (24, 40, 64), (255, 176, 32)
LEFT_TO_RIGHT_MARK = "\u200e"


def heat_map(
    queries: Sequence[str],
    keys: Sequence[str],
    weights_LM: NDArray[np.float32],
    *,
    width: int,
    color: bool,
) -> Iterator[Text]:
    """Yield the lines of a map, in blocks of as many columns as fit the width.

    Weights are shown as colors, or else as characters of more and more ink.
    """
    label = min(WIDEST_LABEL, max(map(cell_len, queries)))
    widths = [min(WIDEST_COLUMN, max(NARROWEST_COLUMN, cell_len(key))) for key in keys]
    for number, block in enumerate(_blocks(widths, width - label)):
        if number:
            yield Text()
        heads = (" " + _fit(keys[i], widths[i], right=True) for i in block)
        yield Text(" " * label + "".join(heads))
        for query, weights_M in zip(queries, weights_LM, strict=True):
            line = Text(_fit(query, label))
            for i in block:
                line.append(" ").append_text(_cell(float(weights_M[i]), widths[i], color))
            yield line


def _blocks(widths: Sequence[int], space: int) -> Iterator[list[int]]:
    """Yield the numbers of columns that fit side by side, at least one at a time."""
    block: list[int] = []
    taken = 0
    for number, column in enumerate(widths):
        if block and taken + 1 + column > space:
            yield block
            block, taken = [], 0
        block.append(number)
        taken += 1 + column
    yield block


def _fit(text: str, cells: int, *, right: bool = False) -> str:
    """Return a text in exactly so many cells."""
    short = shorten(text, cells)
    space = " " * (cells - cell_len(short))
    if is_right_to_left(short):
        # Without it, a terminal that orders scripts would exchange neighboring columns.
        short += LEFT_TO_RIGHT_MARK
    return space + short if right else short + space


def _cell(weight: float, cells: int, color: bool) -> Text:
    percent = round(100 * weight)
    number = str(percent) if percent else ""
    if not color:
        shade = SHADES[min(len(SHADES) - 1, round(weight * len(SHADES)))]
        return Text(f"{shade * (cells - 3)}{number:>3}")
    red, green, blue = (round(a + (b - a) * weight) for a, b in zip(COLD, HOT, strict=True))
    ink = "black" if weight > 0.5 else "white"
    style = Style(color=ink, bgcolor=f"rgb({red},{green},{blue})")
    return Text(f"{number:>{cells}}", style)
