"""One typed way to call an autograd function, which torch leaves untyped."""

from collections.abc import Callable
from typing import Any

import torch


def apply(function: type[torch.autograd.Function], *arguments: object) -> Any:
    """Return function.apply(*arguments)."""
    call: Callable[..., Any] = function.apply
    return call(*arguments)


def is_training_on_cpu(x: torch.Tensor) -> bool:
    """Whether a gradient may be wanted of x on a CPU, outside of torch.compile."""
    return x.is_cpu and torch.is_grad_enabled() and not torch.compiler.is_compiling()
