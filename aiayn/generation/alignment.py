"""Word alignments from attention: which source word each target word comes from.

The layer before the last aligns best in models of this kind; its heads are averaged, or one of
them has learned to align (`optim.guided`) and counts alone. The weights are those of the query
that predicts a target token. A word has the weights of its
subwords, summed.

B sentences; H heads; S, T source and target length.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.data.batch import pad
from aiayn.data.codec import Codec
from aiayn.data.plan import batches_by_length
from aiayn.generation.word_alignment import AlignedPair, Alignment, Pair, align_words
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer


def align(
    models: Sequence[Transformer], codec: Codec, pairs: Sequence[Pair], heads: Sequence[int]
) -> list[AlignedPair]:
    """Return the alignment of each pair, by the first so many heads of each model."""
    device = next(models[0].parameters()).device
    found = [AlignedPair([], 0, 0)] * len(pairs)
    longer = [max(len(source), len(target)) for source, target in pairs]
    for batch in batches_by_length(longer, DECODING_BATCH_TOKENS):
        source_BS = pad([pairs[number][0] for number in batch]).to(device)
        # An output that fills all positions of the model has none left for EOS.
        targets = [pairs[number][1] for number in batch]
        target_BT = pad([target[:-1] or target for target in targets]).to(device)
        weights = []
        for model, first in zip(models, heads, strict=True):
            layer = cast(DecoderLayer, model.decoder[model.config.alignment_layer])
            (weights_BHTS,) = attention_weights(
                model, [layer.cross_attention], source_BS, target_BT
            )
            weights.append(weights_BHTS[:, :first].mean(dim=1))
        mean_BTS = torch.stack(weights).mean(dim=0).float().cpu().numpy()
        for number, weights_TS in zip(batch, mean_BTS, strict=True):
            source, target = pairs[number]
            own_TS = weights_TS[: len(target) - 1, : len(source)]
            found[number] = align_words(codec, pairs[number], own_TS)
    return found


def align_texts(
    model: Transformer, codec: Codec, sources: Sequence[str], targets: Sequence[str], heads: int
) -> list[Alignment]:
    """Return the alignments of given translations, by the first so many heads."""
    texts = [[text.strip() for text in side] for side in (sources, targets)]
    encoded = codec.encode_source_batch(texts[0]), codec.encode_target_batch(texts[1])
    pairs = list(zip(*encoded, strict=True))
    return [found.links for found in align([model], codec, pairs, [heads])]


@torch.inference_mode()
def attention_weights(
    model: Transformer,
    layers: Sequence[MultiHeadAttention],
    source_BS: Tensor,
    target_BT: Tensor,
) -> list[Tensor]:
    """Return the attention weights (B, H, L, M) of some layers of a model."""
    before = [layer.keep_weights for layer in layers]
    for layer in layers:
        layer.keep_weights = True
    try:
        model.states(source_BS, target_BT)
        return [cast(Tensor, layer.weights_BHLM) for layer in layers]
    finally:
        for layer, was in zip(layers, before, strict=True):
            layer.keep_weights, layer.weights_BHLM = was, None
