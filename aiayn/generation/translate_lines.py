"""The lines of a text to translations, shared among processes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Union

from aiayn.data.language_tags import tag_problem
from aiayn.errors import DataError, UsageError
from aiayn.generation.streaming import Line, windows
from aiayn.generation.translator import Report, Translation, Translator, by_length
from aiayn.single_process import SingleProcess

if TYPE_CHECKING:
    from aiayn.distributed import ProcessGroup

# What `--strict` does not accept.
STRICT = ("translated in pieces", "at the length limit", "not UTF-8")

Processes = Union["ProcessGroup", SingleProcess]


def translate_lines(
    translator: Translator, lines: Iterable[Line], group: Processes, report: Report
) -> Iterator[tuple[Line, Translation]]:
    """Yield each line with its translation, in order; a collective call of all processes."""
    source = windows(lines if group.is_first else (), translator.window * group.world_size)
    alone = group.world_size == 1
    while window := _next_window(source, group):
        # Lines of all lengths for each process: a text may well have them in turn.
        order = by_length(window)
        own = [window[number] for _, number in group.share(order)]
        each = report if alone else lambda lines: None
        # What a process cannot translate ends all of them, rather than let the others wait.
        found = group.together(partial(translator.translate_window, own, each))
        of_line = dict(zip(order, group.gather(found, len(window)), strict=True))
        yield from ((line, of_line[number]) for number, line in enumerate(window))
        if not alone:
            report(len(window))


def _next_window(source: Iterator[list[Line]], group: Processes) -> list[Line]:
    """Return the lines that come next; if they cannot be read, the other processes end."""
    try:
        window = next(source, [])
    except (DataError, UsageError, OSError):
        group.broadcast([])
        raise
    return group.broadcast(window)


def unusual_features(
    line: Line, translation: Translation, tag: str = "", tags: Collection[str] = ()
) -> Counter[str]:
    """Count what is out of the ordinary about a line, which gets a language tag or none."""
    found = Counter({f"repaired ({kind})": 1 for kind in translation.repairs})
    if problem := tag_problem(line.text, tag, tags):
        found[problem] = 1
    found["empty"] = translation.pieces == 0
    found["translated to nothing"] = translation.pieces > 0 and not translation.outputs[0].text
    found["translated in pieces"] = translation.pieces > 1
    found["at the length limit"] = not translation.outputs[0].finished
    # U+FFFD stands for bytes that are not UTF-8, unless the input has that character itself.
    found["not UTF-8"] = "\ufffd" in line.text and line.text.encode() != line.raw
    return found
