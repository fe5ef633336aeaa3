"""x W^T + b, which is nearly all of the work of a Transformer.

N rows; I, O width of input and output.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 1 << 28
"""Multiplications from which on it pays to set up a product of oneDNN, half a millisecond."""


class Linear(nn.Linear):
    """nn.Linear, but faster on processors."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return affine(x, self.weight, self.bias)


def affine(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """Return x W^T + b."""
    if is_for_onednn(x, weight_OI):
        rows_NI = x.flatten(0, -2)
        found_NO: Tensor = _Product.apply(rows_NI, weight_OI, bias_O)  # type: ignore[no-untyped-call]
        return found_NO.view(*x.shape[:-1], -1)
    return F.linear(x, weight_OI, bias_O)


def is_for_onednn(x: Tensor, weight_OI: Tensor) -> bool:
    """Tell whether oneDNN computes a product faster than what torch would call.

    torch has MKL do it, which reaches 162 to 201 GFLOP/s with two threads of an AMD processor
    at the shapes of the base model, and oneDNN 180 to 221.
    """
    return (
        x.is_cpu
        and x.dtype == weight_OI.dtype == torch.float32
        and x.numel() * weight_OI.size(0) >= LARGE
        and torch._C._has_mkldnn
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


# Two functions that torch's compiler calls, too; they are not documented, but the bound on
# torch's version holds.


def pack(weight_OI: Tensor) -> Tensor:
    """Lay a matrix out as oneDNN's products read it."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI.contiguous(), None)
    return packed


def multiply(x: Tensor, packed: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W^T + b of a matrix that is packed; not differentiable."""
    # The overload by name: choosing one would take as long as a small product.
    product = torch.ops.mkldnn._linear_pointwise.default
    found: Tensor = product(x, packed, bias_O, "none", [], "")
    return found


class _Product(torch.autograd.Function):
    """x W^T + b by oneDNN, forwards and towards x; torch's own product is as good towards W."""

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        return multiply(x_NI, pack(weight_OI), bias_O)

    @staticmethod
    def backward(ctx: Any, grad_NO: Tensor) -> tuple[Tensor | None, ...]:
        x_NI, weight_OI = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_NO = grad_NO.contiguous()
        grad_x_NI = multiply(grad_NO, pack(weight_OI.T)) if needs_x else None
        grad_weight_OI = grad_NO.T @ x_NI if needs_weight else None
        grad_bias_O = grad_NO.sum(dim=0) if needs_bias else None
        return grad_x_NI, grad_weight_OI, grad_bias_O
