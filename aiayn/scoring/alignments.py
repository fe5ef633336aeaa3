"""Alignment error rate, as Och and Ney (2003) defined it.

AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) of the links A that are scored, the sure ones S
and the possible ones P of the gold standard; all of S are in P.
"""

from collections.abc import Sequence

from aiayn.data.pharaoh import Links
from aiayn.scoring.score import Score, require_same_count


def score_alignments(gold: Sequence[Links], test: Sequence[Links]) -> Score:
    """Return the error rate, in percent, with precision and recall as its parts."""
    require_same_count(test, gold, names=("the test", "the gold"))
    pairs = [(one, other.possible) for one, other in zip(gold, test, strict=True)]
    sure = sum(len(wanted.sure) for wanted, _ in pairs)
    links = sum(len(found) for _, found in pairs)
    found_sure = sum(len(found & wanted.sure) for wanted, found in pairs)
    found_possible = sum(len(found & wanted.possible) for wanted, found in pairs)
    # Where there is nothing to find, and nothing was found, nothing is wrong.
    value = 100 - 100 * (found_sure + found_possible) / (links + sure) if links + sure else 0.0
    possible = sum(len(wanted.possible) for wanted, _ in pairs)
    signature = f"sentences:{len(pairs)}|sure:{sure}|possible:{possible}"
    parts = {
        "precision": 100 * found_possible / links if links else 100.0,
        "recall": 100 * found_sure / sure if sure else 100.0,
        "links": links,
    }
    shown = " ".join(
        f"{name} = {number:.2f}" if isinstance(number, float) else f"{name} = {number}"
        for name, number in parts.items()
    )
    return Score(
        name="AER",
        value=value,
        signature=signature,
        detail=f"({shown})",
        parts=tuple(
            Score(name=name, value=number, signature=signature)
            for name, number in parts.items()
        ),
    )
