"""How probable given translations are: `aiayn score --model`.

B sentences; T target length; N target tokens laid end to end; W vocabulary.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from aiayn.data.batch import Batch, collate
from aiayn.data.codec import Codec
from aiayn.data.plan import micro_batches
from aiayn.model.transformer import Transformer

TOKENS_AT_ONCE = 512
"""Target tokens whose logits exist at a time."""


@dataclass(frozen=True, slots=True)
class Forced:
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
def force(
    model: Transformer,
    codec: Codec,
    sources: list[str],
    targets: list[str],
    *,
    batch_tokens: int = 4096,
) -> list[Forced]:
    """Return the log-probabilities of the targets, in order."""
    pairs = list(
        zip(codec.encode_source_batch(sources), codec.encode_target_batch(targets), strict=True)
    )
    arrays = [(np.array(source), np.array(target)) for source, target in pairs]
    lengths = [np.array([len(pair[side]) for pair in pairs], dtype=np.int32) for side in (0, 1)]
    found: list[list[float]] = [[] for _ in pairs]
    for numbers in micro_batches(np.arange(len(pairs)), *lengths, limit=batch_tokens):
        batch = collate([arrays[number] for number in numbers])
        flat = iter(_log_probabilities(model, batch.to(model.output.weight.device)))
        for number in numbers:
            found[number] = [next(flat) for _ in pairs[number][1]]
    return [
        Forced(codec.target.pieces(target), log_p)
        for (_, target), log_p in zip(pairs, found, strict=True)
    ]


def _log_probabilities(model: Transformer, batch: Batch) -> list[float]:
    states_ND = model.token_states(
        batch.source_BS, batch.target_BT, batch.source_places, batch.target_places
    )
    found: list[float] = []
    for start in range(0, batch.tokens, TOKENS_AT_ONCE):
        piece = slice(start, start + TOKENS_AT_ONCE)
        log_p_NW = F.log_softmax(model.logits(states_ND[piece]).float(), dim=-1)
        found += log_p_NW.gather(1, batch.gold_N[piece, None]).squeeze(1).tolist()
    return found
