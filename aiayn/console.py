"""The only writer to the terminal: results to stdout, messages and progress to stderr."""

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import IO, Any, TextIO, TypeVar, cast

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from aiayn.errors import AiaynError, counted

# Without a terminal, progress is one line this often.
PLAIN_LINE_SECONDS = 30

# What the system answers when a disk, or a share of it, is full.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

# Exit code of a tool whose output nobody reads any more: 128 + SIGPIPE.
CLOSED_PIPE = 141

# Columns of output that is not a terminal: nothing is wrapped or cut there.
WIDE = 10_000


# Columns of a progress bar, and what stands beside it at most.
BAR, BESIDE_BAR, SHORTEST_BAR = 40, 60, 10

Item = TypeVar("Item")


class _Console(Console):
    """A console that survives a closed pipe: rich would exit with 1, which means a bug."""

    ignores_broken_pipe = False

    def on_broken_pipe(self) -> None:
        """Exit as other tools do, or drop all further output."""
        self.quiet = True
        _discard(self.file)
        if not self.ignores_broken_pipe:
            raise SystemExit(CLOSED_PIPE)


def _width(stream: TextIO | None) -> int | None:
    """Return the columns of a stream, None if it is closed; None: the terminal's own."""
    return None if stream is not None and stream.isatty() else WIDE


class _Stderr:
    """Standard error as it is at the moment. A disk that is full behind it ends nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> int:
        """Write, or drop this and all further messages."""
        return self._attempt(lambda: sys.stderr.write(text)) or 0

    def flush(self) -> None:
        """Flush, or drop this and all further messages."""
        self._attempt(sys.stderr.flush)

    def _attempt(self, action: Callable[[], Item]) -> Item | None:
        try:
            return action()
        except OSError as problem:
            if problem.errno not in NO_SPACE:
                raise
            _discard(sys.stderr)
            return None


# Made before cli.py sets the encoding of the streams: rich looks sys.stdout up for every line.
stdout = _Console(highlight=False, emoji=False, width=_width(sys.stdout))
stderr = _Console(
    file=cast(TextIO, _Stderr()), highlight=False, emoji=False, width=_width(sys.stderr)
)


def _discard(stream: IO[str]) -> None:
    """Send what is written from here on, and what is still in the buffer, to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def result(text: str) -> None:
    """Write one line of the result to standard output, verbatim and at once."""
    try:
        # Not by rich, which would wrap, highlight and interpret brackets.
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        raise SystemExit(CLOSED_PIPE) from None
    except OSError as problem:
        # The system knows no name for what a shell has redirected.
        problem.filename = "standard output"
        raise


def result_json(value: object) -> None:
    """Write a JSON document to standard output."""
    result(json.dumps(value, indent=2, ensure_ascii=False))


def result_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table to standard output; if no column has a name, it has no head."""
    stdout.print(_table(columns, rows))


def result_text(line: Text) -> None:
    """Write one line to standard output, with its colors if that is a terminal."""
    if stdout.is_terminal:
        stdout.print(line, soft_wrap=True)
    else:
        result(line.plain)


def shows_colors() -> bool:
    """Return whether standard output is a terminal with more than 16 colors."""
    shades = stdout.color_system in ("256", "truecolor")
    return stdout.is_terminal and shades and not stdout.no_color


def say(message: str) -> None:
    """Write a message to standard error."""
    stderr.print(message, markup=False, soft_wrap=True)


def ignore_broken_stderr() -> None:
    """Let work continue when nobody reads standard error any more, as training does."""
    stderr.ignores_broken_pipe = True


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table to standard error."""
    stderr.print(_table(columns, rows))


def warn(message: str) -> None:
    """Warn about something that is probably not intended."""
    stderr.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)


def fail(error: AiaynError) -> None:
    """Print an error and its fix."""
    stderr.print(f"[bold red]error:[/bold red] {escape(error.message)}", soft_wrap=True)
    if error.fix:
        stderr.print(f"  [green]fix:[/green] {escape(error.fix)}", soft_wrap=True)


@contextmanager
def progress(
    label: str, *, total: int | None, unit: str, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Show progress; the block calls the yielded function with each further amount done.

    On a terminal this is a bar with rate and time left, elsewhere a line now and then.
    """
    show = _bar if stderr.is_terminal else _plain
    with show(label, total, unit, done) as step:
        yield step


@contextmanager
def _bar(
    label: str, total: int | None, unit: str, done: int
) -> Iterator[Callable[[int], None]]:
    from rich import progress

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            speed = task.finished_speed or task.speed or 0
            return Text(f"{_amount(task.completed, task.total)} {unit}, {speed:,.0f}/s")

    name, left = progress.TextColumn("{task.description}"), progress.TimeRemainingColumn()
    bar = progress.BarColumn(bar_width(stderr.width - BESIDE_BAR, BAR))
    columns = (name, bar, Rate(), left)
    # By default the bar captures sys.stdout, too, and results would end on stderr.
    with progress.Progress(*columns, console=stderr, redirect_stdout=False) as bars:
        task = bars.add_task(label, total=total, completed=done)
        yield lambda amount: bars.advance(task, amount)


def bar_width(room: int, wanted: int) -> int:
    """Return the columns of a bar, few where the text beside it leaves no room for more."""
    return min(wanted, max(room, SHORTEST_BAR))


@contextmanager
def _plain(
    label: str, total: int | None, unit: str, done: int
) -> Iterator[Callable[[int], None]]:
    start = last = time.monotonic()
    now_done = 0

    def advance(amount: int) -> None:
        nonlocal now_done, last
        now_done += amount
        if time.monotonic() - last >= PLAIN_LINE_SECONDS:
            last = time.monotonic()
            rate, left = now_done / (last - start), ""
            if total is not None and rate:
                seconds = round((total - done - now_done) / rate)
                left = f", {timedelta(seconds=max(seconds, 0))} left"
            say(f"{label}: {_amount(done + now_done, total)} {unit}, {rate:,.0f}/s{left}")

    yield advance
    say(f"{label}: {counted(now_done, unit)} in {time.monotonic() - start:.1f} s")


def _amount(done: float, total: float | None) -> str:
    return f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,.0f}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    cells = [[_cell(value) for value in row] for row in rows]
    for number, name in enumerate(columns):
        numeric = all(_is_number(row[number]) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _cell(value: object) -> str:
    match value:
        case bool():  # before int, which it is a kind of
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return ", ".join(_cell(item) for item in value)
        case _:
            return str(value)


def _is_number(cell: str) -> bool:
    digits = cell.lstrip("+-").rstrip("%").replace(",", "").replace(".", "", 1)
    return not cell or digits.isdigit()
