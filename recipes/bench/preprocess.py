"""How fast `aiayn preprocess` encodes beside SentencePiece alone, and what memory it needs.

python recipes/bench/preprocess.py                  speed: ratios, medians of interleaved runs
python recipes/bench/preprocess.py --memory         memory: 1 and 5 million pairs

Both sides of a ratio read the same files, start the same number of processes and are measured
from start to end, in turn. SentencePiece alone encodes blocks of lines and forgets the ids;
we filter, pack, sum up and write them too. Memory is what all processes hold at once (Linux).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from aiayn.data.codec import Codec
from aiayn.data.encode import Encoder
from aiayn.data.folder import UNFINISHED_FOLDER
from aiayn.data.inputs import PAIRS_PER_BLOCK, ParallelText
from aiayn.data.second_pass import encode_split
from aiayn.data.settings import Settings
from aiayn.data.unfinished import Job, State

AIAYN = [sys.executable, "-m", "aiayn"]
POLL_SECONDS = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where corpora are kept for the next time")
    parser.add_argument(
        "--pairs", type=int, default=1_000_000, help="pairs to encode for speed"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="measure memory, not speed")
    parser.add_argument("--memory-pairs", type=int, nargs=2, default=[1_000_000, 5_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.memory:
            measure_memory(folder, options.memory_pairs)
        else:
            measure_speed(make_corpus(folder, options.pairs), options.pairs, options.repeats)


def make_corpus(folder: Path, pairs: int) -> Path:
    corpus = folder / f"sample-{pairs}"
    if not (corpus / "train.de").exists():
        subprocess.run([*AIAYN, "sample", corpus, "--pairs", str(pairs)], check=True)
    return corpus


def measure_speed(corpus: Path, pairs: int, repeats: int) -> None:
    text = ParallelText(corpus / "train.en", corpus / "train.de")
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        subprocess.run(
            [*AIAYN, "preprocess", *text.files, "--vocab-size", "4000", "-o", data], check=True
        )
        codec = Codec.load(data / "vocab")
    runs: dict[str, Callable[[], None]] = {}
    for workers in (1, 2):
        runs[f"SentencePiece, {workers}"] = partial(sentencepiece_alone, codec, text, workers)
        runs[f"aiayn, {workers}"] = partial(encode_and_write, codec, text, pairs, workers)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    processor_seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start, processor_start = time.perf_counter(), processor_time()
            run()
            seconds[name].append(time.perf_counter() - start)
            processor_seconds[name].append(processor_time() - processor_start)
    for name, each in seconds.items():
        rates = sorted(2 * pairs / s for s in each)
        middle = statistics.median(rates)
        print(f"{name}: {middle:,.0f} lines/s ({rates[0]:,.0f} to {rates[-1]:,.0f})")
    print("\nspeed: median ratio (least to greatest)")
    print_ratios(seconds)
    print("\nby processor time, which other work on the machine disturbs less")
    print_ratios(processor_seconds)


def processor_time() -> float:
    """Return the seconds that this process and its ended children have computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def print_ratios(seconds: dict[str, list[float]]) -> None:
    for one, other in (
        ("aiayn, 1", "SentencePiece, 1"),
        ("aiayn, 2", "SentencePiece, 2"),
        ("aiayn, 2", "aiayn, 1"),
        ("SentencePiece, 2", "SentencePiece, 1"),
    ):
        each = [b / a for a, b in zip(seconds[one], seconds[other], strict=True)]
        spread = f"{min(each):.3f} to {max(each):.3f}"
        print(f"{one} / {other}: {statistics.median(each):.3f} ({spread})")


def encode_and_write(codec: Codec, text: ParallelText, pairs: int, workers: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        output = Path(name)
        (output / UNFINISHED_FOLDER).mkdir()
        job = Job(settings=Settings(), inputs={})
        state = State(job=job, pairs={"train": pairs})
        encoder = Encoder(codec, max_length=256)
        encode_split("train", [text], encoder, output, state, workers=workers)


def sentencepiece_alone(codec: Codec, text: ParallelText, processes: int) -> None:
    model = codec.source.model_bytes
    if processes == 1:
        encode_share(model, text.files, 0, 1)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for share in [
            pool.submit(encode_share, model, text.files, n, processes) for n in range(processes)
        ]:
            share.result()


def encode_share(model: bytes, paths: tuple[Path, ...], share: int, shares: int) -> None:
    """Encode every so many blocks of lines of both files, and do nothing else."""
    processor = SentencePieceProcessor()
    processor.load_from_serialized_proto(model)
    for path in paths:
        with path.open(encoding="utf-8", newline="\n") as file:
            number = 0
            while lines := list(islice(file, PAIRS_PER_BLOCK)):
                if number % shares == share:
                    stripped = [line.rstrip("\n") for line in lines]
                    processor.encode(stripped, add_eos=True, num_threads=1)
                number += 1


def measure_memory(folder: Path, sizes: list[int]) -> None:
    peaks = []
    for pairs in sizes:
        corpus = make_corpus(folder, pairs)
        with tempfile.TemporaryDirectory() as name:
            files = [corpus / "train.en", corpus / "train.de"]
            options = ["--vocab-size", "4000", "--dedup", "-o", f"{name}/data"]
            start = time.monotonic()
            command = subprocess.Popen([*AIAYN, "preprocess", *map(str, files), *options])
            peaks.append(peak_of_tree(command))
            print(
                f"{pairs:,} pairs: {peaks[-1] / 1e6:,.0f} MB, {time.monotonic() - start:.0f} s"
            )
    print(f"peak of the larger / of the smaller: {peaks[-1] / peaks[0]:.3f}")


def peak_of_tree(command: "subprocess.Popen[bytes]") -> int:
    """Return the most bytes that a command and its children held in memory at once."""
    peak = 0
    while command.poll() is None:
        peak = max(peak, sum(resident(process) for process in tree(command.pid)))
        time.sleep(POLL_SECONDS)
    if command.returncode:
        raise SystemExit(f"the command ended with {command.returncode}")
    return peak


def tree(process: int) -> list[int]:
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, read(children).split())
    return found


def resident(process: int) -> int:
    """Return the bytes of a process in memory; what processes share is counted for each."""
    fields = read(Path(f"/proc/{process}/statm")).split()
    return int(fields[1]) * 4096 if fields else 0


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the process has ended


if __name__ == "__main__":
    main()
