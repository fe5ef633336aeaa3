"""Draw the measurements of table 1 on log-log axes, as one SVG figure.

python recipes/table1_complexity/plot.py measured.json table1.svg
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from aiayn.figures.svg import Drawing, element, stack, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 280, 56, 16, 36, 40
COLORS = {
    "self-attention": "#1f6feb",
    "self-attention, fused": "#54aeff",
    "self-attention, additive": "#bf8700",
    "recurrent": "#d1242f",
    "convolutional": "#1a7f37",
    "convolutional, separable": "#2da4a0",
    "convolutional, contiguous": "#7fb98a",
    "self-attention, restricted": "#8250df",
}
STYLE = (
    "text{font:12px sans-serif;fill:#333}.line{fill:none;stroke-width:1.5}"
    ".grid{stroke:#ddd;stroke-width:1}"
)
MOST_LABELS = 8

Lines = dict[str, list[tuple[float, float]]]


def lines_of(
    rows: list[dict[str, Any]], x: str, y: str, *, scale: float = 1, letter: str = ""
) -> Lines:
    """Return the points (x, y) of each layer."""
    lines: Lines = {}
    for row in rows:
        if row.get("letter", "") == letter:
            lines.setdefault(row["layer"], []).append((row[x], scale * row[y]))
    return lines


def panels(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, Lines]]:
    """Return the title of each panel, what runs across it, and its lines."""
    timed, counted = found["timed"], found["counted"]
    return {
        "milliseconds over n": ("n", lines_of(timed, "n", "seconds", scale=1e3, letter="n")),
        "milliseconds over d": ("d", lines_of(timed, "d", "seconds", scale=1e3, letter="d")),
        "megabytes kept for the backward pass": (
            "n",
            lines_of(timed, "n", "bytes", scale=1e-6, letter="n"),
        ),
        "milliseconds over r or k": (
            "r, k",
            lines_of(timed, "width", "seconds", scale=1e3, letter="r")
            | lines_of(timed, "width", "seconds", scale=1e3, letter="k"),
        ),
        "sequential operations": ("n", lines_of(counted, "n", "sequential")),
        "longest path of a signal": ("n", lines_of(counted, "n", "path")),
    }


def ticks(low: float, high: float, base: int) -> list[float]:
    """Return the powers of a base from at most `low` to at least `high`."""
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    return [float(base) ** power for power in range(first, max(last, first + 1) + 1)]


def panel(title: str, across: str, lines: Lines) -> str:
    """Return one set of log-log axes with its lines."""
    points = [point for line in lines.values() for point in line]
    xs = ticks(min(x for x, _ in points), max(x for x, _ in points), 2)
    ys = ticks(min(y for _, y in points), max(y for _, y in points), 10)

    def place(x: float, y: float) -> tuple[float, float]:
        right = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(y / ys[0]) / math.log(ys[-1] / ys[0])
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * right,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up,
        )

    parts = [text(title, x=LEFT, y=20, font_weight="bold")]
    for number, x in enumerate(xs):
        (left, bottom), (_, top) = place(x, ys[0]), place(x, ys[-1])
        parts.append(element("path", class_="grid", d=f"M{left:.1f},{bottom:.1f}V{top:.1f}"))
        if number % math.ceil(len(xs) / MOST_LABELS) == 0:
            parts.append(text(f"{x:g}", x=left, y=bottom + 16, text_anchor="middle"))
    for y in ys:
        (left, bottom), (right, _) = place(xs[0], y), place(xs[-1], y)
        parts.append(element("path", class_="grid", d=f"M{left:.1f},{bottom:.1f}H{right:.1f}"))
        parts.append(text(f"{y:g}", x=left - 6, y=bottom + 4, text_anchor="end"))
    parts.append(text(across, x=WIDTH - RIGHT, y=HEIGHT - 8, text_anchor="end"))
    for name, line in lines.items():
        places = [place(*point) for point in sorted(line)]
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(element("path", class_="line", stroke=COLORS[name], d=f"M{path}"))
        parts += [element("circle", cx=x, cy=y, r=2.5, fill=COLORS[name]) for x, y in places]
    return "".join(parts)


def key() -> str:
    """Return the names of the layers beside their colors, three in a row."""
    parts = []
    for number, (name, color) in enumerate(COLORS.items()):
        x, y = LEFT + number % 3 * 240, 18 + number // 3 * 20
        parts.append(element("rect", x=x, y=y - 9, width=16, height=10, fill=color))
        parts.append(text(name, x=x + 22, y=y))
    return "".join(parts)


def draw(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the figure: the key, and below it two panels in a row."""
    drawn = [panel(title, across, lines) for title, (across, lines) in panels(found).items()]
    rows = [Drawing(2 * WIDTH, 20 * math.ceil(len(COLORS) / 3) + 16, key())]
    for left, right in zip(drawn[::2], drawn[1::2], strict=True):
        beside = element("g", right, transform=f"translate({WIDTH},0)")
        rows.append(Drawing(2 * WIDTH, HEIGHT, left + beside))
    return stack(rows, style=STYLE)


if __name__ == "__main__":
    measured, output = map(Path, sys.argv[1:])
    output.write_text(draw(json.loads(measured.read_text())), encoding="utf-8")
