"""What each head of the encoder attends to, counted over many sentences: a table and a plot.

heads.py MODEL TEXT [--sentences 500] [--svg heads.svg]

Weights are those between words: summed over the subwords of the word that is looked at,
averaged over those of the word that looks. The end of the sentence is nobody's word.

H heads of all layers; L subwords; N words.
"""

import argparse
import string
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aiayn.checkpoint import load_model
from aiayn.data.atomic import write_bytes
from aiayn.data.text import read_lines
from aiayn.data.vocabulary import SPACE
from aiayn.figures.svg import Drawing, element, stack, text
from aiayn.generation.attention_maps import compute_attention
from aiayn.model_path import find_model
from aiayn.special_ids import EOS

Weights = NDArray[np.float64]
SHARES = {
    "previous": "#1f6feb",
    "same": "#7aa7f7",
    "next": "#0a9396",
    "punctuation": "#e09f3e",
    "end": "#9e2a2b",
}
"""What attention is on, and its color; the rest is on other words."""
MOST = 0.5
"""The share from which a head is named after what it is on."""
BAR, ROW, LEFT, TOP = 420, 15, 60, 40
STYLE = "text{font:11px sans-serif;fill:#333}"
HEAD = [
    "| head | distance | entropy, bits | previous | same | next | punctuation | end | kind |",
    "|---|---|---|---|---|---|---|---|---|",
]


class Head(NamedTuple):
    """Means over all words of all sentences."""

    name: str
    distance: float
    """Words between the one that looks and those it looks at; the end does not count."""
    entropy: float
    shares: dict[str, float]
    """Of attention. A neighbor that is punctuation counts as both."""

    def kind(self, uniform: float) -> str:
        """Return what the head is: compared with one that looks everywhere alike."""
        for what, share in self.shares.items():
            if share >= MOST:
                return {"end": "end of sentence", "punctuation": "punctuation"}.get(
                    what, f"local: {what} word"
                )
        if sum(self.shares[near] for near in ("previous", "same", "next")) >= MOST:
            return "local"
        return "long-range" if self.distance >= 0.8 * uniform else "mixed"


def group_words(pieces: list[str]) -> list[list[int]]:
    """Return the places of the subwords of each word; the last is the end of the sentence."""
    words: list[list[int]] = []
    for place, piece in enumerate(pieces[:-1]):
        # Punctuation is a word of its own, with or without a space before it.
        if not words or piece.startswith(SPACE) or is_punctuation([piece]):
            words.append([])
        words[-1].append(place)
    return [*words, [len(pieces) - 1]]


def is_punctuation(pieces: Iterable[str]) -> bool:
    """Whether a word has punctuation marks only."""
    word = "".join(pieces).replace(SPACE, "")
    return bool(word) and all(mark in string.punctuation for mark in word)


def between_words(weights_HLL: Weights, words: list[list[int]]) -> Weights:
    """Return the weights (H, N, N) between words."""
    columns = np.stack([weights_HLL[:, :, word].sum(axis=2) for word in words], axis=2)
    return np.stack([columns[:, word].mean(axis=1) for word in words], axis=1)


def measure(weights_HNN: Weights, punctuation_N: NDArray[np.bool_]) -> Weights:
    """Return distance, entropy and shares (H, 7, words) of the words of one sentence.

    The last of the N is the end, which is looked at but does not look.
    """
    looking_HNN = weights_HNN[:, :-1]
    count = looking_HNN.shape[1]
    apart = np.arange(count + 1) - np.arange(count)[:, None]
    inside = np.clip(looking_HNN[..., :-1], 1e-12, None)
    inside /= inside.sum(axis=-1, keepdims=True)
    shares = [looking_HNN * (apart == step) for step in (-1, 0, 1)]
    shares[2][..., -1] = 0  # the end is no next word
    shares.append(looking_HNN * np.append(punctuation_N[:-1], False))
    distance = (inside * abs(apart[:, :-1])).sum(axis=-1)
    logs = np.log2(np.clip(looking_HNN, 1e-12, None))
    entropy = -(looking_HNN * logs).sum(axis=-1)
    summed = [share.sum(axis=-1) for share in shares]
    return np.stack([distance, entropy, *summed, looking_HNN[..., -1]], axis=1)


def sentences_of(model: Path, lines: Iterable[str]) -> Iterator[tuple[Weights, list[str]]]:
    """Yield the encoder's weights (H, L, L), layer by layer, and the subwords of each line."""
    file = load_model(find_model(model))
    network = file.build().eval()
    for line in lines:
        ids = file.codec.encode_source(line.strip())
        if len(ids) > 1:
            with torch.inference_mode():
                maps = compute_attention(network, file.codec, ids, [EOS]).maps["encoder"]
            yield maps.weights_NHLM.astype(np.float64), maps.keys


def count(sentences: Iterable[tuple[Weights, list[str]]]) -> tuple[list[Head], float]:
    """Return every head, and the mean distance of one that looks everywhere alike."""
    found, uniform = [], []
    layers = heads = 0
    for weights_NHLL, pieces in sentences:
        layers, heads = weights_NHLL.shape[:2]
        words = group_words(pieces)
        marks = np.array([is_punctuation(pieces[place] for place in word) for word in words])
        weights_HNN = between_words(weights_NHLL.reshape(-1, *weights_NHLL.shape[2:]), words)
        found.append(measure(weights_HNN, marks))
        alike = np.full((1, len(words), len(words)), 1 / len(words))
        uniform.append(measure(alike, marks)[0, 0])
    means = np.concatenate(found, axis=2).mean(axis=2)
    names = [
        f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)
    ]
    measured = [
        Head(name, distance, entropy, dict(zip(SHARES, shares, strict=True)))
        for name, (distance, entropy, *shares) in zip(names, means.tolist(), strict=True)
    ]
    return measured, float(np.concatenate(uniform).mean())


def to_markdown(heads: list[Head], uniform: float) -> str:
    """Return a row for each head: its layer, and its number in it."""
    lines = list(HEAD)
    for head in heads:
        shares = " | ".join(f"{100 * share:.0f}%" for share in head.shares.values())
        lines.append(
            f"| {head.name} | {head.distance:.1f} | {head.entropy:.1f} | {shares}"
            f" | {head.kind(uniform)} |"
        )
    note = f"A head that looks everywhere alike has a mean distance of {uniform:.1f} words."
    return "\n".join([*lines, "", note])


def draw(heads: list[Head]) -> str:
    """Return an SVG document: a bar of shares for each head, its distance and its entropy."""
    parts = [text("head", x=8, y=TOP - 6), text("distance, bits", x=LEFT + BAR + 8, y=TOP - 6)]
    for place, (name, color) in enumerate(SHARES.items()):
        parts.append(element("rect", x=LEFT + 84 * place, y=8, width=10, height=10, fill=color))
        parts.append(text(name, x=LEFT + 84 * place + 14, y=17))
    for row, head in enumerate(heads):
        y, x = TOP + ROW * row, float(LEFT)
        # A neighbor that is punctuation is drawn as a neighbor.
        scale = BAR / max(1.0, sum(head.shares.values()))
        parts.append(text(head.name, x=8, y=y + 11))
        for name, color in SHARES.items():
            width = scale * head.shares[name]
            parts.append(element("rect", x=x, y=y, width=width, height=ROW - 3, fill=color))
            x += width
        parts.append(
            element("rect", x=x, y=y, width=LEFT + BAR - x, height=ROW - 3, fill="#eee")
        )
        label = f"{head.distance:.1f}, {head.entropy:.1f}"
        parts.append(text(label, x=LEFT + BAR + 8, y=y + 11))
    height = TOP + ROW * len(heads) + 10
    return stack([Drawing(LEFT + BAR + 100, height, "".join(parts))], style=STYLE)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)  # products are too small for more
    lines = islice(read_lines(given.text), given.sentences)
    heads, uniform = count(sentences_of(given.model, lines))
    if given.svg:
        write_bytes(given.svg, draw(heads).encode())
    print(to_markdown(heads, uniform))


if __name__ == "__main__":
    main()
