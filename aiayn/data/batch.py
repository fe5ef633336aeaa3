"""Sentence pairs as tensors.

B sentences; S, T source and target length; N tokens without padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aiayn.data.shards import Ids
from aiayn.kernels.layout import Layout, Packing
from aiayn.special_ids import PAD


class RowRange(NamedTuple):
    """Where the rows of a part begin in what it is a part of, and how many that has."""

    start: int
    whole: int


class BatchPart(NamedTuple):
    """Which part of a larger batch a batch is."""

    sentences: RowRange
    source: RowRange
    """Of the source tokens, without padding."""
    target: RowRange
    """Of the target tokens."""

    def after(self, sentences: int, source: int, target: int) -> "BatchPart":
        """Return the part that begins so many sentences and tokens later."""
        counts = (sentences, source, target)
        return BatchPart(
            *(RowRange(p.start + n, p.whole) for p, n in zip(self, counts, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What goes through the network at once."""

    source_BS: Tensor
    target_BT: Tensor
    source_index: Tensor
    """Where the tokens that are not padding stand in the source, row by row."""
    target_index: Tensor
    """The same of the target."""
    gold_N: Tensor
    """The target tokens, without padding."""
    lengths: list[tuple[int, int]]
    """Source and target tokens of each pair, known without asking the device."""
    guide_BTS: Tensor | None = None
    """Where each target token should look, for guided attention."""
    part: BatchPart | None = None
    """Which part of a larger batch it is, if that did not fit in memory."""

    @property
    def tokens(self) -> int:
        """Target tokens without padding."""
        return self.gold_N.size(0)

    @property
    def rows(self) -> int:
        """Sentence pairs."""
        return self.source_BS.size(0)

    @property
    def padded_tokens(self) -> int:
        """Tokens of the longer side, padding included."""
        return max(self.source_BS.numel(), self.target_BT.numel())

    def layouts(self, *, attend_packed: bool = False) -> tuple[Layout, Layout]:
        """Return how source and target lie in memory when their padding is left out."""
        source, target = (
            Packing.of(index, ids, (ids != PAD).sum(dim=1) if attend_packed else None)
            for index, ids in (
                (self.source_index, self.source_BS),
                (self.target_index, self.target_BT),
            )
        )
        allowed = (self.source_BS != PAD)[:, None, None, :]
        return Layout(allowed, packing=source), Layout(causal=True, packing=target)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device, without waiting for the copy."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        tensors = {name: each for name, each in every.items() if isinstance(each, Tensor)}
        if device.type == "cuda":
            # Only a copy from pinned memory is asynchronous.
            tensors = {name: each.pin_memory() for name, each in tensors.items()}
        moved: dict[str, Any] = {
            name: each.to(device, non_blocking=True) for name, each in tensors.items()
        }
        return replace(self, **moved)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Return the upper and the lower rows as batches of their own."""
        middle = self.rows // 2
        source, target = (sum(side) for side in zip(*self.lengths[:middle], strict=True))
        whole = BatchPart(
            RowRange(0, self.rows),
            RowRange(0, self.source_index.size(0)),
            RowRange(0, self.target_index.size(0)),
        )
        part = self.part or whole
        upper = slice(middle), slice(source), slice(target), part
        later = part.after(middle, source, target)
        lower = slice(middle, None), slice(source, None), slice(target, None), later
        first, second = (
            Batch(
                self.source_BS[rows],
                self.target_BT[rows],
                self.source_index[sources] - (rows.start or 0) * self.source_BS.size(1),
                self.target_index[targets] - (rows.start or 0) * self.target_BT.size(1),
                self.gold_N[targets],
                self.lengths[rows],
                None if self.guide_BTS is None else self.guide_BTS[rows],
                place,
            )
            for rows, sources, targets, place in (upper, lower)
        )
        return first, second


def collate(pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
    """Pad pairs of ids to rectangles."""
    return batch_of(pad([source for source, _ in pairs]), pad([target for _, target in pairs]))


def batch_of(source_BS: Tensor, target_BT: Tensor) -> Batch:
    """Return a batch of padded ids, with the index of its tokens."""
    masks = [ids != PAD for ids in (source_BS, target_BT)]
    source_index, target_index = (mask.flatten().nonzero().squeeze(1) for mask in masks)
    lengths = list(zip(*(mask.sum(dim=1).tolist() for mask in masks), strict=True))
    gold_N = target_BT.flatten()[target_index]
    return Batch(source_BS, target_BT, source_index, target_index, gold_N, lengths)


def pad(sequences: Sequence[Ids] | Sequence[Sequence[int]]) -> Tensor:
    """Return sequences of ids as one rectangle, filled up with padding."""
    lengths = [len(sequence) for sequence in sequences]
    rectangle = np.full((len(sequences), max(lengths)), PAD, dtype=np.int64)
    for row, length, sequence in zip(rectangle, lengths, sequences, strict=True):
        row[:length] = np.asarray(sequence)
    return torch.from_numpy(rectangle)
