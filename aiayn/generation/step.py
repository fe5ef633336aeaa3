"""What the search asks of a network: logits of what may follow, and the best among them.

B sentences; J hypotheses of each; W vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]
# Logits, log P so far, and how many of the best sums of both to find, with their places.
Choose = Callable[[Tensor, NDArray[np.float32], int], tuple[NDArray[np.float32], Ids]]


class Moves(NamedTuple):
    """Which sentences have moved, and to which places."""

    origins: Ids
    places: Ids


class Step(Protocol):
    """Extends hypotheses by one token, for sentences that each have a place."""

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room for so many sentences, for sources and for outputs of these lengths."""

    def admit(self, sources: Sequence[list[int]]) -> Tensor:
        """Begin sentences at the places behind those in use.

        Return the logits (B, 1, W) of their first tokens. Log-probabilities will do for logits.
        """

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> Tensor:
        """Return the logits (B, J, W) of what follows the last tokens.

        Slots are the hypotheses of the same sentence that each one continues. There may be more
        rows than sentences; they mean nothing.
        """

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences to places whose own have ended; `count` are left in all."""
