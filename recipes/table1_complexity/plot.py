"""Draw what was measured for table 1 on log-log axes, as one SVG picture.

python recipes/table1_complexity/plot.py measured.json table1.svg
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 280, 56, 16, 36, 40
COLOURS = {
    "self-attention": "#1f6feb",
    "self-attention, fused": "#54aeff",
    "recurrent": "#d1242f",
    "convolutional": "#1a7f37",
    "convolutional, contiguous": "#7fb98a",
    "self-attention, restricted": "#8250df",
}
STYLE = (
    "text{font:12px sans-serif;fill:#333}.line{fill:none;stroke-width:1.5}"
    ".grid{stroke:#ddd;stroke-width:1}"
)
KEY = 28
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

    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>']
    for number, x in enumerate(xs):
        (left, bottom), (_, top) = place(x, ys[0]), place(x, ys[-1])
        parts.append(f'<path class="grid" d="M{left:.1f},{bottom:.1f}V{top:.1f}"/>')
        if number % math.ceil(len(xs) / MOST_LABELS) == 0:
            parts.append(text(left, bottom + 16, f"{x:g}", "middle"))
    for y in ys:
        (left, bottom), (right, _) = place(xs[0], y), place(xs[-1], y)
        parts.append(f'<path class="grid" d="M{left:.1f},{bottom:.1f}H{right:.1f}"/>')
        parts.append(text(left - 6, bottom + 4, f"{y:g}", "end"))
    parts.append(text(WIDTH - RIGHT, HEIGHT - 8, across, "end"))
    for name, line in lines.items():
        places = [place(*point) for point in sorted(line)]
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<path class="line" stroke="{COLOURS[name]}" d="M{path}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[name]}"/>'
            for x, y in places
        ]
    return "".join(parts)


def text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def key() -> str:
    """Return the names of the layers beside their colours, three in a row."""
    parts = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        x, y = LEFT + number % 3 * 240, 18 + number // 3 * 20
        parts.append(f'<rect x="{x}" y="{y - 9}" width="16" height="10" fill="{colour}"/>')
        parts.append(text(x + 22, y, name, "start"))
    return "".join(parts)


def draw(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the whole picture: two panels a row below the key."""
    bodies = [f"<g>{key()}</g>"]
    for number, (title, (across, lines)) in enumerate(panels(found).items()):
        x, y = number % 2 * WIDTH, 2 * KEY + number // 2 * HEIGHT
        bodies.append(f'<g transform="translate({x},{y})">{panel(title, across, lines)}</g>')
    width, height = 2 * WIDTH, 2 * KEY + HEIGHT * math.ceil((len(bodies) - 1) / 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(bodies)}</svg>\n'
    )


if __name__ == "__main__":
    measured, output = map(Path, sys.argv[1:])
    output.write_text(draw(json.loads(measured.read_text())), encoding="utf-8")
