"""Does anything get lost? Commands under attack, against the same commands left alone.

    python recipes/bench/chaos.py --rounds 5 --seed 1

In each round preprocess, train (on 1 to 3 processes) and generate are started again and again
while faults strike them, then once more in peace. What they leave has to be what undisturbed
commands leave: the same bytes of data and text, the same weights. No command may end with a
traceback, or hang. A disk of its own, which can be full or read-only, needs Linux and `unshare
-rm`; else a limit on the size of files stands in for a full disk, and nothing is read-only.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
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
# For processes to leave by themselves when another has died; for a command.
LEAVE_SECONDS, PATIENCE = 30.0, 120.0
ON_A_DISK = 'mount -t tmpfs -o size=48m tmpfs "$0" && exec "$@"'
STEPS = 24
SIZES = ("--pairs", "1500", "--valid", "12", "--test", "30")
TINY = (
    *("--preset", "tiny", "--device", "cpu", "--precision", "float32", "--steps", str(STEPS)),
    *("model.layers=1", "model.d_model=32", "model.d_ff=64", "model.heads=2", "model.d_k=16"),
    *("model.d_v=16", "batch.tokens=400", "batch.micro_tokens=100", "optim.warmup=60"),
    *("train.save_every=3", "train.valid_every=12", "train.log_every=1", "train.average=3"),
)
BEFORE = ("read-only", "clock")
DURING = ("kill", "stop", "pause", "torn", "full disk", "vanished", "second")
# What a disturbed command may exit with: done, refused, a process lost, stopped, killed.
CODES = {0, 2, 3, 69, 75, -signal.SIGKILL, -signal.SIGTERM}


@dataclass
class Stage:
    """A command of the pipeline, and what it writes."""

    line: list[str]
    output: Path
    processes: int = 1
    seconds: float = 0.0  # when nothing disturbs it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=2, help="faults that strike one command")
    parser.add_argument("--disk", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args()
    SERVER.set_forkserver_preload(LOADED_ONCE)
    if a.disk:
        sys.exit(run_rounds(a, a.disk))
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        own = ["unshare", "-rm", "sh", "-c", ON_A_DISK, name]
        if (
            shutil.which("unshare")
            and not subprocess.run([*own, "true"], check=False).returncode
        ):
            line = [*own, sys.executable, *sys.argv, "--disk", name]
            sys.exit(subprocess.run(line, check=False).returncode)
        sys.exit(run_rounds(a, Path(name)))


def run_rounds(a: argparse.Namespace, folder: Path) -> int:
    """Make the undisturbed run, then the rounds; return 0 if all end like it."""
    disk = "a disk of its own" if a.disk else "no disk of its own: never read-only"
    print(f"seed {a.seed}, {a.rounds} rounds, at most {a.most} faults a command, {disk}")
    text, calm, disturbed = folder / "text", folder / "calm", folder / "disturbed"
    calm.mkdir()
    wait(start(Stage(["sample", str(text), *SIZES], text)))
    pipeline = stages(text, calm)
    for stage in pipeline:
        begin = time.monotonic()
        codes, talk = wait(start(stage))
        stage.seconds = time.monotonic() - begin
        assert codes == [0], talk
    failed = 0
    print("round  processes  faults with exit codes -> verdict", flush=True)
    for number in range(1, a.rounds + 1):
        draw, begin, story = random.Random(f"{a.seed} {number}"), time.monotonic(), []
        processes = draw.randint(1, 3)
        disturbed.mkdir()
        try:
            for stage, known in zip(stages(text, disturbed, processes), pipeline, strict=True):
                stage.seconds = known.seconds
                disturb(stage, draw, a, story)
            compare(calm, disturbed)
            verdict = "same"
        except (AssertionError, AiaynError) as problem:
            verdict, failed = f"DIFFERENT: {problem}", failed + 1
        seconds = round(time.monotonic() - begin)
        print(f"{number:5}  {processes:9}", *story, "->", verdict, f"({seconds} s)", flush=True)
        shutil.rmtree(disturbed)
    print(f"{a.rounds - failed} of {a.rounds} rounds ended as the undisturbed one did")
    return int(failed > 0)


def stages(text: Path, folder: Path, processes: int = 1) -> list[Stage]:
    """Return the three commands, with outputs in a folder."""
    data, run, out = folder / "data", folder / "run", folder / "out.de"
    train, valid = ([f"{text}/{x}.en", f"{text}/{x}.de"] for x in ("train", "valid"))
    small = ["--vocab-size", "600", "--shard-size", "4000", "--workers", "1"]
    generate = ["generate", str(run), "-i", f"{text}/test.en", "-o", str(out), "--threads", "1"]
    return [
        Stage(["preprocess", *train, "--valid", *valid, *small, "-o", str(data)], data),
        Stage(["train", str(data), "-o", str(run), *TINY], run, processes),
        Stage(generate, out),
    ]


def start(stage: Stage, largest: int | None = None, jump: float = 0.0) -> list[BaseProcess]:
    """Start a command in one or several processes, as torchrun would."""
    # Below those that the system gives to clients, who could take it before it is listened to.
    port = random.SystemRandom().randrange(20_000, 32_000)
    many = {"WORLD_SIZE": stage.processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = []
    for rank in range(stage.processes):
        talk = f"{TALK.name}/{time.monotonic_ns()}"
        place = {} if stage.processes == 1 else {"RANK": rank, "LOCAL_RANK": rank, **many}
        arguments = (stage.line, talk, place, largest, jump)
        running.append(SERVER.Process(target=be_the_program, args=arguments, name=talk))
        running[-1].start()
    return running


def be_the_program(
    line: list[str], talk: str, place: dict[str, object], largest: int | None, jump: float
) -> None:
    """Be `aiayn` in this process; what it says goes to a file."""
    os.dup2(os.open(talk, os.O_WRONLY | os.O_CREAT), 2)
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.dump_traceback_later(0.8 * PATIENCE)  # where it hangs
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
    join(running, LEAVE_SECONDS)
    if any(process.exitcode == -signal.SIGKILL for process in running):
        # It may have been killed before the others knew of it: torchrun ends them then.
        send(signal.SIGTERM, *running)
    join(running, PATIENCE)
    hanging = [process for process in running if process.is_alive()]
    for process in hanging:
        process.kill()
        process.join()
    files = [Path(each.name) for each in running if Path(each.name).exists()]
    talk = "".join(file.read_text(errors="replace") for file in files)
    codes = [process.exitcode for process in running]
    assert not hanging, f"{len(hanging)} of {len(running)} hang: {codes} {talk[-9000:]}"
    return codes, talk


def join(running: list[BaseProcess], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for process in running:
        process.join(max(0.0, deadline - time.monotonic()))


def disturb(stage: Stage, draw: random.Random, a: argparse.Namespace, story: list[str]) -> None:
    """Run a command several times with a fault each, then once in peace."""
    story.append(f"{stage.line[0]}:")
    for _ in range(draw.randint(1, a.most)):
        fault = draw.choice([*DURING, *(BEFORE if a.disk else BEFORE[1:])])
        codes, talk = strike(stage, fault, draw, bool(a.disk))
        story.append(f"{fault} {','.join(map(str, codes))};")
        assert "Traceback" not in talk and set(codes) <= CODES, f"{codes} {talk[-3000:]}"
    codes, talk = wait(start(stage))
    assert set(codes) == {0}, f"in peace: {codes} {talk[-3000:]}"


def strike(
    stage: Stage, fault: str, draw: random.Random, mounted: bool
) -> tuple[list[int | None], str]:
    """Run a command with a fault; return the exit codes and what was said."""
    folder, disk = stage.output.parent, stage.output.parent.parent
    if fault == "clock":
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (draw.uniform(0, 4e9),) * 2)  # 1970 to 2096
    if fault == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    limit = draw.randrange(1000, 100_000) if fault == "full disk" and not mounted else None
    running = start(stage, limit, jump=1e9 if fault == "clock" else 0.0)
    if fault in DURING:
        time.sleep(draw.uniform(0, 0.8 * stage.seconds))
        strike_running(stage, fault, draw, running, mounted)
    try:
        return wait(running)
    finally:
        if fault == "read-only":
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        (folder / "ballast").unlink(missing_ok=True)
        if (folder / "away").exists():
            shutil.rmtree(stage.output, ignore_errors=True)
            (folder / "away").rename(stage.output)


def strike_running(
    stage: Stage, fault: str, draw: random.Random, running: list[BaseProcess], mounted: bool
) -> None:
    """Strike a command that runs."""
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
        case "torn":
            send(signal.SIGKILL, *running)
            wait(running)
            tear(stage.output / "last.pt", draw)
        case "full disk" if mounted:
            fill(folder, left=draw.randrange(30_000))
        case "vanished" if stage.output.exists():
            stage.output.rename(folder / "away")
        case "second":
            running += start(stage)


def fill(folder: Path, left: int) -> None:
    """Fill the disk but for some bytes; the command may write meanwhile."""
    with (folder / "ballast").open("wb") as file:
        for _ in range(10):
            with suppress(OSError):
                free = shutil.disk_usage(folder).free - left
                os.posix_fallocate(file.fileno(), 0, max(1, free))
                return


def send(number: int, *processes: BaseProcess) -> None:
    for process in filter(BaseProcess.is_alive, processes):
        os.kill(process.pid or 0, number)


def tear(path: Path, draw: random.Random) -> None:
    """Change a byte of the newest checkpoint, and perhaps cut it short."""
    if path.exists() and path.with_name("previous.pt").exists():
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
    # The checkpoint before the last is that of the moment at which a run was stopped.
    for path in (p for p in (calm / "run").rglob("*.pt") if p.name != "previous.pt"):
        one, two = load_model(path), load_model(other / path.relative_to(calm))
        same = (one.step, one.config) == (two.step, two.config)
        same &= all(torch.equal(weight, two.weights[n]) for n, weight in one.weights.items())
        assert same, f"{path.name} is another model"
    rows = map(json.loads, (other / "run/metrics.jsonl").read_text().splitlines())
    steps = [row["step"] for row in rows if "loss" in row]
    assert steps == list(range(1, STEPS + 1)), f"the updates {steps} were logged"


if __name__ == "__main__":
    main()
