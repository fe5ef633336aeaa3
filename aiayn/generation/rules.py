"""Constraints on what an output contains.

B sentences; J hypotheses of each; T tokens so far; W vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aiayn.special_ids import EOS, PAD, UNK

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Rules for all sentences; forced prefixes come with each sentence."""

    min_length: int = 0
    """Fewest tokens before EOS."""
    no_repeat: int = 0
    """No n-gram of this length occurs twice in an output; 0: no such rule."""
    unknown: bool = True
    """Whether an output may have unknown words."""

    def apply(
        self,
        logits_BJW: "Tensor",
        ids_BJT: NDArray[np.int64],
        prefixes: Sequence[tuple[int, ...]],
    ) -> None:
        """Set logits to -inf, in place, but for those of tokens that may follow or must."""
        length = ids_BJT.shape[-1]
        # Read before anything is forbidden: a forced token keeps its own logit.
        forced = {
            row: (prefix[length], logits_BJW[row, :, prefix[length]].clone())
            for row, prefix in enumerate(prefixes)
            if length < len(prefix)
        }
        logits_BJW[..., PAD] = -math.inf
        if not self.unknown:
            logits_BJW[..., UNK] = -math.inf
        if length < self.min_length:
            logits_BJW[..., EOS] = -math.inf
        n = self.no_repeat
        if 0 < n <= length:
            grams = np.lib.stride_tricks.sliding_window_view(ids_BJT, n, axis=-1)
            # Where the last n - 1 tokens stood before, what followed them may not follow again.
            suffix = ids_BJT[..., None, length - n + 1 :]
            rows, slots, places = np.nonzero((grams[..., :-1] == suffix).all(axis=-1))
            logits_BJW[rows, slots, grams[rows, slots, places, -1]] = -math.inf
        for row, (token, logit_J) in forced.items():
            logits_BJW[row] = -math.inf
            logits_BJW[row, :, token] = logit_J


NO_RULES = Rules()
