"""Table 1 on this machine: the cost of each kind of layer, counted and timed.

    python recipes/table1_complexity/measure.py [--quick] >measured.json

A layer maps n vectors of width d to n such vectors. As in the paper's table, self-attention is
the attention function by itself, without the projections that every layer of the Transformer
adds to it. Float32, forward, one thread.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from count import counts, operations
from torch import Tensor, nn

from aiayn.device import prepare_device
from aiayn.kernels.layout import Layout
from aiayn.model import restricted
from aiayn.model.attention import attention

Layer = Callable[[Tensor], Tensor]
EVERYWHERE = torch.ones(1, 1, dtype=torch.bool)
D_K = 64
BATCH = {"recurrent": 32}
"""Sequences in a batch; measurements are divided by it. All other layers have one; the
recurrent layer would then multiply vectors, not matrices, and measure caches."""


def heads(x: Tensor) -> Tensor:
    """Cut vectors of width d into heads of D_K, as the Transformer does."""
    return x.unflatten(-1, (-1, D_K)).transpose(1, 2)


def joined(x_BHLK: Tensor) -> Tensor:
    return x_BHLK.transpose(1, 2).flatten(2)


def self_attention(d: int, width: int) -> Layer:
    """Equation 1 as it is written."""
    return lambda x: joined(attention(*(heads(x),) * 3, EVERYWHERE)[0])


def fused_attention(d: int, width: int) -> Layer:
    """The same in one kernel that never holds all weights at once."""
    return lambda x: joined(F.scaled_dot_product_attention(*(heads(x),) * 3))


def restricted_attention(d: int, width: int) -> Layer:
    """Equation 1 over a neighborhood of size r = `width`."""
    return lambda x: joined(
        restricted.restricted_attention(*(heads(x),) * 3, Layout(), window=width)
    )


def additive_attention(d: int, width: int) -> Layer:
    """The other kind of section 3.2.1: a network of one hidden layer scores each pair.

    score(q, k) = v . tanh(q + k), of Bahdanau et al.; q and k are projected already, as above.
    """
    v_K1 = torch.randn(D_K, 1) / D_K**0.5

    def attend(x: Tensor) -> Tensor:
        q = k = v = heads(x)
        scores_BHLM1 = (q[:, :, :, None] + k[:, :, None]).tanh() @ v_K1
        return joined(scores_BHLM1[..., 0].softmax(dim=-1) @ v)

    return attend


def recurrent(d: int, width: int) -> Layer:
    lstm = nn.LSTM(d, d, batch_first=True)
    return lambda x: lstm(x)[0]


def convolutional(d: int, width: int) -> Layer:
    """A kernel of size k = `width`."""
    convolution = nn.Conv1d(d, d, width, padding=width // 2)
    return lambda x: convolution(x.mT).mT


def separable(d: int, width: int) -> Layer:
    """A kernel of size k = `width` within each channel, then a product across channels."""
    within = nn.Conv1d(d, d, width, padding=width // 2, groups=d)
    across = nn.Conv1d(d, d, 1)
    return lambda x: across(within(x.mT)).mT


LAYERS = {
    "self-attention": self_attention,
    "self-attention, fused": fused_attention,
    "self-attention, additive": additive_attention,
    "recurrent": recurrent,
    "convolutional": convolutional,
    "convolutional, separable": separable,
    "self-attention, restricted": restricted_attention,
}


class Size(NamedTuple):
    """Where a layer is measured."""

    n: int
    d: int
    width: int = 0
    """r of restricted self-attention, k of a convolution."""


def doubled(first: int, times: int) -> list[int]:
    return [first << power for power in range(times)]


def sweeps(quick: bool) -> dict[str, dict[str, list[Size]]]:
    """Return, for each layer and each letter of its O(), the sizes at which it is measured.

    The letters that stay as they are are chosen so that the term of the table dominates. Sizes
    are such that what a layer writes nearly fits the caches: beyond, time grows faster than the
    operations do, the more the busier the machine is.
    """
    times = 3 if quick else 5
    shrink = 4 if quick else 1
    n, d, r, k = 1024 // shrink, 256 // shrink, 64 // shrink, 3
    everywhere = {
        "n": [Size(n, 64) for n in doubled(n // 8, times)],
        "d": [Size(n // 4, d) for d in doubled(64, times)],
    }
    return {
        "self-attention": everywhere,
        "self-attention, fused": everywhere,
        "self-attention, additive": {
            "n": [Size(n, 64) for n in doubled(n // 32, times)],
            "d": [Size(n // 16, d) for d in doubled(64, times)],
        },
        "recurrent": {
            "n": [Size(n, d) for n in doubled(n // 64, times)],
            "d": [Size(n // 64, d) for d in doubled(d // 4, times - 1)],
        },
        "convolutional": {
            "n": [Size(n, d, k) for n in doubled(n // 8, times)],
            "d": [Size(n // 4, d, k) for d in doubled(d // 4, times)],
            "k": [Size(n // 4, d, k) for k in (3, 5, 9, 17, 33)[:times]],
        },
        "convolutional, separable": {
            "n": [Size(n, d, k) for n in doubled(n // 8, times)],
            "d": [Size(n // 4, d, k) for d in doubled(d // 4, times)],
            # The term with k dominates where k is much more than d.
            "k": [Size(n, 16, k + 1) for k in doubled(64, times)],
        },
        "self-attention, restricted": {
            "n": [Size(n, 64, r) for n in doubled(n // 2, times)],
            "d": [Size(n, d, r) for d in doubled(64, times)],
            "r": [Size(4 * n, 64, r) for r in doubled(r // 4, times)],
        },
    }


def seconds(layer: Layer, x: Tensor) -> float:
    with torch.inference_mode():
        layer(x)  # else the first touch of fresh pages is timed, up to 200,000 faults per call
        # Of this thread: what other programs take of the processor meanwhile does not count.
        begin = time.thread_time()
        layer(x)
        return time.thread_time() - begin


def bytes_kept(layer: Layer, x: Tensor) -> int:
    """Return the memory that the forward pass leaves behind for the backward pass."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(x.requires_grad_())
    del out
    return sum(kept.values())


def input_of(name: str, size: Size) -> Tensor:
    return torch.randn(BATCH.get(name, 1), size.n, size.d)


def measure(quick: bool) -> Iterator[dict[str, object]]:
    """Time every layer at every size, in rounds: the fastest of each is what it takes."""
    points = [
        (name, letter, size, LAYERS[name](size.d, size.width), input_of(name, size))
        for name, letters in sweeps(quick).items()
        for letter, sizes in letters.items()
        for size in sizes
    ]
    rounds = 3 if quick else 40
    best = [float("inf")] * len(points)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for place, (*_, layer, x) in enumerate(points):
            best[place] = min(best[place], seconds(layer, x))
    for (name, letter, size, layer, x), took in zip(points, best, strict=True):
        found = {
            "seconds": took / len(x),
            "operations": operations(layer, x) // len(x),
            "bytes": bytes_kept(layer, x) // len(x),
        }
        yield {"layer": name, "letter": letter, **size._asdict(), **found}


def count_all(quick: bool) -> Iterator[dict[str, object]]:
    """Count sequential operations and path lengths over n."""
    r, k = 8, 4
    for n in (16, 64) if quick else (16, 64, 256):
        print(f"counting at n = {n}", file=sys.stderr)
        for name, (sequential, path) in counts(n, r, k).items():
            yield {
                "layer": name,
                "n": n,
                "r": r,
                "k": k,
                "sequential": sequential,
                "path": path,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few and small sizes: seconds")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    prepare_device(torch.device("cpu"))
    torch.manual_seed(1)
    found = {"counted": [*count_all(quick)], "timed": [*measure(quick)]}
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
