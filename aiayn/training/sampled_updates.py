"""What updates hold on average, from some of them: for estimates before a run starts."""

from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from aiayn.config import BatchConfig
from aiayn.data.plan import Place, micro_batches, plan_epoch
from aiayn.data.resampling import Resampling
from aiayn.data.shards import Corpus
from aiayn.distributed import ProcessGroup
from aiayn.training.loader import Update, read_pairs
from aiayn.training.mixing import mixed_updates

UPDATES = 50


class SampledUpdates(NamedTuple):
    """Means over some updates."""

    source_tokens: float
    target_tokens: float
    micro_batches: float
    per_epoch: list[float]
    """Updates in an epoch of each corpus."""


def sample_updates(
    corpus: Corpus, batch: BatchConfig, *, seed: int, resampling: Resampling | None
) -> SampledUpdates:
    """Read some updates, as training will."""
    if len(corpus.parts) > 1:
        return _sample_mixture(corpus, batch, seed, resampling)
    source, target = corpus.source_lengths, corpus.target_lengths
    plan = plan_epoch(source, target, batch, seed=seed, epoch=0)
    chosen = np.linspace(0, len(plan) - 1, min(len(plan), UPDATES)).astype(int)
    sampled = [read_pairs(corpus, plan.pairs(u), 0, resampling) for u in chosen]
    tokens = [int(pairs.target_lengths.sum()) for pairs in sampled]
    micro = [
        len(micro_batches(np.arange(len(s)), s, t, limit=batch.micro_limit))
        for s, t, _ in sampled
    ]
    # Subwords that are drawn are smaller than those stored, and so there are more of them.
    growth = sum(tokens) / sum(int(target[plan.pairs(u)].sum()) for u in chosen)
    return SampledUpdates(
        source_tokens=float(source.sum()) / len(plan) * growth,
        target_tokens=float(np.mean(tokens)),
        micro_batches=float(np.mean(micro)),
        per_epoch=[len(plan)],
    )


def _sample_mixture(
    corpus: Corpus, batch: BatchConfig, seed: int, resampling: Resampling | None
) -> SampledUpdates:
    """Read the first updates of a mixture, as training will, and as they are stored."""
    alone, places = ProcessGroup(0, 1, torch.device("cpu")), [Place()] * len(corpus.parts)

    def take(drawn: Resampling | None) -> list[Update]:
        updates = mixed_updates(
            corpus, batch, alone, seed=seed, places=places, resampling=drawn
        )
        return list(islice(updates, UPDATES))

    stored = np.mean([update.target_tokens for update in take(None)])
    sampled = take(resampling)
    return SampledUpdates(
        source_tokens=float(np.mean([update.source_tokens for update in sampled])),
        target_tokens=float(np.mean([update.target_tokens for update in sampled])),
        micro_batches=float(np.mean([len(update.micro) for update in sampled])),
        per_epoch=[
            int(corpus.target_lengths[part.first : part.last].sum())
            / float(stored * part.share)
            for part in corpus.parts
        ],
    )
