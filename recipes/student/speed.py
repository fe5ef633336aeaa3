"""How many sentences a second models translate greedily, one after the other in each round.

speed.py TEXT MODEL... [--rounds 5]
"""

import argparse
import time
from pathlib import Path
from statistics import median

import torch

from aiayn.generation.prepare import load_models
from aiayn.generation.search import BeamSearch
from aiayn.generation.translator import Translator


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    lines = a.text.read_text(encoding="utf-8").splitlines()
    translators = {}
    for path in a.models:
        (file,), networks = load_models([path], torch.device("cpu"), "float32")
        search, extra = BeamSearch(beam=1, alpha=0.0), file.config.decode.extra_length
        translators[path] = Translator(networks, file.codec, search, extra)
    rates: dict[Path, list[float]] = {path: [] for path in translators}
    for _ in range(a.rounds):
        for path, translator in translators.items():
            began = time.monotonic()
            list(translator.translate(lines))
            rates[path].append(len(lines) / (time.monotonic() - began))
    print("\n| model | sentences a second, greedy | times the first |\n|---|---|---|")
    first = median(rates[a.models[0]])
    for path, found in rates.items():
        rate = median(found)
        print(f"| {path.parent.name} | {rate:.1f} | {rate / first:.2f} |")


if __name__ == "__main__":
    main()
