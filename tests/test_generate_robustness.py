"""`aiayn generate` is killed, fed with garbage and huge lines, and asked the same twice."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from toy import sentences

from aiayn.checkpoint import load_model
from aiayn.generation.streaming import Line
from aiayn.generation.translate_lines import unusual_features
from aiayn.generation.translator import Output, Translation, Translator
from aiayn.model_path import find_model

LINES = sentences(40, seed=61)
# What is done is noted after every line, so that the test need not wait.
AT_ONCE = (
    "import aiayn.generation.output as o; o.SECONDS_AT_RISK = -1;"
    "from aiayn.cli import main; main()"
)


@pytest.fixture
def model(trained):
    return trained / "average.pt"


@pytest.fixture(scope="module")
def translator(trained):
    file = load_model(find_model(trained))
    return Translator([file.build()], file.codec)


class Live:
    """A running `aiayn generate -o` whose input does not end."""

    def __init__(self, model: Path, out: Path) -> None:
        self.note = out.with_name(out.name + ".partial.json")
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, "generate", model, "-o", out, "--nbest", "2"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C is ignored in what a shell starts in the background, and in its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def feed(self, lines: list[str]) -> None:
        self.process.stdin.writelines(f"{line}\n" for line in lines)
        self.process.stdin.flush()

    def wait_until_done(self, lines: int) -> None:
        deadline = time.monotonic() + 60
        while not self.note.exists() or json.loads(self.note.read_bytes())["lines"] < lines:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        _, talk = self.process.communicate(timeout=60)
        return self.process.returncode, talk


def test_a_run_that_is_stopped_again_and_again_ends_with_the_same_bytes(model, aiayn, tmp_path):
    out = tmp_path / "out"
    signals = [(signal.SIGKILL, -9), (signal.SIGTERM, 75), (signal.SIGINT, 130)]
    for number, (kill, code) in enumerate(signals):
        run, done = Live(model, out), 10 * (number + 1)
        run.feed(LINES[:done])
        run.wait_until_done(done)
        run.process.send_signal(kill)
        found, talk = run.end()
        assert found == code
        assert not out.exists()
        assert "Traceback" not in talk
        assert (f"stopped after {done} lines" in talk) == (code > 0)
        assert ("resuming after line" in talk) == (number > 0)
    text = "\n".join(LINES).encode()
    code, _, talk = aiayn("generate", model, "-o", out, "--nbest", 2, stdin=text)
    assert (code, "resuming after line 30" in talk) == (0, True)
    wanted = aiayn("generate", model, "--nbest", 2, stdin=text)[1]
    assert out.read_text() == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_changed_input_is_refused_and_nothing_is_lost(model, aiayn, tmp_path):
    (tmp_path / "in").write_bytes(b"ba\nbe\n\0\n")
    (tmp_path / "prefix").write_text("ab\n")  # too short: an error in the middle
    line = ("generate", model, "-i", tmp_path / "in", "-o", tmp_path / "out")
    assert aiayn(*line, "--prefix", tmp_path / "prefix")[0] == 3
    (tmp_path / "prefix").write_text("ab\n\n\n")
    left = (tmp_path / "out.partial").read_bytes()
    (tmp_path / "in").write_text("bo\nbe\nbi\n")
    code, _, err = aiayn(*line, "--prefix", tmp_path / "prefix")
    assert code == 3
    assert "was begun, with 1 line of another input" in err
    assert (tmp_path / "out.partial").read_bytes() == left
    (tmp_path / "in").write_text("ba\nbe\nbi\n")
    assert aiayn(*line, "--prefix", tmp_path / "prefix")[0] == 0


def test_strict_counts_what_was_special_before_an_interruption(model, aiayn, tmp_path):
    (tmp_path / "in").write_bytes(b"ba \xff\nbe\n")
    (tmp_path / "prefix").write_text("ab\n")
    line = ("generate", model, "-i", tmp_path / "in", "-o", tmp_path / "out", "--strict")
    line = (*line, "--prefix", tmp_path / "prefix")
    assert aiayn(*line)[0] == 3
    (tmp_path / "prefix").write_text("ab\n\n")
    code, _, err = aiayn(*line)
    assert (code, "--strict: 1 not UTF-8" in err) == (3, True)
    assert (tmp_path / "out").read_text().count("\n") == 2


def test_other_settings_are_refused_until_what_was_begun_is_removed(model, aiayn, tmp_path):
    (tmp_path / "in").write_text("ba\nbe\n")
    (tmp_path / "prefix").write_text("ab\n")
    line = ("generate", model, "-i", tmp_path / "in", "-o", tmp_path / "out")
    assert aiayn(*line, "--prefix", tmp_path / "prefix")[0] == 3
    code, _, err = aiayn(*line)
    assert (code, "with 1 line, by other options or models: prefix" in err) == (2, True)
    (tmp_path / "out.partial").unlink()
    assert aiayn(*line)[0] == 0
    wanted = aiayn("generate", model, stdin=b"ba\nbe\n")[1]
    assert (tmp_path / "out").read_text() == wanted


@pytest.mark.parametrize(
    "begin", [b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"]
)
def test_packed_text_is_no_text_where_its_name_does_not_say_so(model, aiayn, tmp_path, begin):
    code, out, err = aiayn("generate", model, stdin=begin + b"\n")
    assert (code, out, "standard input is packed" in err) == (3, "", True)
    (tmp_path / "in").write_bytes(begin)
    code, _, err = aiayn("generate", model, "-i", tmp_path / "in")
    assert (code, "in is packed, and its name does not say so" in err) == (3, True)


def test_an_output_is_not_named_as_packed_files_are(model, aiayn, tmp_path):
    code, _, err = aiayn("generate", model, "-o", tmp_path / "out.gz", stdin=b"ba\n")
    assert (code, f"pass -o {tmp_path / 'out'} and pack it" in err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_line_that_is_translated_to_nothing_is_counted():
    for text, count in (("", 1), ("a", 0)):
        translation = Translation([Output(text, -1.0, True, [])], 1, {})
        found = unusual_features(Line("ba"), translation)
        assert (found["translated to nothing"], found.total()) == (count, count)


def test_automatic_precision_is_float32(model, aiayn):
    found = [
        aiayn("generate", model, "--scores", "--precision", precision, stdin=b"ba\nbe\n")
        for precision in ("auto", "float32")
    ]
    assert found[0][0] == 0
    assert found[0][1] == found[1][1]


def test_a_thousand_sentences_are_translated_the_same_in_batches_of_1_and_7_and_64(translator):
    lines = sentences(1000, seed=62, longest=5)
    longest = max(map(len, translator.codec.encode_source_batch(lines)))
    answers = []
    for batch_tokens in (1, 7 * longest, 64 * longest):
        found = replace(translator, batch_tokens=batch_tokens).translate(lines)
        answers.append([(one.text, one.outputs[0].finished) for one in found])
    assert answers[0] == answers[1] == answers[2]
    assert len({text for text, _ in answers[0]}) > 500


def test_a_line_of_100_000_words_is_translated_in_pieces(model, aiayn):
    words = " ".join(sentences(1, seed=63, longest=1) * 100_000)
    line = ("generate", model, "--greedy", "--extra-length", 0, "--batch-tokens", 50_000)
    code, out, err = aiayn(*line, stdin=f"ba\n{words}\nbe\n".encode())
    lines = out.split("\n")
    assert (code, len(lines)) == (0, 4)
    assert len(lines[1].split()) > 50_000
    assert "1 translated in pieces" in err


def test_binary_garbage_gives_a_line_for_each_of_its_lines(model, aiayn, tmp_path):
    garbage = random.Random(1).randbytes(4000)
    code, out, err = aiayn("generate", model, "--greedy", stdin=garbage)
    wanted = garbage.count(b"\n") + (not garbage.endswith(b"\n"))
    assert (code, out.count("\n")) == (0, wanted)
    assert "not UTF-8" in err


@pytest.mark.parametrize("text", [b"", b"\n", b"\n\n\n", b"  \n\t\n", b"\xef\xbb\xbf\n"])
def test_nothing_but_empty_lines_gives_as_many_empty_lines(model, aiayn, text):
    for options in ((), ("--align",), ("--nbest", 1), ("--sample",)):
        code, out, _ = aiayn("generate", model, *options, stdin=text)
        assert code == 0
        assert out.replace("\t", "") == "\n" * text.count(b"\n")
