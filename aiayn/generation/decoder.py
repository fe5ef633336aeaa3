"""The decoder one token at a time, with what it has already computed kept in caches.

B sentences; J hypotheses of each; S source length; C columns of a cache; T tokens so far;
D d_model; H heads; K, V per head; W vocabulary.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.generation.search import Step
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer, source_allowed

STEPS_OF_ROOM = 8
"""Steps after which the caches of the target are made larger."""


class Cache:
    """Keys and values of one layer for all hypotheses of a sentence, one column for each.

    Keys lie as the product with queries reads them, which is a quarter faster.
    """

    def __init__(self, k_BHCK: Tensor, v_BHCV: Tensor) -> None:
        self.k_BHKC, self.v_BHCV = k_BHCK.mT.contiguous(), v_BHCV.contiguous()
        self.used = k_BHCK.size(2)

    def append(self, k_BHJK: Tensor, v_BHJV: Tensor) -> None:
        """Add columns; now and then room is made for some more."""
        start, self.used = self.used, self.used + k_BHJK.size(2)
        if self.used > self.v_BHCV.size(2):
            room = STEPS_OF_ROOM * k_BHJK.size(2)
            self.k_BHKC = F.pad(self.k_BHKC, (0, room))
            self.v_BHCV = F.pad(self.v_BHCV, (0, 0, 0, room))
        self.k_BHKC[..., start : self.used] = k_BHJK.mT
        self.v_BHCV[:, :, start : self.used] = v_BHJV

    def look(self, q_BHJK: Tensor, hidden: Tensor | None) -> Tensor:
        """Return equation 1, softmax(Q K^T / sqrt(d_k)) V, over the columns so far.

        Few queries and short sequences: plain products are faster than the fused kernel.
        """
        scores_BHJC = (q_BHJK / math.sqrt(q_BHJK.size(-1))) @ self.k_BHKC[..., : self.used]
        if hidden is not None:
            scores_BHJC += hidden
        return scores_BHJC.softmax(dim=-1) @ self.v_BHCV[:, :, : self.used]

    def select(self, rows_B: Tensor) -> None:
        """Keep some of the sentences."""
        self.k_BHKC, self.v_BHCV = self.k_BHKC[rows_B], self.v_BHCV[rows_B]


class CachedDecoder:
    """A step function for the search: keys and values of earlier positions are kept.

    Those of the source are computed once and serve all hypotheses of a sentence, whose queries
    stand side by side as if they were positions of one sequence. So do those of the target: a
    column of the cache never moves, and a mask shows each hypothesis the columns of its own
    past.
    """

    def __init__(self, model: Transformer, source_BS: Tensor) -> None:
        self.model = model
        allowed = source_allowed(source_BS)
        memory_BSD = model.encode(source_BS, allowed)
        self.layers = [cast(DecoderLayer, layer) for layer in model.decoder]
        self.sources = []
        for layer in self.layers:
            cross = layer.cross_attention
            self.sources.append(Cache(*cross.project(memory_BSD, cross.w_k, cross.w_v)))
        self.hidden = hide(allowed, memory_BSD.dtype)
        self.pasts: list[Cache] = []
        self.columns_BJT = torch.empty(0)
        """Where the past of each hypothesis stands in the caches."""
        self.length = 0

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return the logits (B, J, W) of the token that follows."""
        self._follow(tokens_BJ, parents_BJ)
        seen = self._seen()
        y_BJD = self.model.target_embedding(tokens_BJ)
        y_BJD = y_BJD + self.model.target_positions(self.length, self.length + 1)
        self.length += 1
        for number, layer in enumerate(self.layers):
            y_BJD = layer.add_1(y_BJD, self._look_back(number, layer, y_BJD, seen))
            y_BJD = layer.add_2(y_BJD, self._look_at_source(number, layer, y_BJD))
            y_BJD = layer.add_3(y_BJD, layer.feed_forward(y_BJD))
        return self.model.logits(y_BJD)

    def _follow(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> None:
        """Note where the past of each hypothesis stands, its newest position included."""
        sentences, slots = tokens_BJ.shape
        newest = torch.arange(slots, device=tokens_BJ.device).expand(sentences, slots)[
            ..., None
        ]
        if parents_BJ is None:
            self.columns_BJT = newest
            return
        if sentences < self.columns_BJT.size(0):
            kept_B = parents_BJ[:, 0] // self.columns_BJT.size(1)
            self.hidden = self.hidden[kept_B]
            for cache in self.sources + self.pasts:
                cache.select(kept_B)
        past_BJT = self.columns_BJT.flatten(0, 1)[parents_BJ]
        self.columns_BJT = torch.cat([past_BJT, newest + self.pasts[0].used], dim=-1)

    def _seen(self) -> Tensor | None:
        """Return what shows each hypothesis its own past only (B, 1, J, C); None: all is."""
        columns_BJT = self.columns_BJT
        if window := self.model.config.attention_window:
            columns_BJT = columns_BJT[..., -(window // 2 + 1) :]
        used = (self.pasts[0].used if self.pasts else 0) + columns_BJT.size(1)
        if columns_BJT.size(-1) == used:
            return None
        shape = (*columns_BJT.shape[:2], used)
        seen_BJC = torch.zeros(shape, dtype=torch.bool, device=columns_BJT.device)
        return hide(seen_BJC.scatter_(2, columns_BJT, True)[:, None], self.hidden.dtype)

    def _look_back(
        self, number: int, layer: DecoderLayer, y_BJD: Tensor, seen: Tensor | None
    ) -> Tensor:
        """Self-attention of the newest position over all positions so far."""
        own = layer.self_attention
        q_BHJK, *newest = own.project(y_BJD, own.w_q, own.w_k, own.w_v)
        if number == len(self.pasts):
            self.pasts.append(Cache(*newest))
        else:
            self.pasts[number].append(*newest)
        return own.join(self.pasts[number].look(q_BHJK, seen))

    def _look_at_source(self, number: int, layer: DecoderLayer, y_BJD: Tensor) -> Tensor:
        """Attention of all hypotheses of a sentence to its source."""
        cross = layer.cross_attention
        (q_BHJK,) = cross.project(y_BJD, cross.w_q)
        return cross.join(self.sources[number].look(q_BHJK, self.hidden))


class Ensemble:
    """A step function that averages the probabilities of several."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return log of the mean probability of each token that may follow."""
        log_p = [step(tokens_BJ, parents_BJ).float().log_softmax(dim=-1) for step in self.steps]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))


def hide(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: 0 where a query may look, -inf elsewhere.

    Attention would make it of the mask in every layer anew.
    """
    nothing = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return nothing.masked_fill_(~allowed, -math.inf)
