"""What `aiayn generate` writes: lines in a format, and a file that survives an interruption."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiayn import console
from aiayn.data.atomic import TEMPORARY, sync, write_json
from aiayn.errors import DataError, Stopped
from aiayn.generation.streaming import Line
from aiayn.generation.translator import Output, Translation
from aiayn.signals import RESUME, raise_on_signals, signals_ignored

Format = Literal["text", "tsv", "jsonl"]

SECONDS_AT_RISK = 2.0
"""How much work an interruption may cost at most, beyond the window that is translated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a translation is written.

    text: the translation; then, after tabs, the score and the alignment where asked for.
    tsv: line, rank, score, translation, and the alignment where asked for.
    jsonl: one object a line of input.
    """

    format: Format = "text"
    scores: bool = False
    nbest: int | None = None
    """Translations a line; None: one, and no list of them in JSON."""

    def lay_out(self, number: int, translation: Translation) -> list[str]:
        """Return the lines to write for one line of input, `number` counted from 1."""
        count = self.nbest or 1
        outputs = translation.outputs[:count]
        # An empty line has one empty output, and a model of few words may have too few.
        outputs += outputs[-1:] * (count - len(outputs))
        if self.format == "jsonl":
            return [self._json(number, translation, outputs)]
        return [self._row(number, rank, output) for rank, output in enumerate(outputs, start=1)]

    def _row(self, number: int, rank: int, output: Output) -> str:
        score = f"{output.score:.6f}"
        if self.format == "tsv":
            cells = [str(number), str(rank), score, output.text]
        else:
            cells = [output.text, score] if self.scores else [output.text]
        if output.alignment is not None:
            cells.append(" ".join(f"{source}-{target}" for source, target in output.alignment))
        if len(cells) == 1:
            return output.text
        return "\t".join(cell.replace("\t", " ") for cell in cells)

    def _json(self, number: int, translation: Translation, outputs: Sequence[Output]) -> str:
        ways = [_fields(output) for output in outputs]
        line = {"line": number, **ways[0], "pieces": translation.pieces}
        if self.nbest is not None:
            line["nbest"] = ways
        return json.dumps(line, ensure_ascii=False)


def _fields(output: Output) -> dict[str, Any]:
    found = {"text": output.text, "score": output.score, "finished": output.finished}
    return found if output.alignment is None else {**found, "alignment": output.alignment}


class Done(NamedTuple):
    """How far a file is. It changes as a whole, so that a signal never finds half of it."""

    lines: int
    """Lines of input that are done."""
    size: int
    """Bytes that they gave."""
    digest: "hashlib._Hash"
    """Sums up the lines."""
    special: Counter[str]
    """How many of them were out of the ordinary, and how."""


class ResumableFile:
    """A file that is written line by line beside its place, and put there when it is whole.

    What is done is noted beside it from time to time: after an interruption the same command
    goes on, having made sure that settings and input are the same.
    """

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        self.path, self.job = path, job
        self.partial = path.with_name(path.name + TEMPORARY)
        self.note = path.with_name(path.name + TEMPORARY + ".json")
        self.other: list[str] = []
        """Settings that were others when what is there was made."""
        self._wanted = ""
        self._done = self._find_place()
        self._noted, self._noted_at = self.lines, time.monotonic()
        if self.lines == 0:
            self.note.unlink(missing_ok=True)
        self._file = self.partial.open("r+b" if self.lines else "wb")
        self._file.truncate(self._done.size)
        self._file.seek(self._done.size)

    @property
    def lines(self) -> int:
        """How many lines of input are done."""
        return self._done.lines

    @property
    def special(self) -> Counter[str]:
        """How many of them were out of the ordinary, and how."""
        return self._done.special

    def _find_place(self) -> Done:
        """Return how far an earlier process with the same job came."""
        nothing = Done(0, 0, hashlib.sha256(), Counter())
        try:
            note = json.loads(self.note.read_bytes())
            if self.partial.stat().st_size < note["bytes"]:
                return nothing
            self.other = [name for name in self.job if self.job[name] != note["job"].get(name)]
            self._wanted = note["sha256"]
            done = Done(note["lines"], note["bytes"], nothing.digest, Counter(note["special"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return nothing
        return nothing if self.other else done

    def skip(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines that are left to do; what was done must have been the same text."""
        done, number, digest = self.lines, 0, hashlib.sha256()
        for number, line in enumerate(lines, start=1):
            if number > done:
                yield line
                continue
            digest.update(_key(line))
            if number == done:
                self._compare(digest.hexdigest())
                self._done = self._done._replace(digest=digest)
        if number < done:
            self._compare("")

    def _compare(self, found: str) -> None:
        if found != self._wanted:
            raise DataError(
                f"{self.partial} holds {self.lines:,} lines that come from another input",
                fix=f"give the same input, or delete {self.partial} to begin anew",
            )

    def write(self, line: Line, rows: Sequence[str], special: Counter[str]) -> None:
        """Add what one line of input gave."""
        content = "".join(f"{row}\n" for row in rows).encode()
        self._file.write(content)
        lines, size, digest, before = self._done
        digest = digest.copy()
        digest.update(_key(line))
        self._done = Done(lines + 1, size + len(content), digest, before + special)
        if time.monotonic() - self._noted_at > SECONDS_AT_RISK:
            self.save()

    def save(self) -> None:
        """Make what was written so far last; nothing leaves nothing."""
        if self.lines == 0:
            self.partial.unlink(missing_ok=True)
            return
        if self.lines == self._noted:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        lines, size, digest, special = self._done
        note = {"lines": lines, "bytes": size, "sha256": digest.hexdigest(), "special": special}
        write_json(self.note, {"job": self.job, **note})
        self._noted, self._noted_at = lines, time.monotonic()

    def close(self) -> None:
        """Let go of the file, whatever is in it."""
        self._file.close()

    def finish(self) -> None:
        """Put the file in its place."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.partial.replace(self.path)
        self.note.unlink(missing_ok=True)
        sync(self.path.parent)


def _key(line: Line) -> bytes:
    return line.raw + b"\n" + line.prefix.encode() + b"\n"


class StandardOutput:
    """The same, for standard output: nothing to go on from."""

    def __init__(self) -> None:
        self.lines = 0
        self.special: Counter[str] = Counter()

    def skip(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield all lines."""
        return iter(lines)

    def write(self, line: Line, rows: Sequence[str], special: Counter[str]) -> None:
        """Print what one line of input gave."""
        self.lines += 1
        self.special += special
        for row in rows:
            console.result(row)


@contextmanager
def open_output(
    path: Path | None, job: dict[str, Any]
) -> Iterator[ResumableFile | StandardOutput]:
    """Return what lines are written to; however the block ends, what was done is kept."""
    if path is None:
        yield StandardOutput()
        return
    file = ResumableFile(path, job)
    if file.lines:
        console.say(f"going on after line {file.lines:,} of {path}")
    elif file.other:
        console.say(f"beginning anew: what was left of {path} has another {file.other[0]}")
    try:
        with raise_on_signals():
            yield file
            file.finish()
    except BaseException as problem:
        with signals_ignored():
            file.save()
        if isinstance(problem, Stopped):
            kept = f", which are kept in {file.partial}" if file.lines else ""
            message = f"stopped after {file.lines:,} lines{kept}"
            raise type(problem)(message, fix=RESUME) from None
        raise
    finally:
        file.close()
