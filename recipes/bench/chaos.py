"""Does anything get lost? Commands under attack, against the same commands left alone.

    python recipes/bench/chaos.py --rounds 5 --seed 1

In each round preprocess, train (on 1 to 3 processes) and generate are started again and again
while faults strike them at random moments, then once more in peace. What they leave has to be
what undisturbed commands leave: the same bytes of data and text, the same weights. No command
may end with a traceback, or hang. A disk of its own, which can be full or read-only, needs
Linux and `unshare -rm`; without it a limit on the size of files stands in for a full disk, and
no folder is read-only.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from aiayn.checkpoint import load_model
from aiayn.cli import main as aiayn
from aiayn.errors import AiaynError

# It has loaded torch once and forks a process for each command: a tenth of a second, not three.
SERVER = multiprocessing.get_context("forkserver")
LOADED_ONCE = [
    *(f"aiayn.commands.{name}" for name in ("preprocess", "train", "generate")),
    *(f"aiayn.generation.{name}" for name in ("translator", "prepare", "output")),
    *("aiayn.data.preprocess", "aiayn.training.loop", "aiayn.scoring.bleu", "torch._dynamo"),
]
TALK = tempfile.TemporaryDirectory(prefix="chaos-talk-")
PATIENCE = 120.0
DISK_BYTES = 48 << 20
BLOCK = 4096
STEPS = 24
TINY = (
    *("--preset", "tiny", "--device", "cpu", "--precision", "float32", "--steps", str(STEPS)),
    *("model.layers=1", "model.d_model=32", "model.d_ff=64", "model.heads=2", "model.d_k=16"),
    *("model.d_v=16", "batch.tokens=400", "batch.micro_tokens=100", "optim.warmup=60"),
    *("train.save_every=3", "train.valid_every=12", "train.log_every=1", "train.average=3"),
)
BEFORE = ("read-only", "clock", "torn")
DURING = ("kill", "stop", "pause", "full disk", "vanished", "second")
# What a disturbed command may exit with: done, refused, a process lost, stopped, killed.
CODES = {0, 2, 3, 69, 75, -signal.SIGKILL, -signal.SIGTERM}


@dataclass
class Stage:
    """A command of the pipeline, and what it writes."""

    line: list[str]
    output: Path
    processes: int = 1
    seconds: float = 0.0
    """How long it takes when nothing disturbs it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=2, help="faults that strike one command")
    parser.add_argument("--mounted", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if not a.mounted and can_mount():
        own = ["unshare", "-rm", sys.executable, *sys.argv, "--mounted"]
        sys.exit(subprocess.run(own, check=False).returncode)
    SERVER.set_forkserver_preload(LOADED_ONCE)
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        if not a.mounted:
            sys.exit(run_rounds(a, Path(name)))
        mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", name)
        try:
            sys.exit(run_rounds(a, Path(name)))
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def can_mount() -> bool:
    trial = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
    return bool(shutil.which("unshare")) and not subprocess.run(trial, check=False).returncode


def mount(*line: str) -> None:
    subprocess.run(["mount", *line], check=True)


def run_rounds(a: argparse.Namespace, folder: Path) -> int:
    """Make the undisturbed run, then the rounds; return 0 if all end like it."""
    disk = "a disk of its own" if a.mounted else "no disk of its own: never read-only"
    print(f"seed {a.seed}, {a.rounds} rounds, at most {a.most} faults a command, {disk}")
    text, calm, disturbed = write_text(folder / "text"), folder / "calm", folder / "disturbed"
    calm.mkdir()
    pipeline = stages(text, calm)
    for stage in pipeline:
        begin = time.monotonic()
        codes, talk = wait(start(stage))
        stage.seconds = time.monotonic() - begin
        assert codes == [0], talk
    failed = 0
    print("round  processes  faults with exit codes -> verdict", flush=True)
    for number in range(1, a.rounds + 1):
        draw, begin = random.Random(f"{a.seed} {number}"), time.monotonic()
        processes = draw.randint(1, 3)
        story: list[str] = []
        disturbed.mkdir()
        try:
            for stage, known in zip(stages(text, disturbed, processes), pipeline, strict=True):
                stage.seconds = known.seconds
                disturb(stage, draw, a, story)
            compare(calm, disturbed)
            verdict = "same"
        except (AssertionError, AiaynError) as problem:
            verdict, failed = f"DIFFERENT: {problem}", failed + 1
        told = f"{' '.join(story)} -> {verdict} ({time.monotonic() - begin:.0f} s)"
        print(f"{number:5}  {processes:9}  {told}", flush=True)
        shutil.rmtree(disturbed)
    print(f"{a.rounds - failed} of {a.rounds} rounds ended as the undisturbed one did")
    return int(failed > 0)


def write_text(folder: Path) -> Path:
    """Write pairs whose translation is each word backwards, and lines to translate."""
    folder.mkdir()
    draw = random.Random(1)
    words = [a + b for a in "bdgkmp" for b in "aeiou"]
    for name, count in (("train", 3000), ("valid", 12), ("test", 40)):
        lines = [draw.choices(words, k=draw.randint(1, 8)) for _ in range(count)]
        for side, turn in (("en", 1), ("de", -1)):
            text = "".join(" ".join(w[::turn] for w in line) + "\n" for line in lines)
            (folder / f"{name}.{side}").write_text(text)
    return folder


def stages(text: Path, folder: Path, processes: int = 1) -> list[Stage]:
    """Return the three commands, with outputs in a folder."""
    data, run, out = folder / "data", folder / "run", folder / "out.de"
    train, valid = ([f"{text}/{x}.en", f"{text}/{x}.de"] for x in ("train", "valid"))
    small = ["--vocab-size", "340", "--shard-size", "4000", "--workers", "1"]
    generate = ["generate", str(run), "-i", f"{text}/test.en", "-o", str(out), "--threads", "1"]
    return [
        Stage(["preprocess", *train, "--valid", *valid, *small, "-o", str(data)], data),
        Stage(["train", str(data), "-o", str(run), *TINY], run, processes),
        Stage(generate, out),
    ]


def start(stage: Stage, largest: int | None = None, jump: float = 0.0) -> list[BaseProcess]:
    """Start a command in one or several processes, as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    many = {"WORLD_SIZE": stage.processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = []
    for rank in range(stage.processes):
        handle, talk = tempfile.mkstemp(dir=TALK.name)
        os.close(handle)
        place = {} if stage.processes == 1 else {"RANK": rank, "LOCAL_RANK": rank, **many}
        arguments = (stage.line, talk, place, largest, jump)
        running.append(SERVER.Process(target=be_the_program, args=arguments, name=talk))
        running[-1].start()
    return running


def be_the_program(
    line: list[str], talk: str, place: dict[str, object], largest: int | None, jump: float
) -> None:
    """Be `aiayn` in this process; what it says goes to a file."""
    os.dup2(os.open(talk, os.O_WRONLY), 2)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update({name: str(value) for name, value in place.items()})
    torch.set_num_threads(1)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if jump:
        # The clock on the wall goes back and forth; a monotonic one does not, by definition.
        clock, draw = time.time, random.Random(jump)
        time.time = lambda: clock() + draw.uniform(-jump, jump)
    sys.argv = ["aiayn", *line]
    aiayn()


def wait(running: list[BaseProcess]) -> tuple[list[int | None], str]:
    """Return the exit codes of processes and what they said; one that hangs is ended."""
    deadline = time.monotonic() + PATIENCE
    for process in running:
        process.join(max(0.0, deadline - time.monotonic()))
    hanging = [process for process in running if process.is_alive()]
    for process in hanging:
        process.kill()
        process.join()
    talk = "".join(Path(process.name).read_text(errors="replace") for process in running)
    assert not hanging, f"{len(hanging)} of {len(running)} processes hang: {talk[-2000:]}"
    return [process.exitcode for process in running], talk


def disturb(stage: Stage, draw: random.Random, a: argparse.Namespace, story: list[str]) -> None:
    """Run a command several times with a fault each, then once in peace."""
    story.append(f"{stage.line[0]}:")
    for _ in range(draw.randint(1, a.most)):
        fault = draw.choice([*DURING, *(BEFORE if a.mounted else BEFORE[1:])])
        codes, talk = strike(stage, fault, draw, a.mounted)
        story.append(f"{fault} {','.join(map(str, codes))};")
        fine = "Traceback" not in talk and set(codes) <= CODES
        assert fine, f"{fault}: {codes} {talk[-3000:]}"
    codes, talk = wait(start(stage))
    assert set(codes) == {0}, f"in peace: {codes} {talk[-3000:]}"


def strike(
    stage: Stage, fault: str, draw: random.Random, mounted: bool
) -> tuple[list[int | None], str]:
    """Run a command with a fault; return the exit codes and what was said."""
    folder, disk = stage.output.parent, str(stage.output.parent.parent)
    match fault:
        case "torn":
            tear(stage.output, draw)
        case "clock":
            for path in (folder, *folder.rglob("*")):
                os.utime(path, (draw.uniform(0, 4e9),) * 2)  # 1970 to 2096
        case "read-only":
            mount("-o", "remount,ro", disk)
    limit = draw.randrange(1000, 100_000) if fault == "full disk" and not mounted else None
    running = start(stage, limit, jump=1e9 if fault == "clock" else 0.0)
    if fault in DURING:
        time.sleep(draw.uniform(0, 0.8 * stage.seconds))
        strike_running(stage, fault, draw, running, mounted)
    try:
        return wait(running)
    finally:
        if fault == "read-only":
            mount("-o", "remount,rw", disk)
        (folder / "ballast").unlink(missing_ok=True)
        if (folder / "away").exists():
            # What was written in its place is lost.
            shutil.rmtree(stage.output, ignore_errors=True)
            (folder / "away").rename(stage.output)


def strike_running(
    stage: Stage, fault: str, draw: random.Random, running: list[BaseProcess], mounted: bool
) -> None:
    folder, process = stage.output.parent, draw.choice(running)
    match fault:
        case "kill":
            send(signal.SIGKILL, process)
        case "stop":
            send(signal.SIGTERM, *running)
        case "pause":
            send(signal.SIGSTOP, process)
            time.sleep(draw.uniform(0.05, 0.5))
            send(signal.SIGCONT, process)
        case "full disk" if mounted:
            free = os.statvfs(folder).f_bavail * BLOCK - draw.randrange(9) * BLOCK
            with (folder / "ballast").open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, free))
        case "vanished" if stage.output.exists():
            stage.output.rename(folder / "away")
        case "second":
            running += start(stage)


def send(number: int, *processes: BaseProcess) -> None:
    for process in processes:
        if process.is_alive() and process.pid:
            os.kill(process.pid, number)


def tear(output: Path, draw: random.Random) -> None:
    """Change a byte of the newest checkpoint, and perhaps cut it short."""
    path = output / "last.pt"
    if path.exists() and (output / "previous.pt").exists():
        content = bytearray(path.read_bytes())
        place = draw.randrange(len(content))
        content[place] ^= 255
        path.write_bytes(content[: draw.choice([place, len(content)])])


def compare(calm: Path, other: Path) -> None:
    """Compare what two pipelines left."""
    for folder in ("data", "run"):
        both = [{p.relative_to(x) for p in (x / folder).rglob("*")} for x in (calm, other)]
        assert both[0] == both[1], f"other files: {both[0] ^ both[1]}"
    for path in [*(p for p in (calm / "data").rglob("*") if p.is_file()), calm / "out.de"]:
        same = path.read_bytes() == (other / path.relative_to(calm)).read_bytes()
        assert same, f"{path.name} has other bytes"
    for path in (calm / "run").rglob("*.pt"):
        one, two = load_model(path), load_model(other / path.relative_to(calm))
        same = (one.step, one.config) == (two.step, two.config)
        same &= all(torch.equal(weight, two.weights[n]) for n, weight in one.weights.items())
        assert same, f"{path.name} is another model"
    rows = map(json.loads, (other / "run/metrics.jsonl").read_text().splitlines())
    steps = [row["step"] for row in rows if "loss" in row]
    assert steps == list(range(1, STEPS + 1)), f"the updates {steps} were logged"


if __name__ == "__main__":
    main()
