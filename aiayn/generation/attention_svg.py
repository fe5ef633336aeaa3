"""Attention as a picture in the manner of the paper's figures 3 to 5.

Keys stand above, queries below, and a line of a head's colour is as strong as its weight.
H heads; L, M query and memory length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from aiayn.generation.tokens import is_right_to_left, runs_right_to_left, shorten

FONT, PITCH, MARGIN, TITLE, LEGEND = 14, 20, 16, 28, 20
LONGEST_LABEL = 24
CELL = 8.4
"""Units that a cell of a terminal takes in this font: enough for capitals."""
LEAST = 0.01
"""Weights below are not drawn: a tenth of a page of lines that nobody sees."""
SPREAD = 0.6
"""Share of a column over which the lines of its heads are spread, so that none is hidden."""
COVERED = 0.5
"""How much of the paper the strongest shade covers: the text on it stays readable."""
COLOURS = ("1f6fd6", "d9730d", "2b9348", "c2389a", "d62839", "0f9aa8", "7048c8", "8a6d1f")
MIXED = ((0, 0.0), (255, 0.45), (0, 0.45), (255, 0.7))
"""White or black, and how much of it, for each further round of the colours."""
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


def colour(head: int | str) -> str:
    """Return the colour of a head; from the ninth on, lighter and darker ones."""
    number = head - 1 if isinstance(head, int) else 0
    base = COLOURS[number % len(COLOURS)]
    towards, share = MIXED[number // len(COLOURS) % len(MIXED)]
    rgb = (round(part + (towards - part) * share) for part in bytes.fromhex(base))
    return f"#{bytes(rgb).hex()}"


def draw_attention(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels one below the other."""
    top, width, bodies = 0.0, 0.0, []
    for panel in panels:
        drawn = _Drawn(panel)
        bodies.append(f'<g transform="translate(0,{top:g})">{"".join(drawn.parts())}</g>')
        top, width = top + drawn.height, max(width, drawn.width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {top:g}"'
        f' width="{width:g}" height="{top:g}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(bodies)}</svg>\n'
    )


class _Drawn:
    """A panel with its measures."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        across = max(len(panel.queries), len(panel.keys)) * PITCH
        title = cell_len(panel.title) * CELL
        self.width = 2 * MARGIN + max(across, title)
        self.upper = TITLE + MARGIN + _label_height(panel.keys)
        self.lower = self.upper + min(320, max(140, across * 0.35))
        self.foot = self.lower + _label_height(panel.queries) + MARGIN
        self.legend = list(self._legend())
        self.height = self.foot + len(self.legend) * LEGEND + MARGIN
        self.key_x = self._places(panel.keys)
        self.query_x = self._places(panel.queries)

    def _places(self, tokens: Sequence[str]) -> list[float]:
        """Return the middle of each token's column; Arabic begins on the right."""
        left = (self.width - PITCH * len(tokens)) / 2
        places = [left + PITCH * (number + 0.5) for number in range(len(tokens))]
        return places[::-1] if runs_right_to_left(tokens) else places

    def parts(self) -> Iterator[str]:
        """Yield the elements, from the back to the front."""
        panel = self.panel
        yield f'<text class="title" x="{MARGIN}" y="{TITLE - 8}">{escape(panel.title)}</text>'
        if len(panel.rows) < len(panel.queries):
            yield from self._shades()
        shift = min(2.5, PITCH * SPREAD / len(panel.heads))
        for number, head in enumerate(panel.heads):
            aside = shift * (number - (len(panel.heads) - 1) / 2)
            yield (
                f'<g stroke="{colour(head)}" stroke-width="{max(1, min(2, shift)):g}"'
                f' transform="translate({aside:g},0)">'
                f"{''.join(self._lines(panel.weights_HLM[number]))}</g>"
            )
        for x, key in zip(self.key_x, panel.keys, strict=True):
            yield _label(key, x, self.upper - 4, upwards=True)
        for row, (x, query) in enumerate(zip(self.query_x, panel.queries, strict=True)):
            yield _label(query, x, self.lower + 4, upwards=False, far=row not in panel.rows)
        yield from self.legend

    def _lines(self, weights_LM: NDArray[np.float32]) -> Iterator[str]:
        for row in self.panel.rows:
            for column in np.flatnonzero(weights_LM[row] >= LEAST):
                yield (
                    f'<line x1="{self.query_x[row]:g}" y1="{self.lower:g}"'
                    f' x2="{self.key_x[column]:g}" y2="{self.upper:g}"'
                    f' stroke-opacity="{weights_LM[row, column]:.2f}"/>'
                )

    def _shades(self) -> Iterator[str]:
        """Yield stripes behind the keys, one a head, as strong as the chosen queries look."""
        panel = self.panel
        stripe = PITCH / len(panel.heads)
        height = _label_height(panel.keys)
        for number, head in enumerate(panel.heads):
            weights_M = panel.weights_HLM[number, panel.rows].max(axis=0)
            for column in np.flatnonzero(weights_M >= LEAST):
                yield (
                    f'<rect x="{self.key_x[column] - PITCH / 2 + number * stripe:g}"'
                    f' y="{self.upper - height:g}" width="{stripe:g}" height="{height:g}"'
                    f' fill="{colour(head)}" fill-opacity="{COVERED * weights_M[column]:.2f}"/>'
                )

    def _legend(self) -> Iterator[str]:
        """Yield rows of as many heads as there is room for."""
        names = [
            f"head {h}" if isinstance(h, int) else f"{h} of the heads" for h in self.panel.heads
        ]
        step = 24 + CELL * max(map(len, names))
        fit = max(1, int((self.width - MARGIN) // step))
        for start in range(0, len(names), fit):
            y = self.foot + LEGEND * (start // fit + 1)
            yield "".join(
                f'<rect x="{x:g}" y="{y - 11:g}" width="12" height="12" rx="2"'
                f' fill="{colour(head)}"/><text x="{x + 16:g}" y="{y:g}">{name}</text>'
                for x, head, name in zip(
                    (MARGIN + step * place for place in range(fit)),
                    self.panel.heads[start : start + fit],
                    names[start : start + fit],
                    strict=False,
                )
            )


def _label(text: str, x: float, y: float, *, upwards: bool, far: bool = False) -> str:
    """Return a token that reads upwards and touches the lines with its beginning or its end."""
    backwards = is_right_to_left(text)
    anchor = "start" if upwards != backwards else "end"
    direction = ' direction="rtl"' if backwards else ""
    faint = ' class="far"' if far else ""
    # A third of the font's size brings its middle to the column's.
    return (
        f'<text{faint} transform="translate({x + FONT * 0.35:g},{y:g}) rotate(-90)"'
        f' text-anchor="{anchor}"{direction}>{escape(shorten(text, LONGEST_LABEL))}</text>'
    )


def _label_height(tokens: Sequence[str]) -> float:
    return CELL * max(min(LONGEST_LABEL, cell_len(token)) for token in tokens) + 6
