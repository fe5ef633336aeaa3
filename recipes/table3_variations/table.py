"""Table 3, ours compared with the paper's: Markdown on stdout, and a plot.

table.py expected.yaml info.json [--svg table3.svg]

info.json is the output of `aiayn info RUN... --json`; the folder of a run has the row's name.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from aiayn.data.atomic import write_bytes
from aiayn.figures.svg import Drawing, element, stack, text

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
    """A row of ours, and of the paper."""

    name: str
    perplexity: float
    bleu: float
    paper_bleu: float | None
    """Scored as the paper did."""
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
    """Return paper-BLEU, if it was computed."""
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
    ours = {
        "perplexity": [row.perplexity for row in rows],
        "BLEU": [row.bleu if row.paper_bleu is None else row.paper_bleu for row in rows],
    }
    return stack((panel(title, rows, values) for title, values in ours.items()), style=STYLE)


def panel(title: str, rows: list[Row], ours: list[float]) -> Drawing:
    """Return one quantity, a column for each row."""
    papers = [row.paper[title] for row in rows]
    low, high = min(ours + papers), max(ours + papers)
    spread = (high - low) or 1.0

    def height_of(value: float) -> float:
        return TOP + HEIGHT * (high - value) / spread

    parts = [text(f"{title}: ours (full) and the paper's (empty)", x=LEFT, y=16)]
    parts += [text(f"{value:.4g}", x=4, y=height_of(value) + 4) for value in (low, high)]
    for column, row in enumerate(rows):
        x = LEFT + COLUMN * (column + 0.5)
        empty = {"fill": "none", "stroke": PAPERS, "stroke_width": "2"}
        parts += [
            element("circle", cx=x, cy=height_of(papers[column]), r=5, **empty),
            element("circle", cx=x, cy=height_of(ours[column]), r=5, fill=OURS),
            text(row.name, x=x, y=TOP + HEIGHT + 20, text_anchor="middle"),
        ]
    return Drawing(LEFT + COLUMN * (len(rows) + 1), HEIGHT + 2 * TOP, "".join(parts))


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
