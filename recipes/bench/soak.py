"""Does memory stay flat? `generate` in a live pipe, and `train`, for as long as asked.

    nice -n 15 python recipes/bench/soak.py --minutes 120 --folder soak

Both run at once, one thread each, with small models on the sample corpus. Each minute, the
memory of each command and its children goes to FOLDER/memory.tsv, without the pages of files: a
library is shared with other programs, and counts for more when they end. In the end: how far
the minutes after warming up are from their median, and how much an hour adds. The second finds
a leak that is too slow for the first: of 2% an hour, two hours are within 2% of the median.

oneDNN keeps 5 MB for each number of rows that training has had, up to 140 MB in all. Batches
are small, so that all numbers come while it warms up: with 500 tokens some come after hours.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

AIAYN = [sys.executable, "-m", "aiayn"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
SMALL = (
    "--preset",
    "tiny",
    "--device",
    "cpu",
    "--precision",
    "float32",
    "model.layers=1",
    "model.d_model=64",
    "model.d_ff=128",
    "model.heads=2",
    "model.d_k=32",
    "model.d_v=32",
    "batch.tokens=320",
    "batch.micro_tokens=160",
    "optim.warmup=100",
)
# Of the median: how far from it any look may be, and how much an hour may add.
FURTHEST, AN_HOUR = 0.02, 0.01
# How it shows that a thread or process has ended while it was looked at.
ENDED = (FileNotFoundError, ProcessLookupError)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--warm-up", type=float, default=10, help="minutes that do not count")
    parser.add_argument("--every", type=float, default=60, help="seconds between two looks")
    parser.add_argument("--folder", type=Path, default=Path("soak"))
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    data, text = prepare(a.folder)
    endless = ("--steps", "100000000", "--save-every", "200", "--valid-every", "400")
    commands = {
        "train": start("train", data, "-o", a.folder / "endless", *SMALL, *endless),
        "generate": start("generate", a.folder / "model", "--threads", "1"),
    }
    answered = [0]
    feeder = threading.Thread(
        target=feed, args=(commands["generate"], text, answered), daemon=True
    )
    feeder.start()
    try:
        rows = watch(commands, a, answered)
    finally:
        for process in commands.values():
            process.terminate()
            process.wait(60)
    sys.exit(report(rows, a.warm_up))


def prepare(folder: Path) -> tuple[Path, list[bytes]]:
    """Make a corpus, its data folder, and a model for `generate`."""
    text, data = folder / "text", folder / "data"
    if not text.exists():
        run("sample", text, "--pairs", 5000, "--valid", 50, "--seed", 1)
    sides = text / "train.en", text / "train.de"
    valid = text / "valid.en", text / "valid.de"
    run("preprocess", *sides, "--valid", *valid, "--vocab-size", 1000, "-o", data)
    run("train", data, "-o", folder / "model", *SMALL, "--steps", 400, "--valid-every", 0)
    return data, sides[0].read_bytes().splitlines(keepends=True)


def run(*line: object) -> None:
    subprocess.run([*AIAYN, *map(str, line)], env=ONE_THREAD, check=True)


def start(*line: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*AIAYN, *map(str, line)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ONE_THREAD,
    )


def feed(process: subprocess.Popen[bytes], text: list[bytes], answered: list[int]) -> None:
    """Ask and wait for the answers, 1 to 200 lines at a time; now and then a line is long."""
    draw = random.Random(1)
    while True:
        lines = [draw.choice(text) for _ in range(int(200 ** draw.random()))]
        if draw.random() < 0.02:
            lines.append(b" ".join(line.strip() for line in lines) + b"\n")
        # From another thread: a pipe holds less than the longest questions and answers.
        asking = threading.Thread(target=ask, args=(process, b"".join(lines)), daemon=True)
        asking.start()
        for _ in lines:
            if not process.stdout.readline().endswith(b"\n"):
                return
            answered[0] += 1
        asking.join()


def ask(process: subprocess.Popen[bytes], question: bytes) -> None:
    process.stdin.write(question)
    process.stdin.flush()


def watch(
    commands: dict[str, subprocess.Popen[bytes]], a: argparse.Namespace, answered: list[int]
) -> list[tuple[float, dict[str, float]]]:
    """Write a row each minute until the time is over; return minute and MB of each command."""
    rows = []
    begin = time.monotonic()
    with (a.folder / "memory.tsv").open("w") as file:
        print("minute", *commands, "lines", "updates", sep="\t", file=file, flush=True)
        while (minute := (time.monotonic() - begin) / 60) < a.minutes:
            time.sleep(a.every)
            for name, process in commands.items():
                if process.poll() is not None:
                    sys.exit(f"{name} has ended by itself with {process.returncode}")
            memory = {name: tree_memory(each.pid) / 1e6 for name, each in commands.items()}
            rows.append((minute, memory))
            found = (f"{memory[name]:.2f}" for name in commands)
            updates = updates_of(a.folder / "endless")
            print(
                f"{minute:.1f}", *found, answered[0], updates, sep="\t", file=file, flush=True
            )
    return rows


def tree_memory(pid: int) -> int:
    """Return the bytes of a process and all that it has started."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            total += 1024 * int(line.split()[1])
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(*ENDED):
            children += (task / "children").read_text().split()
    for child in children:
        with suppress(*ENDED):
            total += tree_memory(int(child))
    return total


def updates_of(folder: Path) -> int:
    """Return how many updates a run has made, as its last line of measurements says."""
    try:
        last = (folder / "metrics.jsonl").read_text().splitlines()[-1]
        return int(last.split('"step": ')[1].split(",")[0].rstrip("}"))
    except (OSError, IndexError, ValueError):
        return 0


def report(rows: list[tuple[float, dict[str, float]]], warm_up: float) -> int:
    """Print how flat memory was; return 1 if it was not."""
    warm = [(minute, memory) for minute, memory in rows if minute >= warm_up]
    if len(warm) < 3:
        sys.exit("too short to tell: ask for more minutes than --warm-up")
    # A leak shows in the thirds even where each minute is noisy.
    first, last = warm[: len(warm) // 3], warm[-(len(warm) // 3) :]
    hours = (
        statistics.mean(row[0] for row in last) - statistics.mean(row[0] for row in first)
    ) / 60
    code = 0
    for name in warm[0][1]:
        middle, early, late = (
            statistics.median(memory[name] for _, memory in part)
            for part in (warm, first, last)
        )
        spread = max(abs(memory[name] - middle) for _, memory in warm) / middle
        added = (late - early) / middle / hours
        flat = spread <= FURTHEST and added <= AN_HOUR
        code |= not flat
        print(
            f"{name:<10} {len(warm)} looks, median {middle:.1f} MB, furthest from it"
            f" {spread:.2%}, an hour adds {added:+.2%} {'flat' if flat else 'NOT FLAT'}"
        )
    return code


if __name__ == "__main__":
    main()
