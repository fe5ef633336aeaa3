"""Compare the scores of a run with the paper's: a results card.

card.py expected.yaml ROW --info info.json --score score.json [--gpus 8] [--json card.json]

reads the output of `aiayn info RUN --json` and `aiayn score --json`, prints the card as
Markdown and writes it as JSON.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import yaml

from aiayn import __version__
from aiayn.data.atomic import write_json

# What a scale other than the paper's says of itself.
NOTES = {
    "laptop": "The same steps on a small corpus and with a small model: another task than the"
    " paper's.",
    "rehearsal": "A rehearsal of the steps, on other data and with a small model: its scores"
    " mean nothing.",
}
# Sustained single precision of GPUs, in TFLOPS, as the paper's footnote to section 6.1 has it.
TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
ABOUT = {
    "updates": "updates",
    "hours": "hours of training",
    "cost": "cost in FLOPs as the paper counts: time x GPUs x TFLOPS",
    "operations": "cost in FLOPs, matrix products counted",
    "parameters": "parameters",
}


def make_card(
    expected: dict[str, Any],
    row: str,
    info: dict[str, Any],
    scores: list[dict[str, Any]],
    *,
    gpus: int,
    tflops: float | None,
    scale: str,
) -> dict[str, Any]:
    """Return the content of the card."""
    of_paper = expected["rows"][row]
    bands = of_paper["scores"]
    settings = json.dumps(info["settings"], sort_keys=True).encode()
    return {
        "result": expected["result"],
        "row": row,
        "scale": scale,
        "scores": [
            judge(score, bands[score["name"]], scale)
            for score in scores
            if score["name"] in bands
        ],
        "obtained": {
            "updates": info["step"],
            "hours": info["hours"],
            "cost": None if tflops is None else info["hours"] * 3600 * gpus * tflops * 1e12,
            "operations": info["cost"]["floating-point operations"],
            "parameters": info["parameters"]["total"],
        },
        "paper": {name: of_paper[name] for name in ABOUT if name in of_paper},
        "gpus": gpus,
        "tflops": tflops,
        "settings_sha256": hashlib.sha256(settings).hexdigest(),
        "aiayn": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def judge(score: dict[str, Any], band: dict[str, Any], scale: str) -> dict[str, Any]:
    """Return a score with the paper's value and a verdict; other scales have none."""
    low, high = band["low"], band["high"]
    inside = low <= round(score["value"], 2) <= high
    verdict = "inside" if inside else "outside"
    return {
        "name": score["name"],
        "value": score["value"],
        "signature": score["signature"],
        "detail": score.get("detail", ""),
        "paper": band.get("paper"),
        "low": low,
        "high": high,
        "verdict": verdict if scale == "paper" else scale,
    }


def to_markdown(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    lines = [f"# {card['result']}: {card['row']}", ""]
    if card["scale"] in NOTES:
        lines += [NOTES[card["scale"]], ""]
    lines += ["| score | obtained | paper | band | |", "|---|---|---|---|---|"]
    for score in card["scores"]:
        paper = "" if score["paper"] is None else score["paper"]
        lines.append(
            f"| {score['name']} | {score['value']:.2f} | {paper}"
            f" | {score['low']} to {score['high']} | {score['verdict']} |"
        )
    lines += ["", "| training | obtained | paper |", "|---|---|---|"]
    for name, meaning in ABOUT.items():
        obtained, paper = (formatted(card[who].get(name)) for who in ("obtained", "paper"))
        lines.append(f"| {meaning} | {obtained} | {paper} |")
    lines.append("")
    for score in card["scores"]:
        lines.append(f"- `{score['name']}|{score['signature']}` {score['detail']}".rstrip())
    lines += [
        f"- cost: {card['gpus']} x {card['tflops']} TFLOPS"
        if card["tflops"]
        else "- cost as the paper counts: TFLOPS= of this processor is not known",
        f"- settings sha256 {card['settings_sha256'][:12]}, aiayn {card['aiayn']},"
        f" {card['date']}",
    ]
    return "\n".join(lines)


def tflops_of(gpu: str) -> float | None:
    """Return what a GPU of the paper's footnote sustains; None for any other."""
    return next((tflops for name, tflops in TFLOPS.items() if name in gpu), None)


def formatted(number: float | None) -> str:
    """Format a number as 100,000 or 3.3e+18; empty if it is unknown."""
    if number is None:
        return ""
    if number >= 1e12:
        return f"{number:.2g}"
    return f"{number:,g}" if isinstance(number, float) else f"{number:,}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("expected", type=Path)
    parser.add_argument("row")
    parser.add_argument("--info", type=Path, required=True)
    parser.add_argument("--score", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--gpu", default="", help="its name, as nvidia-smi has it")
    parser.add_argument("--tflops", type=float, help="what it sustains; default: by its name")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    card = make_card(
        yaml.safe_load(given.expected.read_text()),
        given.row,
        json.loads(given.info.read_text()),
        json.loads(given.score.read_text())["scores"],
        gpus=given.gpus,
        tflops=given.tflops or tflops_of(given.gpu),
        scale=given.scale,
    )
    if given.json:
        write_json(given.json, card)
    print(to_markdown(card))


if __name__ == "__main__":
    main()
