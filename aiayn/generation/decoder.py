"""The decoder one token at a time, with what it has already computed kept in caches.

B sentences; J hypotheses of each; S source length; C columns of a cache; T tokens so far;
D d_model; H heads; K, V per head; N heads of all sentences; W vocabulary.
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
    """Keys and values of one layer, one column for each position of any hypothesis.

    Keys lie as the product with queries reads them, which is a quarter faster.
    """

    def __init__(self, k_BHCK: Tensor, v_BHCV: Tensor) -> None:
        self.k_BHKC, self.v_BHCV = k_BHCK.mT.contiguous(), v_BHCV.contiguous()
        self.used = k_BHCK.size(2)

    def append(self, k_BHJK: Tensor, v_BHJV: Tensor) -> None:
        """Add columns; there has to be room for them."""
        start, self.used = self.used, self.used + k_BHJK.size(2)
        self.k_BHKC[..., start : self.used] = k_BHJK.mT
        self.v_BHCV[:, :, start : self.used] = v_BHJV

    def look(self, q_BHJK: Tensor, hidden_NJC: Tensor) -> Tensor:
        """Return equation 1, softmax(Q K^T / sqrt(d_k)) V, over the columns so far.

        Few queries and short sequences: plain products are faster than the fused kernel.
        `hidden_NJC` is -inf where a query may not look.
        """
        k_NKC = self.k_BHKC.flatten(0, 1)[..., : self.used]
        v_NCV = self.v_BHCV.flatten(0, 1)[:, : self.used]
        scale = 1 / math.sqrt(q_BHJK.size(-1))
        scores_NJC = torch.baddbmm(hidden_NJC, q_BHJK.flatten(0, 1), k_NKC, alpha=scale)
        heads_NJV = torch.bmm(scores_NJC.softmax(dim=-1), v_NCV)
        return torch.unflatten(heads_NJV, 0, q_BHJK.shape[:2])

    def select(self, rows_B: Tensor) -> None:
        """Keep some of the sentences."""
        self.k_BHKC, self.v_BHCV = self.k_BHKC[rows_B], self.v_BHCV[rows_B]

    def rearrange(self, columns_BC: Tensor, room: int) -> None:
        """Keep some of the columns of each sentence, and make room for more."""
        _, heads, d_k, _ = self.k_BHKC.shape
        d_v, self.used = self.v_BHCV.size(3), columns_BC.size(1)
        k_BHKC = self.k_BHKC.gather(3, columns_BC[:, None, None].expand(-1, heads, d_k, -1))
        v_BHCV = self.v_BHCV.gather(2, columns_BC[:, None, :, None].expand(-1, heads, -1, d_v))
        self.k_BHKC, self.v_BHCV = F.pad(k_BHKC, (0, room)), F.pad(v_BHCV, (0, 0, 0, room))


class CachedDecoder:
    """A step function for the search: keys and values of earlier positions are kept.

    Those of the source are computed once and serve all hypotheses of a sentence, whose queries
    stand side by side as if they were positions of one sequence. So do those of the target: a
    mask shows each hypothesis the columns of its own past, and columns that are in nobody's
    past any more are left out whenever room is made for new ones.
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
        heads, slots = self.model.config.heads, tokens_BJ.size(1)
        unseen_NJC = self._unseen().expand(-1, heads, -1, -1).flatten(0, 1)
        hidden_NJS = self.hidden.expand(-1, heads, slots, -1).flatten(0, 1)
        y_BJD = self.model.target_embedding(tokens_BJ)
        y_BJD = y_BJD + self.model.target_positions(self.length, self.length + 1)
        self.length += 1
        for number, layer in enumerate(self.layers):
            y_BJD = layer.add_1(y_BJD, self._look_back(number, layer, y_BJD, unseen_NJC))
            y_BJD = layer.add_2(y_BJD, self._look_at_source(number, layer, y_BJD, hidden_NJS))
            y_BJD = layer.add_3(y_BJD, layer.feed_forward(y_BJD))
        return self.model.logits(y_BJD)

    def _follow(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> None:
        """Note where the past of each hypothesis stands, its newest position included."""
        sentences, slots = tokens_BJ.shape
        newest_J = torch.arange(slots, device=tokens_BJ.device)
        if parents_BJ is None:
            self.columns_BJT = newest_J.expand(sentences, slots)[..., None]
            return
        if sentences < self.columns_BJT.size(0):
            kept_B = parents_BJ[:, 0] // self.columns_BJT.size(1)
            self.hidden = self.hidden[kept_B]
            for cache in self.sources + self.pasts:
                cache.select(kept_B)
        self.columns_BJT = self.columns_BJT.flatten(0, 1)[parents_BJ]
        if self.pasts[0].used + slots > self.pasts[0].v_BHCV.size(2):
            self._make_room(STEPS_OF_ROOM * slots)
        newest_BJT = (newest_J + self.pasts[0].used).expand(sentences, slots)[..., None]
        self.columns_BJT = torch.cat([self.columns_BJT, newest_BJT], dim=-1)

    def _make_room(self, room: int) -> None:
        """Leave out the columns that are in nobody's past, and make room for new ones."""
        past_BN = self.columns_BJT.flatten(1)
        lives_BC = mark(past_BN, self.pasts[0].used)
        most = int(lives_BC.sum(dim=1).max())
        columns_BC = lives_BC.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        for cache in self.pasts:
            cache.rearrange(columns_BC, room)
        places_BC = lives_BC.cumsum(dim=1) - 1
        self.columns_BJT = places_BC.gather(1, past_BN).view_as(self.columns_BJT)

    def _unseen(self) -> Tensor:
        """Return what hides all but its own past from each hypothesis (B, 1, J, C)."""
        columns_BJT = self.columns_BJT
        if window := self.model.config.attention_window:
            columns_BJT = columns_BJT[..., -(window // 2 + 1) :]
        used = (self.pasts[0].used if self.pasts else 0) + columns_BJT.size(1)
        return hide(mark(columns_BJT, used)[:, None], self.hidden.dtype)

    def _look_back(
        self, number: int, layer: DecoderLayer, y_BJD: Tensor, unseen_NJC: Tensor
    ) -> Tensor:
        """Self-attention of the newest position over all positions so far."""
        own = layer.self_attention
        q_BHJK, *newest = own.project(y_BJD, own.w_q, own.w_k, own.w_v)
        if number == len(self.pasts):
            self.pasts.append(Cache(*newest))
        else:
            self.pasts[number].append(*newest)
        return own.join(self.pasts[number].look(q_BHJK, unseen_NJC))

    def _look_at_source(
        self, number: int, layer: DecoderLayer, y_BJD: Tensor, hidden_NJS: Tensor
    ) -> Tensor:
        """Attention of all hypotheses of a sentence to its source."""
        cross = layer.cross_attention
        (q_BHJK,) = cross.project(y_BJD, cross.w_q)
        return cross.join(self.sources[number].look(q_BHJK, hidden_NJS))


class Ensemble:
    """A step function that averages the probabilities of several."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return log of the mean probability of each token that may follow."""
        log_p = [step(tokens_BJ, parents_BJ).float().log_softmax(dim=-1) for step in self.steps]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))


def mark(places: Tensor, count: int) -> Tensor:
    """Return True at the places named, among `count` along the last dimension."""
    marked = torch.zeros((*places.shape[:-1], count), dtype=torch.bool, device=places.device)
    return marked.scatter_(-1, places, True)


def hide(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: 0 where a query may look, -inf elsewhere.

    Attention would make it of the mask in every layer anew.
    """
    nothing = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return nothing.masked_fill_(~allowed, -math.inf)
