"""The network for the search as compiled code: the encoder in one call, a step in another.

P places; B sentences; J hypotheses of each; S, T source and target length; D d_model;
W vocabulary.
"""

from collections.abc import Sequence
from ctypes import addressof
from typing import TYPE_CHECKING

import numpy as np

from aiayn.generation.native_model import NativeModel
from aiayn.generation.step import Ids, Step

if TYPE_CHECKING:
    from torch import Tensor


class NativeDecoder(Step):
    """A step function for the search, which equals `CachedDecoder` but for rounding.

    What it knows of a sentence stays where it is while the sentence moves from place to place,
    and serves another when it has ended.
    """

    def __init__(self, model: NativeModel, width: int) -> None:
        """Decode up to `width` hypotheses of each sentence."""
        self.sentence_P = np.zeros(0, dtype=np.int64)
        """Where each sentence is in memory."""
        self.model, self.width, self.count = model, width, 0
        self.kernels, self.network = model.kernels, model.in_memory
        self.source_table_SD, self.target_table_TD = np.zeros((2, 0, 0), dtype=np.float32)

    def __del__(self) -> None:
        for sentence in self.sentence_P.tolist():
            self.kernels.delete_sentence(sentence)

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room for sentences and outputs of this size; those that are there stay."""
        if source_length > len(self.source_table_SD):
            self.source_table_SD = self.model.positions("source", source_length)
        if limit > len(self.target_table_TD):
            self.target_table_TD = self.model.positions("target", limit)
        missing = max(0, places - len(self.sentence_P))
        new = [self.kernels.new_sentence() for _ in range(missing)]
        self.sentence_P = np.append(self.sentence_P, np.array(new, dtype=np.int64))

    def admit(self, sources: Sequence[list[int]]) -> None:
        """Put sentences behind those that are there."""
        first, self.count = self.count, self.count + len(sources)
        lengths_B = np.array([len(source) for source in sources])
        ids = np.array([token for source in sources for token in source])
        self.kernels.encode(
            addressof(self.network),
            self.width,
            len(sources),
            self.sentence_P[first:].ctypes.data,
            lengths_B.ctypes.data,
            ids.ctypes.data,
            self.source_table_SD.ctypes.data,
        )

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> "Tensor":
        """Return the logits (B, J, W) of what follows these tokens."""
        tokens_BJ, slots_BJ = map(np.ascontiguousarray, (tokens_BJ, slots_BJ))
        d_model = self.model.packed.config.model.d_model
        states_BJD = np.empty((*tokens_BJ.shape, d_model), dtype=np.float32)
        self.kernels.decode(
            addressof(self.network),
            *tokens_BJ.shape,
            self.sentence_P.ctypes.data,
            tokens_BJ.ctypes.data,
            slots_BJ.ctypes.data,
            self.target_table_TD.ctypes.data,
            states_BJD.ctypes.data,
        )
        logits_BJW = self.model.packed.linears["output"].multiply(self.kernels, states_BJD)
        # Compiled beam search does not come here, so torch is loaded for other searches only.
        from torch import from_numpy

        return from_numpy(logits_BJW)

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences to places whose own have ended; `count` sentences are left."""
        ended, moved = self.sentence_P[places], self.sentence_P[origins]
        self.sentence_P[places], self.sentence_P[origins] = moved, ended
        self.count = count
