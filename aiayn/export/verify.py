"""Ours against theirs: the same lines on both sides of an export.

B sentences; T target length; W vocabulary.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.data.vocabulary import EOS, PAD
from aiayn.errors import OutsideBand
from aiayn.model.transformer import Transformer

TOLERANCE = 1e-3
"""Rounding of log-probabilities in float32 is a tenth of this at most, a mistake far more."""


class Engine(Protocol):
    """An exported model at work."""

    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each of as many tokens as its limit."""

    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations, and of their end."""


@dataclass(frozen=True)
class Greedy:
    """What our own greedy search made of a line."""

    line: str
    text: str
    ids: list[int]
    """Subwords of the text, which both sides are to find equally probable."""
    limit: int
    """Tokens that it may have had."""


@dataclass(frozen=True)
class Verification:
    """How alike the two sides are."""

    lines: int
    identical: int
    difference: float
    """The largest between the log-probabilities that the two sides give to one token."""
    worst: str = ""
    """The line in which it is."""

    def __str__(self) -> str:
        return (
            f"{self.identical:,} of {self.lines:,} translations are identical; the"
            f" log-probability of a token differs by {self.difference:.1e} at most"
        )

    def check(self) -> None:
        """Refuse what rounding cannot explain."""
        # Not `>`: a difference that is no number is no agreement.
        if not self.difference <= TOLERANCE:
            raise OutsideBand(
                f"the exported model is not the same: {self}, in {self.worst!r}, and"
                f" {TOLERANCE:.0e} is rounding",
                fix="nothing was written; --verify-text chooses other lines, --verify 0 none",
            )


def verify(file: ModelFile, ours: list[Greedy], engine: Engine) -> Verification:
    """Translate on their side what was translated on ours, and let both score ours."""
    lines, targets = [one.line for one in ours], [one.ids for one in ours]
    theirs = engine.translate(lines, [one.limit for one in ours])
    identical = sum(one.text == text for one, text in zip(ours, theirs, strict=True))
    model = file.build()
    largest = []
    for line, target, found in zip(lines, targets, engine.log_p(lines, targets), strict=True):
        wanted_T = _log_p(model, file.codec.encode_source(line), [*target, EOS])
        largest.append((wanted_T - torch.tensor(found)).abs().max())
    # In torch, what is no number is more than any.
    difference, worst = torch.stack(largest).max(dim=0)
    return Verification(len(ours), identical, float(difference), lines[int(worst)])


@torch.inference_mode()
def _log_p(model: Transformer, source: list[int], target: list[int]) -> Tensor:
    """Return the log-probability of each target token, given that it is not padding.

    Padding is what no side may choose, and what the other side need not even know.
    """
    target_BT = torch.tensor([target])
    logits_BTW: Tensor = model(torch.tensor([source]), target_BT)
    logits_BTW[..., PAD] = -torch.inf
    return logits_BTW.log_softmax(dim=-1).gather(2, target_BT[..., None]).flatten()
