"""Compare the measured growth of each layer with the paper's O().

    python recipes/table1_complexity/table.py measured.json expected.yaml [--check path]

Prints Markdown. An exponent is the slope of a least-squares line through the larger half of the
sizes on log-log axes, where terms of lower order weigh least.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import yaml

OUTSIDE_BAND = 6
MEASURED = {"time": "seconds", "operations": "operations", "memory": "bytes"}
# Layers that the text compares: sections 3.2.1 and 4.
RIVALS = [
    ("self-attention, additive", "self-attention"),
    ("convolutional, separable", "convolutional"),
]
Rows = list[dict[str, Any]]
Points = list[tuple[float, float]]


def slope(points: Points) -> float:
    """Return the slope of the least-squares line through points."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points)


def larger_half(points: Points) -> Points:
    return sorted(points)[-max(3, math.ceil(len(points) / 2)) :]


def exponent(points: Points) -> float:
    """Return p of y ~ x^p over the larger sizes."""
    return slope([(math.log(x), math.log(y)) for x, y in larger_half(points)])


def timed(rows: Rows, layer: str, letter: str, quantity: str) -> Points:
    """Return what was measured over one letter; r and k are a layer's `width`."""
    key = letter if letter in "nd" else "width"
    return [
        (row[key], row[quantity])
        for row in rows
        if (row["layer"], row["letter"]) == (layer, letter)
    ]


def growth(found: dict[str, Rows], layer: str, quantity: str, letter: str) -> float:
    """Return how a quantity grows with a letter."""
    if quantity in MEASURED:
        return exponent(timed(found["timed"], layer, letter, MEASURED[quantity]))
    rows = [row for row in found["counted"] if row["layer"] == layer]
    if letter == "log_k n":
        return slope([(math.log(row["n"], row["k"]), row[quantity]) for row in rows])
    return exponent([(row["n"], row[quantity]) for row in rows])


def outside(found: dict[str, Rows], expected: dict[str, Any], quantities: list[str]) -> Rows:
    """Return the exponents that differ from the paper's by more than the band."""
    return [
        {"layer": layer, "quantity": quantity, "letter": letter, "paper": paper, "found": value}
        for layer, wanted in expected["layers"].items()
        for quantity in quantities
        for letter, paper in exponents_of(wanted, quantity).items()
        if abs((value := growth(found, layer, quantity, letter)) - paper)
        > expected["band"][quantity]
    ]


def exponents_of(wanted: dict[str, Any], quantity: str) -> dict[str, float]:
    """Return the exponents that the paper gives; time grows as operations do."""
    found: dict[str, float] = wanted.get("time" if quantity == "operations" else quantity, {})
    return found


def powers(exponents: dict[str, float]) -> str:
    return " ".join(f"{letter}^{power:.2f}" for letter, power in exponents.items())


def measured_cell(
    found: dict[str, Rows], layer: str, wanted: dict[str, Any], quantity: str
) -> str:
    return powers({x: growth(found, layer, quantity, x) for x in wanted.get("time", {})})


def counted_cell(found: dict[str, Rows], layer: str, quantity: str) -> str:
    """Return the counts over n."""
    rows = [row for row in found["counted"] if row["layer"] == layer]
    return ", ".join(str(row[quantity]) for row in rows)


def table(found: dict[str, Rows], expected: dict[str, Any]) -> str:
    """Return table 1 with what was measured beside each of its columns."""
    lines = [
        "| layer | complexity | operations grow as | time grows as | memory grows as"
        " | sequential | counted | path | counted |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for layer, wanted in expected["layers"].items():
        paper = wanted["paper"]
        cells = [
            layer,
            paper.get("complexity", ""),
            *(
                measured_cell(found, layer, wanted, of)
                for of in ("operations", "time", "memory")
            ),
        ]
        for quantity in ("sequential", "path"):
            cells += [
                paper.get(quantity, ""),
                counted_cell(found, layer, quantity) if quantity in wanted else "",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    sizes = sorted({row["n"] for row in found["counted"]})
    r, k = found["counted"][0]["r"], found["counted"][0]["k"]
    lines += ["", f"Counted at n = {', '.join(map(str, sizes))} with r = {r} and k = {k}."]
    return "\n".join(lines)


def times(found: dict[str, Rows]) -> str:
    """Return the times themselves, by n."""
    rows = [row for row in found["timed"] if row["letter"] == "n"]
    sizes = sorted({row["n"] for row in rows})
    lines = [
        "| milliseconds per sequence at n = | " + " | ".join(map(str, sizes)) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for layer in dict.fromkeys(row["layer"] for row in rows):
        of_layer = {row["n"]: row for row in rows if row["layer"] == layer}
        sample = next(iter(of_layer.values()))
        width = f", {width_name(layer)} = {sample['width']}" if sample["width"] else ""
        cells = [f"{1000 * of_layer[n]['seconds']:.2f}" if n in of_layer else "" for n in sizes]
        lines.append(f"| {layer} (d = {sample['d']}{width}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def comparison(found: dict[str, Rows]) -> str:
    """Return how many times more one layer takes than another at the same n and d."""
    lines = [
        "| at the same size | than | n | d | times the time | the operations | the memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for layer, other in RIVALS:
        ours, theirs = (
            {
                (row["n"], row["d"], row["width"]): row
                for row in found["timed"]
                if row["layer"] == x
            }
            for x in (layer, other)
        )
        size = max(ours.keys() & theirs.keys())
        ratios = (ours[size][key] / theirs[size][key] for key in MEASURED.values())
        n, d, _ = size
        lines.append(
            f"| {layer} | {other} | {n} | {d} | {' | '.join(f'{x:.2f}' for x in ratios)} |"
        )
    return "\n".join(lines)


def width_name(layer: str) -> str:
    return "k" if layer.startswith("conv") else "r"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("expected", type=Path)
    parser.add_argument(
        "--check",
        nargs="+",
        choices=("time", "operations", "sequential", "path"),
        help="print nothing, but exit with code 6 if an exponent lies outside its band",
    )
    a = parser.parse_args()
    found, expected = json.loads(a.measured.read_text()), yaml.safe_load(a.expected.read_text())
    if not a.check:
        print(table(found, expected), comparison(found), times(found), sep="\n\n")
        return
    bad = outside(found, expected, a.check)
    for row in bad:
        print(
            f"outside the band: {row['quantity']} of {row['layer']} grows as"
            f" {row['letter']}^{row['found']:.2f}, and the paper says {row['paper']}",
            file=sys.stderr,
        )
    sys.exit(OUTSIDE_BAND if bad else 0)


if __name__ == "__main__":
    main()
