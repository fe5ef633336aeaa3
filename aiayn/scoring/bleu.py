"""BLEU, chrF and TER through sacreBLEU, each with its signature.

`aiayn score` and validation both call `score_text`, so they give the same number. A stream of
references has one line for each hypothesis; several streams are several references.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import assert_never

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from aiayn.errors import UsageError
from aiayn.scoring.score import MetricName, Score, require_same_count

# Bootstrap samples, sacreBLEU's default; the seed is sacreBLEU's too and in the signature.
RESAMPLES = 1000

# Longest reference, in words, of each bucket of `score_by_length` but the last.
BUCKET_ENDS = (10, 20, 30, 40, 50, 60)


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """The scores of the sentences whose first reference has so many words."""

    words: str
    sentences: int
    scores: list[Score]


def score_text(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    test_set: str = "",
    languages: str = "",
    *,
    intervals: bool = False,
) -> list[Score]:
    """Score raw, detokenized text against one or more streams of references.

    The test set goes into the signature, and so do the languages, such as `en-de`; Chinese,
    Japanese and Korean have tokenizers. `intervals` adds a mean and its 95% interval.
    """
    scores = []
    for metric in build_metrics(metrics, hypotheses, references, languages).values():
        found = metric.corpus_score(hypotheses, None, RESAMPLES if intervals else 1)
        scores.append(
            Score(
                name=found.name,
                value=float(found.score),
                signature=complete_signature(metric.get_signature(), test_set, languages),
                # sacreBLEU has no public names for these three.
                detail=found._verbose,
                mean=float(found._mean) if intervals else None,
                margin=float(found._ci) if intervals else None,
            )
        )
    _forget_lines()
    return scores


def _forget_lines() -> None:
    """Drop the lines that sacreBLEU's tokenizers keep, each for a metric that is gone."""
    for tokenizer in BaseTokenizer.__subclasses__():
        # Not all of them keep lines.
        getattr(tokenizer.__call__, "cache_clear", lambda: None)()


def score_by_length(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    test_set: str = "",
    languages: str = "",
) -> list[LengthBucket]:
    """Score sentences by the length of their reference; empty buckets are left out."""
    lengths = [len(line.split()) for line in references[0]]
    buckets = []
    low = 0
    for end in (*BUCKET_ENDS, max(lengths)):
        chosen = [low <= length <= end for length in lengths]
        if any(chosen):
            scores = score_text(
                list(compress(hypotheses, chosen)),
                [list(compress(stream, chosen)) for stream in references],
                metrics,
                test_set,
                languages,
            )
            words = f"{low}-{end}" if end in BUCKET_ENDS else f"{low} or more"
            buckets.append(LengthBucket(words, sum(chosen), scores))
        low = end + 1
    return buckets


def build_metrics(
    names: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    languages: str,
) -> dict[str, Metric]:
    """Return sacreBLEU's metrics by name, loaded with the references."""
    for stream in references:
        # sacreBLEU would silently score as many lines as the shorter side has.
        require_same_count(hypotheses, stream)
    return {name: _metric(MetricName(name), references, languages) for name in names}


def _metric(name: MetricName, references: Sequence[Sequence[str]], languages: str) -> Metric:
    match name:
        case MetricName.BLEU:
            target = languages.rpartition("-")[2]
            try:
                # `force` silences a warning about tokenized text: the caller has a better one.
                return BLEU(trg_lang=target, force=True, references=references)
            except RuntimeError as problem:
                raise UsageError(
                    f"sacreBLEU has no tokenizer for {target} here: {problem}",
                    fix=f"install one with: pip install 'sacrebleu[{target}]'",
                ) from None
        case MetricName.CHRF:
            return CHRF(references=references)
        case MetricName.TER:
            return TER(references=references)
        case _:
            assert_never(name)


def complete_signature(signature: Signature, test_set: str, languages: str) -> str:
    """Return the signature with the test set and languages, where they are known."""
    signature.update("test", test_set or None)
    signature.update("lang", languages or None)
    return signature.format()
