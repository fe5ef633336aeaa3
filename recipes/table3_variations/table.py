"""Table 3, ours compared with the paper's: Markdown on stdout, and a plot.

table.py expected.yaml info.json [--scale laptop] [--seconds seconds.tsv] [--svg table3.svg]
         [--record laptop.jsonl --commit 6a87220]

info.json is the output of `aiayn info RUN... --json`; the folder of a run has the row's name,
followed by `-seed2` and so on where it is not of the first seed. Runs that have not come to
their end are left out. --record adds the runs to a file, and the table is of all that it holds:
so a table that takes longer than one machine is to be had comes together.
"""

import argparse
import json
import math
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml
from findings import BLEU, FINDINGS, PERPLEXITY, repetitions, seed_deviation, verdict

from aiayn.data.atomic import write_bytes
from aiayn.figures.svg import Drawing, element, stack, text

HEAD = [
    "| row | perplexity | paper | BLEU | paper-BLEU | paper | 10^6 parameters | paper | |",
    "|---|---|---|---|---|---|---|---|---|",
]
LAPTOP_HEAD = [
    "| row | seeds | perplexity | BLEU | against base | paper's, against base | 10^6 parameters"
    " | CPU minutes |",
    "|---|---|---|---|---|---|---|---|",
]
REHEARSAL = (
    "A rehearsal of the steps, on other data and with small models: its scores mean nothing."
)
COLUMN, TOP, HEIGHT, LEFT = 32, 30, 150, 50
STYLE = "text{font:12px sans-serif;fill:#333}"
OURS, PAPERS = "#1f6feb", "#999"


class Run(NamedTuple):
    """One training."""

    row: str
    seed: int
    perplexity: float
    bleu: float
    parameters: int
    paper_bleu: float | None
    """Scored as the paper did."""
    seconds: float
    """Of processors, training and its validation together; 0 where they were not counted."""
    date: str = ""
    commit: str = ""


class Row(NamedTuple):
    """A row of ours, with a run for each seed, and of the paper."""

    name: str
    runs: list[Run]
    paper: dict[str, float]

    @property
    def perplexity(self) -> float:
        """The mean over seeds, of nats per subword."""
        return math.exp(fmean(math.log(run.perplexity) for run in self.runs))

    @property
    def bleu(self) -> float:
        """The mean over seeds: paper-BLEU where it was computed."""
        scored = [run.paper_bleu for run in self.runs]
        return fmean(
            run.bleu if found is None else found
            for run, found in zip(self.runs, scored, strict=True)
        )

    def verdict(self, band: dict[str, float]) -> str:
        """Return whether both numbers are near enough to the paper's."""
        near = abs(self.bleu - self.paper["BLEU"]) <= band["BLEU"]
        far = abs(self.perplexity / self.paper["perplexity"] - 1) > band["perplexity"]
        return "inside" if near and not far else "outside"


def read_runs(info: list[dict[str, Any]], seconds: dict[str, float] | None = None) -> list[Run]:
    """Return the runs that have come to their end."""
    runs = []
    for found in info:
        row, _, seed = Path(found["run"]).name.partition("-seed")
        last = found["last"]
        if last and last["step"] == found["settings"]["train"]["steps"]:
            spent = (seconds or {}).get(f"train {row}, seed {seed or 1}", 0.0)
            scored = read_paper_bleu(Path(found["run"]) / "score.json")
            total = found["parameters"]["total"]
            numbers = (last["perplexity"], last["BLEU"], total, scored, spent)
            runs.append(Run(row, int(seed or 1), *numbers))
    return runs


def to_rows(runs: list[Run], expected: dict[str, dict[str, float]]) -> list[Row]:
    """Return the rows that were run, in the paper's order."""
    seeds: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.seed):
        seeds[run.row].append(run)
    return [Row(row, seeds[row], paper) for row, paper in expected.items() if row in seeds]


def record(runs: list[Run], path: Path, commit: str) -> list[Run]:
    """Add runs to a file, in place of those of the same row and seed; return all in it."""
    lines = path.read_text().splitlines() if path.exists() else []
    known = {(run.row, run.seed): run for run in (Run(**json.loads(line)) for line in lines)}
    for run in runs:
        before = known.get((run.row, run.seed))
        if before is None or before[:-2] != run[:-2]:
            today = time.strftime("%Y-%m-%d")
            known[run.row, run.seed] = run._replace(date=today, commit=commit)
    written = "".join(f"{json.dumps(run._asdict())}\n" for run in known.values())
    write_bytes(path, written.encode())
    return list(known.values())


def read_paper_bleu(path: Path) -> float | None:
    """Return paper-BLEU, if it was computed."""
    if not path.exists():
        return None
    scores = json.loads(path.read_text())["scores"]
    return float(next(score["value"] for score in scores if score["name"] == "paper-BLEU"))


def read_seconds(path: Path) -> dict[str, float]:
    """Return the processor seconds of each step; a step that was resumed has several lines."""
    spent: dict[str, float] = defaultdict(float)
    for line in path.read_text().splitlines():
        match line.split("\t"):
            case [what, _, seconds]:
                spent[what] += float(seconds)
            case _:  # bash writes here, too, that a command was killed
                pass
    return spent


def to_markdown(rows: list[Row], band: dict[str, float], scale: str) -> str:
    """Return the table; only the paper's scale is judged by the paper's numbers."""
    if scale == "laptop":
        return laptop_table(rows)
    lines = list(HEAD)
    for row in rows:
        scored = row.runs[0].paper_bleu is not None
        cells = [
            row.name,
            f"{row.perplexity:.2f}",
            f"{row.paper['perplexity']:.2f}",
            f"{fmean(run.bleu for run in row.runs):.1f}",
            f"{row.bleu:.1f}" if scored else "",
            f"{row.paper['BLEU']:.1f}",
            f"{row.runs[0].parameters / 1e6:.3g}",
            str(row.paper.get("parameters", "")),
            row.verdict(band) if scale == "paper" else scale,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if scale == "rehearsal":
        lines += ["", REHEARSAL]
    return "\n".join(lines)


def laptop_table(rows: list[Row]) -> str:
    """Return the table of small models, and what it says of each finding of the paper."""
    lines = list(LAPTOP_HEAD)
    base = next((row for row in rows if row.name == "base"), None)
    for row in rows:
        # The longest: what a killed run has spent is not known.
        minutes = max(run.seconds for run in row.runs) / 60
        cells = [
            row.name,
            str(len(row.runs)),
            listed(row, [f"{run.perplexity:.2f}" for run in row.runs], f"{row.perplexity:.2f}"),
            listed(row, [f"{run.bleu:.1f}" for run in row.runs], f"{row.bleu:.1f}"),
            difference(row, base) if base and base is not row else "",
            paper_difference(row, base) if base and base is not row else "",
            f"{row.runs[0].parameters / 1e6:.2f}",
            f"{minutes:.1f}" if minutes else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *findings_table(rows)])


def listed(row: Row, values: list[str], mean: str) -> str:
    """Return a mean, and the seeds that it is of."""
    return f"{mean} ({', '.join(values)})" if len(row.runs) > 1 else mean


def difference(row: Row, base: Row) -> str:
    """Return by how much a row differs from base: perplexity in percent, and BLEU."""
    return f"{100 * (row.perplexity / base.perplexity - 1):+.1f}%, {row.bleu - base.bleu:+.1f}"


def paper_difference(row: Row, base: Row) -> str:
    """Return the same of the paper's numbers."""
    ratio = row.paper["perplexity"] / base.paper["perplexity"]
    return f"{100 * (ratio - 1):+.1f}%, {row.paper['BLEU'] - base.paper['BLEU']:+.1f}"


def findings_table(rows: list[Row]) -> list[str]:
    """Return a verdict on each finding, by perplexity and by BLEU; higher is better in both."""
    # A percent of perplexity is a hundredth of a nat.
    nats = {row.name: [-100 * math.log(run.perplexity) for run in row.runs] for row in rows}
    bleu = {row.name: [run.bleu for run in row.runs] for row in rows}
    spreads = [seed_deviation(values) for values in (nats, bleu)]
    lines = ["| the paper | by perplexity, percent | by BLEU |", "|---|---|---|"]
    lines += [
        f"| {finding.sentence} |"
        f" {verdict(finding, nats) if PERPLEXITY in finding.by else ''} |"
        f" {verdict(finding, bleu) if BLEU in finding.by else ''} |"
        for finding in FINDINGS
    ]
    if None not in spreads:
        lines += [
            "",
            f"Seeds of one row differ by {spreads[0]:.2f}% of perplexity and"
            f" {spreads[1]:.2f} BLEU (standard deviation, {repetitions(bleu)} repetitions). A"
            " difference counts where its standard error, which stands behind it, explains it"
            " in less than one of twenty cases.",
        ]
    return lines


def draw(rows: list[Row], scale: str = "paper") -> str:
    """Return an SVG document: perplexity and BLEU, ours (full) and the paper's (empty).

    Those of small models stand as differences from base, which is at the same height for both.
    """
    quantities = {
        "perplexity": [row.perplexity for row in rows],
        "BLEU": [r.bleu for r in rows],
    }
    base = next((place for place, row in enumerate(rows) if row.name == "base"), None)
    panels = []
    for title, ours in quantities.items():
        papers = [row.paper[title] for row in rows]
        heading = f"{title}: ours (full) and the paper's (empty)"
        if scale == "laptop" and base is not None:
            heading = f"{heading}, less that of base"
            if title == "perplexity":
                heading = (
                    "perplexity, percent more than base: ours (full) and the paper's (empty)"
                )
                ours, papers = ([100 * (x / xs[base] - 1) for x in xs] for xs in (ours, papers))
            else:
                ours, papers = ([x - xs[base] for x in xs] for xs in (ours, papers))
        panels.append(panel(heading, [row.name for row in rows], ours, papers))
    return stack(panels, style=STYLE)


def panel(title: str, names: list[str], ours: list[float], papers: list[float]) -> Drawing:
    """Return one quantity, a column for each row."""
    low, high = min(ours + papers), max(ours + papers)
    spread = (high - low) or 1.0

    def height_of(value: float) -> float:
        return TOP + HEIGHT * (high - value) / spread

    parts = [text(title, x=LEFT, y=16)]
    parts += [text(f"{value:.4g}", x=4, y=height_of(value) + 4) for value in (low, high)]
    for column, name in enumerate(names):
        x = LEFT + COLUMN * (column + 0.5)
        empty = {"fill": "none", "stroke": PAPERS, "stroke_width": "2"}
        parts += [
            element("circle", cx=x, cy=height_of(papers[column]), r=5, **empty),
            element("circle", cx=x, cy=height_of(ours[column]), r=5, fill=OURS),
            text(name, x=x, y=TOP + HEIGHT + 20, text_anchor="middle"),
        ]
    return Drawing(LEFT + COLUMN * (len(names) + 1), HEIGHT + 2 * TOP, "".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("expected", type=Path)
    parser.add_argument("info", type=Path)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--seconds", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--commit", default="", help="of the code that has trained")
    given = parser.parse_args()
    expected = yaml.safe_load(given.expected.read_text())
    info = json.loads(given.info.read_text())
    seconds = read_seconds(given.seconds) if given.seconds and given.seconds.exists() else {}
    runs = read_runs(info if isinstance(info, list) else [info], seconds)
    if given.record:
        runs = record(runs, given.record, given.commit)
    rows = to_rows(runs, expected["rows"])
    if given.svg:
        write_bytes(given.svg, draw(rows, given.scale).encode())
    print(to_markdown(rows, expected["band"], given.scale))


if __name__ == "__main__":
    main()
