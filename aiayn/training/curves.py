"""Loss, BLEU and learning rate over the updates, as one SVG picture."""

from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT, MARGIN, TITLE = 720, 200, 56, 24
TICKS = 5
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
        "loss (nats a token)": {
            "training": [(row["step"], row["plain_loss"]) for row in trained],
            "validation": [(row["step"], row["valid"]["loss"]) for row in valid],
        },
        "validation score": {
            name: [(r["step"], r["valid"][name]) for r in valid if name in r["valid"]]
            for name in ("BLEU", "F1")
        },
        "learning rate": {"rate": [(row["step"], row["learning_rate"]) for row in trained]},
    }
    drawn = {title: lines for title, lines in panels.items() if any(lines.values())}
    bodies = [
        f'<g transform="translate(0,{number * HEIGHT})">{_panel(title, lines)}</g>'
        for number, (title, lines) in enumerate(drawn.items())
    ]
    height = HEIGHT * len(bodies)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(bodies)}</svg>\n'
    )


def _panel(title: str, lines: dict[str, Points]) -> str:
    """Return one set of axes with its lines."""
    points = [point for line in lines.values() for point in line]
    right = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    spread = (high - low) or 1.0
    bottom, top = HEIGHT - TITLE, TITLE + 8

    def place(x: float, y: float) -> str:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / right
        return f"{across:.1f},{bottom - (bottom - top) * (y - low) / spread:.1f}"

    parts = [f'<text x="{MARGIN}" y="16" font-weight="bold">{title}</text>']
    for tick in range(TICKS):
        y = low + spread * tick / (TICKS - 1)
        start, end = place(0, y), place(right, y)
        parts.append(f'<path class="axis" d="M{start}L{end}"/>')
        parts.append(_text(start, f"{y:.3g}", dx=-6, anchor="end"))
    for tick in range(TICKS):
        x = right * tick / (TICKS - 1)
        parts.append(_text(place(x, low), f"{x:,.0f}", dy=16, anchor="middle"))
    for number, (name, line) in enumerate(lines.items()):
        colour = ("#1f6feb", "#d1242f")[number]
        if line:
            parts.append(
                f'<path stroke="{colour}" d="M{"L".join(place(x, y) for x, y in line)}"/>'
            )
            parts.append(_text(place(*line[-1]), name, dx=4, colour=colour))
    return "".join(parts)


def _text(
    place: str,
    text: str,
    *,
    dx: int = 0,
    dy: int = 4,
    anchor: str = "start",
    colour: str = "#333",
) -> str:
    x, y = (float(part) for part in place.split(","))
    return (
        f'<text x="{x + dx:.1f}" y="{y + dy:.1f}" text-anchor="{anchor}"'
        f' style="fill:{colour}">{text}</text>'
    )
