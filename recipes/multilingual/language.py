"""How many lines are in the language that was asked for.

language.py TEXT LINES TEXT LINES ...      TEXT: text of a language; LINES: what should be in it

A line is in the language of which it has the most words that no other of these languages has.
"""

import sys
from pathlib import Path


def words_of(path: Path) -> set[str]:
    """Return the words of a text, without their case."""
    return set(path.read_text(encoding="utf-8").casefold().split())


def share_in(lines: list[str], own: set[str], others: set[str]) -> float:
    """Return the share of the lines that have more words of their own than of the others."""
    alone, foreign = own - others, others - own
    right = 0
    for line in lines:
        words = line.casefold().split()
        right += sum(word in alone for word in words) > sum(word in foreign for word in words)
    return right / len(lines)


def main() -> None:
    texts, outputs = (list(map(Path, sys.argv[i::2])) for i in (1, 2))
    words = [words_of(text) for text in texts]
    print("\n| output | lines in the language asked for |\n|---|---|")
    for number, output in enumerate(outputs):
        others = set().union(*(w for i, w in enumerate(words) if i != number))
        lines = output.read_text(encoding="utf-8").splitlines()
        print(f"| {output.stem} | {100 * share_in(lines, words[number], others):.1f}% |")


if __name__ == "__main__":
    main()
