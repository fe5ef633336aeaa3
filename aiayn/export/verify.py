"""Check that an exported model translates as ours does.

B sentences; T target length; W vocabulary.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from aiayn.checkpoint import ModelFile
from aiayn.errors import OutsideBand
from aiayn.model.transformer import Transformer
from aiayn.special_ids import EOS, PAD

# Rounding of log-probabilities in float32 is a tenth of this at most, a mistake far more.
TOLERANCE = 1e-3


class ExportedModel(Protocol):
    """An exported model, loaded by its own toolkit."""

    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each of as many tokens as its limit."""

    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations, and of their EOS.

        That of EOS may be left out, where the toolkit does not tell it.
        """


@dataclass(frozen=True)
class Greedy:
    """Our own greedy translation of a line."""

    line: str
    text: str
    ids: list[int]
    """Subwords of the text, to which both models give probabilities."""
    limit: int
    """Tokens that it may have at most."""


@dataclass(frozen=True)
class Verification:
    """How well the two models agree."""

    lines: int
    identical: int
    difference: float
    """The largest between the log-probabilities that the two models give to one token."""
    worst: str = ""
    """The line that it is in."""

    def __str__(self) -> str:
        return (
            f"{self.identical:,} of {self.lines:,} translations are identical; the"
            f" log-probability of a token differs by {self.difference:.1e} at most"
        )

    def check(self) -> None:
        """Refuse what rounding cannot explain."""
        # Not `>`: a NaN must not pass.
        if not self.difference <= TOLERANCE:
            raise OutsideBand(
                f"the exported model is not the same: {self}, in {self.worst!r}, and"
                f" {TOLERANCE:.0e} is rounding",
                fix="nothing was written; --verify-text chooses other lines, --verify 0 none",
            )


def verify(file: ModelFile, ours: list[Greedy], exported: ExportedModel) -> Verification:
    """Translate with the exported model, and score our translations with both."""
    lines, targets = [one.line for one in ours], [one.ids for one in ours]
    theirs = exported.translate(lines, [one.limit for one in ours])
    identical = sum(one.text == text for one, text in zip(ours, theirs, strict=True))
    model = file.build()
    largest = []
    for line, target, found in zip(lines, targets, exported.log_p(lines, targets), strict=True):
        wanted_T = _log_p(model, file.codec.encode_source(line), [*target, EOS])
        wanted_T = wanted_T[: max(len(target), len(found))]
        # Token by token: sums over a sentence could hide differences that cancel.
        largest.append((wanted_T - torch.tensor(found)).abs().max())
    # torch's max returns NaN if there is one; Python's need not.
    difference, worst = torch.stack(largest).max(dim=0)
    return Verification(len(ours), identical, float(difference), lines[int(worst)])


@torch.inference_mode()
def _log_p(model: Transformer, source: list[int], target: list[int]) -> Tensor:
    """Return the log-probability of each target token by teacher forcing."""
    target_BT = torch.tensor([target])
    logits_BTW: Tensor = model(torch.tensor([source]), target_BT)
    # No search may choose padding, and other toolkits need not even have it.
    logits_BTW[..., PAD] = -torch.inf
    return logits_BTW.log_softmax(dim=-1).gather(2, target_BT[..., None]).flatten()
