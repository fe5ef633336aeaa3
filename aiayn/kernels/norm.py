"""Layer normalization (Ba et al. 2016) with a thread-invariant gradient: `F.layer_norm`.

torch's threads each sum the gradients of weight and bias over their part of the rows, so that
the last digits differ from one number of threads to another.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from aiayn.kernels.autograd import apply, is_training_on_cpu


class LayerNorm(nn.LayerNorm):
    """(x - mean) / deviation * weight + bias, over the last dimension."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each position by itself."""
        if not is_training_on_cpu(x):
            return super().forward(x)
        return cast(Tensor, apply(_LayerNorm, x, self.weight, self.bias, self.eps))


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        y, mean, inverse = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(x, mean, inverse, weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, mean, inverse, weight, bias = ctx.saved_tensors
        # Each row of grad_x belongs to one thread: torch's own kernel is exact for it.
        grad_x, _, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, weight.shape, mean, inverse, weight, bias, [True, False, False]
        )
        grad_weight = (x - mean).mul_(inverse).mul_(grad).sum_to_size(weight.shape)
        return grad_x, grad_weight, grad.sum_to_size(bias.shape), None
