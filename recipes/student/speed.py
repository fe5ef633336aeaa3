"""How many sentences a second models translate greedily, one after the other in each round.

speed.py TEXT MODEL... [--rounds 5] [--compile]
"""

import argparse
import time
from pathlib import Path
from statistics import median

import aiayn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="by compiled code")
    a = parser.parse_args()
    lines = a.text.read_text(encoding="utf-8").splitlines()
    models = {path: aiayn.load(path, device="cpu", compile=a.compile) for path in a.models}
    rates: dict[Path, list[float]] = {path: [] for path in models}
    for _ in range(a.rounds):
        for path, model in models.items():
            began = time.monotonic()
            model.translate(lines, beam=1)
            rates[path].append(len(lines) / (time.monotonic() - began))
    way = "greedy, compiled" if a.compile else "greedy"
    print(f"\n| model | sentences a second, {way} | times the first |\n|---|---|---|")
    first = median(rates[a.models[0]])
    for path, found in rates.items():
        rate = median(found)
        print(f"| {path.parent.name} | {rate:.1f} | {rate / first:.2f} |")


if __name__ == "__main__":
    main()
