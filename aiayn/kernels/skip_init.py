"""Networks without initial weights: for a file's weights, or to look at their shapes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FILLS = {"normal_", "uniform_", "fill_", "zero_", "div"}
"""How modules initialize a tensor without nn.init; div scales random numbers just drawn."""


class SkipInit(TorchFunctionMode):
    """Build modules in this context with their tensors allocated and not filled.

    Drawing the weights of a large model only to overwrite them takes seconds. On the meta
    device, the fills would also import sympy and torch._dynamo, which takes longer than loading
    torch itself.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a function of torch, unless it fills a tensor."""
        kwargs = kwargs or {}
        if func is torch.randn:
            func = torch.empty
        elif _fills(func):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _fills(func: Callable[..., Any]) -> bool:
    # Descriptors, such as those of a tensor's attributes, have no such names.
    if getattr(func, "__module__", "") == "torch.nn.init":
        return True
    return getattr(func, "__name__", "") in FILLS
