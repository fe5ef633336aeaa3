"""Warnings about text that would be scored without an error, and wrongly."""

import re
from collections.abc import Callable, Iterator, Sequence

from aiayn.scoring.evalb_trees import UNLABELED_ROOT
from aiayn.scoring.score import FILTERED_LINES

# Above this share of lines, a sign of tokenized text is not an accident.
SHARE = 0.1

# A space before a full stop or comma, or what the Moses tokenizer leaves behind.
TOKENIZED = re.compile(r" [.,](?: |$)|&(?:quot|apos|amp|lt|gt|#\d+);|@[-/]@|##AT##")
SUBWORDS = re.compile(r"@@(?: |$)|\u2581")
SPLIT_HYPHEN = re.compile(r"##AT##-##AT##|@-@")
MARKUP = re.compile(r"\s*<(?:seg|doc|refset|tstset|srcset)\b", re.IGNORECASE)


def check_text(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, name: str
) -> Iterator[str]:
    """Yield a warning for each thing about the text that is probably not intended."""
    yield from _empty(hypotheses, name)
    for number, stream in enumerate(references, start=1):
        which = "the reference" if len(references) == 1 else f"reference {number}"
        yield from _empty(stream, which)
        if any(MARKUP.match(line) for line in stream[:20]):
            yield f"{which} looks like an SGML or XML file; take its text out first"
    lines = len(hypotheses)
    if (count := _count(hypotheses, SUBWORDS.search)) > SHARE * lines:
        yield (
            f"{name} still has subword marks in {count:,} of {lines:,} lines; join the pieces"
            " first, @@ for example by: sed -E 's/(@@ )|(@@ ?$)//g'"
        )
    if (count := _count(hypotheses, TOKENIZED.search)) > SHARE * lines:
        yield (
            f"{name} looks tokenized in {count:,} of {lines:,} lines; sacreBLEU takes raw text"
            " and tokenizes it itself, so detokenize it (--paper --pretokenized takes tokens as"
            " they are)"
        )
    if lines == FILTERED_LINES:
        yield (
            "2,737 lines are newstest2014 as filtered (wmt14); the paper's has 3,003:"
            " -t wmt14/full -l en-de"
        )


def check_hyphens(hypotheses: Sequence[str]) -> Iterator[str]:
    """Yield a warning if the hyphens that paper-BLEU splits are split already."""
    if count := _count(hypotheses, SPLIT_HYPHEN.search):
        yield (
            f"{count:,} lines hold ##AT##-##AT## or @-@, so their hyphens are split already;"
            " pass --no-compound"
        )


def check_trees(trees: Sequence[str], broken: int) -> Iterator[str]:
    """Yield a warning for what makes a bracketing score mean less than it seems to."""
    if broken:
        yield (
            f"{broken:,} broken or empty trees are left out of every figure, as in EVALB;"
            " F1-strict counts them as wrong"
        )
    if unlabeled := _count(trees, UNLABELED_ROOT.match):
        yield (
            f"{unlabeled:,} trees have a root without a label, which EVALB counts as a"
            " bracket; name it TOP to leave it out"
        )


def _empty(lines: Sequence[str], name: str) -> Iterator[str]:
    numbers = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if numbers:
        count = f"{len(numbers):,} of {len(lines):,}"
        yield f"{name}: {count} lines are empty, the first of them line {numbers[0]:,}"


def _count(lines: Sequence[str], sign: Callable[[str], object]) -> int:
    return sum(sign(line) is not None for line in lines)
