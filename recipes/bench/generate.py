"""Decoding speed against CTranslate2 with the same weights, as ratios in one run.

    python recipes/bench/generate.py MODEL TEXT [--sentences 1000] [--repeats 5] [--quick]

MODEL is one that has learned: sentences end at different times, then. It is exported with
`aiayn export --to ctranslate2`. Each side has a process of its own and takes the best of a few
settings, found on a part of the text; then they take turns and the medians are compared. Ours
races twice, with `--compile` and without, unless `--own` names one of the two. No length
penalty, since the two have different ones.
The whole command is raced against a script of CTranslate2 and SentencePiece, loading included;
and the lines are counted that `--engine ctranslate2` translates as ours does. On a machine that
does other work, too, `--cpu-time` compares CPU seconds of one thread. Needs `aiayn[export]`.
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
from functools import partial
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
    # name: precision, beam, one sentence at a time, goals of a base and of a small model
    "float32, beam 4": ("float32", 4, False, (1.15, 1.1)),
    "float32, greedy": ("float32", 1, False, (1.15, 1.1)),
    "int8, beam 4": ("int8", 4, False, (1.1, 1.1)),
    "int8, greedy": ("int8", 1, False, None),
    "bfloat16 / float32, beam 4": ("bfloat16", 4, False, (1.6, 1.3)),
    "float32, beam 4, one by one": ("float32", 4, True, None),
    "int8, beam 4, one by one": ("int8", 4, True, (0.8, 0.6)),
}
WHOLE = "whole command"
SAME = "same lines"
WHOLE_GOALS = (1.0, 0.9)
BASE_WIDTH = 512
OWN, PEER = ("compiled", "torch"), "ctranslate2"
SIZES = (32, 64, 128, 256)
"""Sentences in a batch."""


def settings(alone: bool, a: argparse.Namespace) -> list[tuple[int, int, int]]:
    """Workers, threads of each, sentences in a batch."""
    if a.cpu_time or a.quick:
        cores = 1 if a.cpu_time else CORES
        return [(1, 1, 1)] if alone else [(cores, 1, size) for size in SIZES[1:3]]
    if alone:
        return [(1, 1, 1), (1, CORES, 1)]
    return [(CORES, 1, size) for size in SIZES] + [(1, CORES, size) for size in SIZES[1:3]]


def share_cores(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def ours(model: Path, folder: Path, precision: str, compiled: bool = False):
    from aiayn.commands.engines import join_processes, open_translator
    from aiayn.commands.generate import GenerateOptions
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translator import Line, Translator

    options = GenerateOptions(
        models=[model], precision=precision, compile=compiled, extra_length=EXTRA
    )
    with join_processes(options) as group:
        whole = open_translator(options, [model], group)
    engines: dict[tuple[int, tuple[int, int, int]], Translator] = {}

    def run(texts: list[str], beam: int, setting: tuple[int, int, int]) -> int:
        workers, threads, size = setting
        if not compiled:
            share_cores(threads if workers == 1 else CORES)
        if (beam, setting) not in engines:
            lengths = [len(ids) for ids in whole.codec.encode_source_batch(texts)]
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
                # It has no bfloat16 on a CPU.
                compute_type="int8" if precision == "int8" else "float32",
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


def prepare(model: Path, folder: Path, texts: list[str]) -> int:
    """Write the text as CTranslate2 takes it, without the end; return the model's width."""
    from aiayn.checkpoint import load_model

    file = load_model(model)
    codec = file.codec
    subwords = [codec.source.pieces(ids[:-1]) for ids in codec.encode_source_batch(texts)]
    (folder / "subwords.json").write_text(json.dumps(subwords))
    return file.config.model.d_model


def serve(side: str, texts: list[str], a: argparse.Namespace) -> None:
    """Translate whenever a line comes in, and answer with how long it took."""
    make = {"compiled": partial(ours, compiled=True), "torch": ours, "ctranslate2": theirs}
    run = make[side](a.model, a.folder, a.precision)
    clock = time.process_time if a.cpu_time else time.perf_counter
    for line in sys.stdin:
        beam, count, setting = json.loads(line)
        begin = clock()
        tokens = run(texts[:count], beam, tuple(setting))
        seconds = clock() - begin
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


def race(name: str, command: list[str], sentences: int, a: argparse.Namespace) -> None:
    precision, beam, alone, goals = RACES[name]
    sides = [Side(who, [*command, "--precision", precision]) for who in (*a.own, PEER)]
    count = min(sentences, ALONE) if alone else sentences
    best = {}
    for side in sides:
        part, tries = min(count, TRIED), settings(alone, a)
        side.run(beam, part, tries[0])  # warms up
        tried = {each: side.run(beam, part, each)["seconds"] for each in tries}
        best[side.name] = min(tried, key=tried.__getitem__)
        side.run(beam, part, best[side.name])
    rounds = [
        {side.name: side.run(beam, count, best[side.name]) for side in sides}
        for _ in range(a.repeats)
    ]
    for side in sides:
        side.end()
    print(f"\n{name}, {count} sentences, {a.repeats} rounds")
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
    for own in a.own:
        ratios = [one[PEER]["seconds"] / one[own]["seconds"] for one in rounds]
        report(own, ratios, goals, a)


def report(own: str, ratios: list[float], goals: tuple | None, a: argparse.Namespace) -> None:
    """Print how much faster than CTranslate2 our side was."""
    goal = f"  (goal {goals[0 if a.width >= BASE_WIDTH else 1]})" if goals else ""
    print(f"  ratio, {own:<9} {statistics.median(ratios):4.2f}{goal}", flush=True)


SCRIPT = """
import sys, ctranslate2, sentencepiece
folder, model, text, output, workers, extra = sys.argv[1:]
pieces = sentencepiece.SentencePieceProcessor(model_file=model)
lines = [line.strip() for line in open(text)]
translator = ctranslate2.Translator(folder, inter_threads=int(workers), intra_threads=1)
tokens = pieces.encode(lines, out_type=str)
found = translator.translate_batch(tokens, beam_size=4, length_penalty=0, max_batch_size=64,
                                   max_decoding_length=max(map(len, tokens)) + int(extra))
with open(output, "w") as file:
    file.writelines(pieces.decode(one.hypotheses[0]) + "\\n" for one in found)
"""


def race_commands(scratch: Path, text: Path, lines: int, a: argparse.Namespace) -> None:
    """Race the whole command, from a cold start to the last line."""
    generate = [sys.executable, "-m", "aiayn", "generate", str(a.model), "-i", str(text)]
    generate += ["--alpha", "0"]  # as in the other races
    # What is converted and compiled once is there: the first round does not count.
    folder = scratch / "ctranslate2"
    model = next((folder / "vocab").glob("s*.model"))
    script = [sys.executable, "-c", SCRIPT, str(folder), str(model), str(text)]
    commands = {
        "compiled": [*generate, "--compile", "-o"],
        "torch": [*generate, "-o"],
        "engine": [*generate, "--engine", "ctranslate2", "-o"],
        PEER: script,
    }
    if len(a.own) < len(OWN):
        commands = {name: commands[name] for name in (*a.own, PEER)}
    seconds = {name: [] for name in commands}
    for number in range(a.repeats + 1):
        for name, command in commands.items():
            end = [str(CORES), str(EXTRA)] if name == PEER else []
            begin = time.perf_counter()
            line = [*command, str(scratch / f"{name}.hyp"), *end]
            subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
            seconds[name] += [time.perf_counter() - begin] if number else []
    print(f"\n{WHOLE}, {lines} lines, beam 4, float32, {a.repeats} rounds")
    for name, of_name in seconds.items():
        span = f"({min(of_name):.2f} to {max(of_name):.2f})"
        print(f"  {name:<12} {statistics.median(of_name):6.2f} s {span}")
    for own in [name for name in seconds if name != PEER]:
        both = zip(seconds[PEER], seconds[own], strict=True)
        report(own, [theirs / ours for theirs, ours in both], WHOLE_GOALS, a)


def count_same(text: Path, a: argparse.Namespace) -> None:
    """Count the lines that other ways of decoding translate as the exact reference does."""
    print(f"\n{SAME} as `aiayn generate`, by default settings")
    ways = [[], ["--compile"], ["--engine", "ctranslate2"], ["--precision", "int8"]]
    found = []
    for way in ways:
        line = [sys.executable, "-m", "aiayn", "generate", str(a.model), "-i", str(text), *way]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        found.append(done.stdout.splitlines())
        same = sum(map(str.__eq__, found[0], found[-1]))
        print(f"  {' '.join(way) or 'torch':<22} {same} of {len(found[0])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    names = (*RACES, WHOLE, SAME)
    parser.add_argument("--race", action="append", choices=names, help="default: all")
    parser.add_argument("--own", nargs=1, choices=OWN, default=OWN, help="default: both")
    parser.add_argument("--quick", action="store_true", help="2 rounds, 200 sentences")
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds of one thread")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="float32", help=argparse.SUPPRESS)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.quick:
        a.repeats, a.sentences = 2, min(a.sentences, 200)
    with a.text.open() as file:
        texts = [line.strip() for line in islice(file, a.sentences)]
    if a.serve:
        serve(a.serve, texts, a)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder, text = Path(scratch) / "ctranslate2", Path(scratch) / "text"
        text.write_text("".join(f"{line}\n" for line in texts))
        export = [sys.executable, "-m", "aiayn", "export", str(a.model), "-o", str(folder)]
        subprocess.run([*export, "--to", "ctranslate2", "--verify", "0"], check=True)
        a.width = prepare(a.model, folder, texts)
        command = [sys.executable, __file__, str(a.model), str(a.text), "--folder", str(folder)]
        command += ["--sentences", str(len(texts))]
        command += ["--cpu-time"] if a.cpu_time else []
        for name in a.race or names:
            if name == WHOLE:
                race_commands(Path(scratch), text, len(texts), a)
            elif name == SAME:
                count_same(text, a)
            else:
                race(name, command, len(texts), a)


if __name__ == "__main__":
    main()
