"""From lines to translations, in one process or several, and what was special about them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from aiayn.data.text import STDIN, decode_line, read_raw_lines
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError, UsageError
from aiayn.generation.translate import Line, Translation, Translator, windows


def read_input(path: Path, prefixes: Path | None) -> Iterator[Line]:
    """Yield lines; bytes that are not UTF-8 become U+FFFD rather than shift what follows."""
    beginnings = iter(()) if prefixes is None else read_raw_lines(prefixes)
    pairs = zip_longest(read_raw_lines(path), beginnings)
    for number, (raw, beginning) in enumerate(pairs, start=1):
        if prefixes is not None and (raw is None or beginning is None):
            text = "standard input" if path == STDIN else path
            shorter, longer = (text, prefixes) if raw is None else (prefixes, text)
            raise DataError(
                f"{shorter} ends after line {number - 1:,}, and {longer} goes on",
                fix="give one beginning a line; an empty line leaves it open",
            )
        prefix = decode_line(beginning, prefixes, number) if prefixes and beginning else ""
        yield Line(raw.decode(errors="replace"), prefix, raw)


def translate_together(
    translator: Translator,
    lines: Iterable[Line],
    group: ProcessGroup,
    report: Callable[[int], None],
) -> Iterator[tuple[Line, Translation]]:
    """Yield each line with its translation, in order; every process has to go through them."""
    source = windows(lines if group.is_first else (), translator.window * group.world_size)
    alone = group.world_size == 1
    while window := _next_window(source, group):
        own = [line for _, line in group.share(window)]
        found = (
            translator.translate_window(own, report)
            if alone
            else translator.translate_window(own)
        )
        yield from zip(window, group.gather(found, len(window)), strict=True)
        if not alone:
            report(len(window))


def _next_window(source: Iterator[list[Line]], group: ProcessGroup) -> list[Line]:
    """Return the lines that come next; if they cannot be read, the others may end."""
    try:
        window = next(source, [])
    except (DataError, UsageError, OSError):
        group.broadcast([])
        raise
    return group.broadcast(window)


def oddities(line: Line, translation: Translation) -> Counter[str]:
    """Count what is out of the ordinary about a line."""
    found = Counter({f"repaired ({kind})": n for kind, n in translation.repairs.items()})
    found["empty"] = translation.pieces == 0
    found["translated in pieces"] = translation.pieces > 1
    found["at the length limit"] = not translation.outputs[0].finished
    found["not UTF-8"] = "\ufffd" in line.text and not _is_utf8(line.raw)
    return found


STRICT = ("translated in pieces", "at the length limit", "not UTF-8")
"""What `--strict` does not let pass."""


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
