"""What `aiayn generate` writes: lines in a format, and a file that survives an interruption."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from aiayn import console
from aiayn.config import FormatName
from aiayn.data.atomic import TEMPORARY, open_locked, sync, write_json
from aiayn.errors import DataError, Stopped, UsageError, counted
from aiayn.generation.streaming import Line
from aiayn.generation.translator import Output, Translation
from aiayn.signals import RESUME, raise_on_signals, signals_ignored

# How much work an interruption may cost at most, beyond the window that is translated.
SECONDS_AT_RISK = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFormat:
    """How a translation is written.

    text: the translation; then, tab-separated, the score and the alignment where asked for.
    tsv: line, rank, score, translation, and the alignment where asked for.
    jsonl: one object a line of input.
    moses: the n-best list of Moses, whose lines count from 0.
    """

    name: FormatName = "text"
    scores: bool = False
    nbest: int | None = None
    """Translations a line; None: one, and no list of them in JSON."""
    score_name: str = "LogP"
    """What Moses' list calls the score."""

    def rows(self, number: int, translation: Translation) -> list[str]:
        """Return the rows to write for one line of input, `number` counted from 1."""
        count = self.nbest or 1
        outputs = translation.outputs[:count]
        # An empty line has one empty output, and a model of few words may have too few.
        outputs += outputs[-1:] * (count - len(outputs))
        scores = [f"{output.score:.6f}" for output in outputs]
        match self.name:
            case "text":
                return [
                    _row([output.text, score] if self.scores else [output.text], output)
                    for output, score in zip(outputs, scores, strict=True)
                ]
            case "tsv":
                ranked = enumerate(zip(outputs, scores, strict=True), start=1)
                return [
                    _row([str(number), str(rank), score, output.text], output)
                    for rank, (output, score) in ranked
                ]
            case "moses":
                return [
                    _moses_row(number - 1, output, f"{self.score_name}= {score}", score)
                    for output, score in zip(outputs, scores, strict=True)
                ]
            case "jsonl":
                records = [_record(output) for output in outputs]
                line = {"line": number, **records[0], "pieces": translation.pieces}
                if self.nbest is not None:
                    line["nbest"] = records
                return [json.dumps(line, ensure_ascii=False)]
            case _:
                assert_never(self.name)


def _row(cells: list[str], output: Output) -> str:
    if output.alignment is not None:
        cells.append(" ".join(f"{source}-{target}" for source, target in output.alignment))
    if len(cells) == 1:
        return output.text  # a tab in the text is no separator here
    return "\t".join(cell.replace("\t", " ") for cell in cells)


def _moses_row(number: int, output: Output, features: str, score: str) -> str:
    """Return what Moses writes: line, translation, features, score; and its alignment."""
    text = output.text.replace(" ||| ", " | | | ")
    cells = [str(number), text, features, score]
    if output.alignment is not None:
        cells.append(" ".join(f"{source}-{target}" for source, target in output.alignment))
    return " ||| ".join(cells)


def _record(output: Output) -> dict[str, Any]:
    record = {"text": output.text, "score": output.score, "finished": output.finished}
    return record if output.alignment is None else {**record, "alignment": output.alignment}


class OutputProgress(NamedTuple):
    """How far a file is. It is replaced as a whole, so that no signal finds half a change."""

    lines: int
    """Lines of input that are done."""
    size: int
    """Bytes of output."""
    digest: "hashlib._Hash"
    """Of the lines."""
    special: Counter[str]
    """How many of them were out of the ordinary, and how."""


class ResumableFile:
    """A file that is written line by line under a temporary name, and renamed when complete.

    Progress is saved beside it from time to time: after an interruption the same command
    resumes, if settings and input are the same.
    """

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        self.path, self.job = path, job
        self.partial = path.with_name(path.name + TEMPORARY)
        self.note = path.with_name(path.name + TEMPORARY + ".json")
        self._digest_so_far = ""
        self._file = open_locked(self.partial)
        try:
            self._written = self._read_progress()
        except UsageError:
            self._file.close()
            raise
        self._saved, self._saved_at = self.lines, time.monotonic()
        if self.lines == 0:
            self.note.unlink(missing_ok=True)
        self._file.truncate(self._written.size)
        self._file.seek(self._written.size)

    @property
    def lines(self) -> int:
        """How many lines of input are done."""
        return self._written.lines

    @property
    def special(self) -> Counter[str]:
        """How many of them were out of the ordinary, and how."""
        return self._written.special

    def _read_progress(self) -> OutputProgress:
        """Return how far an earlier process came; its job must have been the same."""
        nothing = OutputProgress(0, 0, hashlib.sha256(), Counter())
        try:
            note = json.loads(self.note.read_bytes())
            if self.partial.stat().st_size < note["bytes"]:
                return nothing
            changed = [name for name in self.job if self.job[name] != note["job"].get(name)]
            self._digest_so_far = note["sha256"]
            done = OutputProgress(
                note["lines"], note["bytes"], nothing.digest, Counter(note["special"])
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return nothing
        if changed:
            raise UsageError(
                f"{self.path} was begun, with {counted(done.lines, 'lines')}, by other options"
                f" or models: {', '.join(changed)}",
                fix=f"give the same ones to resume, or start over after: rm {self.partial}",
            )
        return done

    def skip(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines that are left; those that are done must have been the same text."""
        left, digest = iter(lines), hashlib.sha256()
        for line in islice(left, self.lines):
            digest.update(_key(line))
        if self.lines and digest.hexdigest() != self._digest_so_far:
            raise DataError(
                f"{self.path} was begun, with {counted(self.lines, 'lines')} of another input",
                fix=f"give the same input, or start over after: rm {self.partial}",
            )
        self._written = self._written._replace(digest=digest)
        yield from left

    def write(self, line: Line, rows: Sequence[str], special: Counter[str]) -> None:
        """Add the rows of one line of input."""
        content = "".join(f"{row}\n" for row in rows).encode()
        with self._named():
            self._file.write(content)
        lines, size, digest, before = self._written
        digest = digest.copy()
        digest.update(_key(line))
        self._written = OutputProgress(lines + 1, size + len(content), digest, before + special)
        if time.monotonic() - self._saved_at > SECONDS_AT_RISK:
            self.save()

    def save(self) -> None:
        """Make what was written so far durable; if nothing was, leave nothing."""
        if self.lines == 0:
            self.partial.unlink(missing_ok=True)
            return
        if self.lines == self._saved:
            return
        self._flush()
        lines, size, digest, special = self._written
        note = {"lines": lines, "bytes": size, "sha256": digest.hexdigest(), "special": special}
        with self._named():
            write_json(self.note, {"job": self.job, **note})
        self._saved, self._saved_at = lines, time.monotonic()

    def save_what_fits(self) -> int:
        """Save where the disk may be full; return the lines that are safe, if none no file."""
        with suppress(OSError):
            self.save()
        if self._saved == 0:
            self.partial.unlink(missing_ok=True)
        return self._saved

    def close(self) -> None:
        """Close the file, whatever is in it."""
        with suppress(OSError):  # of a full disk, which has been reported
            self._file.close()

    def _flush(self) -> None:
        with self._named():
            self._file.flush()
            os.fsync(self._file.fileno())

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the file that was asked for in what the system reports."""
        try:
            yield
        except OSError as problem:
            problem.filename = str(self.path)
            raise

    def finish(self) -> None:
        """Give the complete file its name."""
        self._flush()
        self.partial.replace(self.path)
        self.note.unlink(missing_ok=True)
        sync(self.path.parent)


def _key(line: Line) -> bytes:
    return line.raw + b"\n" + line.prefix.encode() + b"\n"


class StandardOutput:
    """The same for standard output, where nothing can be resumed."""

    def __init__(self) -> None:
        self.lines = 0
        self.special: Counter[str] = Counter()

    def skip(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield all lines."""
        return iter(lines)

    def write(self, line: Line, rows: Sequence[str], special: Counter[str]) -> None:
        """Print the rows of one line of input."""
        self.lines += 1
        self.special += special
        for row in rows:
            console.result(row)


@contextmanager
def open_output(
    path: Path | None, job: dict[str, Any]
) -> Iterator[ResumableFile | StandardOutput]:
    """Open what rows are written to; however the block ends, what was done is kept."""
    if path is None:
        yield StandardOutput()
        return
    file = ResumableFile(path, job)
    if file.lines:
        console.say(f"resuming after line {file.lines:,} of {path}")
    elif path.exists() and path.stat().st_size:
        console.warn(f"{path} exists, and is replaced when all lines are done")
    try:
        with raise_on_signals():
            yield file
            file.finish()
    except BaseException as problem:
        with signals_ignored():
            lines = file.save_what_fits()
        if isinstance(problem, Stopped):
            message = (
                f"stopped after {counted(lines, 'lines')}{', which are kept' * bool(lines)}"
            )
            raise type(problem)(message, fix=RESUME) from None
        raise
    finally:
        file.close()
