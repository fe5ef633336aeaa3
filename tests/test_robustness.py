"""Nothing breaks a run: nodes, killed workers, kill -9, full disks, other precisions."""

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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partialmethod
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from test_train import assert_same_run
from torch import nn
from toy import TINY, as_in_a_terminal

from aiayn.checkpoint import load_model
from aiayn.cli import main
from aiayn.distributed import agree_on_prefix
from aiayn.run_folder import RunFolder

COMMAND = ("--preset", "tiny", "--device", "cpu", *TINY)
SETTINGS = (
    "batch.micro_tokens=60",
    "train.steps=20",
    "train.log_every=1",
    "train.save_every=3",
    "train.valid_every=10",
)
TIMEOUT = 300
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node")

# A server that has loaded torch once forks a process for each run: a tenth of a second, not
# three. No thread has run in it yet, so that the processes are as good as new.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "aiayn.training.loop",
        "aiayn.generation.translator",
        "aiayn.scoring.bleu",
        "torch._dynamo",
    ]
)


@dataclass(frozen=True)
class Environment:
    """The environment of a process."""

    largest_file: int | None = None
    """Bytes that a file may have."""
    backend: str = "inductor"
    """What torch.compile makes of a graph."""
    killed_before: str | None = None
    """The file that this process dies before renaming to its name."""


def command(line: list[str], talk: Path, found: Environment) -> None:
    """Be the program `aiayn` in a process of its own; stderr goes to a file."""
    as_in_a_terminal()
    os.dup2(os.open(talk, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
    if found.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (found.largest_file, found.largest_file))
    nn.Module.compile = partialmethod(nn.Module.compile, backend=found.backend)
    Path.replace = partialmethod(replace_unless, killed_before=found.killed_before)
    sys.argv = ["aiayn", *line]
    main()


rename = Path.replace


def replace_unless(source: Path, target: Path, killed_before: str | None) -> Path:
    """Rename a file, or be killed just before it."""
    if target.name == killed_before:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(source, target)


def start(data, run: Path, *settings: str, **found) -> BaseProcess:
    line = ["train", str(data.path), "-o", str(run), *COMMAND, *SETTINGS, *settings]
    arguments = (line, run.with_suffix(".talk"), Environment(**found))
    process = SERVER.Process(target=command, args=arguments)
    process.start()
    return process


def train(data, run: Path, *settings: str, **found) -> tuple[int, str]:
    """Train to the end; return the exit code and what was said."""
    process = start(data, run, *settings, **found)
    return exit_code_of(process), run.with_suffix(".talk").read_text()


def exit_code_of(process: BaseProcess) -> int | None:
    """Wait for a process; one that hangs is killed."""
    process.join(TIMEOUT)
    if process.is_alive():
        process.kill()
        process.join(TIMEOUT)
        raise AssertionError("the process hangs")
    return process.exitcode


def steps_logged(run: Path) -> list[int]:
    if not (run / "metrics.jsonl").exists():
        return []
    lines = (run / "metrics.jsonl").read_text().split("\n")[:-1]
    return [row["step"] for row in map(json.loads, lines) if "loss" in row]


def wait_for(run: Path, step: int, alive) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not any(logged >= step for logged in steps_logged(run)):
        assert alive(), "the run ended too early"
        assert time.monotonic() < deadline, f"update {step} is not reached"
        time.sleep(0.002)


def losses(run: Path) -> list[float]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [row["plain_loss"] for row in map(json.loads, lines) if "loss" in row]


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Path:
    """A run of one process that nothing has stopped."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train(data, run)[0] == 0
    return run


def said_by(agent: subprocess.Popen[str]) -> str:
    """Wait for a torchrun agent; one that hangs is killed."""
    try:
        return agent.communicate(timeout=TIMEOUT)[1]
    except subprocess.TimeoutExpired:
        agent.kill()  # its workers hear of it and leave
        return "HANGS: " + agent.communicate(timeout=TIMEOUT)[1]


@pytest.fixture(scope="module")
def two_nodes(data, tmp_path_factory) -> Path:
    """The same run by two torchrun agents, as if each had a machine of its own."""
    run = tmp_path_factory.mktemp("nodes") / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(port))
    line = ("-m", "aiayn", "train", data.path, "-o", run, *COMMAND, *SETTINGS)
    nodes = [
        subprocess.Popen(
            [*TORCHRUN, "1", *place, "--node-rank", rank, *line],
            stderr=subprocess.PIPE,
            encoding="utf-8",
            preexec_fn=as_in_a_terminal,
        )
        for rank in "01"
    ]
    talk = [said_by(node) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], talk
    assert "2 x cpu" in talk[0]
    return run


def test_two_nodes_reach_the_weights_of_one_process(two_nodes, undisturbed):
    assert_same_run(two_nodes, undisturbed)


def workers_of(agent: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the processes that a torchrun agent has started, the first rank first."""
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        if parent == agent.pid:
            yield int(folder.name)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
def test_a_worker_that_is_killed_comes_back_and_the_run_is_the_same(data, two_nodes, tmp_path):
    # The processes find one another again by `agree_on_prefix`: without it, they exit with 1.
    run = tmp_path / "run"
    line = ("-m", "aiayn", "train", data.path, "-o", run, *COMMAND, *SETTINGS)
    agent = subprocess.Popen(
        [*TORCHRUN, "2", "--standalone", "--max-restarts", "3", *line],
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    wait_for(run, 8, lambda: agent.poll() is None)
    _, second = workers_of(agent)
    os.kill(second, signal.SIGKILL)
    talk = said_by(agent)
    assert agent.returncode == 0, talk
    assert "resuming after update" in talk
    assert_same_run(run, two_nodes)


@pytest.fixture
def start_two(data, tmp_path):
    """Return a function that starts two processes by --nproc, well under way."""

    def start(
        run: Path, *settings: str, signals: Callable[[], None] = as_in_a_terminal
    ) -> subprocess.Popen[str]:
        line = ("-m", "aiayn", "train", data.path, "-o", run, *COMMAND, *SETTINGS, *settings)
        agent = subprocess.Popen(
            [sys.executable, *map(str, line), "--nproc", "2"],
            stderr=subprocess.PIPE,
            encoding="utf-8",
            preexec_fn=signals,
        )
        wait_for(run, 1, lambda: agent.poll() is None)
        return agent

    return start


ENDLESS = ("train.steps=100000", "train.save_every=100000", "train.valid_every=0")


def test_a_closed_terminal_stops_a_run_with_everything_saved(data, tmp_path, start_two):
    run = tmp_path / "one"
    process = start(data, run, *ENDLESS)
    wait_for(run, 1, process.is_alive)
    os.kill(process.pid, signal.SIGHUP)
    assert (exit_code_of(process), (run / "last.pt").exists()) == (75, True)

    agent = start_two(tmp_path / "two", *ENDLESS)
    agent.send_signal(signal.SIGHUP)
    talk = said_by(agent)
    assert (agent.returncode, (tmp_path / "two" / "last.pt").exists()) == (75, True), talk
    assert talk.count("everything is saved") == 1


def test_under_nohup_a_run_survives_a_closed_terminal(start_two, tmp_path):
    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    agent = start_two(tmp_path / "run", signals=nohup)
    agent.send_signal(signal.SIGHUP)
    talk = said_by(agent)
    assert (agent.returncode, "done: 20 updates" in talk) == (0, True), talk


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child does not hear of it")
def test_when_the_launcher_is_killed_its_processes_save_and_leave(data, start_two, tmp_path):
    run = tmp_path / "run"
    agent = start_two(run, *ENDLESS)
    agent.kill()
    agent.communicate(timeout=TIMEOUT)
    # The same command waits for them to leave the folder, and resumes from what they saved.
    code, talk = train(data, run, *ENDLESS, "--time-limit", "1s")
    assert code == 75, talk
    assert "resuming after update" in talk


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
def test_a_process_that_is_killed_is_named_without_a_traceback(start_two, tmp_path):
    agent = start_two(tmp_path / "run", *ENDLESS)
    _, second = workers_of(agent)
    os.kill(second, signal.SIGKILL)
    talk = said_by(agent)
    assert agent.returncode == 137
    assert "process 1 was ended by SIGKILL" in talk
    assert "Traceback" not in talk


def test_training_outlives_the_reader_of_what_it_says(data, tmp_path):
    line = ("-m", "aiayn", "train", data.path, "-o", tmp_path / "run", *COMMAND, *SETTINGS)
    process = subprocess.Popen([sys.executable, *map(str, line)], stderr=subprocess.PIPE)
    assert b"starting" in process.stderr.readline()
    process.stderr.close()
    assert process.wait(TIMEOUT) == 0
    assert load_model(tmp_path / "run" / "last.pt").step == 20
    assert "done: 20 updates" in (tmp_path / "run" / "train.log").read_text()


def test_processes_of_one_attempt_share_a_prefix_that_no_other_attempt_had():
    store = torch.distributed.HashStore()
    names = []
    for world in (3, 3, 2):
        with ThreadPoolExecutor(world) as pool:
            jobs = [pool.submit(agree_on_prefix, store, rank, world) for rank in range(world)]
        found = [job.result() for job in jobs]
        assert len(set(found)) == 1
        names.append(found[0])
    assert len(set(names)) == 3


def test_a_run_killed_ten_times_at_random_moments_is_the_same_run(data, tmp_path):
    draw = random.Random(1)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    settings = ("train.steps=100", "train.valid_every=50")
    for _ in range(10):
        done = max(steps_logged(killed), default=0)
        process = start(data, killed, *settings)
        wait_for(killed, done - 3 + draw.randrange(8), process.is_alive)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        assert exit_code_of(process) == -signal.SIGKILL
    for run in (killed, whole):
        assert train(data, run, *settings)[0] == 0
    assert_same_run(killed, whole)
    assert steps_logged(killed) == list(range(1, 101))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("step-00000012.pt", 9),
        ("next.pt", 0),
        ("previous.pt", 3),
        ("last.pt", 0),
        ("best.pt", 9),
        ("average.pt", 20),
    ],
)
def test_a_run_killed_while_a_checkpoint_is_written_resumes_from_the_one_before(
    data, undisturbed, tmp_path, name, kept
):
    run = tmp_path / "run"
    process = start(data, run, killed_before=name)
    assert exit_code_of(process) == -signal.SIGKILL
    found = RunFolder(run).latest()
    assert (found.step if found else 0) == kept
    assert train(data, run)[0] == 0
    assert_same_run(run, undisturbed)


def test_a_torn_checkpoint_never_takes_the_place_of_the_whole_one_before_it(
    data, undisturbed, tmp_path
):
    run = tmp_path / "run"
    assert train(data, run, "train.steps=11")[0] == 0
    torn = (run / "last.pt").read_bytes()[:-100]
    (run / "last.pt").write_bytes(torn)
    # Between the two renames of a save.
    assert exit_code_of(start(data, run, killed_before="last.pt")) == -signal.SIGKILL
    assert RunFolder(run).latest().step == 9
    assert train(data, run)[0] == 0
    assert_same_weights_and_place(run, undisturbed)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_training_in_half_precision_learns_and_resumes(data, tmp_path, precision):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for run, steps in ((parted, 13), (parted, 24), (whole, 24)):
        settings = (f"train.precision={precision}", f"train.steps={steps}", "optim.warmup=12")
        code, talk = train(data, run, *settings, "train.valid_every=0")
        assert code == 0, talk
        assert precision in talk
    assert sum(losses(whole)[-5:]) < 0.9 * sum(losses(whole)[:5])
    first, second = (load_model(run / "last.pt") for run in (whole, parted))
    torch.testing.assert_close(first.weights, second.weights, rtol=0, atol=0)
    assert first.training["scaler"] == second.training["scaler"]
    assert all(weight.dtype == torch.float32 for weight in first.weights.values())


@pytest.mark.parametrize(
    ("backend", "activation", "steps"),
    [
        # "eager" traces, but compiles nothing: seconds, and no compiler needed.
        ("eager", "swish", 6),
        ("eager", "relu", 1),  # a last digit may decide on which side of zero its input lies
        pytest.param("inductor", "swish", 6, marks=pytest.mark.slow),
    ],
)
def test_a_compiled_run_reaches_the_weights_of_one_that_is_not(
    data, tmp_path, backend, activation, steps
):
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("torch.compile needs g++ on the CPU")
    plain, compiled = tmp_path / "plain", tmp_path / "compiled"
    settings = (
        f"model.activation={activation}",
        f"train.steps={steps}",
        "train.valid_every=0",
        "train.average=1",
    )
    assert train(data, plain, *settings)[0] == 0
    code, talk = train(data, compiled, *settings, "--compile", backend=backend)
    assert code == 0, talk
    one, two = (load_model(run / "last.pt").weights for run in (plain, compiled))
    for key, weight in one.items():
        limit = 1e-5 * float(weight.abs().max())
        torch.testing.assert_close(weight, two[key], rtol=0, atol=limit)


def test_a_file_that_outgrows_its_limit_ends_a_run_with_what_was_saved_before(
    data, undisturbed, tmp_path
):
    run = tmp_path / "run"
    assert train(data, run, "train.steps=11")[0] == 0
    before = load_model(run / "last.pt")
    limit = (run / "last.pt").stat().st_size // 2
    code, talk = train(data, run, largest_file=limit)
    assert code == 2
    assert "cannot be written" in talk
    assert "files from before are intact" in talk
    assert "Traceback" not in talk
    assert load_model(run / "last.pt").step == before.step == 11
    assert train(data, run)[0] == 0
    assert_same_weights_and_place(run, undisturbed)


def assert_same_weights_and_place(run: Path, other: Path) -> None:
    one, two = (load_model(path / "last.pt") for path in (run, other))
    torch.testing.assert_close(one.weights, two.weights, rtol=0, atol=0)
    assert one.step == two.step


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$SMALL tmpfs "$DISK" || exit 77
"$@" 2>"$KEPT/first.talk"
echo "ended with $?"
mount -o remount,size=64m "$DISK"
"$@" 2>"$KEPT/second.talk"
cp -r "$DISK/run" "$KEPT"
"""


def test_a_full_disk_ends_a_run_which_resumes_when_there_is_room(data, tmp_path, undisturbed):
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir(), kept.mkdir()
    if not shutil.which("unshare"):
        pytest.skip("needs unshare to mount a disk of its own")
    settings = (*SETTINGS, "train.save_every=1")
    line = (sys.executable, "-m", "aiayn", "train", data.path, "-o", disk / "run", *COMMAND)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh", *line, *settings],
        env=os.environ | {"DISK": str(disk), "KEPT": str(kept), "SMALL": "2500k"},
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    if done.returncode in (1, 77) and "ended" not in done.stdout:
        pytest.skip(f"mounting is refused here: {done.stderr}")
    first, second = ((kept / f"{name}.talk").read_text() for name in ("first", "second"))
    assert "ended with 2" in done.stdout, first
    assert "fix: free some space" in first
    assert "Traceback" not in first
    assert "resuming after update" in second
    assert_same_weights_and_place(kept / "run", undisturbed)
