"""Log-probabilities of given translations by teacher forcing: `aiayn score --model`.

B sentences; T target length; N target tokens; W vocabulary.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.data.batch import Batch, collate
from aiayn.data.codec import Codec
from aiayn.data.plan import micro_batches
from aiayn.model.transformer import Transformer

# Target tokens whose logits exist at a time.
TOKENS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class ScoredTarget:
    """A given translation, token by token."""

    pieces: list[str]
    """Subwords, and `</s>` at the end."""
    log_p: list[float]
    """log P of each, given the source and the tokens before it."""

    @property
    def total(self) -> float:
        """log P(Y | X)."""
        return sum(self.log_p)


@torch.inference_mode()
def score_targets(
    model: Transformer,
    codec: Codec,
    sources: list[str],
    targets: list[str],
    *,
    batch_tokens: int = DECODING_BATCH_TOKENS,
) -> list[ScoredTarget]:
    """Return the log-probabilities of the targets, in order."""
    encoded = codec.encode_source_batch(sources), codec.encode_target_batch(targets)
    pairs = [(np.array(x), np.array(y)) for x, y in zip(*encoded, strict=True)]
    lengths = [np.array([len(pair[side]) for pair in pairs], dtype=np.int32) for side in (0, 1)]
    found: list[list[float]] = [[] for _ in pairs]
    for numbers in micro_batches(np.arange(len(pairs)), *lengths, limit=batch_tokens):
        batch = collate([pairs[number] for number in numbers])
        flat = iter(_log_probabilities(model, batch.to(model.output.weight.device)))
        for number in numbers:
            found[number] = [next(flat) for _ in pairs[number][1]]
    return [
        ScoredTarget(codec.target.pieces(target), log_p)
        for (_, target), log_p in zip(pairs, found, strict=True)
    ]


def _log_probabilities(model: Transformer, batch: Batch) -> list[float]:
    states_ND = model.states(batch.source_BS, batch.target_BT, *batch.layouts())[: batch.tokens]
    found: list[float] = []
    chunks = (torch.split(each, TOKENS_AT_ONCE) for each in (states_ND, batch.gold_N))
    for states, gold in zip(*chunks, strict=True):
        log_p_NW = F.log_softmax(model.logits(states).float(), dim=-1)
        found += log_p_NW.gather(1, gold[:, None]).squeeze(1).tolist()
    return found
