"""Layer normalization (Ba et al. 2016), which section 3.1 puts behind every sub-layer."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class LayerNorm(nn.LayerNorm):
    """(x - mean) / deviation * weight + bias, over the last dimension."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each position by itself."""
        if x.is_cpu and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return cast(Tensor, _Normalize.apply(x, self.weight, self.bias, self.eps))  # type: ignore[no-untyped-call]
        return super().forward(x)


class _Normalize(torch.autograd.Function):
    """F.layer_norm, with gradients of weight and bias that any number of threads finds.

    torch's own threads add these up each over its part of the rows, so that the last digits
    differ from one number of threads to another.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        y, mean, inverse = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(x, mean, inverse, weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, mean, inverse, weight, bias = ctx.saved_tensors
        grad_x, _, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, weight.shape, mean, inverse, weight, bias, [True, False, False]
        )
        for_weight = (x - mean).mul_(inverse).mul_(grad)
        return grad_x, for_weight.sum_to_size(weight.shape), grad.sum_to_size(bias.shape), None
