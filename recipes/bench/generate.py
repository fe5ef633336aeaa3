"""Decoding speed against CTranslate2 with the same weights, as ratios in one run.

    python recipes/bench/generate.py MODEL TEXT [--sentences 1000] [--repeats 5]

MODEL is exported with `aiayn export --to ctranslate2`. Each side has a process of its own and
takes the best of a few settings, found on a part of the text; then they take turns and the
medians are compared. No length penalty, since the two have different ones. Needs
`aiayn[export]`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

from aiayn.cli import ENVIRONMENT

CORES = len(os.sched_getaffinity(0))
os.environ.update(ENVIRONMENT | os.environ)  # before torch is loaded
EXTRA = 50
ALONE = 100
"""Sentences of the races in which each is translated by itself."""
TRIED = 256
"""Sentences with which the best setting is found."""

RACES = {
    # name: precision, beam, one sentence at a time, goal
    "float32, beam 4": ("float32", 4, False, 1.1),
    "float32, greedy": ("float32", 1, False, 1.2),
    "int8, beam 4": ("int8", 4, False, 1.0),
    "int8, greedy": ("int8", 1, False, None),
    "float32, beam 4, one by one": ("float32", 4, True, None),
    "int8, beam 4, one by one": ("int8", 4, True, 1.0),
}
SIZES = (32, 64, 128, 256)
"""Sentences in a batch."""


def settings(alone: bool) -> list[tuple[int, int, int]]:
    """Workers, threads of each, sentences in a batch."""
    if alone:
        return [(1, 1, 1), (1, CORES, 1)]
    return [(CORES, 1, size) for size in SIZES] + [(1, CORES, size) for size in SIZES[1:3]]


def ours(model: Path, folder: Path, precision: str):
    import torch

    from aiayn.device import prepare_device, share_cores
    from aiayn.generation.prepare import load_models
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translator import Line, Translator

    cpu = torch.device("cpu")
    prepare_device(cpu)
    (file,), networks = load_models([model], cpu, precision)
    whole = Translator(networks, file.codec, extra_length=EXTRA)
    engines: dict[tuple[int, tuple[int, int, int]], Translator] = {}

    def run(texts: list[str], beam: int, setting: tuple[int, int, int]) -> int:
        workers, threads, size = setting
        share_cores(cpu, threads if workers == 1 else CORES)
        if (beam, setting) not in engines:
            lengths = [len(ids) for ids in file.codec.encode_source_batch(texts)]
            while engines:
                engines.popitem()[1].close()
            engines[beam, setting] = replace(
                whole,
                search=BeamSearch(beam=beam, alpha=0.0),
                workers=workers,
                batch_tokens=int(size * statistics.mean(lengths)),
            )
        lines = [Line(text) for text in texts]
        windows = [lines] if size > 1 else [[line] for line in lines]
        translate = engines[beam, setting].translate_window
        found = [one for window in windows for one in translate(window)]
        return sum(len(one.outputs[0].pairs[0][1]) for one in found)

    return run


def theirs(model: Path, folder: Path, precision: str):
    import ctranslate2  # and neither torch nor aiayn, whose memory would count

    subwords = json.loads((folder / "subwords.json").read_text())
    engines: dict[tuple[int, int], ctranslate2.Translator] = {}

    def run(texts: list[str], beam: int, setting: tuple[int, int, int]) -> int:
        workers, threads, size = setting
        if (workers, threads) not in engines:
            engines.clear()
            engines[workers, threads] = ctranslate2.Translator(
                str(folder),
                compute_type=precision,
                inter_threads=workers,
                intra_threads=threads,
            )
        pieces = subwords[: len(texts)]
        batches = [pieces] if size > 1 else [[one] for one in pieces]
        found = []
        for batch in batches:
            found += engines[workers, threads].translate_batch(
                batch,
                beam_size=beam,
                length_penalty=0,
                max_batch_size=size,
                max_decoding_length=max(map(len, batch)) + EXTRA,
            )
        return sum(len(one.hypotheses[0]) + 1 for one in found)

    return run


def prepare(model: Path, folder: Path, texts: list[str]) -> None:
    """Write the text as CTranslate2 takes it: in subwords, without the end."""
    from aiayn.checkpoint import load_model

    codec = load_model(model).codec
    subwords = [codec.source.pieces(ids[:-1]) for ids in codec.encode_source_batch(texts)]
    (folder / "subwords.json").write_text(json.dumps(subwords))


def serve(side: str, model: Path, folder: Path, precision: str, texts: list[str]) -> None:
    """Translate whenever a line comes in, and answer with how long it took."""
    run = {"ours": ours, "ctranslate2": theirs}[side](model, folder, precision)
    for line in sys.stdin:
        beam, count, setting = json.loads(line)
        begin = time.perf_counter()
        tokens = run(texts[:count], beam, tuple(setting))
        seconds = time.perf_counter() - begin
        print(
            json.dumps({"seconds": seconds, "tokens": tokens, "memory": memory()}), flush=True
        )


def memory() -> int:
    """Return the bytes that this process and its children use; what is shared counts once."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in [own, *children]]
    lines = [
        line for rollup in rollups for line in rollup.splitlines() if line.startswith("Pss:")
    ]
    return sum(int(line.split()[1]) * 1024 for line in lines)


class Side:
    """A child process that takes part in races of one precision."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [*command, "--serve", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, beam: int, count: int, setting: tuple[int, int, int]) -> dict[str, float]:
        self.process.stdin.write(json.dumps([beam, count, setting]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def race(name: str, command: list[str], repeats: int, sentences: int) -> None:
    precision, beam, alone, goal = RACES[name]
    sides = [Side(who, [*command, "--precision", precision]) for who in ("ours", "ctranslate2")]
    count = min(sentences, ALONE) if alone else sentences
    best = {}
    for side in sides:
        part = min(count, TRIED)
        side.run(beam, part, settings(alone)[0])  # warms up
        tried = {each: side.run(beam, part, each)["seconds"] for each in settings(alone)}
        best[side.name] = min(tried, key=tried.__getitem__)
        side.run(beam, part, best[side.name])
    rounds = [
        {side.name: side.run(beam, count, best[side.name]) for side in sides}
        for _ in range(repeats)
    ]
    for side in sides:
        side.end()
    print(f"\n{name}, {count} sentences, {repeats} rounds")
    for side in sides:
        speeds = [count / one[side.name]["seconds"] for one in rounds]
        tokens = statistics.median(
            one[side.name]["tokens"] / one[side.name]["seconds"] for one in rounds
        )
        workers, threads, size = best[side.name]
        print(
            f"  {side.name:<12} {statistics.median(speeds):8.1f} sentences/s"
            f" ({min(speeds):.1f} to {max(speeds):.1f}) {tokens:9.0f} tokens/s"
            f" {max(one[side.name]['memory'] for one in rounds) / 1e6:7.0f} MB"
            f"   {workers} x {threads} threads, {size} a batch"
        )
    ratios = [one["ctranslate2"]["seconds"] / one["ours"]["seconds"] for one in rounds]
    wanted = f"  (goal {goal})" if goal else ""
    print(f"  ratio        {statistics.median(ratios):8.2f}{wanted}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--race", action="append", choices=RACES, help="default: all")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="float32", help=argparse.SUPPRESS)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    a = parser.parse_args()
    with a.text.open() as file:
        texts = [line.strip() for line in islice(file, a.sentences)]
    if a.serve:
        serve(a.serve, a.model, a.folder, a.precision, texts)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "ctranslate2"
        export = [sys.executable, "-m", "aiayn", "export", str(a.model), "-o", str(folder)]
        subprocess.run([*export, "--to", "ctranslate2", "--verify", "0"], check=True)
        prepare(a.model, folder, texts)
        command = [sys.executable, __file__, str(a.model), str(a.text), "--folder", str(folder)]
        command += ["--sentences", str(len(texts))]
        for name in a.race or RACES:
            race(name, command, a.repeats, len(texts))


if __name__ == "__main__":
    main()
