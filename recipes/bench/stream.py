"""A long text through `generate`: rate, memory, and what kill -9 costs.

    python recipes/bench/stream.py MODEL TEXT [--lines 1000000] [--kills 2] [-- --compile ...]

TEXT is repeated up to --lines, in a .gz file, and translated into a file by one command with
the options after `--`. Each time its progress is saved, lines and memory are looked at: of the
command with its processes, without the pages of files. It is killed --kills times, at equal
parts of the way, and started again. In the end: the rate and the memory of each tenth of the
text, and whether the output is that of TEXT alone, repeated. Exit code 1: it is not.
"""

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from soak import ENDED, tree_memory

SECONDS = 0.5
"""Between two looks."""
TENTHS = 10


class Look(NamedTuple):
    attempt: int
    """How often the command had been started."""
    seconds: float
    lines: int
    memory: float
    """In MB."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="default: a temporary one")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    a = parser.parse_args(own, argparse.Namespace(options=options))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(run(a.folder or Path(scratch), a))


def run(folder: Path, a: argparse.Namespace) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    lines = a.text.read_bytes().splitlines(keepends=True)
    once, big, output = folder / "once", folder / "big.gz", folder / "big.out"
    with gzip.open(big, "wb", compresslevel=1) as file:
        file.writelines(islice(cycle(lines), a.lines))
    generate = [sys.executable, "-m", "aiayn", "generate", str(a.model), *a.options]
    subprocess.run([*generate, "-i", str(a.text), "-o", str(once)], check=True)
    kills = [a.lines * n // (a.kills + 1) for n in range(1, a.kills + 1)]
    looks = list(translate([*generate, "-i", str(big), "-o", str(output)], output, kills))
    report(looks, a.lines)
    right = islice(cycle(once.read_bytes().splitlines(keepends=True)), a.lines)
    with output.open("rb") as file:
        wrong = sum(ours != theirs for ours, theirs in zip(file, right, strict=True))
    print(f"{wrong:,} of {a.lines:,} lines differ from those of the text alone")
    return int(wrong > 0)


def translate(command: list[str], output: Path, kills: list[int]) -> Iterator[Look]:
    """Run the command to its end, killed at these lines; yield what is seen on the way."""
    note = output.with_name(output.name + ".partial.json")
    begin = time.monotonic()
    for attempt, kill in enumerate([*kills, None]):
        process, seen = subprocess.Popen(command), lines_of(note)
        while process.poll() is None:
            time.sleep(SECONDS)
            if (done := lines_of(note)) <= seen:
                continue
            seen = done
            with suppress(*ENDED):
                memory = tree_memory(process.pid) / 1e6
                yield Look(attempt, time.monotonic() - begin, done, memory)
                if kill is not None and done >= kill:
                    process.kill()
                    process.wait()
                    print(f"killed after {done:,} lines", flush=True)
        if kill is None and process.returncode:
            sys.exit(f"generate ended with {process.returncode}")


def lines_of(note: Path) -> int:
    """Return how many lines are safe on disk."""
    try:
        return json.loads(note.read_text())["lines"]
    except FileNotFoundError:
        return 0


def report(looks: list[Look], lines: int) -> None:
    """Print the rate and the memory of each tenth of the text."""
    steps = [
        (after.lines, (after.lines - before.lines) / (after.seconds - before.seconds), after)
        for before, after in pairwise(looks)
        if before.attempt == after.attempt and before.lines
    ]
    print("| lines | lines a second | MB |\n|---|---|---|")
    for tenth in range(TENTHS):
        first, last = lines * tenth // TENTHS, lines * (tenth + 1) // TENTHS
        within = [(rate, look) for done, rate, look in steps if first < done <= last]
        if not within:
            sys.exit("too few looks to tell: ask for more --lines")
        rate = statistics.median(rate for rate, _ in within)
        memory = statistics.median(look.memory for _, look in within)
        print(f"| to {last:,} | {rate:,.0f} | {memory:.0f} |")


if __name__ == "__main__":
    main()
