"""The counted columns of table 1: operations, sequential operations, path lengths of a signal.

Operations are counted where torch calls its kernels. The other two are read off the graph that
autograd records, at a width of a few numbers.
"""

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from aiayn.kernels.layout import Layout
from aiayn.model.attention import attention
from aiayn.model.restricted import restricted_attention

D = 4
EVERYWHERE = torch.ones(1, 1, dtype=torch.bool)

Hop = Callable[[Tensor], Tensor]
"""Maps the states (n, D) of all positions at once to the next ones."""


def attend(x: Tensor) -> Tensor:
    return attention(x[None, None], x[None, None], x[None, None], EVERYWHERE)[0][0, 0]


def attend_near(r: int) -> Hop:
    return lambda x: restricted_attention(*(x[None, None],) * 3, Layout(), window=r)[0, 0]


def convolve(k: int, dilation: int = 1) -> Hop:
    """Return a convolution over a position and k - 1 before it, `dilation` apart.

    It looks back only, as ByteNet's decoder does: with dilations k^0, k^1, ... a distance then
    has one path, whose hops are its digits to the base k.
    """
    layer = nn.Conv1d(D, D, k, dilation=dilation, dtype=torch.float64)
    return lambda x: layer(F.pad(x.T, ((k - 1) * dilation, 0))).T


def recur_once() -> Hop:
    """Return one step of an LSTM at every position: it sees its input and the one before."""
    cell = nn.LSTMCell(D, D, dtype=torch.float64)

    def hop(x: Tensor) -> Tensor:
        before = F.pad(x[:-1], (0, 0, 1, 0))
        return cell(x, (before, before))[0]

    return hop


def recur() -> Hop:
    """Return a whole LSTM layer: one step after the other."""
    cell = nn.LSTMCell(D, D, dtype=torch.float64)

    def layer(x: Tensor) -> Tensor:
        state, out = (torch.zeros_like(x[:1]), torch.zeros_like(x[:1])), []
        for position in x:
            state = cell(position[None], state)
            out.append(state[0])
        return torch.cat(out)

    return layer


class CountOperations(TorchDispatchMode):
    """Counts multiply-adds of products, and one operation for each number that else is made."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if formula := flop_registry.get(func.overloadpacket):
            self.operations += formula(*args, **kwargs, out_val=out) // 2
            return out
        # A view makes no number: its storage is that of an input.
        inputs = {storage(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        made = (x for x in tree_leaves(out) if isinstance(x, Tensor))
        self.operations += sum(x.numel() for x in made if storage(x) not in inputs)
        return out


def storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def operations(layer: Hop, x: Tensor) -> int:
    """Return how many operations a layer takes."""
    counter = CountOperations()
    # Fused kernels are taken apart into products that can be counted.
    torch.backends.mkldnn.enabled = False
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        layer(x)
    torch.backends.mkldnn.enabled = True
    return counter.operations


def sequential_operations(layer: Hop, n: int) -> int:
    """Return the length of the longest chain of operations that need one another's results."""
    out = layer(torch.randn(n, D, dtype=torch.float64, requires_grad=True))
    longest: dict[object, int] = {}
    waiting = [out.grad_fn]
    while waiting:
        node = waiting[-1]
        inputs = [source for source, _ in node.next_functions if source is not None]
        unknown = [source for source in inputs if source not in longest]
        waiting.extend(unknown)
        if not unknown:
            longest[waiting.pop()] = 1 + max((longest[source] for source in inputs), default=-1)
    return longest[out.grad_fn]


def sees(hop: Hop, n: int) -> Tensor:
    """Return where the next state of position i depends on the state of position j: (n, n)."""
    x = torch.randn(n, D, dtype=torch.float64, requires_grad=True)
    out = hop(x) @ torch.randn(D, dtype=torch.float64)
    rows = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in out]
    return torch.stack(rows).ne(0).any(dim=-1)


def longest_path(hops: Iterator[Hop], n: int, *, causal: bool = False) -> int:
    """Count the hops until a signal has come from every position to every (later) one."""
    wanted = torch.ones(n, n, dtype=torch.bool)
    wanted = wanted.tril() if causal else wanted
    reached = torch.eye(n)
    patterns: dict[Hop, Tensor] = {}
    for number in count():
        if (reached[wanted] > 0).all():
            return number
        hop = next(hops)
        if hop not in patterns:
            patterns[hop] = sees(hop, n).float()
        reached = (patterns[hop] @ reached).clamp(max=1)
    raise AssertionError


def counts(n: int, r: int, k: int) -> dict[str, tuple[int, int]]:
    """Return the sequential operations and the longest path of each kind of layer."""
    dilated = (convolve(k, k**level) for level in count())
    contiguous = convolve(k)
    near = attend_near(r)
    return {
        "self-attention": (
            sequential_operations(attend, n),
            longest_path(repeat(attend), n),
        ),
        "recurrent": (
            sequential_operations(recur(), n),
            longest_path(repeat(recur_once()), n, causal=True),
        ),
        "convolutional": (
            sequential_operations(contiguous, n),
            longest_path(dilated, n, causal=True),
        ),
        "convolutional, contiguous": (
            sequential_operations(contiguous, n),
            longest_path(repeat(contiguous), n, causal=True),
        ),
        "self-attention, restricted": (
            sequential_operations(near, n),
            longest_path(repeat(near), n),
        ),
    }
