"""Perplexity of given translations, from the log-probabilities that a model gave them."""

import math
from collections.abc import Sequence

from aiayn.scoring.score import Score


def score_perplexity(log_p: Sequence[Sequence[float]], targets: Sequence[str]) -> list[Score]:
    """exp(-sum log P / tokens), per subword as in table 3, ends included, and per word."""
    total = math.fsum(value for sentence in log_p for value in sentence)
    subwords = sum(len(sentence) for sentence in log_p)
    # The end of a sentence counts as a word, as it does among the subwords.
    words = sum(len(target.split()) + 1 for target in targets)
    counts = {"perplexity": ("subword", subwords), "word-perplexity": ("word", words)}
    return [
        Score(
            name=name,
            # e^710 is more than a float holds.
            value=math.exp(min(-total / max(count, 1), 700)),
            signature=f"unit:{unit}|ends:counted",
            detail=f"log P {total:.2f} over {count:,} {unit}s",
        )
        for name, (unit, count) in counts.items()
    ]
