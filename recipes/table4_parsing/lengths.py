"""F1 of parses by the length of the sentence, as Markdown.

lengths.py GOLD TEST      a tree on each line
"""

import sys
from pathlib import Path

from aiayn.scoring.brackets import BracketCounts, score_trees

LONGEST = (10, 20, 30, 40)
"""The most words, punctuation not counted, of each row but the last."""
HEAD = ["| words | sentences | dropped | F1 |", "|---|---|---|---|"]


def f1(sentences: list[BracketCounts]) -> float:
    """Return labeled F1 of the sentences that EVALB counts."""
    counted = [sentence for sentence in sentences if sentence.valid]
    brackets = sum(sentence.gold + sentence.test for sentence in counted)
    return 200 * sum(sentence.matched for sentence in counted) / max(1, brackets)


def to_markdown(sentences: list[BracketCounts]) -> str:
    """Return a row for each range of lengths."""
    lines = list(HEAD)
    shortest = 1
    for longest in (*LONGEST, max(41, *(sentence.length for sentence in sentences))):
        chosen = [each for each in sentences if shortest <= each.length <= longest]
        dropped = sum(not each.valid for each in chosen)
        score = f"{f1(chosen):.2f}" if chosen else ""
        lines.append(f"| {shortest} to {longest} | {len(chosen)} | {dropped} | {score} |")
        shortest = longest + 1
    return "\n".join(lines)


def main() -> None:
    gold, test = (Path(path).read_text().splitlines() for path in sys.argv[1:])
    print(to_markdown(score_trees(gold, test).sentences))


if __name__ == "__main__":
    main()
