"""What the search asks of a network: logits of what may follow.

B sentences; J hypotheses of each; W vocabulary.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Ids = NDArray[np.int64]


class Moves(NamedTuple):
    """Which sentences have moved, and to which places."""

    origins: Ids
    places: Ids


class Step(Protocol):
    """Extends hypotheses by one token, for sentences that each have a place."""

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room for so many sentences, for sources and for outputs of these lengths."""

    def admit(self, sources: Sequence[list[int]]) -> None:
        """Begin sentences at the places behind those in use."""

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> "Tensor":
        """Return the logits (B, J, W) of what follows the last tokens, or their log P.

        Slots are the hypotheses of the same sentence that each one continues. Before the first
        token there is padding, in every slot.
        """

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences to places whose own have ended; `count` are left in all."""


def round_up(count: int) -> int:
    """Return the next of 4 numbers between powers of two: 8, 10, 12, 14, 16, 20, ...

    Products of a new size take a moment to set up; these are few sizes and an eighth apart.
    """
    step = 1 << max(0, count.bit_length() - 3)
    return -(-count // step) * step
