"""The writer to the terminal: results are verbatim, tables aligned, closed pipes quiet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiayn import console
from aiayn.errors import UsageError
from aiayn.training.log import TrainingMetrics

FULL = Path("/dev/full")
LONG = "[bold]not markup[/bold] " * 20


def test_a_result_is_written_verbatim_and_in_one_line(capsys):
    console.result(LONG)
    assert capsys.readouterr().out == LONG + "\n"


def test_numbers_are_aligned_on_the_right_with_thousands_separated(capsys):
    console.result_table(["name", "count"], [("a", 1234567), ("bb", 8)])
    assert capsys.readouterr().out.splitlines() == [
        "name      count",
        "a     1,234,567",
        "bb            8",
    ]


def test_a_table_without_names_has_no_head_and_writes_values_plainly(capsys):
    console.result_table(["", ""], [("flag", True), ("list", [1000, 0.5]), ("[b]", None)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["flag", "yes"], ["list", "1,000,", "0.5"], ["[b]", "None"]]


def test_messages_warnings_and_errors_go_to_standard_error(capsys):
    console.say(LONG)
    console.warn("[odd] :dog:")
    console.fail(UsageError("no such thing as da:-1:", fix="take another"))
    out, err = capsys.readouterr()
    assert out == ""
    lines = ("warning: [odd] :dog:", "error: no such thing as da:-1:", "  fix: take another")
    assert err.splitlines() == [LONG, *lines]


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(console, "PLAIN_LINE_SECONDS", 0)
    with console.progress("encoding", total=4000, unit="lines") as advance:
        advance(3000)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("encoding: 3,000 of 4,000 lines, ")
    assert last.startswith("encoding: 3,000 lines in ")


def test_rate_and_time_left_are_those_of_the_work_since_a_resumption(capsys, monkeypatch):
    clock = iter((0.0, 10.0, 10.0, 10.0))
    monkeypatch.setattr(console, "PLAIN_LINE_SECONDS", 0)
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.progress("encoding", total=4000, unit="lines", done=2000) as advance:
        advance(500)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "encoding: 2,500 of 4,000 lines, 50/s, 0:00:30 left"
    assert last == "encoding: 500 lines in 10.0 s"


@pytest.mark.parametrize(("ignored", "code"), [(False, 141), (True, 0)])
def test_a_closed_pipe_ends_the_program_unless_it_is_to_be_ignored(ignored, code):
    script = f"from aiayn import console\nif {ignored}: console.ignore_broken_stderr()\n"
    script += "for _ in range(9999): console.say('a message')\nconsole.result('done')\n"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stderr:
        ended = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, timeout=60
        )
    assert (ended.returncode, ended.stdout) == (code, b"done\n" if ignored else b"")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_error_ends_nothing():
    script = "from aiayn import console\nfor _ in range(9): console.say('a message')\n"
    script += "console.result('done')\n"
    with FULL.open("wb") as stderr:
        ended = subprocess.run([sys.executable, "-c", script], stdout=-1, stderr=stderr)
    assert (ended.returncode, ended.stdout) == (0, b"done\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_named(tmp_path):
    line = [sys.executable, "-m", "aiayn", "info", "--preset", "tiny", "--yaml"]
    with FULL.open("wb") as stdout:
        ended = subprocess.run(line, stdout=stdout, stderr=-1)
    assert ended.returncode == 2
    assert b"error: standard output: no space left on device" in ended.stderr


@pytest.mark.parametrize(("width", "ends"), [(47, "loss 5.123  899 tokens/s"), (999, "2.2 GB")])
def test_the_line_of_training_has_as_many_numbers_as_have_room(width, ends):
    numbers = {"learning_rate": 1e-3, "gradient_norm": 0.9, "tokens": 9, "seconds": 1.0}
    metrics = TrainingMetrics(
        step=1250,
        epoch=1,
        loss=5.123,
        plain_loss=4.1,
        tokens_per_second=899.0,
        memory=2_200_000_000,
        **numbers,
    )
    line = metrics.line(9000, width)
    assert line.startswith("update 1,250 of 9,000  ")
    assert line.endswith(ends)
    assert len(line) <= width
