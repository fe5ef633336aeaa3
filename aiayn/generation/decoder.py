"""The decoder one token at a time, with keys and values of earlier positions cached.

Each sentence has a place in buffers that are written in place, so that sentences come and go
at any step and those beside them stay where they are.

P places; B of them in use; J hypotheses of each; R rows: all of them; S source length;
C columns of a cache; D d_model; H heads; K, V d_k and d_v per head; N heads of all sentences;
W vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from aiayn.data.batch import pad
from aiayn.generation.step import Ids, Step, round_up
from aiayn.generation.step_layer import Columns, NewColumns, StepLayer
from aiayn.kernels.layout import Layout
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer, is_token
from aiayn.special_ids import PAD

# Steps for which there is room whenever columns are added.
GROWTH_STEPS = 8


class KeyValueCache:
    """Keys and values of one kind of attention in all layers, by place and column."""

    def __init__(self, model: Transformer) -> None:
        c, like = model.config, model.target_embedding.weight
        self.keys = like.new_empty(c.decoder_depth, 0, c.heads, 0, c.d_k)
        self.values = like.new_empty(c.decoder_depth, 0, c.heads, 0, c.d_v)

    def reserve(self, places: int, columns: int) -> None:
        """Make room for so many places and columns; what fits stays."""
        self.keys, self.values = (
            resized(each, (each.size(0), places, each.size(2), columns, each.size(4)))
            for each in (self.keys, self.values)
        )

    @property
    def columns(self) -> int:
        """How many columns there is room for."""
        return self.keys.size(3)

    def of_layer(self, layer: int, places: slice) -> tuple[Tensor, Tensor]:
        """Return the keys and values (B, H, C, K) of some places."""
        return self.keys[layer, places], self.values[layer, places]

    def move(self, origin: int, place: int, columns: int) -> None:
        """Copy the first columns of a place to another."""
        for buffer in (self.keys, self.values):
            buffer[:, place, :, :columns] = buffer[:, origin, :, :columns]


class CachedDecoder:
    """A step function for the search.

    Keys and values of the source are computed once and serve all hypotheses of a sentence,
    whose queries stand side by side as if they were positions of one sequence. So do those of
    the target: each step fills a column for each hypothesis, a bias shows each hypothesis the
    columns of its own past, and columns that are in no hypothesis's past are filled anew.
    """

    def __init__(self, model: Transformer, width: int) -> None:
        """Decode up to `width` hypotheses of each sentence."""
        self.model, self.width, self.count = model, width, 0
        self.device = model.target_embedding.weight.device
        self.layers = [StepLayer(cast(DecoderLayer, layer)) for layer in model.decoder]
        self.source, self.target = KeyValueCache(model), KeyValueCache(model)
        like = model.target_embedding.weight
        self.source_bias_PHS = like.new_empty(0, model.config.heads, 0)
        self.table_TD = like.new_empty(0, model.config.d_model)
        self.source_length = 0
        """That of the longest sentence."""
        self.past_PJC = np.zeros((0, width, 0), dtype=bool)
        """Which columns are in the past of each hypothesis."""
        self.position_P = np.zeros(0, dtype=np.int64)
        """The position that comes next."""
        self.column_position_PC = np.zeros((0, 0), dtype=np.int64)

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room for sentences and outputs of this size; those that are there stay."""
        if places > len(self.position_P) or source_length > self.source.columns:
            self.source.reserve(places, source_length)
            shape = (places, self.model.config.heads, source_length)
            self.source_bias_PHS = resized(self.source_bias_PHS, shape, -math.inf)
            # Whoever looks at nothing gets what is not a number, and places are used again.
            self.source_bias_PHS[self.count :, :, 0] = 0.0
            self._reserve_target(places, max(self.target.columns, GROWTH_STEPS * self.width))
        if limit > len(self.table_TD):
            self.table_TD = self.model.target_positions(0, limit)

    def _reserve_target(self, places: int, columns: int) -> None:
        self.target.reserve(places, columns)
        self.past_PJC = enlarged(self.past_PJC, (places, self.width, columns))
        self.position_P = enlarged(self.position_P, (places,))
        self.column_position_PC = enlarged(self.column_position_PC, (places, columns))

    def admit(self, sources: Sequence[list[int]]) -> None:
        """Put sentences behind those that are there."""
        new = slice(self.count, self.count + len(sources))
        source_BS = pad(sources).to(self.device)
        self.source_length = max(self.source_length if self.count else 0, source_BS.size(1))
        self._encode(source_BS, new)
        self.past_PJC[new], self.position_P[new] = False, 0
        self.count = new.stop

    def _encode(self, source_BS: Tensor, new: slice) -> None:
        """Fill the caches of the source."""
        length, allowed = source_BS.size(1), is_token(source_BS)
        layout = Layout(allowed)
        memory_BSD = self.model.encode(source_BS, layout)
        bias_BHS = self.source_bias_PHS[new].fill_(-math.inf)
        bias_BHS[..., :length].masked_fill_(allowed[:, 0], 0.0)
        for number, layer in enumerate(self.model.decoder):
            cross = cast(DecoderLayer, layer).cross_attention
            parts = cross.project(memory_BSD, layout, cross.w_k, cross.w_v)
            for buffer, part in zip(self.source.of_layer(number, new), parts, strict=True):
                buffer[:, :, :length] = part

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> Tensor:
        """Return the logits (B, J, W) of what follows these tokens.

        Slots are the hypotheses of the same sentence that each one continues.
        """
        # Few numbers of rows: the rows behind the sentences mean nothing.
        sentences = min(round_up(self.count), len(self.position_P))
        tokens_BJ, slots_BJ = (
            enlarged(each, (sentences, each.shape[1])) for each in (tokens_BJ, slots_BJ)
        )
        embedding = self.model.target_embedding
        y_BJD = F.embedding(self._send(tokens_BJ), embedding.weight).mul_(embedding.scale)
        if not (is_token_BJ := tokens_BJ != PAD)[: self.count].all():
            y_BJD *= self._send(is_token_BJ)[..., None]
        position_B1 = self._send(self.position_P[:sentences, None])
        y_BJD += F.embedding(position_B1, self.table_TD)
        logits_RW = self._step(y_BJD.flatten(0, 1), slots_BJ)
        return logits_RW.view(*tokens_BJ.shape, -1)[: self.count]

    def _send(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def _step(self, y_RD: Tensor, slots_BJ: Ids) -> Tensor:
        """Return the logits (R, W) that follow the newest position."""
        used = slice(0, len(slots_BJ))
        columns_BJ, past_BJC = self._advance(slots_BJ)
        row_B1 = np.arange(len(slots_BJ))[:, None]
        at = self._send(row_B1), self._send(columns_BJ)
        zero, hidden = np.float32(0), np.float32(-math.inf)
        bias_BJC = self._send(np.where(past_BJC, zero, hidden)).to(self.table_TD.dtype)
        heads, columns = self.model.config.heads, past_BJC.shape[2]
        bias_NJC = bias_BJC[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
        source_bias = self.source_bias_PHS[used, :, : self.source_length]
        source_bias_N1S = source_bias.flatten(0, 1)[:, None]
        for number, layer in enumerate(self.layers):
            k_BHCK, v_BHCV = self.target.of_layer(number, used)
            k_BHSK, v_BHSV = self.source.of_layer(number, used)
            y_RD = layer(
                y_RD,
                NewColumns(k_BHCK.transpose(1, 2), v_BHCV.transpose(1, 2), at),
                Columns(*heads_of(k_BHCK, v_BHCV, columns), bias_NJC),
                Columns(*heads_of(k_BHSK, v_BHSV, self.source_length), source_bias_N1S),
            )
        return self.model.output.forward(y_RD)

    def _advance(self, slots_BJ: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Choose a column for each hypothesis; return it and all columns that they see."""
        sentences, slots = slots_BJ.shape
        used, row_B1 = slice(0, sentences), np.arange(sentences)[:, None]
        past_BJC = self.past_PJC[used][row_B1, slots_BJ]
        past_BJC[self.count :] = False  # rows without a sentence stay at the start
        alive_BC = past_BJC.any(axis=1)
        most = int(alive_BC.sum(axis=1).max()) + slots
        if most > self.target.columns:
            room = most + GROWTH_STEPS * self.width
            self._reserve_target(len(self.position_P), room)
            return self._advance(slots_BJ)
        # Columns that nobody sees, the first ones first.
        columns_BJ = np.argsort(alive_BC, axis=1, kind="stable")[:, :slots]
        past_BJC[row_B1, np.arange(slots), columns_BJ] = True
        self.past_PJC[used] = past_BJC
        position_B = self.position_P[used]
        seen_BJC = past_BJC
        if window := self.model.config.attention_window:
            # Restricted self-attention sees the newest position and r // 2 before it.
            self.column_position_PC[used][row_B1, columns_BJ] = position_B[:, None]
            age_BC = position_B[:, None] - self.column_position_PC[used]
            seen_BJC = past_BJC & (age_BC <= window // 2)[:, None]
        self.position_P[: self.count] += 1
        return columns_BJ, seen_BJC[..., : used_columns(past_BJC)]

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences to places whose own have ended; `count` sentences are left."""
        for array in (self.past_PJC, self.position_P, self.column_position_PC):
            array[places] = array[origins]
        for origin, place in zip(origins.tolist(), places.tolist(), strict=True):
            self.source.move(origin, place, self.source_length)
            self.target.move(origin, place, used_columns(self.past_PJC[place]))
            self.source_bias_PHS[place] = self.source_bias_PHS[origin]
        self.position_P[count:] = 0
        self.count = count


class Ensemble:
    """A step function that averages the probabilities of several."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        """Make room in each."""
        for step in self.steps:
            step.reserve(places, source_length, limit)

    def admit(self, sources: Sequence[list[int]]) -> None:
        """Begin sentences in each."""
        for step in self.steps:
            step.admit(sources)

    def __call__(self, tokens_BJ: Ids, slots_BJ: Ids) -> Tensor:
        """Return log of the mean probability of each token that may follow."""
        return self._mean([step(tokens_BJ, slots_BJ) for step in self.steps])

    def move(self, origins: Ids, places: Ids, count: int) -> None:
        """Move sentences in each."""
        for step in self.steps:
            step.move(origins, places, count)

    def _mean(self, logits: list[Tensor]) -> Tensor:
        log_p = torch.stack([each.float().log_softmax(dim=-1) for each in logits])
        return log_p.logsumexp(dim=0) - math.log(len(logits))


def resized(x: Tensor, shape: Sequence[int], fill: float = 0) -> Tensor:
    """Return a tensor of this shape with what x has there, and else `fill`."""
    larger = x.new_full(tuple(shape), fill)
    both = tuple(slice(min(pair)) for pair in zip(x.shape, shape, strict=True))
    larger[both] = x[both]
    return larger


def heads_of(k_BHCK: Tensor, v_BHCV: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return the first columns of each head of each sentence."""
    return k_BHCK.flatten(0, 1)[:, :columns], v_BHCV.flatten(0, 1)[:, :columns]


def used_columns(past: NDArray[np.bool_]) -> int:
    """Return the number of columns up to the last one that is in any past."""
    return int(np.flatnonzero(past.reshape(-1, past.shape[-1]).any(axis=0))[-1]) + 1


def enlarged(x: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return an array of this shape with what x has there, and else zero."""
    larger = np.zeros(shape, dtype=x.dtype)
    both = tuple(slice(min(pair)) for pair in zip(x.shape, shape, strict=True))
    larger[both] = x[both]
    return larger
