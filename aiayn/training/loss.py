"""Label-smoothed cross-entropy: section 5.4.

The target distribution gives the gold class 1 - epsilon and every other class
epsilon / (V - 1), as the paper's code did. `smoothed_cross_entropy` is the plain statement;
training uses a kernel that equals it.

N tokens; W vocabulary.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.data.batch import Batch, collate
from aiayn.data.plan import micro_batches
from aiayn.data.shards import Corpus
from aiayn.device import autocast
from aiayn.distributed import ProcessGroup
from aiayn.kernels.attention import can_attend_packed
from aiayn.kernels.cross_entropy import fused_linear_cross_entropy
from aiayn.kernels.dropout import Drawn, drawn_for
from aiayn.kernels.layout import Layout, packed_rows
from aiayn.model.transformer import Transformer, shift_right


class Loss(NamedTuple):
    """Sums over tokens, in nats: smoothed, which is minimized, and plain, for perplexity."""

    smoothed: Tensor
    plain: Tensor


def target_distribution(gold_N: Tensor, vocabulary: int, smoothing: float) -> Tensor:
    """Return the distribution (N, W) that the model is to match."""
    wrong = smoothing / (vocabulary - 1)
    target_NW = torch.full((gold_N.size(0), vocabulary), wrong, device=gold_N.device)
    return target_NW.scatter(1, gold_N[:, None], 1 - smoothing)


def smoothed_cross_entropy(logits_NW: Tensor, gold_N: Tensor, smoothing: float) -> Loss:
    """-sum_w target(w) log p(w) and -log p(gold), p = softmax(logits), over all tokens."""
    log_p_NW = F.log_softmax(logits_NW.float(), dim=-1)
    target_NW = target_distribution(gold_N, logits_NW.size(-1), smoothing)
    return Loss(
        smoothed=-(target_NW * log_p_NW).sum(),
        plain=-log_p_NW.gather(1, gold_N[:, None]).sum(),
    )


def r_drop_loss(
    first_NW: Tensor, second_NW: Tensor, gold_N: Tensor, smoothing: float, weight: float
) -> Loss:
    """The mean loss of two passes, and weight / 4 (KL(p || q) + KL(q || p)) of their p and q.

    Beyond the paper: R-Drop (Liang et al. 2021), with its alpha as the weight. Both passes see
    the same tokens and drop out others, and what they predict is drawn together.
    """
    one, two = (
        smoothed_cross_entropy(each, gold_N, smoothing) for each in (first_NW, second_NW)
    )
    log_p_NW, log_q_NW = (F.log_softmax(x.float(), dim=-1) for x in (first_NW, second_NW))
    divergence = ((log_p_NW.exp() - log_q_NW.exp()) * (log_p_NW - log_q_NW)).sum()
    return Loss(
        smoothed=(one.smoothed + two.smoothed) / 2 + weight / 4 * divergence,
        plain=(one.plain + two.plain) / 2,
    )


def decoder_states(model: Transformer, batch: Batch, source: Layout, target: Layout) -> Tensor:
    """Return the decoder's output; of a part of a batch, with the dropout of the whole."""
    if batch.part is None:
        return model.states(batch.source_BS, batch.target_BT, source, target)
    device = batch.gold_N.device
    sentences, *sides = batch.part
    of_source, of_target = (
        drawn_for(Drawn(start, packed_rows(whole, device)), Drawn(*sentences))
        for start, whole in sides
    )
    with of_source:
        memory = model.encode(batch.source_BS, source)
    with of_target:
        return model.decode(shift_right(batch.target_BT), memory, target, source)


def batch_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    *,
    rdrop: float = 0.0,
    compiled: bool = False,
) -> Loss:
    """Return the loss of a batch under teacher forcing, summed over its target tokens."""
    c = model.config
    plain = not c.attention_window and not c.attention_dropout
    packed = plain and can_attend_packed(c.d_k, c.d_v, batch.gold_N.device)
    layouts = batch.layouts(attend_packed=packed)
    fused = partial(
        fused_linear_cross_entropy,
        weight_WD=model.output.weight,
        bias_W=model.output.bias,
        smoothing=smoothing,
        compiled=compiled,
    )

    def forward() -> Tensor:
        # Packed rows are rounded up.
        return decoder_states(model, batch, *layouts)[: batch.tokens]

    if not rdrop:
        return Loss(*fused(forward(), gold_N=batch.gold_N))
    both_ND = torch.stack([forward(), forward()], dim=1).flatten(0, 1)
    sums = fused(both_ND, gold_N=batch.gold_N.repeat_interleave(2), rdrop=rdrop)
    return Loss(*(each / 2 for each in sums))


@torch.inference_mode()
def validation_loss(
    model: Transformer, corpus: Corpus, group: ProcessGroup, dtype: torch.dtype, limit: int
) -> float:
    """Return the plain loss per token of a model in evaluation mode; processes share the work.

    Batches have at most `limit` padded tokens.
    """
    everything = np.arange(len(corpus))
    source, target = corpus.source_lengths, corpus.target_lengths
    sums = torch.zeros(2, dtype=torch.float64)
    for _, rows in group.share(micro_batches(everything, source, target, limit=limit)):
        batch = collate([corpus.pair(int(i)) for i in rows])
        with autocast(group.device, dtype):
            loss = batch_loss(model, batch.to(group.device), smoothing=0.0)
        sums += torch.tensor([loss.plain.item(), batch.tokens], dtype=torch.float64)
    group.all_reduce(sums)
    return float(sums[0] / sums[1])
