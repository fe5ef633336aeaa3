"""Judge the claims by what was measured.

    python recipes/claims/table.py expected.yaml WORK --svg claims.svg

Prints Markdown. Exit code 6: a claim that is counted, and so leaves nothing to chance, fails.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from aiayn.figures.svg import Drawing, element, stack, text

OUTSIDE_BAND = 6
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, KEY = 400, 260, 48, 36, 40, 90
COLORS = ("#1f6feb", "#d1242f", "#bf8700", "#8250df")
STYLE = (
    "text{font:12px sans-serif;fill:#333}.line{fill:none;stroke-width:1.5}"
    ".grid{stroke:#ddd;stroke-width:1}"
)
Runs = dict[str, list[dict[str, Any]]]
Points = list[tuple[float, float]]


def read_runs(folder: Path) -> Runs:
    """Return the runs of all seeds, by what they vary."""
    runs: Runs = {}
    for path in sorted(folder.glob("*.json")):
        runs.setdefault(path.stem.rpartition("-")[0], []).append(json.loads(path.read_text()))
    return runs


def loss(run: dict[str, Any], lengths: str) -> float:
    """Return the mean loss of a run over sentences of lengths seen in training, or longer."""
    return mean(
        value
        for length, value in run["losses"].items()
        if (int(length) <= run["longest"]) == (lengths == "seen")
    )


def judge_counted(found: dict[str, Any], claim: dict[str, Any]) -> str:
    return "holds" if claim["low"] <= found["value"] <= claim["high"] else "does not hold"


def judge_trained(runs: Runs, claim: dict[str, Any]) -> tuple[str, str]:
    """Return what was measured, and whether the first run is better or alike, or noise."""
    losses = {
        name: [loss(run, claim["lengths"]) for run in runs[name]] for name in claim["runs"]
    }
    measured = ", ".join(
        f"{name.rpartition('-')[0]} {' '.join(f'{x:.2f}' for x in of_seeds)}"
        for name, of_seeds in losses.items()
    )
    ours, *others = losses.values()
    theirs = others[0] if others else [claim["below"]]
    if not others:
        measured += f"; guessing {theirs[0]:.2f}"
    noise = max(max(of_seeds) - min(of_seeds) for of_seeds in (ours, theirs))
    difference = mean(theirs) - mean(ours)
    if claim["finding"] == "alike":
        verdict = "holds" if abs(difference) <= noise else "does not hold"
    elif abs(difference) <= noise:
        verdict = "within noise"
    else:
        verdict = "holds" if difference > 0 else "does not hold"
    return f"loss {measured}", verdict


def rows_of(expected: dict[str, Any], found: dict[str, Any], runs: Runs) -> list[list[str]]:
    rows = [
        [
            claim["section"],
            claim["claim"],
            found[key]["shown"],
            judge_counted(found[key], claim),
        ]
        for key, claim in expected["counted"].items()
    ]
    rows += [
        [claim["section"], claim["claim"], *judge_trained(runs, claim)]
        for claim in expected["trained"]
        if all(name in runs for name in claim["runs"])
    ]
    return [[str(cell) for cell in row] for row in rows]


def panel(title: str, across: str, lines: dict[str, Points], ticks: dict[float, str]) -> str:
    """Return one set of axes; the losses start at 0."""
    xs = [x for line in lines.values() for x, _ in line]
    low, high = min(xs), max(xs)
    top = max(1.0, *(y for line in lines.values() for _, y in line))

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - low) / ((high - low) or 1)
        bottom = HEIGHT - BOTTOM
        return LEFT + (WIDTH - LEFT - KEY) * right, bottom - (bottom - TOP) * y / top

    parts = [text(title, x=LEFT, y=20, font_weight="bold")]
    for number in range(5):
        left, y = place(low, top * number / 4)
        parts.append(element("path", class_="grid", d=f"M{left:.1f},{y:.1f}H{WIDTH - KEY}"))
        parts.append(text(f"{top * number / 4:.1f}", x=left - 6, y=y + 4, text_anchor="end"))
    for x, label in ticks.items():
        across_x, y = place(x, 0)
        parts.append(text(label, x=across_x, y=y + 16, text_anchor="middle"))
    parts.append(text(across, x=WIDTH - KEY, y=HEIGHT - 4, text_anchor="end"))
    for (name, line), color in zip(lines.items(), COLORS, strict=False):
        places = [place(*point) for point in sorted(line)]
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(element("path", class_="line", stroke=color, d=f"M{path}"))
        parts += [element("circle", cx=x, cy=y, r=2.5, fill=color) for x, y in places]
        x, y = places[-1]
        parts.append(text(name, x=x + 6, y=y + 4, style=f"fill:{color}"))
    return "".join(parts)


def draw(runs: Runs) -> str:
    """Return the losses over d_k, and over the length of a sentence."""
    by_width: dict[str, Points] = {}
    for name, of_seeds in runs.items():
        kind, _, d_k = name.partition("-")
        if kind != "learned":
            point = (math.log2(int(d_k)), mean(loss(run, "seen") for run in of_seeds))
            by_width.setdefault(kind, []).append(point)
    widest = max(int(name.partition("-")[2]) for name in runs)
    by_length = {
        label: [
            (float(length), mean(run["losses"][length] for run in runs[f"{kind}-{widest}"]))
            for length in runs[f"{kind}-{widest}"][0]["losses"]
        ]
        for label, kind in (("sinusoids", "scaled"), ("learned", "learned"))
    }
    powers = sorted({x for line in by_width.values() for x, _ in line})
    lengths = [x for x, _ in by_length["learned"]]
    left = panel(
        "loss after training, by d_k", "d_k", by_width, {x: f"{2**x:g}" for x in powers}
    )
    right = panel(
        f"loss by length; training saw up to {lengths[len(lengths) // 2 - 1]:g}",
        "words",
        by_length,
        {x: f"{x:g}" for x in lengths[::3]},
    )
    beside = element("g", right, transform=f"translate({WIDTH},0)")
    return stack([Drawing(2 * WIDTH, HEIGHT, left + beside)], style=STYLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("expected", type=Path)
    parser.add_argument("work", type=Path, help="with counted.json and runs/")
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--rehearsal", action="store_true")
    a = parser.parse_args()
    expected = yaml.safe_load(a.expected.read_text())
    found, runs = json.loads((a.work / "counted.json").read_text()), read_runs(a.work / "runs")
    a.svg.write_text(draw(runs), encoding="utf-8")
    rows = rows_of(expected, found, {} if a.rehearsal else runs)
    print("| section | claim | measured | verdict |", "|---|---|---|---|", sep="\n")
    print(*(f"| {' | '.join(row)} |" for row in rows), sep="\n")
    if a.rehearsal:
        print("\nA rehearsal: what was trained, for 5 updates, means nothing and is left out.")
    counted = rows[: len(expected["counted"])]
    sys.exit(OUTSIDE_BAND if any(row[-1] != "holds" for row in counted) else 0)


if __name__ == "__main__":
    main()
