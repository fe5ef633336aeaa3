"""Clean a parallel corpus: one line of each file is a pair.

clean.py SRC TGT MAX RATIO CLEAN_SRC CLEAN_TGT

A pair is kept if each side is UTF-8 without NUL, has 1 to MAX words, punctuation marks counted
as words, and the longer side at most RATIO times as many as the shorter (0: any). What is
dropped is counted by its reason.
"""

import re
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

WORD = re.compile(rb'[.,;:!?()"]|[^\s.,;:!?()"]+')
KEPT, BAD_BYTES, EMPTY, LONG, UNEQUAL = "kept", "bad bytes", "empty", "too long", "unequal"


def judge(source: bytes, target: bytes, most: int, ratio: float) -> str:
    """Return KEPT, or why a pair is dropped."""
    if not (is_text(source) and is_text(target)):
        return BAD_BYTES
    shorter, longer = sorted(len(WORD.findall(side)) for side in (source, target))
    if not shorter:
        return EMPTY
    if longer > most:
        return LONG
    return UNEQUAL if ratio and longer > ratio * shorter else KEPT


def is_text(line: bytes) -> bool:
    """Whether a line is UTF-8 without NUL, which ends a string in many a program."""
    if line.isascii():
        return b"\0" not in line
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in line


def main() -> None:
    most, ratio = int(sys.argv[3]), float(sys.argv[4])
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        inputs = [stack.enter_context(Path(path).open("rb")) for path in sys.argv[1:3]]
        outputs = [stack.enter_context(Path(path).open("wb")) for path in sys.argv[5:]]
        for pair in zip(*inputs, strict=True):
            source, target = (line.rstrip(b"\r\n") for line in pair)
            verdict = judge(source, target, most, ratio)
            counts[verdict] += 1
            if verdict == KEPT:
                outputs[0].write(source + b"\n")
                outputs[1].write(target + b"\n")
    kept = counts.pop(KEPT, 0)
    dropped = ", ".join(f"{count:,} {why}" for why, count in sorted(counts.items()))
    total = kept + sum(counts.values())
    print(f"{kept:,} of {total:,} pairs kept" + (f"; dropped: {dropped}" if dropped else ""))


if __name__ == "__main__":
    main()
