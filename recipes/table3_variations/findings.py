"""What section 6.2 says of table 3, held against runs of our own.

A difference between two rows counts when its standard error, which comes from rows that were
trained with several seeds, explains it in less than one of twenty cases (Student's t).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

SEEN, REVERSED, NOISE, MISSING = "seen", "not seen: the other way round", "within noise", ""
PERPLEXITY, BLEU = "perplexity", "BLEU"
STUDENT = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Standard errors that a difference has to exceed, by the number of repetitions."""

# Nats per subword, and BLEU, of each seed of a row.
Values = Mapping[str, Sequence[float]]


class Finding(NamedTuple):
    """A sentence of the paper, and pairs of rows, worse before better, that would show it."""

    sentence: str
    pairs: tuple[tuple[str, str], ...]
    alike: bool = False
    """Whether the sentence says that the rows do not differ."""
    by: str = f"{PERPLEXITY}, {BLEU}"
    """What it is said of."""


FINDINGS = (
    Finding("One head is worse than eight (A).", (("A1", "base"),)),
    Finding("Too many heads are worse (A).", (("A4", "base"),)),
    Finding("A smaller d_k hurts (B).", (("B1", "base"), ("B2", "base"))),
    Finding("More layers are better (C).", (("C1", "C2"), ("C2", "base"), ("base", "C3"))),
    Finding("A wider model is better (C).", (("C4", "base"), ("base", "C5"))),
    Finding("A wider feed-forward layer is better (C).", (("C6", "base"), ("base", "C7"))),
    Finding("Dropout helps (D).", (("D1", "base"), ("D1", "D2"))),
    # Section 5.4; perplexity is that without smoothing.
    Finding("Label smoothing helps BLEU (D).", (("D3", "base"),), by=BLEU),
    Finding("Label smoothing hurts perplexity (D).", (("base", "D3"),), by=PERPLEXITY),
    Finding("Learned positions are as good as sinusoids (E).", (("E", "base"),), alike=True),
)


def repetitions(values: Values) -> int:
    """Return how many runs are of a row that has another."""
    return sum(len(seeds) - 1 for seeds in values.values())


def seed_deviation(values: Values) -> float | None:
    """Return the standard deviation between seeds, over all rows that have several."""
    squares = sum((value - fmean(seeds)) ** 2 for seeds in values.values() for value in seeds)
    freedom = repetitions(values)
    return math.sqrt(squares / freedom) if freedom > 0 else None


def gain(values: Values, worse: str, better: str) -> tuple[float, float] | None:
    """Return how much higher `better` is, and the standard error; None where it is unknown."""
    deviation = seed_deviation(values)
    if deviation is None or not values.get(worse) or not values.get(better):
        return None
    error = deviation * math.sqrt(1 / len(values[worse]) + 1 / len(values[better]))
    return fmean(values[better]) - fmean(values[worse]), error


def verdict(finding: Finding, values: Values) -> str:
    """Return whether the rows differ as the sentence says, and by how much.

    `values` are such that higher is better.
    """
    gains = [gain(values, *pair) for pair in finding.pairs]
    known = [each for each in gains if each is not None]
    if len(known) < len(gains):
        return MISSING
    shown = ", ".join(
        f"{better} - {worse} = {difference:+.2f} ± {error:.2f}"
        for (worse, better), (difference, error) in zip(finding.pairs, known, strict=True)
    )
    enough = STUDENT[min(repetitions(values), len(STUDENT) - 1)]
    clear = [difference for difference, error in known if abs(difference) > enough * error]
    return f"{_judge(clear, len(known), alike=finding.alike)} ({shown})"


def _judge(clear: list[float], pairs: int, *, alike: bool) -> str:
    if alike:
        return "not seen: they differ" if clear else SEEN
    if any(difference < 0 for difference in clear):
        return REVERSED if all(difference < 0 for difference in clear) else "seen in part"
    if len(clear) == pairs:
        return SEEN
    return "seen in part" if clear else NOISE
