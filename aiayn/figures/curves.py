"""Loss, validation score and learning rate over the updates, as one SVG figure."""

from collections.abc import Sequence
from typing import Any

from aiayn.figures.svg import Drawing, element, stack, text

WIDTH, HEIGHT, MARGIN, TITLE = 720, 200, 56, 24
TICKS = 5
COLORS = ("#1f6feb", "#d1242f")
STYLE = (
    "text{font:12px sans-serif;fill:#333}path{fill:none;stroke-width:1.5}"
    ".axis{stroke:#bbb;stroke-width:1}"
)

Points = Sequence[tuple[float, float]]


def draw_curves(metrics: Sequence[dict[str, Any]]) -> str:
    """Return an SVG document with a panel for each quantity that was measured."""
    trained = [row for row in metrics if "loss" in row]
    valid = [row for row in metrics if "valid" in row]
    panels: dict[str, dict[str, Points]] = {
        "loss (nats per token)": {
            "training": [(row["step"], row["plain_loss"]) for row in trained],
            "validation": [(row["step"], row["valid"]["loss"]) for row in valid],
        },
        "validation score": {
            name: [(r["step"], r["valid"][name]) for r in valid if name in r["valid"]]
            for name in ("BLEU", "chrF2", "F1")
        },
        "learning rate": {"rate": [(row["step"], row["learning_rate"]) for row in trained]},
    }
    drawn = [_panel(title, lines) for title, lines in panels.items() if any(lines.values())]
    return stack(drawn, style=STYLE)


def _panel(title: str, lines: dict[str, Points]) -> Drawing:
    """Return one set of axes with its lines."""
    points = [point for line in lines.values() for point in line]
    right = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    # A constant, as BLEU after one validation is, has no spread to divide by.
    spread = (high - low) or 1.0
    bottom, top = HEIGHT - TITLE, TITLE + 8

    def place(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / right
        return round(across, 1), round(bottom - (bottom - top) * (y - low) / spread, 1)

    parts = [text(title, x=MARGIN, y=16, font_weight="bold")]
    for tick in range(TICKS):
        y = low + spread * tick / (TICKS - 1)
        parts.append(_path([place(0, y), place(right, y)], class_="axis"))
        parts.append(_label(f"{y:.3g}", place(0, y), dx=-6, text_anchor="end"))
    for tick in range(TICKS):
        x = right * tick / (TICKS - 1)
        parts.append(_label(f"{x:,.0f}", place(x, low), dy=16, text_anchor="middle"))
    for (name, line), color in zip(lines.items(), COLORS, strict=False):
        if line:
            placed = [place(*point) for point in line]
            parts.append(_path(placed, stroke=color))
            parts.append(_label(name, placed[-1], dx=4, style=f"fill:{color}"))
    return Drawing(WIDTH, HEIGHT, "".join(parts))


def _path(points: Points, **attributes: str) -> str:
    corners = "L".join(f"{x:g},{y:g}" for x, y in points)
    return element("path", d=f"M{corners}", **attributes)


def _label(
    content: str, point: tuple[float, float], *, dx: float = 0, dy: float = 4, **attributes: str
) -> str:
    return text(content, x=point[0] + dx, y=point[1] + dy, **attributes)
