"""Validation: the loss on held-out pairs, without label smoothing and without dropout."""

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch

from aiayn.data.batch import collate
from aiayn.data.plan import micro_batches
from aiayn.data.shards import Corpus
from aiayn.device import autocast
from aiayn.distributed import ProcessGroup
from aiayn.model.transformer import Transformer
from aiayn.training.loss import batch_loss


class Score(Protocol):
    """A number with its name and the signature that says how it was made."""

    @property
    def name(self) -> str:
        """BLEU or F1."""

    @property
    def value(self) -> float:
        """Higher is better."""

    @property
    def signature(self) -> str:
        """What computing it again needs."""


class Validation(NamedTuple):
    """What validation found."""

    loss: float
    """Nats a target token, EOS included."""
    score: Score | None = None
    """BLEU of translated text, or F1 of trees, where there is text to compare with."""

    @property
    def perplexity(self) -> float:
        """exp(loss), per subword as in table 3."""
        return math.exp(min(self.loss, 700))

    @property
    def quality(self) -> float:
        """What the best checkpoint has most of: the score, or else the negative loss."""
        return -self.loss if self.score is None else self.score.value


@torch.inference_mode()
def validation_loss(
    model: Transformer, corpus: Corpus, group: ProcessGroup, dtype: torch.dtype, *, limit: int
) -> float:
    """Return the plain loss a token; the processes share the work."""
    everything = np.arange(len(corpus))
    source, target = corpus.source_lengths, corpus.target_lengths
    sums = torch.zeros(2, dtype=torch.float64)
    model.eval()
    for _, piece in group.share(micro_batches(everything, source, target, limit=limit)):
        batch = collate([corpus.pair(int(i)) for i in piece])
        with autocast(group.device, dtype):
            loss = batch_loss(model, batch.to(group.device), smoothing=0.0)
        sums += torch.tensor([loss.plain.item(), batch.tokens], dtype=torch.float64)
    model.train()
    group.all_reduce(sums)
    return float(sums[0] / sums[1])
