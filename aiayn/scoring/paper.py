"""The paper's English-German BLEU, which is not sacreBLEU's.

Moses tokens, double quotes made plain, hyphenated words split around `##AT##-##AT##`, then
multi-bleu.perl: case kept, no smoothing, the closest reference length. Scores come out 0.7 to
1.5 above sacreBLEU's. Perl reads bytes, so words and hyphens are found in UTF-8 bytes here:
a no-break space does not end a word, and each byte of a letter counts as a neighbor.
"""

import math
import re
from collections.abc import Callable, Sequence

import sacremoses
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacremoses.tokenize import MosesTokenizer

from aiayn.scoring.score import Score, require_same_count

# Popel found the paper's reference with all three turned into plain quotes; no Moses script
# does that to the low one.
QUOTES = str.maketrans(dict.fromkeys("\u201e\u201c\u201d", '"'))
HYPHEN = re.compile(rb"(\S)-(\S)")


def score_paper(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    languages: str = "",
    compound: bool | None = None,
    pretokenized: bool = False,
) -> Score:
    """Return BLEU as the paper computed it, from raw text unless it is tokenized already.

    The target language chooses the tokenizer, German if it is unknown. `compound` splits words
    at their hyphens, by default those of German only.
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
        value=found.score,
        signature=f"nrefs:{len(references)}|case:mixed|tok:{tokens}|quotes:{quotes}"
        f"|compound:{'split' if splits else 'kept'}|smooth:none|script:multi-bleu",
        detail=found._verbose,
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


def multi_bleu(hypotheses: Sequence[bytes], references: Sequence[Sequence[bytes]]) -> BLEUScore:
    """Return corpus BLEU over tokens that white space separates, as multi-bleu.perl does."""
    for stream in references:
        require_same_count(hypotheses, stream)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    found = metric.corpus_score(_hex(hypotheses), [_hex(stream) for stream in references])
    precisions = [c / t if t else 0.0 for c, t in zip(found.counts, found.totals, strict=True)]
    # Percents only after the logarithms, as in the script: sacreBLEU's perfect score, made of
    # percents from the start, is 100.00000000000004.
    mean = sum(map(math.log, precisions)) / len(precisions) if all(precisions) else -math.inf
    # It also gives no words against no words a brevity penalty of 1; the script's is 0.
    penalty = found.bp if found.sys_len else 0.0
    return BLEUScore(
        score=100 * (penalty * math.exp(mean)),
        counts=found.counts,
        totals=found.totals,
        precisions=[100 * precision for precision in precisions],
        bp=penalty,
        sys_len=found.sys_len,
        ref_len=found.ref_len,
    )


def _hex(lines: Sequence[bytes]) -> list[str]:
    """Spell each token in hexadecimal, so that sacreBLEU finds the same words as Perl."""
    return [" ".join(token.hex() for token in line.split()) for line in lines]
