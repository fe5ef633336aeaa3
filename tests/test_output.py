"""What `aiayn generate` writes: formats, and a file that survives an interruption anywhere."""

import errno
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from aiayn.errors import DataError, Interrupted, Stopped, UsageError
from aiayn.generation import output
from aiayn.generation.output import OutputFormat, ResumableFile, open_output
from aiayn.generation.translator import Line, Output, Translation

BEST = Output("der Hund", -1.25, True, [], [(0, 0), (2, 1)])
SECOND = Output("ein Hund", -2.5, False, [], [(1, 0), (2, 1)])
FOUND = Translation([BEST, SECOND], 1, {})
PLAIN = Translation([BEST._replace(alignment=None)], 1, {})
EMPTY = Translation([Output("", 0.0, True, [])], 0, {})
JOB = {"beam": "4", "input": "text"}
TEXT = [f"line {number}" for number in range(9)]


@pytest.mark.parametrize(
    ("layout", "rows"),
    [
        ({}, ["der Hund\t0-0 2-1"]),
        ({"scores": True}, ["der Hund\t-1.250000\t0-0 2-1"]),
        ({"nbest": 2}, ["der Hund\t0-0 2-1", "ein Hund\t1-0 2-1"]),
        ({"name": "tsv"}, ["7\t1\t-1.250000\tder Hund\t0-0 2-1"]),
        (
            {"name": "tsv", "nbest": 2},
            ["7\t1\t-1.250000\tder Hund\t0-0 2-1", "7\t2\t-2.500000\tein Hund\t1-0 2-1"],
        ),
        (
            {"name": "moses"},
            ["6 ||| der Hund ||| LogP= -1.250000 ||| -1.250000 ||| 0-0 2-1"],
        ),
    ],
    ids=str,
)
def test_a_translation_is_laid_out_in_columns(layout, rows):
    assert OutputFormat(**layout).rows(7, FOUND) == rows


def test_plain_text_is_the_translation_and_nothing_else():
    assert OutputFormat().rows(1, PLAIN) == ["der Hund"]
    assert OutputFormat(scores=True).rows(1, PLAIN) == ["der Hund\t-1.250000"]
    assert OutputFormat(name="tsv").rows(1, PLAIN) == ["1\t1\t-1.250000\tder Hund"]


def test_a_list_of_moses_has_four_cells_whatever_the_text_says():
    bars = Translation([Output("a ||| b", -1.0, True, [])], 1, {})
    (row,) = OutputFormat(name="moses").rows(1, bars)
    assert row.split(" ||| ") == ["0", "a | | | b", "LogP= -1.000000", "-1.000000"]
    assert len(OutputFormat(name="moses", nbest=2).rows(3, EMPTY)) == 2


def test_a_json_line_has_the_best_and_a_list_only_where_asked_for():
    (line,) = OutputFormat(name="jsonl").rows(7, FOUND)
    best = {"text": "der Hund", "score": -1.25, "finished": True, "alignment": [[0, 0], [2, 1]]}
    assert json.loads(line) == {"line": 7, **best, "pieces": 1}
    (line,) = OutputFormat(name="jsonl", nbest=2).rows(7, FOUND)
    found = json.loads(line)
    assert list(found) == ["line", *best, "pieces", "nbest"]
    assert found["nbest"][0] == best
    assert [way["text"] for way in found["nbest"]] == ["der Hund", "ein Hund"]


def test_json_has_no_alignment_that_nobody_asked_for():
    assert json.loads(OutputFormat(name="jsonl").rows(1, PLAIN)[0]) == {
        "line": 1,
        "text": "der Hund",
        "score": -1.25,
        "finished": True,
        "pieces": 1,
    }


def test_an_empty_line_has_as_many_rows_as_every_other():
    assert OutputFormat().rows(1, EMPTY) == [""]
    assert OutputFormat(nbest=3).rows(1, EMPTY) == ["", "", ""]
    assert OutputFormat(name="tsv", nbest=2).rows(5, EMPTY) == [
        "5\t1\t0.000000\t",
        "5\t2\t0.000000\t",
    ]
    (line,) = OutputFormat(name="jsonl", nbest=3).rows(1, EMPTY)
    assert [way["text"] for way in json.loads(line)["nbest"]] == ["", "", ""]


def test_a_tab_in_a_translation_does_not_make_a_column():
    tabbed = Translation([BEST._replace(text="a\tb", alignment=None)], 1, {})
    assert OutputFormat(name="tsv").rows(1, tabbed) == ["1\t1\t-1.250000\ta b"]
    assert OutputFormat(scores=True).rows(1, tabbed) == ["a b\t-1.250000"]
    assert OutputFormat().rows(1, tabbed) == ["a\tb"]


class Killed(BaseException):
    """What kill -9 does: nothing is run after it."""


def lines(texts: Iterable[str]) -> list[Line]:
    return [Line(text, raw=text.encode()) for text in texts]


def write(file: ResumableFile, texts: Iterable[str], *, stop_after: int = 99) -> None:
    """Write upper case, two rows a line, and be killed after some lines."""
    for number, line in enumerate(file.skip(lines(texts))):
        if number == stop_after:
            raise Killed
        special = Counter({"odd": number % 2, "never": 0})
        file.write(line, [line.text.upper(), "-"], special)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def at_once(monkeypatch):
    """Note what is done after every line."""
    monkeypatch.setattr(output, "SECONDS_AT_RISK", -1.0)


@pytest.fixture
def whole(tmp_path_factory) -> dict[str, bytes]:
    """What an undisturbed run leaves."""
    folder = tmp_path_factory.mktemp("whole")
    with open_output(folder / "out", JOB) as file:
        write(file, TEXT)
    return contents(folder)


@pytest.mark.parametrize("torn", [b"", b"LINE 1", b"LINE 1\n-\nLINE 2\n-\nLI"])
@pytest.mark.parametrize("done", range(0, 10, 3))
def test_a_run_that_is_killed_goes_on_to_the_same_bytes(at_once, whole, tmp_path, done, torn):
    file = ResumableFile(tmp_path / "out", JOB)
    if done < len(TEXT):
        with pytest.raises(Killed):
            write(file, TEXT, stop_after=done)
    else:
        write(file, TEXT)
    file.close()
    with file.partial.open("ab") as partial:
        partial.write(torn)  # what was written after the last note
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == done
        write(file, TEXT)
    assert contents(tmp_path) == whole


def test_what_was_not_noted_is_done_again(whole, tmp_path):
    file = ResumableFile(tmp_path / "out", JOB)
    with pytest.raises(Killed):
        write(file, TEXT, stop_after=4)
    file.close()
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == 0
        write(file, TEXT)
    assert contents(tmp_path) == whole


@pytest.mark.parametrize(
    ("problem", "raised", "code"),
    [
        (KeyboardInterrupt(), Interrupted, 130),
        (Stopped("a signal"), Stopped, 75),
        (DataError("the input is torn"), DataError, 3),
    ],
)
def test_however_a_run_ends_what_was_done_is_kept(whole, tmp_path, problem, raised, code):
    with pytest.raises(raised) as found, open_output(tmp_path / "out", JOB) as file:
        write(file, TEXT[:5])
        raise problem
    assert found.value.exit_code == code
    assert sorted(contents(tmp_path)) == ["out.partial", "out.partial.json"]
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == 5
        write(file, TEXT)
    assert contents(tmp_path) == whole


def test_a_run_that_ends_before_its_first_line_leaves_nothing(tmp_path):
    with (
        pytest.raises(Interrupted, match=r"after 0 lines$"),
        open_output(tmp_path / "out", JOB),
    ):
        raise KeyboardInterrupt
    assert contents(tmp_path) == {}


def interrupt(folder: Path, texts: list[str], done: int) -> dict[str, bytes]:
    with pytest.raises(Interrupted), open_output(folder / "out", JOB) as file:
        write(file, texts[:done])
        raise KeyboardInterrupt
    return contents(folder)


@pytest.mark.parametrize(
    "other",
    [["another", *TEXT[1:]], [*TEXT[:4], "another", *TEXT[5:]], TEXT[:3], []],
    ids=["first line", "last line done", "shorter", "empty"],
)
def test_another_input_is_refused_and_nothing_is_lost(whole, tmp_path, other):
    left = interrupt(tmp_path, TEXT, 5)
    for _ in range(2):
        with (
            pytest.raises(DataError, match="5 lines of another input"),
            open_output(tmp_path / "out", JOB) as file,
        ):
            write(file, other)
        assert contents(tmp_path) == left
    with open_output(tmp_path / "out", JOB) as file:
        write(file, TEXT)
    assert contents(tmp_path) == whole


def test_an_input_that_differs_where_nothing_was_done_yet_goes_on(tmp_path):
    interrupt(tmp_path, TEXT, 5)
    with open_output(tmp_path / "out", JOB) as file:
        write(file, [*TEXT[:5], "changed", "and longer"])
    assert (tmp_path / "out").read_text().split("\n-\n")[4:] == [
        "LINE 4",
        "CHANGED",
        "AND LONGER",
        "",
    ]


def test_an_interruption_while_looking_for_the_place_loses_nothing(whole, tmp_path):
    left = interrupt(tmp_path, TEXT, 5)
    with pytest.raises(Interrupted), open_output(tmp_path / "out", JOB) as file:
        assert list(file.skip(lines(TEXT[:5]))) == []
        raise KeyboardInterrupt
    assert contents(tmp_path) == left


def test_other_settings_are_refused_and_what_was_done_is_kept(tmp_path):
    left = interrupt(tmp_path, TEXT, 5)
    other = {**JOB, "beam": "5", "alpha": "1.0"}
    with pytest.raises(
        UsageError, match="with 5 lines, by other options or models: beam, alpha"
    ):
        ResumableFile(tmp_path / "out", other)
    assert contents(tmp_path) == left
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == 5


def test_a_note_never_speaks_of_a_file_with_other_settings(tmp_path):
    interrupt(tmp_path, TEXT, 3)
    (tmp_path / "out.partial").unlink()
    file = ResumableFile(tmp_path / "out", {**JOB, "beam": "5"})
    with pytest.raises(Killed):
        write(file, TEXT, stop_after=8)
    file.close()
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == 0


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", b'{"job": 1, "bytes": 0}', b"\xff"])
def test_a_damaged_note_begins_anew(whole, tmp_path, note):
    interrupt(tmp_path, TEXT, 5)
    (tmp_path / "out.partial.json").write_bytes(note)
    with open_output(tmp_path / "out", JOB) as file:
        write(file, TEXT)
    assert contents(tmp_path) == whole


def test_what_was_special_is_counted_through_interruptions(tmp_path):
    interrupt(tmp_path, TEXT, 5)
    with open_output(tmp_path / "out", JOB) as file:
        assert file.special == Counter(odd=2)
        write(file, TEXT)
        assert file.special == Counter(odd=4)


def test_a_finished_file_gives_way_only_to_a_whole_one(tmp_path):
    (tmp_path / "out").write_text("from before")
    interrupt(tmp_path, TEXT, 5)
    assert (tmp_path / "out").read_text() == "from before"
    with open_output(tmp_path / "out", JOB) as file:
        write(file, TEXT)
    assert (tmp_path / "out").read_text().startswith("LINE 0\n-\n")


def test_a_file_that_is_there_is_replaced_with_a_word_about_it(tmp_path, capsys):
    for warned in (False, True):
        with open_output(tmp_path / "out", JOB) as file:
            write(file, TEXT)
        assert ("out exists, and is replaced" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(("room", "left"), [(0, []), (5, ["out.partial", "out.partial.json"])])
def test_a_full_disk_is_named_by_the_file_asked_for_and_keeps_what_fits(
    whole, tmp_path, monkeypatch, at_once, room, left
):
    calls = iter(range(99))

    def fsync(_: int) -> None:
        if next(calls) >= 2 * room:  # of the lines, and of the note
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        full.setattr("aiayn.data.atomic.sync", lambda path: None)
        with pytest.raises(OSError) as found, open_output(tmp_path / "out", JOB) as file:
            write(file, TEXT)
    assert found.value.filename == str(tmp_path / "out")
    assert sorted(contents(tmp_path)) == left
    with open_output(tmp_path / "out", JOB) as file:
        assert file.lines == room
        write(file, TEXT)
    assert contents(tmp_path) == whole
