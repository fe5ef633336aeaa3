"""Word alignments from attention: which source word each target word comes from.

The layer before the last aligns best in models of this kind; its heads are averaged, or one of
them has learned to align (`optim.guided`) and counts alone. The weights are those of the query
that predicts a target token. A word has the weights of its
subwords, summed.

B sentences; H heads; S, T source and target length.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.data.batch import pad
from aiayn.data.codec import Codec
from aiayn.data.plan import batches_by_length
from aiayn.data.vocabulary import Vocabulary
from aiayn.data.word_links import words_of
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer
from aiayn.model.transformer import Transformer

# Source and target ids, each ending in EOS.
Pair = tuple[list[int], list[int]]
# (source word, target word) for each target word, counted from 0.
Alignment = list[tuple[int, int]]


class AlignedPair(NamedTuple):
    """The word alignment of a pair."""

    links: Alignment
    source_words: int
    target_words: int


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


def align_words(codec: Codec, pair: Pair, weights_TS: NDArray[np.float32]) -> AlignedPair:
    """Return the source word that each target word looks at most."""
    source_of, target_of = (
        words_of(vocabulary, ids[:-1])
        for vocabulary, ids in zip((codec.source, codec.target), pair, strict=True)
    )
    if not source_of or not target_of:
        return AlignedPair([], len(set(source_of)), len(set(target_of)))
    by_word = np.zeros((target_of[-1] + 1, source_of[-1] + 1))
    # add.at, not +=: several subwords of a word add to the same cell.
    np.add.at(by_word, np.ix_(target_of, source_of), weights_TS[:, :-1])
    links = [(int(row.argmax()), word) for word, row in enumerate(by_word)]
    return AlignedPair(links, by_word.shape[1], by_word.shape[0])


def join_alignments(pieces: Iterable[AlignedPair], repeated: int = 0) -> Alignment:
    """Join the pieces of a line, which begin with the same `repeated` source words."""
    links: Alignment = []
    source_start = target_start = 0
    for piece in pieces:
        links += [
            (source if source < repeated else source + source_start, target + target_start)
            for source, target in piece.links
        ]
        source_start += piece.source_words - repeated
        target_start += piece.target_words
    return links


def spell_words(vocabulary: Vocabulary, ids: list[int]) -> list[str]:
    """Return the words that alignments count, as text."""
    found: dict[int, list[int]] = {}
    for token, word in zip(ids, words_of(vocabulary, ids), strict=True):
        found.setdefault(word, []).append(token)
    return [vocabulary.decode(tokens).strip() for tokens in found.values()]
