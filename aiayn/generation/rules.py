"""What an output has to or must not contain, whatever the model thinks of it.

B sentences; J hypotheses of each; T tokens so far; W vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from aiayn.data.vocabulary import EOS, PAD


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Rules for all sentences; the forced beginnings come with each sentence."""

    min_length: int = 0
    """Tokens that come before EOS at least."""
    no_repeat: int = 0
    """So many tokens in a row occur at most once in an output; 0: no such rule."""

    def apply(
        self,
        logits_BJW: Tensor,
        ids_BJT: NDArray[np.int64],
        prefixes: Sequence[tuple[int, ...]],
    ) -> None:
        """Make the logits of tokens that may not follow -inf, in place.

        A forced token may always follow.
        """
        length = ids_BJT.shape[-1]
        forced = {
            row: (prefix[length], logits_BJW[row, :, prefix[length]].clone())
            for row, prefix in enumerate(prefixes)
            if length < len(prefix)
        }
        logits_BJW[..., PAD] = -math.inf
        if length < self.min_length:
            logits_BJW[..., EOS] = -math.inf
        if self.no_repeat:
            for (row, slot), banned in self._repetitions(ids_BJT):
                logits_BJW[row, slot, banned] = -math.inf
        for row, (token, logit_J) in forced.items():
            logits_BJW[row] = -math.inf
            logits_BJW[row, :, token] = logit_J

    def _repetitions(
        self, ids_BJT: NDArray[np.int64]
    ) -> list[tuple[tuple[int, ...], list[int]]]:
        """Return the tokens that would repeat n tokens in a row, by hypothesis."""
        n = self.no_repeat
        if ids_BJT.shape[-1] < n:
            return []
        grams = np.lib.stride_tricks.sliding_window_view(ids_BJT, n, axis=-1)
        suffix = ids_BJT[..., ids_BJT.shape[-1] - n + 1 :]
        same = (grams[..., :-1] == suffix[..., None, :]).all(axis=-1)
        found: dict[tuple[int, ...], list[int]] = {}
        for row, slot, place in np.argwhere(same):
            found.setdefault((int(row), int(slot)), []).append(int(grams[row, slot, place, -1]))
        return list(found.items())


NO_RULES = Rules()
