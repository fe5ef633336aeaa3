"""Attention as a picture in the manner of the paper's figures 3 to 5.

Keys stand above, queries below, and a line of a head's color is as strong as its weight.
H heads; L, M query and memory length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from aiayn.figures.svg import Drawing, element, stack, text
from aiayn.figures.tokens import is_right_to_left, runs_right_to_left, shorten

FONT, PITCH, MARGIN, TITLE, LEGEND = 14, 20, 16, 28, 20
LONGEST_LABEL = 24
# Units that a cell of a terminal takes in this font: enough for capitals.
CELL = 8.4
# Weights below are not drawn: a tenth of a page of lines that nobody sees.
LEAST = 0.01
# Share of a column over which the lines of its heads are spread, so that none is hidden.
SPREAD = 0.6
# How much of the paper the strongest shade covers: the text on it stays readable.
COVERED = 0.5
COLORS = ("1f6fd6", "d9730d", "2b9348", "c2389a", "d62839", "0f9aa8", "7048c8", "8a6d1f")
# White or black, and how much of it, for each further round of the colors.
MIXED = ((0, 0.0), (255, 0.45), (0, 0.45), (255, 0.7))
STYLE = (
    f"text{{font:{FONT}px sans-serif;fill:#222}}.title{{font-weight:bold}}.far{{fill:#999}}"
    "line{stroke-linecap:round}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """What is drawn between two rows of tokens."""

    title: str
    queries: list[str]
    keys: list[str]
    heads: list[int | str]
    weights_HLM: NDArray[np.float32]
    rows: list[int]
    """Queries whose lines are drawn; if not all, they also shade what they look at."""


def color(head: int | str) -> str:
    """Return the color of a head; from the ninth on, lighter and darker ones."""
    number = head - 1 if isinstance(head, int) else 0
    base = COLORS[number % len(COLORS)]
    towards, share = MIXED[number // len(COLORS) % len(MIXED)]
    rgb = (round(part + (towards - part) * share) for part in bytes.fromhex(base))
    return f"#{bytes(rgb).hex()}"


def draw_attention(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels one below the other."""
    return stack((_Layout(panel).draw() for panel in panels), style=STYLE)


class _Layout:
    """Where the parts of a panel stand."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        across = max(len(panel.queries), len(panel.keys)) * PITCH
        self.width = 2 * MARGIN + max(across, cell_len(panel.title) * CELL)
        self.upper = TITLE + MARGIN + _label_height(panel.keys)
        # Long sentences get more height, or their lines would be nearly horizontal.
        self.lower = self.upper + min(320, max(140, across * 0.35))
        self.foot = self.lower + _label_height(panel.queries) + MARGIN
        self.key_x = self._columns(panel.keys)
        self.query_x = self._columns(panel.queries)

    def _columns(self, tokens: Sequence[str]) -> list[float]:
        """Return the middle of each token's column; Arabic begins on the right."""
        left = (self.width - PITCH * len(tokens)) / 2
        middles = [left + PITCH * (number + 0.5) for number in range(len(tokens))]
        return middles[::-1] if runs_right_to_left(tokens) else middles

    def draw(self) -> Drawing:
        """Return the panel; what comes later covers what came before."""
        panel, legend = self.panel, list(self._legend())
        elements = [text(panel.title, class_="title", x=MARGIN, y=TITLE - 8)]
        if len(panel.rows) < len(panel.queries):
            elements += self._shades()
        # Heads lie side by side, so that none hides another.
        shift = min(2.5, PITCH * SPREAD / len(panel.heads))
        for number, head in enumerate(panel.heads):
            aside = shift * (number - (len(panel.heads) - 1) / 2)
            lines = "".join(self._lines(panel.weights_HLM[number]))
            width, move = max(1, min(2, shift)), f"translate({aside:g},0)"
            elements.append(
                element("g", lines, stroke=color(head), stroke_width=width, transform=move)
            )
        for x, key in zip(self.key_x, panel.keys, strict=True):
            elements.append(_label(key, x, self.upper - 4, above=True))
        for row, (x, query) in enumerate(zip(self.query_x, panel.queries, strict=True)):
            chosen = row in panel.rows
            elements.append(_label(query, x, self.lower + 4, above=False, faint=not chosen))
        height = self.foot + len(legend) * LEGEND + MARGIN
        return Drawing(self.width, height, "".join([*elements, *legend]))

    def _lines(self, weights_LM: NDArray[np.float32]) -> Iterator[str]:
        for row in self.panel.rows:
            for column in np.flatnonzero(weights_LM[row] >= LEAST):
                ends = {"x1": self.query_x[row], "y1": self.lower}
                ends |= {"x2": self.key_x[column], "y2": self.upper}
                yield element("line", **ends, stroke_opacity=f"{weights_LM[row, column]:.2f}")

    def _shades(self) -> Iterator[str]:
        """Yield stripes behind the keys, one per head, as strong as the chosen queries look."""
        panel, height = self.panel, _label_height(self.panel.keys)
        stripe = PITCH / len(panel.heads)
        for number, head in enumerate(panel.heads):
            weights_M = panel.weights_HLM[number, panel.rows].max(axis=0)
            for column in np.flatnonzero(weights_M >= LEAST):
                x = self.key_x[column] - PITCH / 2 + number * stripe
                place = {"x": x, "y": self.upper - height, "width": stripe, "height": height}
                strength = f"{COVERED * weights_M[column]:.2f}"
                yield element("rect", **place, fill=color(head), fill_opacity=strength)

    def _legend(self) -> Iterator[str]:
        """Yield the rows of the legend, each with as many heads as fit."""
        heads = self.panel.heads
        names = [f"head {h}" if isinstance(h, int) else f"{h} of the heads" for h in heads]
        step = 24 + CELL * max(map(len, names))
        per_row = max(1, int((self.width - MARGIN) // step))
        for start in range(0, len(heads), per_row):
            y = self.foot + LEGEND * (start // per_row + 1)
            row = ""
            for number in range(start, min(start + per_row, len(heads))):
                x = MARGIN + step * (number - start)
                box = {"x": x, "y": y - 11, "width": 12, "height": 12, "rx": 2}
                row += element("rect", **box, fill=color(heads[number]))
                row += text(names[number], x=x + 16, y=y)
            yield row


def _label(token: str, x: float, y: float, *, above: bool, faint: bool = False) -> str:
    """Return a token that reads upwards and touches the lines with its beginning or its end."""
    backwards = is_right_to_left(token)
    # A third of the font's size brings the middle of the letters to that of the column.
    return text(
        shorten(token, LONGEST_LABEL),
        class_="far" if faint else None,
        transform=f"translate({x + FONT * 0.35:g},{y:g}) rotate(-90)",
        text_anchor="start" if above != backwards else "end",
        direction="rtl" if backwards else None,
    )


def _label_height(tokens: Sequence[str]) -> float:
    return CELL * max(min(LONGEST_LABEL, cell_len(token)) for token in tokens) + 6
