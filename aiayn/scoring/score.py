"""What every metric returns, a number with its signature; and the band it is expected in."""

import re
from collections.abc import Sequence, Sized
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from aiayn.errors import DataError, OutsideBand, UsageError

# Lines of newstest2014 as WMT filtered it (wmt14), and as the paper used it (wmt14/full).
FILTERED_LINES, PAPER_LINES = 2737, 3003


class MetricName(StrEnum):
    """The metrics of sacreBLEU, by its own names."""

    BLEU = "bleu"
    CHRF = "chrf"
    TER = "ter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A number with its name, and the signature that says how it was computed."""

    name: str
    value: float
    signature: str
    detail: str = ""
    """N-gram precisions, lengths, counts."""
    mean: float | None = None
    """Mean over bootstrap resamples."""
    margin: float | None = None
    """Half the width of the 95% interval around the mean."""
    other: float | None = None
    """The same metric of the system compared with."""
    p_value: float | None = None
    """Probability of such a difference between two equally good systems."""
    parts: "tuple[Score, ...]" = ()
    """Figures that this one is made of; the detail holds them, too."""

    def line(self) -> str:
        """Return the score as sacreBLEU writes it: name, signature, number, detail."""
        words = [f"{self.name}|{self.signature} = {self.value:.2f}"]
        if self.mean is not None:
            words.append(f"(mean = {self.mean:.2f} \xb1 {self.margin:.2f})")
        if self.other is not None:
            words.append(f"against {self.other:.2f} (p = {self.p_value:.4f})")
        return " ".join([*words, self.detail]).rstrip()

    def records(self) -> list[dict[str, object]]:
        """Return the records for JSON: this score without its empty fields, then its parts."""
        record = asdict(replace(self, parts=()))
        known = {key: value for key, value in record.items() if value not in (None, "", ())}
        return [known, *(record for part in self.parts for record in part.records())]


def aligned(scores: Sequence[Score]) -> list[str]:
    """Return the lines of several scores with their equals signs under one another."""
    parts = [score.line().partition(" = ") for score in scores]
    width = max(len(name) for name, _, _ in parts)
    return [f"{name:>{width}}{equals}{number}" for name, equals, number in parts]


@dataclass(frozen=True, slots=True)
class Band:
    """The range that a score must lie in: its center, and the width to either side."""

    center: float
    width: float

    def check(self, score: Score) -> None:
        """Raise OutsideBand unless the score, as printed, lies in the band or on its edge."""
        # A score that prints as 27.80 is inside 27.3 +- 0.5, whatever its later digits.
        rounding = 1e-9
        if abs(round(score.value, 2) - self.center) <= self.width + rounding:
            return
        low, high = self.center - self.width, self.center + self.width
        raise OutsideBand(
            f"{score.name} is {score.value:.2f}, and {low:.2f} to {high:.2f} was expected",
            fix="compare the signature and the line above with those of the expected score",
        )


def parse_band(text: str) -> Band:
    """Read a band such as `27.3+-0.5`, `27.3+/-0.5`, or one with the plus-minus sign."""
    # Not float(), which reads nan, inf and 1_000.
    number = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*"
    found = re.fullmatch(number + r"(?:\xb1|\+/?-)" + number, text)
    if found is None:
        raise UsageError(
            f"--expect is {text!r}, expected a score with its tolerance",
            fix="write 27.3+-0.5 for 26.8 to 27.8",
        )
    return Band(float(found[1]), float(found[2]))


def require_same_count(
    hypotheses: Sized,
    references: Sized,
    *,
    names: tuple[str, str] = ("the hypothesis", "the reference"),
    unit: str = "lines",
) -> None:
    """Raise a DataError with both counts unless each hypothesis has its reference."""
    found, wanted = len(hypotheses), len(references)
    if wanted == 0:
        raise DataError(
            f"{names[1]} has no {unit}, so there is nothing to score against",
            fix="check that it was written to the end",
        )
    if found == wanted:
        return
    raise DataError(
        f"{names[0]} has {found:,} {unit} and {names[1]} has {wanted:,}",
        fix=_count_fix(found, wanted, unit),
    )


def _count_fix(found: int, wanted: int, unit: str) -> str:
    if {found, wanted} == {FILTERED_LINES, PAPER_LINES}:
        return "one is newstest2014 as filtered (wmt14), the other the paper's (wmt14/full)"
    if found == 0:
        return "give the hypothesis by -i HYP; if it is, check the command that writes it"
    if unit == "trees":
        return "write one tree a line, and an empty line where there is none"
    return "score the output of the same source lines, one line for each, empty ones included"
