"""The BLEU of some translations, as Markdown.

bleu_table.py SCALE NAME...      NAME.json is what `aiayn score --json` wrote
"""

import json
import sys
from pathlib import Path

REHEARSAL = (
    "\nA rehearsal of the steps, on other data and with a small model: its scores mean nothing."
)


def to_markdown(scale: str, names: list[str]) -> str:
    """Return a row for each name."""
    rows = ["| translated by | BLEU |", "|---|---|"]
    for name in names:
        score = json.loads(Path(f"{name}.json").read_text())["scores"][0]
        rows.append(f"| {Path(name).name} | {score['value']:.2f} |")
    return "\n".join(rows) + (REHEARSAL if scale == "rehearsal" else "")


if __name__ == "__main__":
    print(to_markdown(sys.argv[1], sys.argv[2:]))
