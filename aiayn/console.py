"""The only writer to the terminal: stdout is the result and nothing else, stderr is talk."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from aiayn.errors import AiaynError

PLAIN_LINE_SECONDS = 30
"""Without a terminal, work that takes long says how far it is this often."""

CLOSED_PIPE = 141
"""Exit code of a tool whose reader has left."""

WIDE = 10_000
"""Columns for output that is no terminal: nothing is wrapped or cut there."""


class _Console(Console):
    """A console whose reader may leave: rich itself would end with 1, which means a bug."""

    outlives_reader = False

    def on_broken_pipe(self) -> None:
        """End as other tools do, or go on unheard."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
        if not self.outlives_reader:
            raise SystemExit(CLOSED_PIPE)


def _width(stream: TextIO | None) -> int | None:
    """Return None, the terminal's own, for a terminal; a stream that is closed is None."""
    return None if stream is not None and stream.isatty() else WIDE


stdout = _Console(highlight=False, width=_width(sys.stdout))
stderr = _Console(stderr=True, highlight=False, width=_width(sys.stderr))


def result(text: str) -> None:
    """Write one line of the result to standard output, exactly as it is and at once."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has enough: end as other tools do, with 128 + SIGPIPE and without a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE) from None


def result_json(value: object) -> None:
    """Write a JSON document to standard output."""
    result(json.dumps(value, indent=2, ensure_ascii=False))


def result_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = ""
) -> None:
    """Write a table to standard output; whole numbers get thousands separators.

    Columns without names are columns without a head.
    """
    stdout.print(_table(columns, rows, title))


def result_text(line: Text) -> None:
    """Write one line to standard output; its colours are for terminals only."""
    if stdout.is_terminal:
        stdout.print(line, soft_wrap=True)
    else:
        result(line.plain)


def shows_colors() -> bool:
    """Tell whether standard output is a terminal with shades of colours, more than 16."""
    shades = stdout.color_system in ("256", "truecolor")
    return stdout.is_terminal and shades and not stdout.no_color


def say(message: str) -> None:
    """Say something to the person at the terminal, on standard error."""
    stderr.print(message, markup=False, soft_wrap=True)


def go_on_unheard() -> None:
    """Let long work outlive the reader of standard error: what it says is in a log, too."""
    stderr.outlives_reader = True


def say_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = ""
) -> None:
    """Show a table to the person at the terminal, on standard error."""
    stderr.print(_table(columns, rows, title))


def warn(message: str) -> None:
    """Warn about something that is probably not what was meant."""
    stderr.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)


def fail(error: AiaynError) -> None:
    """Print an error and the way out of it."""
    stderr.print(f"[bold red]error:[/bold red] {escape(error.message)}", soft_wrap=True)
    if error.fix:
        stderr.print(f"  [green]fix:[/green] {escape(error.fix)}", soft_wrap=True)


@contextmanager
def progress(label: str, *, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show how far some work is; the block calls the value with each amount done.

    On a terminal this is a bar with rate and time left, elsewhere a plain line now and then.
    """
    with _bar(label, total, unit) if stderr.is_terminal else _plain(label, total, unit) as step:
        yield step


@contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _Rate(unit),
        TimeRemainingColumn(),
    )
    # Left to itself, the bar takes over sys.stdout, too, and results would end on stderr.
    with Progress(*columns, console=stderr, redirect_stdout=False) as bars:
        task = bars.add_task(label, total=total)
        yield lambda amount: bars.advance(task, amount)


@contextmanager
def _plain(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    start = last = time.monotonic()
    done = 0

    def advance(amount: int) -> None:
        nonlocal done, last
        done += amount
        if time.monotonic() - last >= PLAIN_LINE_SECONDS:
            last = time.monotonic()
            say(f"{label}: {amount_of(done, total)} {unit}, {done / (last - start):,.0f}/s")

    yield advance
    say(f"{label}: {done:,} {unit} in {time.monotonic() - start:.1f} s")


class _Rate(ProgressColumn):
    """Amount done, of the total where that is known, and the rate."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        speed = task.finished_speed or task.speed or 0
        return Text(f"{amount_of(int(task.completed), total)} {self.unit}, {speed:,.0f}/s")


def amount_of(done: int, total: int | None) -> str:
    """Return `3,000 of 5,000`, or `3,000` where the total is not known."""
    return f"{done:,}" if total is None else f"{done:,} of {total:,}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str) -> Table:
    table = Table(
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        show_header=any(columns),
    )
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in cells) for i in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _cell(value: object) -> str:
    match value:
        case bool():
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
    return (
        not cell or cell.lstrip("+-").replace(",", "").replace(".", "", 1).rstrip("%").isdigit()
    )
