"""The reference run compared with its peer after each epoch, as Markdown.

table.py expected.yaml RUN UPDATE... [--scale rehearsal]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

REHEARSAL = (
    "A rehearsal of the steps, on other data and with a small model: its scores mean nothing."
)
COLUMNS = {
    "perplexity": "validation perplexity",
    "beam": "BLEU, beam 4",
    "greedy": "BLEU, greedy",
}


def measured(run: Path, update: int) -> dict[str, float]:
    """Return perplexity and BLEU of the checkpoint after this update."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    found = {row["step"]: row["valid"] for row in map(json.loads, lines) if "valid" in row}
    scores = {name: read_score(run / f"{name}-{update}.json") for name in ("beam", "greedy")}
    # A rehearsal validates at the end only.
    known = {"perplexity": found[update]["perplexity"]} if update in found else {}
    return {**known, **scores}


def read_score(path: Path) -> float:
    """Return the BLEU that `aiayn score --json` wrote."""
    return float(json.loads(path.read_text())["scores"][0]["value"])


def to_markdown(ours: dict[int, dict[str, float]], expected: dict[str, Any], scale: str) -> str:
    """Return a column of ours and one of the peer's for each quantity."""
    head = [f"{title} | {expected['peer']}" for title in COLUMNS.values()]
    lines = [f"| updates | {' | '.join(head)} |", f"|---{'|---' * 2 * len(COLUMNS)}|"]
    for update, numbers in ours.items():
        peer = expected["rows"].get(update, {})
        cells = [
            f"{who[name]:.2f}" if name in who else ""
            for name in COLUMNS
            for who in (numbers, peer)
        ]
        lines.append(f"| {update:,} | {' | '.join(cells)} |")
    if scale == "rehearsal":
        lines += ["", REHEARSAL]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("expected", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("updates", type=int, nargs="+")
    parser.add_argument("--scale", default="paper")
    given = parser.parse_args()
    ours = {update: measured(given.run, update) for update in given.updates}
    print(to_markdown(ours, yaml.safe_load(given.expected.read_text()), given.scale))


if __name__ == "__main__":
    main()
