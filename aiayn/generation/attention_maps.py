"""Attention weights of one sentence pair: figures 3 to 5 of the paper are drawn from them.

N layers; H heads; L, M query and memory length.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from aiayn.config import DecodeConfig
from aiayn.data.batch import pad
from aiayn.data.codec import Codec
from aiayn.data.language_tags import tag_line
from aiayn.data.trees import clean, linearize, parse_tree
from aiayn.errors import DataError, UsageError
from aiayn.generation.alignment import attention_weights
from aiayn.generation.search import BeamSearch
from aiayn.generation.translator import Translation, Translator
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.transformer import Transformer

# The three uses of attention, section 3.2.3.
_, _, CROSS = KINDS = ("encoder", "decoder", "cross")
# The decoder reads padding before the first token; a reader would take that for an end.
START = "<s>"
# The head that stands for all heads.
MEAN = "mean"
# Tokens of either side; the weights grow with the square.
LONGEST = 1024

T = TypeVar("T")
Translate = Callable[[Iterable[str]], Iterable[Translation]]


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Weights of one kind of attention; those of a query sum to 1."""

    queries: list[str]
    """Of the decoder, the tokens that it is about to write."""
    keys: list[str]
    """Of the decoder's self-attention, the tokens that it has read so far."""
    weights_NHLM: NDArray[np.float32]
    layers: list[int]
    """The layers that the weights are of, counted from 1."""


@dataclass(frozen=True, slots=True)
class SentenceAttention:
    """A source, a target and the attention between and within them."""

    source: list[str]
    """Subwords as SentencePiece writes them, and `</s>`."""
    target: list[str]
    maps: dict[str, AttentionMaps]
    """By kind."""
    heads: list[int | str]
    """The heads, counted from 1; or MEAN alone."""

    @property
    def layers(self) -> list[int]:
        """The layers of any kind, counted from 1: encoder and decoder may have other depths."""
        return sorted({layer for maps in self.maps.values() for layer in maps.layers})

    def select(
        self, kinds: Sequence[str] = (), layers: Sequence[str] = (), heads: Sequence[str] = ()
    ) -> "SentenceAttention":
        """Return a selection; none given, or `all`: all of them. Heads may be MEAN alone."""
        whole = {kind: self.maps[kind] for kind in _choose("kind", kinds, list(self.maps))}
        chosen_layers = _choose("layer", layers, replace(self, maps=whole).layers)
        chosen_heads = _choose_heads(heads, self.heads)
        maps = {}
        for kind, of_kind in whole.items():
            own = [layer for layer in of_kind.layers if layer in chosen_layers]
            if not own:
                continue
            weights_NHLM = of_kind.weights_NHLM[[of_kind.layers.index(layer) for layer in own]]
            if chosen_heads == [MEAN]:
                weights_NHLM = weights_NHLM.mean(axis=1, keepdims=True)
            else:
                weights_NHLM = weights_NHLM[:, [self.heads.index(h) for h in chosen_heads]]
            maps[kind] = replace(of_kind, weights_NHLM=weights_NHLM, layers=own)
        return replace(self, maps=maps, heads=chosen_heads)

    def last_layers(self) -> "SentenceAttention":
        """Return the last layer of each kind."""
        last = {
            kind: replace(maps, weights_NHLM=maps.weights_NHLM[-1:], layers=maps.layers[-1:])
            for kind, maps in self.maps.items()
        }
        return replace(self, maps=last)


def _choose_heads(wanted: Sequence[str], existing: Sequence[int | str]) -> list[int | str]:
    return [MEAN] if list(wanted) == [MEAN] else _choose("head", wanted, list(existing))


def _choose(what: str, wanted: Sequence[str], existing: list[T]) -> list[T]:
    """Return the wanted ones, in the order of those that exist."""
    known = {str(one): one for one in existing}
    for one in wanted:
        if one not in known and one != "all":
            raise UsageError(
                f"there is no {what} {one!r} in this model",
                fix=f"choose from {', '.join(known)} or all",
            )
    return (
        existing if not wanted or "all" in wanted else [known[o] for o in known if o in wanted]
    )


def compute_attention(
    model: Transformer, codec: Codec, source: list[int], target: list[int]
) -> SentenceAttention:
    """Return the attention weights of all layers and heads for one pair of ids."""
    uses = (
        [layer.self_attention for layer in model.encoder],
        [layer.self_attention for layer in model.decoder],
        [layer.cross_attention for layer in model.decoder],
    )
    ids = [pad([side]).to(model.output.weight.device) for side in (source, target)]
    kept = iter(attention_weights(model, cast(list[MultiHeadAttention], [*chain(*uses)]), *ids))
    read = codec.source.marked_pieces(source)
    written = codec.target.marked_pieces(target)
    # The decoder's input is its output one position later.
    sides = ((read, read), (written, [START, *written[:-1]]), (written, read))
    maps = {}
    for kind, use, (queries, keys) in zip(KINDS, uses, sides, strict=True):
        of_sentence = [weights_BHLM[0] for weights_BHLM in islice(kept, len(use))]
        weights_NHLM = torch.stack(of_sentence).float().cpu().numpy()
        if not np.isfinite(weights_NHLM).all():
            raise DataError(
                "the model's weights are not numbers",
                fix="use an earlier checkpoint of the run",
            )
        maps[kind] = AttentionMaps(queries, keys, weights_NHLM, [*range(1, len(use) + 1)])
    return SentenceAttention(read, written, maps, [*range(1, model.config.heads + 1)])


def attend(
    model: Transformer,
    codec: Codec,
    decode: DecodeConfig,
    source: str,
    target: str | None,
    tag: str = "",
) -> tuple["SentencePair", SentenceAttention]:
    """Return a sentence with its target, or the model's own, and all attention weights.

    A tag names the language to translate to, and is attended to like any word.
    """
    source = tag_line(tag, source)
    search = BeamSearch.of(decode)
    translator = Translator([model], codec, search, decode.extra_length, longest=LONGEST)
    pair = make_pair(model, codec, translator.translate, source, target)
    return pair, compute_attention(model, codec, pair.source, pair.target)


class SentencePair(NamedTuple):
    """Ids of a source and a target; of the model's own target, its text and score as well."""

    source: list[int]
    target: list[int]
    translation: str = ""
    score: float | None = None


def make_pair(
    model: Transformer, codec: Codec, translate: Translate, source: str, target: str | None
) -> SentencePair:
    """Return a source with the target that is given, or with the model's own translation."""
    source_ids = codec.encode_source(source.strip())
    _check_length(model, "source", source_ids)
    if target is not None:
        target = target.strip()
        # A parser's target is a tree in brackets, or in the symbols that it writes.
        if codec.settings.task == "parsing" and target.startswith("("):
            tree = clean(parse_tree(target, "the target"))
            target = " ".join(linearize(tree)[1]) if tree else ""
        target_ids = codec.encode_target(target)
        _check_length(model, "target", target_ids)
        return SentencePair(source_ids, target_ids)
    (translation,) = translate([source])
    best = translation.outputs[0]
    ((_, target_ids),) = best.pairs
    if not best.finished:
        del target_ids[-1]  # the output was cut off: the model did not write an end
    return SentencePair(source_ids, target_ids, best.text, best.score)


def _check_length(model: Transformer, side: str, ids: list[int]) -> None:
    most = min(LONGEST, model.longest or LONGEST)
    if len(ids) == 1:  # the end of the sentence
        raise UsageError(f"the {side} is empty", fix="give a sentence in quotation marks")
    if len(ids) > most:
        raise UsageError(
            f"the {side} has {len(ids):,} subwords, and at most {most:,} can be shown",
            fix="give a shorter sentence",
        )
