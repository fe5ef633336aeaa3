"""Guided attention: one head learns the word alignment that the data hold. Beyond the paper.

As Garg et al. (2019, "Jointly Learning to Align and Translate with Transformer Models") do: the
first head of the decoder's attention to the source in the layer before the last, which aligns
best of itself. Its weights are to match a distribution G over source tokens for each target
token; `optim.guided` weighs -sum_s G(s) log A(s) against the loss of that token. The other
heads stay free.

The weights are computed from the same queries and keys, beside the kernel that attends.

B sentences; S, T source and target length; K d_k per head.
"""

import math
from typing import cast

import torch
from torch import Tensor

from aiayn.config import Config
from aiayn.kernels.layout import Layout
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer

# By number, from 0.
GUIDED_HEAD = 0


def guided_attention(model: Transformer) -> MultiHeadAttention:
    """Return the attention that has the guided head."""
    layer = model.decoder[model.config.alignment_layer]
    return cast(DecoderLayer, layer).cross_attention


def watch_guided_head(model: Transformer, config: Config) -> None:
    """Let the model keep the queries and keys of the guided head, if there is one."""
    if config.optim.guided:
        guided_attention(model).watched_head = GUIDED_HEAD


def guided_loss(model: Transformer, guide_BTS: Tensor) -> Tensor:
    """Return -sum_s G(s) log A(s) of the last forward pass, summed over target tokens."""
    attention = guided_attention(model)
    assert attention.watched is not None
    q, k, target, source = attention.watched
    attention.watched = None  # what it holds lives no longer than this update
    return alignment_cross_entropy(target.rectangle(q), source.rectangle(k), source, guide_BTS)


def alignment_cross_entropy(
    q_BTK: Tensor, k_BSK: Tensor, source: Layout, guide_BTS: Tensor
) -> Tensor:
    """-sum G log softmax(Q K^T / sqrt(d_k)), in float32; a row of zeros in G costs nothing."""
    scores_BTS = q_BTK.float() @ k_BSK.float().mT / math.sqrt(q_BTK.size(-1))
    visible = scores_BTS
    if source.allowed is not None:
        visible = scores_BTS.masked_fill(~source.allowed.squeeze(1), -math.inf)
    # log A = score - log sum exp of all scores: where G is 0, its score need not be finite.
    normalizer_BT = torch.logsumexp(visible, dim=-1)
    wanted_BT = guide_BTS.sum(dim=-1)
    return (wanted_BT * normalizer_BT).sum() - (guide_BTS * scores_BTS).sum()
