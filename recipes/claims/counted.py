"""The claims of the text that need no training: counted, computed or timed; as JSON.

python recipes/claims/counted.py >counted.json

Each claim gives the number that expected.yaml judges, and a line that says what was measured.
"""

import itertools
import json
import math
import sys

import count
import measure
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformer import FeedForward, MultiHeadAttention, Transformer, sinusoids

from aiayn.config import ModelConfig
from aiayn.sample.corpus import make_chunk

EVERYWHERE = torch.ones(1, 1, dtype=torch.bool)
KEYS = 64
ROUNDS = 10
Found = tuple[float, str]


def variance() -> Found:
    """The variance of q . k over d_k, for components of mean 0 and variance 1."""
    ratios = {}
    for d_k in (16, 64, 256, 1024):
        q, k = torch.randn(2, 20_000, d_k)
        ratios[d_k] = (q * k).sum(dim=-1).var().item() / d_k
    shown = ", ".join(f"{ratio:.3f} d_k at {d_k}" for d_k, ratio in ratios.items())
    return max(abs(ratio - 1) for ratio in ratios.values()), f"variance {shown}"


def saturation() -> Found:
    """How much less of a gradient softmax passes on without the scale."""
    shown, passed = [], {}
    for d_k in (16, 64, 256):
        q, k = torch.randn(1000, 1, d_k), torch.randn(1000, KEYS, d_k)
        scores = (q @ k.mT)[:, 0]
        for scale in (1.0, math.sqrt(d_k)):
            p = (scores / scale).softmax(dim=-1)
            # The trace of softmax's Jacobian: what comes back through it.
            passed[scale] = (1 - (p**2).sum(dim=-1)).mean().item()
            if scale == 1:
                largest = p.amax(dim=-1).mean().item()
        shown.append(f"{passed[math.sqrt(d_k)]:.2f} to {passed[1.0]:.2f} at d_k {d_k}")
    ratio = passed[1.0] / passed[math.sqrt(d_k)]
    text = "; ".join(shown)
    return ratio, f"gradient falls from {text}; there the largest weight is {largest:.2f}"


def best_seconds(*calls: tuple[measure.Layer, Tensor]) -> list[float]:
    """Return the fastest of some interleaved rounds of each call, in CPU seconds."""
    rounds = [[measure.seconds(*call) for call in calls] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def additive_is_slower() -> Found:
    """Time and memory of additive against dot-product attention."""
    x = torch.randn(1, 256, 64)
    layers = measure.additive_attention(64, 0), measure.self_attention(64, 0)
    slow, fast = best_seconds(*((layer, x) for layer in layers))
    large, small = (measure.bytes_kept(layer, x) for layer in layers)
    shown = f"{slow / fast:.0f} times the time, {large / small:.0f} times the memory"
    return slow / fast, f"{shown} (n 256, d_k 64)"


def additive_counts_alike() -> Found:
    """Operations of additive over those of dot-product attention."""
    x = torch.randn(1, 256, 64)
    layers = measure.additive_attention(64, 0), measure.self_attention(64, 0)
    more, less = (count.operations(layer, x) for layer in layers)
    return more / less, f"{more / less:.2f} times the operations (n 256, d_k 64)"


def heads_cost_the_same() -> Found:
    """Operations of 8 heads of 64 over those of one head of 512."""
    x = torch.randn(1, 64, 512)

    def cost(heads: int) -> int:
        c = ModelConfig(heads=heads, d_k=512 // heads, d_v=512 // heads)
        attend = MultiHeadAttention(c)
        return count.operations(lambda x: attend(x, x, EVERYWHERE), x)

    many, one = cost(8), cost(1)
    return many / one, f"{many:,} operations with 8 heads, {one:,} with 1 ({many / one:.3f})"


@torch.inference_mode()
def feed_forward_is_convolution() -> Found:
    """The largest difference between equation 2 and two convolutions with kernel size 1."""
    network, x_BLD = FeedForward(ModelConfig()), torch.randn(2, 20, 512)
    hidden = F.conv1d(x_BLD.mT, network.w_1.weight[..., None], network.w_1.bias).relu()
    convolved = F.conv1d(hidden, network.w_2.weight[..., None], network.w_2.bias).mT
    difference = (convolved - network(x_BLD)).abs().max().item()
    return difference, f"they differ by at most {difference:g}"


@torch.inference_mode()
def masked_decoder() -> Found:
    """The largest change of earlier predictions when a later word changes."""
    c = ModelConfig(layers=2, d_model=64, d_ff=128, heads=4, d_k=16, d_v=16)
    model = Transformer(c, 100).eval()
    source, target = torch.randint(3, 100, (2, 8, 20))
    changed = target.clone()
    changed[:, 10:] = torch.randint(3, 100, (8, 10))
    before, after = model(source, target), model(source, changed)
    earlier = (before - after)[:, :10].abs().max().item()
    later = (before - after)[:, 10:].abs().max().item()
    return (
        earlier,
        f"earlier predictions change by {earlier:g}, later ones by up to {later:.1f}",
    )


def positions_are_linear() -> Found:
    """The largest error of a rotation, the same for all positions, that moves them by k."""
    d_model, table = 512, sinusoids(2200, 512).double()
    speed = 1 / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    worst = 0.0
    for k in (1, 10, 100):
        cos, sin = (k * speed).cos(), (k * speed).sin()
        move = torch.block_diag(*(
            torch.stack([torch.stack([c, s]), torch.stack([-s, c])])
            for c, s in zip(cos, sin, strict=True)
        ))  # fmt: skip
        moved = table[:2000] @ move.T
        worst = max(worst, (moved - table[k : 2000 + k]).abs().max().item())
    return worst, f"error at most {worst:.0e}, for k of 1, 10, 100 and 2,000 positions"


def wavelengths() -> Found:
    """The longest wavelength over 10000 * 2 pi, read off the first two positions."""
    sine, cosine = sinusoids(2, 512)[1].double().view(-1, 2).unbind(dim=1)
    length = 2 * math.pi / torch.atan2(sine, cosine)
    shortest, longest = (x.item() / (2 * math.pi) for x in (length.min(), length.max()))
    return (
        longest / 10_000,
        f"from {shortest:.4f} * 2 pi to {longest:,.0f} * 2 pi (d_model 512)",
    )


def paths() -> Found:
    """Hops between the two ends of a sequence; a constant number only for self-attention."""
    n, r, k = 64, 8, 4
    found = {name: path for name, (_, path) in count.counts(n, r, k).items()}
    expected = {
        "self-attention": 1,
        "recurrent": n - 1,
        "convolutional": math.ceil(math.log(n, k)),
        "convolutional, contiguous": math.ceil((n - 1) / (k - 1)),
        "self-attention, restricted": math.ceil(n / (r // 2)),
    }
    off = max(abs(found[name] - expected[name]) for name in expected)
    return off, ", ".join(f"{name} {path}" for name, path in found.items()) + f" (n {n})"


def shorter_than_wide() -> Found:
    """Time of self-attention over that of a recurrent layer at n < d, and at n > d."""
    ratios = []
    for n, d in ((64, 512), (2048, 64)):
        x, batch = torch.randn(1, n, d), torch.randn(16, n, d)
        fast, slow = best_seconds(
            (measure.self_attention(d, 0), x), (measure.recurrent(d, 0), batch)
        )
        ratios.append(fast / (slow / len(batch)))
    return ratios[
        0
    ], f"{ratios[0]:.2f} times its time at n 64, d 512; {ratios[1]:.1f} at 2048, 64"


def separable_convolution() -> Found:
    """Operations of a separable convolution with k = n over attention and a pointwise layer."""
    n = d = 256
    x = torch.randn(1, n, d)
    pointwise = torch.nn.Linear(d, d)
    convolve, attend = measure.separable(d, n - 1), measure.self_attention(d, 0)
    one, both = (
        count.operations(convolve, x),
        count.operations(lambda x: pointwise(attend(x)), x),
    )
    return one / both, f"{one / both:.2f} times the operations (n = d = 256)"


def padding() -> Found:
    """Share of padding in batches by length over that in batches at random."""
    chunks = (make_chunk(1, number)["train"] for number in itertools.count())
    pairs = itertools.islice(itertools.chain.from_iterable(chunks), 10_000)
    sizes = np.array([[len(side.split()) + 1 for side in pair] for pair in pairs])
    batches = len(sizes) // 64
    by_length = np.array_split(np.argsort(sizes.max(axis=1), kind="stable"), batches)
    at_random = np.array_split(np.random.default_rng(1).permutation(len(sizes)), batches)

    def share(batches: list[np.ndarray]) -> float:
        positions = sum(sizes[b].max(axis=0).sum() * len(b) for b in batches)
        return 1 - sizes.sum() / positions

    grouped, mixed = share(by_length), share(at_random)
    shown = f"{grouped:.0%} of a batch is padding by length, {mixed:.0%} at random"
    return grouped / mixed, f"{shown} (10,000 pairs of the sample corpus, 64 a batch)"


CLAIMS = [
    variance,
    saturation,
    additive_counts_alike,
    additive_is_slower,
    heads_cost_the_same,
    masked_decoder,
    feed_forward_is_convolution,
    positions_are_linear,
    wavelengths,
    paths,
    shorter_than_wide,
    separable_convolution,
    padding,
]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    found = {}
    for claim in CLAIMS:
        print(claim.__name__, file=sys.stderr)
        value, shown = claim()
        found[claim.__name__] = {"value": value, "shown": shown}
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
