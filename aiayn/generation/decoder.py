"""The decoder one token at a time, with keys and values of earlier positions cached.

B sentences; J hypotheses of each; S source length; C columns of a cache; T tokens so far;
H heads; K, V per head; N heads of all sentences; W vocabulary.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.generation.search import Step
from aiayn.kernels.layout import Layout
from aiayn.model.layers import DecoderLayer, LayerCache
from aiayn.model.transformer import Transformer, is_token

# Steps after which the caches of the target are made larger.
GROWTH_STEPS = 8
PADDED = Layout()


class KeyValueCache:
    """Keys and values of one attention, one column for each position of any hypothesis.

    Keys lie as the product with queries reads them, which is a quarter faster.
    """

    def __init__(self) -> None:
        self.k_BHKC = self.v_BHCV = self.bias_NJC = torch.empty(0)
        self.used = 0

    def extend(self, k_BHLK: Tensor, v_BHLV: Tensor) -> None:
        """Add columns; beyond the first time there has to be room for them."""
        start, self.used = self.used, self.used + k_BHLK.size(2)
        if start == 0:
            self.k_BHKC, self.v_BHCV = k_BHLK.mT.contiguous(), v_BHLV.contiguous()
        else:
            self.k_BHKC[..., start : self.used] = k_BHLK.mT
            self.v_BHCV[:, :, start : self.used] = v_BHLV

    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the keys and values so far, and the bias that hides some of them."""
        k_BHKC, v_BHCV = self.k_BHKC[..., : self.used], self.v_BHCV[:, :, : self.used]
        return k_BHKC.mT, v_BHCV, self.bias_NJC

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
    """A step function for the search.

    Keys and values of the source are computed once and serve all hypotheses of a sentence,
    whose queries stand side by side as if they were positions of one sequence. So do those of
    the target: a bias shows each hypothesis the columns of its own past, and columns that are
    in no hypothesis's past any more are dropped whenever room is made for new ones.
    """

    def __init__(self, model: Transformer, source_BS: Tensor) -> None:
        self.model = model
        source = Layout(is_token(source_BS))
        memory_BSD = model.encode(source_BS, source)
        self.layers = [cast(DecoderLayer, layer) for layer in model.decoder]
        self.targets = [KeyValueCache() for _ in self.layers]
        self.sources = [KeyValueCache() for _ in self.layers]
        for layer, cache in zip(self.layers, self.sources, strict=True):
            cross = layer.cross_attention
            cache.extend(*cross.project(memory_BSD, source, cross.w_k, cross.w_v))
        self.source_bias = attention_bias(is_token(source_BS), memory_BSD.dtype)
        self.columns_BJT = torch.empty(0)
        """Where the past of each hypothesis stands in the caches."""
        self.length = 0

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return the logits (B, J, W) of the token that follows."""
        self._reorder(tokens_BJ, parents_BJ)
        self._set_biases(tokens_BJ.size(1))
        y_BJD = self.model.target_embedding(tokens_BJ)
        y_BJD = y_BJD + self.model.target_positions(self.length, self.length + 1)
        self.length += 1  # all hypotheses are at the same position
        for layer, *caches in zip(self.layers, self.targets, self.sources, strict=True):
            y_BJD = layer(y_BJD, None, PADDED, PADDED, LayerCache(*caches))
        return self.model.logits(y_BJD)

    def _reorder(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> None:
        """Update where the past of each hypothesis stands, its newest position included."""
        sentences, slots = tokens_BJ.shape
        newest_J = torch.arange(slots, device=tokens_BJ.device)
        if parents_BJ is None:
            self.columns_BJT = newest_J.expand(sentences, slots)[..., None]
            return
        if sentences < self.columns_BJT.size(0):
            # Parents count through all rows of the step before, so they name its sentence.
            kept_B = parents_BJ[:, 0] // self.columns_BJT.size(1)
            self.source_bias = self.source_bias[kept_B]
            for cache in self.sources + self.targets:
                cache.select(kept_B)
        self.columns_BJT = self.columns_BJT.flatten(0, 1)[parents_BJ]
        if self.targets[0].v_BHCV.size(2) < self.targets[0].used + slots:
            self._grow(GROWTH_STEPS * slots)
        newest_BJT = (newest_J + self.targets[0].used).expand(sentences, slots)[..., None]
        self.columns_BJT = torch.cat([self.columns_BJT, newest_BJT], dim=-1)

    def _grow(self, room: int) -> None:
        """Drop the columns that are in no hypothesis's past, and make room for new ones."""
        past_BN = self.columns_BJT.flatten(1)
        alive_BC = index_mask(past_BN, self.targets[0].used)
        most = int(alive_BC.sum(dim=1).max())
        # Stable: what is alive moves to the front in its old order.
        columns_BC = alive_BC.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        for cache in self.targets:
            cache.rearrange(columns_BC, room)
        moved_BC = alive_BC.cumsum(dim=1) - 1
        self.columns_BJT = moved_BC.gather(1, past_BN).view_as(self.columns_BJT)

    def _set_biases(self, slots: int) -> None:
        """Show each hypothesis its own past, and the tokens of its source."""
        columns_BJT = self.columns_BJT
        if window := self.model.config.attention_window:
            # Restricted self-attention sees the newest position and r // 2 before it.
            columns_BJT = columns_BJT[..., -(window // 2 + 1) :]
        past = index_mask(columns_BJT, self.targets[0].used + slots)[:, None]
        heads = self.model.config.heads
        target_bias = attention_bias(past, self.source_bias.dtype)
        target_bias_NJC = target_bias.expand(-1, heads, -1, -1).flatten(0, 1)
        source_bias_NJS = self.source_bias.expand(-1, heads, slots, -1).flatten(0, 1)
        for target, source in zip(self.targets, self.sources, strict=True):
            target.bias_NJC, source.bias_NJC = target_bias_NJC, source_bias_NJS


class Ensemble:
    """A step function that averages the probabilities of several."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def __call__(self, tokens_BJ: Tensor, parents_BJ: Tensor | None) -> Tensor:
        """Return log of the mean probability of each token that may follow."""
        log_p = [step(tokens_BJ, parents_BJ).float().log_softmax(dim=-1) for step in self.steps]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))


def index_mask(indices: Tensor, count: int) -> Tensor:
    """Return True at the indices, among `count` along the last dimension."""
    marked = torch.zeros((*indices.shape[:-1], count), dtype=torch.bool, device=indices.device)
    return marked.scatter_(-1, indices, True)


def attention_bias(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: 0 where a query may look, -inf elsewhere."""
    bias = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return bias.masked_fill_(~allowed, -math.inf)
