"""Translate with the Transformer of transformer.py, greedily; with --steps, watch it work.

python recipes/walkthrough/walk.py model.pt "A sentence." [--steps]
python recipes/walkthrough/walk.py model.pt <sentences >translations
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import transformer
from torch import Tensor
from transformer import Transformer, load, translate

from aiayn.checkpoint import ModelFile, load_model
from aiayn.errors import AiaynError, UsageError

CANDIDATES = 3


class Look(NamedTuple):
    """What one call of `attention` was given, and the weights that it used."""

    q_BHLK: Tensor
    v_BHMV: Tensor
    weights_BHLM: Tensor


def encode(file: ModelFile, sentence: str) -> list[int]:
    """Return the ids of a sentence; `aiayn generate` cuts a long text, and this does not."""
    ids = file.codec.encode_source(sentence.strip())
    longest = file.config.decode.longest
    if len(ids) > longest:
        raise UsageError(
            f"the sentence has {len(ids):,} tokens, and the walk takes at most {longest:,}",
            fix="give one sentence at a time; `aiayn generate` takes any text",
        )
    return ids


def answer(file: ModelFile, model: Transformer, sentence: str) -> str:
    ids = encode(file, sentence)
    if len(ids) == 1:  # nothing but the end
        return ""
    return file.codec.decode_target(translate(model, ids, file.config.decode.extra_length))


@torch.inference_mode()
def watch(
    model: Transformer, source: list[int], target: list[int]
) -> tuple[list[Look], Tensor]:
    """Run the model once; return every call of `attention`, in order, and the logits."""
    looks: list[Look] = []
    attention = transformer.attention

    def watched(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        # Attention to the unit vectors instead of the values gives back the weights.
        looks.append(Look(q, v, attention(q, k, torch.eye(k.size(2)), allowed)))
        return attention(q, k, v, allowed)

    transformer.attention = watched
    try:
        return looks, model(torch.tensor([source]), torch.tensor([target]))[0]
    finally:
        transformer.attention = attention


def table(*rows: tuple[object, ...]) -> Iterator[str]:
    """Yield the lines of a Markdown table; the first row is its head."""
    head, *body = (f"| {' | '.join(map(str, row))} |" for row in rows)
    return iter([head, f"|{'---|' * len(rows[0])}", *body, ""])


def shapes(
    model: Transformer, source: list[int], target: list[int], looks: list[Look]
) -> Iterator[str]:
    """Yield the shape of the tensors in one layer of each kind, in the order of figure 1."""
    width, inner = model.e_WD.size(1), model.encoder[0].feed_forward.w_1.out_features
    own, past, cross = looks[0], looks[len(model.encoder)], looks[len(model.encoder) + 1]

    def of_attention(name: str, look: Look) -> list[tuple[object, ...]]:
        q, v, weights = (tuple(each.shape) for each in look)
        return [(f"{name}: queries", q), ("values", v), ("weights", weights)]

    def of_layer(length: int) -> list[tuple[object, ...]]:
        return [("feed-forward, inside", (1, length, inner)), ("output", (1, length, width))]

    s, t = len(source), len(target)
    yield from table(
        ("tensor", "shape"),
        ("source ids", (1, s)),
        ("embedding + position", (1, s, width)),
        *of_attention("encoder self-attention", own),
        *of_layer(s),
        ("target ids, shifted right", (1, t)),
        *of_attention("decoder self-attention", past),
        *of_attention("attention to the source", cross),
        *of_layer(t),
        ("logits", (1, t, model.e_WD.size(0))),
    )


def steps(file: ModelFile, model: Transformer, sentence: str) -> Iterator[str]:
    """Yield what happens to a sentence, as Markdown."""
    source = encode(file, sentence)
    target = translate(model, source, file.config.decode.extra_length)
    looks, logits_TW = watch(model, source, target[:-1])
    source_pieces, pieces = (side.pieces for side in (file.codec.source, file.codec.target))
    words = source_pieces(source)
    yield from table(("source", *words), ("id", *source))
    yield from shapes(model, source, target[:-1], looks)

    # The last attention to the source, its heads averaged: one row for each step.
    looked_at = looks[-1].weights_BHLM[0].mean(dim=0).argmax(dim=-1)
    rows: list[tuple[object, ...]] = [("step", "most probable next words", "looks most at")]
    for step, (place, logits_W) in enumerate(zip(looked_at, logits_TW, strict=True), start=1):
        best = logits_W.softmax(dim=-1).topk(CANDIDATES)
        names = pieces(best.indices.tolist())
        listed = (
            f"{name} {p:.3f}" for name, p in zip(names, best.values.tolist(), strict=True)
        )
        rows.append((step, ", ".join(listed), words[int(place)]))
    yield from table(*rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a .pt file that aiayn has written")
    parser.add_argument("sentence", nargs="?", help="default: every line of standard input")
    parser.add_argument(
        "--steps", action="store_true", help="show shapes, words, probabilities"
    )
    a = parser.parse_args()
    torch.set_num_threads(1)  # for products as small as these, threads only wait
    try:
        file = load_model(a.model)
        model = load(file)
        for sentence in sys.stdin if a.sentence is None else [a.sentence]:
            if a.steps and sentence.strip():
                print(*steps(file, model, sentence), sep="\n")
            print(answer(file, model, sentence))
    except AiaynError as error:
        parser.exit(error.exit_code, f"error: {error.message}\n  fix: {error.fix}\n")


if __name__ == "__main__":
    main()
