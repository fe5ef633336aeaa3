"""Two systems on the same sentences: whether their difference is more than chance."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from sacrebleu.significance import PairedTest, Result

from aiayn.scoring.bleu import RESAMPLES, build_metrics, complete_signature, score_text
from aiayn.scoring.score import Score, require_same_count


def compare_text(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    test_set: str = "",
    languages: str = "",
) -> list[Score]:
    """Score the hypotheses, and test the difference by sacreBLEU's paired bootstrap."""
    for stream in references:
        require_same_count(others, stream, names=("the other system", "the reference"))
    built = build_metrics(metrics, hypotheses, references, languages)
    systems = [("other", others), ("hypothesis", hypotheses)]
    test = PairedTest(systems, built, None, test_type="bs", n_samples=RESAMPLES)
    signatures, results = test()
    compared = []
    for score in score_text(hypotheses, references, metrics):
        signature = complete_signature(signatures[score.name], test_set, languages)
        theirs, ours = cast(list[Result], results[score.name])
        # Some are numpy's float32, which JSON does not know.
        numbers = (ours.mean, ours.ci, theirs.score, ours.p_value)
        mean, margin, other, p_value = [float(cast(float, number)) for number in numbers]
        if list(hypotheses) == list(others):
            # sacreBLEU counts the resamples that differ by more than the systems do, and for
            # a system against itself finds none: p would be as small as it can be.
            p_value = 1.0
        score = replace(score, mean=mean, margin=margin, other=other, p_value=p_value)
        compared.append(replace(score, signature=signature))
    return compared
