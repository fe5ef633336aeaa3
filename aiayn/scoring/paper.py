"""The paper's English-German BLEU, which is not sacreBLEU's, and why 27.3 is hard to find.

Moses tokens, double quotes made plain, hyphenated words split around `##AT##-##AT##`, then
multi-bleu.perl: case kept, no smoothing, the closest reference length. Scores come out 0.7 to
1.5 above sacreBLEU's. Perl reads bytes, so words and hyphens are found in UTF-8 bytes here:
a no-break space does not end a word, and each byte of a letter counts as a neighbour.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sacremoses
from sacremoses.tokenize import MosesTokenizer

from aiayn.scoring.score import Score, require_same_count

ORDER = 4
"""Longest n-gram counted."""

# Popel found the paper's reference with all three turned into plain quotes; no Moses script
# does that to the low one.
QUOTES = str.maketrans(dict.fromkeys("\u201e\u201c\u201d", '"'))
HYPHEN = re.compile(rb"(\S)-(\S)")


@dataclass(frozen=True, slots=True)
class MultiBleu:
    """What multi-bleu.perl prints."""

    value: float
    precisions: list[float]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    def detail(self) -> str:
        """Return precisions, brevity penalty and lengths, as sacreBLEU writes them."""
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        ratio = self.hypothesis_length / self.reference_length if self.reference_length else 0
        return (
            f"{precisions} (BP = {self.brevity_penalty:.3f} ratio = {ratio:.3f}"
            f" hyp_len = {self.hypothesis_length} ref_len = {self.reference_length})"
        )


def score_paper(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    languages: str = "",
    compound: bool | None = None,
    pretokenized: bool = False,
) -> Score:
    """Return BLEU as the paper computed it, from raw text unless it is tokenized already.

    Args:
        hypotheses: One line for each sentence.
        references: Streams of reference lines, each as long as the hypotheses.
        languages: The pair; its target language chooses the tokenizer, German if unknown.
        compound: Whether to split words at their hyphens; by default, those of German.
        pretokenized: Whether the text is tokenized, with its quotes made plain.
    """
    language = languages.rpartition("-")[2] or "de"
    splits = language == "de" if compound is None else compound
    tokenize = str if pretokenized else moses_tokenizer(language)
    encode = split_compounds if splits else str.encode

    def prepare(lines: Sequence[str]) -> list[bytes]:
        return [encode(tokenize(line)) for line in lines]

    found = multi_bleu(prepare(hypotheses), [prepare(stream) for stream in references])
    tokens = "none" if pretokenized else f"moses-{language}-{sacremoses.__version__}"
    quotes = "kept" if pretokenized else "plain"
    return Score(
        name="paper-BLEU",
        value=found.value,
        signature=f"nrefs:{len(references)}|case:mixed|tok:{tokens}|quotes:{quotes}"
        f"|compound:{'split' if splits else 'kept'}|smooth:none|script:multi-bleu",
        detail=found.detail(),
    )


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Return a function that makes quotes plain and puts a space around each token."""
    tokenizer = MosesTokenizer(language)
    # sacremoses would collect all lower-case letters anew for every full stop.
    tokenizer.islower = frozenset(tokenizer.IsLower).issuperset
    return lambda line: str(tokenizer.tokenize(line.translate(QUOTES), return_str=True))


def split_compounds(line: str) -> bytes:
    """Split words at their hyphens: `rich-text` becomes `rich ##AT##-##AT## text`.

    Matches do not overlap, so `a-b-c` becomes `a ##AT##-##AT## b-c`, as in the paper's script.
    """
    return HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode())


def multi_bleu(hypotheses: Sequence[bytes], references: Sequence[Sequence[bytes]]) -> MultiBleu:
    """Return corpus BLEU over the given tokens, exactly as multi-bleu.perl computes it."""
    for stream in references:
        require_same_count(hypotheses, stream)
    matches, totals = [0] * ORDER, [0] * ORDER
    hypothesis_length = reference_length = 0
    for hypothesis, *streams in zip(hypotheses, *references, strict=True):
        words = hypothesis.split()
        choices = [line.split() for line in streams]
        hypothesis_length += len(words)
        # Of two references as close, the shorter.
        reference_length += min(
            (abs(len(choice) - len(words)), len(choice)) for choice in choices
        )[1]
        for n in range(1, ORDER + 1):
            grams = _ngrams(words, n)
            allowed = _ngrams(choices[0], n)
            for choice in choices[1:]:
                allowed |= _ngrams(choice, n)
            matches[n - 1] += (grams & allowed).total()
            totals[n - 1] += grams.total()
    return _combine(matches, totals, hypothesis_length, reference_length)


def _ngrams(words: list[bytes], n: int) -> Counter[tuple[bytes, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


def _combine(
    matches: list[int], totals: list[int], hypothesis_length: int, reference_length: int
) -> MultiBleu:
    """BLEU = BP exp(sum of log p_n / 4), and 0 as soon as one p_n is."""
    precisions = [m / t if t else 0.0 for m, t in zip(matches, totals, strict=True)]
    penalty = 1.0
    if hypothesis_length == 0:
        penalty = 0.0
    elif hypothesis_length < reference_length:
        penalty = math.exp(1 - reference_length / hypothesis_length)
    value = 0.0
    if all(precisions):
        value = penalty * math.exp(sum(map(math.log, precisions)) / ORDER)
    return MultiBleu(
        100 * value,
        [100 * precision for precision in precisions],
        penalty,
        hypothesis_length,
        reference_length,
    )
