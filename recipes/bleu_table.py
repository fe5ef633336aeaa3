"""The BLEU of some translations, as Markdown; seeds of one model side by side, with their mean.

bleu_table.py SCALE NAME...      NAME.json is what `aiayn score --json` wrote
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

REHEARSAL = (
    "\nA rehearsal of the steps, on other data and with a small model: its scores mean nothing."
)


def to_markdown(scale: str, names: list[str]) -> str:
    """Return a row for each model."""
    of_model: dict[str, list[float]] = defaultdict(list)
    for name in names:
        score = json.loads(Path(f"{name}.json").read_text())["scores"][0]
        of_model[re.sub(r"-seed\d+", "", Path(name).name)].append(score["value"])
    rows = ["| translated by | BLEU | of seeds |", "|---|---|---|"]
    for name, values in of_model.items():
        seeds = ", ".join(f"{value:.2f}" for value in values)
        rows.append(f"| {name} | {mean(values):.2f} | {seeds} |")
    return "\n".join(rows) + (REHEARSAL if scale == "rehearsal" else "")


if __name__ == "__main__":
    print(to_markdown(sys.argv[1], sys.argv[2:]))
