"""Several machines work on one run: here two processes, started as torchrun or srun does."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from test_robustness import (
    COMMAND,
    SETTINGS,
    TORCHRUN,
    assert_same_weights_and_place,
    train,
)
from test_train import assert_same_run
from toy import as_in_a_terminal, make_data

from aiayn.checkpoint import load_model

TIMEOUT = 300
SECONDS_TO_LEAVE = 30
"""How long a run may take to end once one of its processes is dead."""


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Started(subprocess.Popen[bytes]):
    """A process of a run; what it and its children say is in a file, which nobody waits for."""

    def __init__(self, line: tuple[object, ...], **variables: str) -> None:
        handle, self.talk = tempfile.mkstemp()
        super().__init__(
            [sys.executable, *map(str, line)],
            stderr=handle,
            env=os.environ | variables,
            preexec_fn=as_in_a_terminal,
        )
        os.close(handle)

    def said(self) -> str:
        talk = Path(self.talk).read_text(encoding="utf-8")
        Path(self.talk).unlink()
        return talk


def ends(processes: list[Started], seconds: float = TIMEOUT) -> list[tuple[int, str]]:
    """Wait for processes; return the exit code of each, and what it said."""
    deadline, late = time.monotonic() + seconds, []
    for process in processes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            late.append(process.args)
            process.kill()
            process.wait()
    ended = [(process.returncode, process.said()) for process in processes]
    assert not late, ended
    return ended


def torchrun_pair(*lines: tuple[object, ...]) -> list[Started]:
    """Start two processes with the variables that torchrun sets, each with its own line."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    return [Started(line, RANK=str(rank), **where) for rank, line in enumerate(lines)]


def srun_pair(*lines: tuple[object, ...]) -> list[Started]:
    """Start two processes with the variables that srun sets."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    tasks = {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}
    return [
        Started(line, SLURM_PROCID=rank, SLURM_LOCALID=rank, **tasks, **where)
        for rank, line in zip("01", lines, strict=True)
    ]


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"SLURM_STEP_NUM_TASKS": "2", "MASTER_ADDR": "here"}, "1"),
        ({"SLURM_STEP_NUM_TASKS": "2", "MASTER_ADDR": "here", "RANK": "5"}, "5"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, None),
        ({"MASTER_ADDR": "here"}, None),
    ],
    ids=["srun", "torchrun within srun", "srun of tasks of their own", "a batch script"],
)
def test_only_tasks_that_know_where_to_meet_take_their_rank_from_srun(
    aiayn, monkeypatch, variables, rank
):
    tasks = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    monkeypatch.setattr(os, "environ", {"PATH": "", **tasks, **variables})
    assert aiayn("--version")[0] == 0
    assert os.environ.get("RANK") == rank


# Rank 1 starts with one weight that is not that of rank 0.
OTHER_WEIGHTS = """
import os
from aiayn.cli import program
from aiayn.training import start

real = start.fresh_state
def fresh_state(*given):
    state = real(*given)
    if os.environ["RANK"] == "1":
        next(state.model.parameters()).data[0, 0] += 1e-6
    return state

start.fresh_state = fresh_state
program()
"""


@pytest.mark.parametrize("what", ["optim.warmup: 60 -> 61; the data", "the first weights"])
def test_processes_that_start_differently_leave_and_name_the_difference(data, tmp_path, what):
    run, script = tmp_path / "run", tmp_path / "script.py"
    if what == "the first weights":
        script.write_text(OTHER_WEIGHTS)
        lines = [(script, "train", data.path, "-o", run, *COMMAND)] * 2
    else:
        other = make_data(tmp_path, seed=5)
        line, settings = ("-m", "aiayn", "train", "-o", run), (*COMMAND, "optim.warmup=61")
        lines = [(*line, data.path, *COMMAND), (*line, other.path, *settings)]
    (code, talk), (other_code, other_talk) = ends(torchrun_pair(*lines))
    assert (code, other_code) == (2, 2), (talk, other_talk)
    assert f"process 0 and process 1 of this run differ: {what}" in talk
    assert "process 1 and process 0 of this run differ" in other_talk
    assert "fix: give every machine the same" in talk
    assert not list(run.glob("**/*.pt"))


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Path:
    """A run of one process that nothing has stopped."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train(data, run)[0] == 0
    return run


def test_tasks_of_srun_resume_a_run_that_only_the_first_of_them_sees(
    data, undisturbed, tmp_path
):
    run, nowhere = tmp_path / "run", tmp_path / "nowhere"
    assert train(data, run, "train.steps=11")[0] == 0
    lines = [("-m", "aiayn", "train", data.path, *COMMAND, *SETTINGS, "-o", run)] * 2
    lines[1] = (*lines[1][:-1], nowhere / "run")
    (code, talk), (other_code, other_talk) = ends(srun_pair(*lines))
    assert (code, other_code) == (0, 0), (talk, other_talk)
    assert "resuming after update 11" in talk
    assert "2 x cpu" in talk
    assert not nowhere.exists()
    assert_same_weights_and_place(run, undisturbed)


def test_the_first_process_alone_reads_the_weights_that_a_run_starts_from(
    data, undisturbed, tmp_path
):
    still = ("optim.factor=0", "train.steps=1", "train.valid_every=0")
    line = ("-m", "aiayn", "train", data.path, "-o", tmp_path / "run", *COMMAND, *still)
    pair = torchrun_pair(
        (*line, "--init-from", undisturbed), (*line, "--init-from", tmp_path / "nowhere")
    )
    (code, talk), (other_code, other_talk) = ends(pair)
    assert (code, other_code) == (0, 0), (talk, other_talk)
    found, wanted = (
        load_model(path).weights
        for path in (tmp_path / "run/last.pt", undisturbed / "average.pt")
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


# Rank 1 dies in the middle of update 9: its gradient is summed, and the others wait for it.
KILLED_ONCE = """
import os, signal
from pathlib import Path
from aiayn.cli import program
from aiayn.training.gradients import Gradients

real, calls = Gradients.reduce, []
def reduce(self, group):
    calls.append(group)
    killed = Path(os.environ["KILLED"])
    if group.rank == 1 and len(calls) == 9 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, group)

Gradients.reduce = reduce
program()
"""


def test_when_a_process_on_another_node_is_killed_the_rest_leaves_and_the_run_resumes(
    data, undisturbed, tmp_path
):
    run, script, killed = tmp_path / "run", tmp_path / "script.py", tmp_path / "killed"
    script.write_text(KILLED_ONCE)

    def start_nodes() -> list[Started]:
        place = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", free_port())
        line = (script, "train", data.path, "-o", run, *COMMAND, *SETTINGS)
        agent = (*TORCHRUN[1:], "1", *place, "--node-rank")
        return [Started((*agent, rank, *line), KILLED=str(killed)) for rank in "01"]

    nodes, deadline = start_nodes(), time.monotonic() + TIMEOUT
    while not killed.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (code, talk), (other_code, other_talk) = ends(nodes, SECONDS_TO_LEAVE)
    assert killed.exists(), (talk, other_talk)
    assert (code, other_code) == (1, 1)  # of torchrun itself
    assert f"Signal {signal.SIGKILL.value} (SIGKILL)" in other_talk
    assert "another process of this run has died" in talk
    assert "exitcode  : 69" in talk
    assert [code for code, _ in ends(start_nodes())] == [0, 0]
    assert_same_run(run, undisturbed)


# Whatever the interpreter does at its end fails.
FAILS_AT_EXIT = """
import atexit, os
from aiayn.cli import program

atexit.register(os.abort)
program()
"""


def test_a_process_that_worked_with_others_ends_without_the_interpreter_s_teardown(
    data, tmp_path
):
    script = tmp_path / "script.py"
    script.write_text(FAILS_AT_EXIT)
    line = (script, "train", data.path, "-o", tmp_path / "run", *COMMAND, "train.steps=2")
    (code, talk), (other_code, other_talk) = ends(torchrun_pair(line, line))
    assert (code, other_code) == (0, 0), (talk, other_talk)
    assert "averaged" in talk


def test_a_checkpoint_that_only_another_machine_sees_is_not_passed_over(
    data, undisturbed, tmp_path
):
    line = ("-m", "aiayn", "train", data.path, *COMMAND, *SETTINGS, "-o")
    (code, talk), (other_code, _) = ends(
        torchrun_pair((*line, tmp_path / "run"), (*line, undisturbed))
    )
    assert (code, other_code) == (2, 2), talk
    assert "put the run folder where all machines see it" in talk
