"""Table 3, ours beside the paper's: Markdown on stdout, and a plot.

table.py expected.yaml info.json [--svg table3.svg]

info.json is what `aiayn info RUN... --json` printed; the folder of a run bears the row's name.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from aiayn.data.atomic import write_bytes

HEAD = [
    "| row | perplexity | paper | BLEU | paper-BLEU | paper | 10^6 parameters | paper | |",
    "|---|---|---|---|---|---|---|---|---|",
]
REHEARSAL = (
    "A rehearsal of the steps, on other data and with small models: its scores mean nothing."
)
COLUMN, TOP, HEIGHT, LEFT = 32, 30, 150, 50
STYLE = "text{font:12px sans-serif;fill:#333}"
OURS, PAPERS = "#1f6feb", "#999"


class Row(NamedTuple):
    """A row as it came out, and as the paper has it."""

    name: str
    perplexity: float
    bleu: float
    paper_bleu: float | None
    """Scored in the paper's way."""
    parameters: int
    paper: dict[str, float]

    def verdict(self, band: dict[str, float]) -> str:
        """Return whether both numbers are near enough to the paper's."""
        bleu = self.bleu if self.paper_bleu is None else self.paper_bleu
        near = abs(bleu - self.paper["BLEU"]) <= band["BLEU"]
        far = abs(self.perplexity / self.paper["perplexity"] - 1) > band["perplexity"]
        return "inside" if near and not far else "outside"


def read_rows(info: list[dict[str, Any]], expected: dict[str, dict[str, float]]) -> list[Row]:
    """Return the rows that were run, in the paper's order."""
    found = {Path(run["run"]).name: run for run in info}
    return [
        Row(
            name,
            found[name]["last"]["perplexity"],
            found[name]["last"]["BLEU"],
            read_paper_bleu(Path(found[name]["run"]) / "score.json"),
            found[name]["parameters"]["total"],
            paper,
        )
        for name, paper in expected.items()
        if name in found
    ]


def read_paper_bleu(path: Path) -> float | None:
    """Return the score in the paper's way, if it was computed."""
    if not path.exists():
        return None
    scores = json.loads(path.read_text())["scores"]
    return float(next(score["value"] for score in scores if score["name"] == "paper-BLEU"))


def to_markdown(rows: list[Row], band: dict[str, float], scale: str) -> str:
    """Return the table; a rehearsal is not judged, and says so."""
    lines = list(HEAD)
    for row in rows:
        cells = [
            row.name,
            f"{row.perplexity:.2f}",
            f"{row.paper['perplexity']:.2f}",
            f"{row.bleu:.1f}",
            "" if row.paper_bleu is None else f"{row.paper_bleu:.1f}",
            f"{row.paper['BLEU']:.1f}",
            f"{row.parameters / 1e6:.3g}",
            str(row.paper.get("parameters", "")),
            row.verdict(band) if scale == "paper" else scale,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if scale != "paper":
        lines += ["", REHEARSAL]
    return "\n".join(lines)


def draw(rows: list[Row]) -> str:
    """Return an SVG document: perplexity and BLEU, ours (full) and the paper's (empty)."""
    width = LEFT + COLUMN * (len(rows) + 1)
    ours = {
        "perplexity": [row.perplexity for row in rows],
        "BLEU": [row.bleu if row.paper_bleu is None else row.paper_bleu for row in rows],
    }
    panels = [
        f'<g transform="translate(0,{number * (HEIGHT + 2 * TOP)})">'
        f"{panel(title, rows, ours[title])}</g>"
        for number, title in enumerate(ours)
    ]
    height = len(panels) * (HEIGHT + 2 * TOP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(panels)}</svg>\n'
    )


def panel(title: str, rows: list[Row], ours: list[float]) -> str:
    """Return one quantity, a column for each row."""
    papers = [row.paper[title] for row in rows]
    low, high = min(ours + papers), max(ours + papers)
    spread = (high - low) or 1.0

    def dot(column: int, value: float, style: str) -> str:
        x = LEFT + COLUMN * (column + 0.5)
        return f'<circle cx="{x}" cy="{height_of(value):.1f}" r="5" {style}/>'

    def height_of(value: float) -> float:
        return TOP + HEIGHT * (high - value) / spread

    parts = [f'<text x="{LEFT}" y="16">{title}: ours (full) and the paper\'s (empty)</text>']
    for value in (low, high):
        y = height_of(value)
        parts.append(f'<text x="4" y="{y + 4:.1f}">{value:.4g}</text>')
    for column, row in enumerate(rows):
        x = LEFT + COLUMN * (column + 0.5)
        label = f'<text x="{x}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{row.name}</text>'
        parts += [
            dot(column, papers[column], f'fill="none" stroke="{PAPERS}" stroke-width="2"'),
            dot(column, ours[column], f'fill="{OURS}"'),
            label,
        ]
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("expected", type=Path)
    parser.add_argument("info", type=Path)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    expected = yaml.safe_load(given.expected.read_text())
    info = json.loads(given.info.read_text())
    rows = read_rows(info if isinstance(info, list) else [info], expected["rows"])
    if given.svg:
        write_bytes(given.svg, draw(rows).encode())
    print(to_markdown(rows, expected["band"], given.scale))


if __name__ == "__main__":
    main()
