"""Choose among a teacher's translations, and leave out those that a reverse model doubts.

choose.py best NBEST.tsv REFERENCE
    prints of each line the translation most like its reference, by chrF
choose.py keep SHARE SCORES SOURCE TARGET NEW_SOURCE NEW_TARGET
    writes the SHARE of the pairs whose log-probability a word of the source is highest
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, which end at a line feed and nowhere else."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def best(nbest: list[str], references: list[str]) -> list[str]:
    """Return of each line the translation that is most like its reference."""
    chrf, chosen = CHRF(), []
    rows = (row.split("\t") for row in nbest)
    for number, of_line in groupby(rows, key=lambda row: row[0]):
        reference = [references[int(number) - 1]]
        texts = [row[3] for row in of_line]
        chosen.append(max(texts, key=lambda text: chrf.sentence_score(text, reference).score))
    return chosen


def keep(share: float, scores: list[str], sources: list[str]) -> list[int]:
    """Return the numbers of the pairs to keep, in order."""
    # A reverse model writes the source: its score is a sum over the words of the source.
    by_word = [
        float(score) / (1 + len(source.split()))
        for score, source in zip(scores, sources, strict=True)
    ]
    order = sorted(range(len(by_word)), key=lambda number: -by_word[number])
    return sorted(order[: round(share * len(order))])


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    of_best = commands.add_parser("best")
    of_best.add_argument("nbest", type=Path)
    of_best.add_argument("reference", type=Path)
    of_keep = commands.add_parser("keep")
    of_keep.add_argument("share", type=float)
    for name in ("scores", "source", "target", "new_source", "new_target"):
        of_keep.add_argument(name, type=Path)
    a = parser.parse_args()
    if a.command == "best":
        chosen = best(read_lines(a.nbest), read_lines(a.reference))
        sys.stdout.write("".join(f"{line}\n" for line in chosen))
        return
    numbers = keep(a.share, read_lines(a.scores), read_lines(a.source))
    for old, new in ((a.source, a.new_source), (a.target, a.new_target)):
        lines = read_lines(old)
        new.write_text("".join(f"{lines[i]}\n" for i in numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
