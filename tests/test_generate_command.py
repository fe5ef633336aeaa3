"""`aiayn generate` from the shell: one line out for each line in, whatever comes in."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from toy import sentences, translation

from aiayn.checkpoint import load_model

ODD_LINES = [
    b"ba be",
    b"\xff\xfe not UTF-8 \x80",
    b"a NUL \0 inside",
    "a break \u2028 and another \u0085 inside".encode(),
    b"",
    b"a lone \r inside",
    b"   ",
    "\ufeff\u2581 \u2585 \ue581".encode(),
    "\U0001f600 \u4f60\u597d".encode(),
    b"no final newline",
]


@pytest.fixture
def model(trained):
    return trained / "average.pt"


def test_every_line_gives_one_line_in_order(model, aiayn):
    lines = sentences(30, seed=21)
    code, out, _ = aiayn("generate", model, stdin="\n".join(lines).encode())
    found = out.split("\n")[:-1]
    assert (code, len(found)) == (0, 30)
    assert sum(map(str.__eq__, found, map(translation, lines))) > 15


def test_odd_lines_never_shift_or_drop_anything(model, aiayn):
    code, out, err = aiayn("generate", model, stdin=b"\n".join(ODD_LINES))
    found = out.split("\n")
    assert code == 0
    assert len(found) == len(ODD_LINES) + 1
    assert found[0]
    assert (found[4], found[6], found[-1]) == ("", "", "")
    assert "1 not UTF-8" in err
    assert "2 empty" in err


def test_odd_lines_do_not_change_their_neighbours(model, aiayn):
    _, alone, _ = aiayn("generate", model, stdin=b"ba be\n")
    _, beside, _ = aiayn("generate", model, stdin=b"\n".join([*ODD_LINES, b"ba be"]))
    assert beside.split("\n")[0] + "\n" == alone
    assert beside.split("\n")[-2] + "\n" == alone


def test_no_input_gives_no_output(model, aiayn):
    assert aiayn("generate", model)[:2] == (0, "")


def test_files_take_the_place_of_standard_input_and_output(model, aiayn, tmp_path):
    _, wanted, _ = aiayn("generate", model, stdin=b"ba be\ngu\n")
    (tmp_path / "in").write_bytes(b"ba be\ngu\n")
    code, out, _ = aiayn("generate", model, "-i", tmp_path / "in", "-o", tmp_path / "out")
    assert (code, out) == (0, "")
    assert (tmp_path / "out").read_text() == wanted


def test_a_run_folder_stands_for_its_average_and_says_so(trained, model, aiayn):
    _, wanted, _ = aiayn("generate", model, stdin=b"ba be\n")
    code, out, err = aiayn("generate", trained, stdin=b"ba be\n")
    assert (code, out) == (0, wanted)
    assert f"model: {model}" in err


def test_a_model_file_far_from_its_run_is_enough(model, aiayn, tmp_path):
    (tmp_path / "copy.pt").write_bytes(model.read_bytes())
    assert aiayn("generate", tmp_path / "copy.pt", stdin=b"ba\n")[0] == 0


def test_greedy_is_a_beam_of_one(model, aiayn):
    text = "\n".join(sentences(20, seed=22)).encode()
    greedy = aiayn("generate", model, "--greedy", stdin=text)[1]
    assert greedy == aiayn("generate", model, "--beam", 1, stdin=text)[1]


def test_an_output_may_be_kept_as_short_as_its_input(trained, aiayn, tmp_path):
    code, out, err = aiayn(
        "generate", trained, "--extra-length", 0, "--greedy", stdin=b"ba be bi bo\n"
    )
    assert (code, len(out.split("\n"))) == (0, 2)
    assert "1 at the length limit" in err


def test_the_size_of_batches_changes_nothing(model, aiayn):
    text = "\n".join(sentences(30, seed=23)).encode()
    answers = {
        aiayn("generate", model, "--batch-tokens", n, stdin=text)[1] for n in (1, 40, 4096)
    }
    assert len(answers) == 1


def test_a_closed_pipe_ends_an_endless_input_quietly(model):
    script = 'yes "ba be" | "$0" -m aiayn generate "$1" | head -1'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, model],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def test_a_live_pipe_is_answered_line_by_line_and_ends_quietly(model):
    process = subprocess.Popen(
        [sys.executable, "-m", "aiayn", "generate", model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        bufsize=1,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        # A shell starts jobs in the background with Ctrl-C ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    for line in ("ba be\n", "gu\n"):
        process.stdin.write(line)
        assert process.stdout.readline().endswith("\n")  # while the input is still open
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130  # and the input is open to the end
    watchdog.cancel()
    err = process.communicate()[1]
    assert "Traceback" not in err
    assert "Fatal" not in err


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda path: path, 2, "does not exist"),
        (lambda path: path.mkdir(), 2, "holds no model"),
        (lambda path: path.write_text("hello"), 3, "model is text, and not a model file"),
    ],
    ids=["nothing", "empty folder", "text"],
)
def test_what_is_no_model_is_refused_with_a_way_out(aiayn, tmp_path, make, code, message):
    make(tmp_path / "model")
    found, out, err = aiayn("generate", tmp_path / "model", stdin=b"ba\n")
    assert (found, out) == (code, "")
    assert message in err
    assert "fix:" in err


def test_an_input_that_does_not_exist_is_refused_and_nothing_is_written(model, aiayn, tmp_path):
    line = ("generate", model, "-i", tmp_path / "no", "-o", tmp_path / "out")
    code, _, err = aiayn(*line)
    assert code == 2
    assert "does not exist" in err
    assert list(tmp_path.iterdir()) == []


def test_the_search_of_the_model_file_is_the_default(model, aiayn):
    decode = load_model(model).config.decode
    assert (decode.beam, decode.alpha) == (4, 0.6)
    text = "\n".join(sentences(20, seed=24)).encode()
    asked = aiayn("generate", model, "--beam", 4, "--alpha", 0.6, stdin=text)
    assert aiayn("generate", model, stdin=text)[1] == asked[1]
