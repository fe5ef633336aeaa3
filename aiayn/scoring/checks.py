"""What is probably not meant: text that would be scored without complaint, and wrongly."""

import re
from collections.abc import Callable, Iterator, Sequence

from aiayn.scoring.reading import UNLABELLED_ROOT
from aiayn.scoring.score import FILTERED_LINES

SHARE = 0.1
"""Above this share of lines, a sign of tokenized text is no accident."""

# A space before a full stop or comma, or what the Moses tokenizer leaves behind.
TOKENIZED = re.compile(r" [.,](?: |$)|&(?:quot|apos|amp|lt|gt|#\d+);|@[-/]@|##AT##")
SUBWORDS = re.compile(r"@@(?: |$)|\u2581")
SPLIT_HYPHEN = re.compile(r"##AT##-##AT##|@-@")
MARKUP = re.compile(r"\s*<(?:seg|doc|refset|tstset|srcset)\b", re.IGNORECASE)


def doubts(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, name: str
) -> Iterator[str]:
    """Yield a sentence for each thing about the text that is probably not what was meant."""
    yield from _empty(hypotheses, name)
    for number, stream in enumerate(references, start=1):
        which = "the reference" if len(references) == 1 else f"reference {number}"
        yield from _empty(stream, which)
        if any(MARKUP.match(line) for line in stream[:20]):
            yield f"{which} looks like an SGML or XML file; take its text out first"
    count = _count(hypotheses, SUBWORDS.search)
    if count > SHARE * len(hypotheses):
        yield (
            f"{name} still has subword marks in {count:,} of {len(hypotheses):,} lines; join"
            " the pieces first, @@ for example by: sed -E 's/(@@ )|(@@ ?$)//g'"
        )
    count = _count(hypotheses, TOKENIZED.search)
    if count > SHARE * len(hypotheses):
        yield (
            f"{name} looks tokenized in {count:,} of {len(hypotheses):,} lines; sacreBLEU wants"
            " raw text and tokenizes it itself, so detokenize it (--paper --pretokenized takes"
            " tokens as they are)"
        )
    if len(hypotheses) == FILTERED_LINES:
        yield (
            "2,737 lines are newstest2014 as filtered (wmt14); the paper's has 3,003:"
            " -t wmt14/full -l en-de"
        )


def doubts_about_hyphens(hypotheses: Sequence[str]) -> Iterator[str]:
    """Yield a sentence when the hyphens that the paper's number splits are split already."""
    count = _count(hypotheses, SPLIT_HYPHEN.search)
    if count:
        yield (
            f"{count:,} lines hold ##AT##-##AT## or @-@, so their hyphens are split already;"
            " pass --no-compound"
        )


def doubts_about_trees(trees: Sequence[str], broken: int) -> Iterator[str]:
    """Yield a sentence for what makes a bracketing score mean less than it seems to."""
    if broken:
        yield (
            f"{broken:,} broken or empty trees are left out of every figure, as in EVALB;"
            " F1-strict counts them as wrong"
        )
    unlabelled = _count(trees, UNLABELLED_ROOT.match)
    if unlabelled:
        yield (
            f"{unlabelled:,} trees have a root without a label, which EVALB counts as a"
            " bracket; name it TOP to leave it out"
        )


def _empty(lines: Sequence[str], name: str) -> Iterator[str]:
    numbers = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if numbers:
        count = f"{len(numbers):,} of {len(lines):,}"
        yield f"{name}: {count} lines are empty, the first of them line {numbers[0]:,}"


def _count(lines: Sequence[str], sign: Callable[[str], object]) -> int:
    return sum(sign(line) is not None for line in lines)
