"""x W^T + b by oneDNN: equals `F.linear`, in float32 or, under autocast, in bfloat16.

N rows; I, O width of input and output.
"""

from collections.abc import MutableMapping, Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

from aiayn.device import has_bfloat16
from aiayn.kernels.autograd import apply, is_training_on_cpu

# Whether oneDNN multiplies matrices that are not packed for it as fast as BLAS: on x86.
ONEDNN_IS_FAST = torch._C._has_mkldnn and "AVX" in torch.backends.cpu.get_cpu_capability()


class Linear(nn.Linear):
    """x W^T + b."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return fused_linear(x, [self])


def fused_linear(x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
    """Return what layers that read one input give, side by side, by a single product."""
    if uses_bfloat16(x):
        weight_OI = bfloat16_copy(*(layer.weight for layer in layers))
        bias_O = None if layers[0].bias is None else torch.cat([each.bias for each in layers])
        parameters = [p for layer in layers for p in layer.parameters()]
        return cast(Tensor, apply(_BFloat16Linear, x, weight_OI, bias_O, *parameters))
    if len(layers) == 1:
        return linear(x, layers[0].weight, layers[0].bias)
    return linear(x, *concat_weights(layers))


def linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W^T + b, by the fastest products where gradients are wanted."""
    if is_training_on_cpu(x) and can_use_onednn(x):
        return cast(Tensor, apply(_Linear, x, weight_OI, bias_O))
    return F.linear(x, weight_OI, bias_O)


def can_use_onednn(x: Tensor) -> bool:
    """Whether `onednn_linear`, which multiplies float32 on a CPU, serves for x."""
    return (
        x.is_cpu
        and x.dtype == torch.float32
        and ONEDNN_IS_FAST
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def uses_bfloat16(x: Tensor) -> bool:
    """Whether products of x run in bfloat16 on a CPU that has the instruction for it."""
    return (
        x.is_cpu
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and has_bfloat16()
        and not torch.compiler.is_compiling()
    )


def onednn_linear(
    x: Tensor,
    weight_OI: Tensor,
    bias_O: Tensor | None = None,
    activation: Literal["none", "relu"] = "none",
) -> Tensor:
    """Return x W^T + b in one pass, activated; the weight may be packed for it."""
    # torch's compiler emits this call. It is undocumented, but our bound on torch holds.
    product = torch.ops.mkldnn._linear_pointwise.default
    return cast(Tensor, product(x, weight_OI, bias_O, activation, [], ""))


def concat_weights(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Return the weights of layers that read one input as one matrix, and their biases."""
    weight_OI = torch.cat([layer.weight for layer in layers])
    if layers[0].bias is None:
        return weight_OI, None
    return weight_OI, torch.cat([layer.bias for layer in layers])


class _Linear(torch.autograd.Function):
    """F.linear, 1.1 to 1.2 times as fast as BLAS for y and the gradient of x.

    oneDNN adds the bias on its way, for which F.linear passes over the output once more.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight_OI)
        return onednn_linear(x, weight_OI, bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_OI = ctx.saved_tensors
        x_needs_grad, weight_needs_grad, bias_needs_grad = ctx.needs_input_grad
        grad_NO = grad.reshape(-1, grad.size(-1))
        return (
            onednn_linear(grad, weight_OI.T) if x_needs_grad else None,
            # BLAS is faster here: the long dimension N is the one that is summed over.
            grad_NO.T @ x.reshape(-1, x.size(-1)) if weight_needs_grad else None,
            grad_NO.sum(dim=0) if bias_needs_grad else None,
        )


_COPIES: MutableMapping[Tensor, tuple[list[int], Tensor]] = WeakTensorKeyDictionary()
# A fused optimizer changes weights without counting it as a new version.
register_optimizer_step_post_hook(lambda *_: _COPIES.clear())


def bfloat16_copy(*weights: Tensor) -> Tensor:
    """Return matrices as one in bfloat16; it is made once an update, when they have changed."""
    versions = [weight._version for weight in weights]
    if weights[0] not in _COPIES or _COPIES[weights[0]][0] != versions:
        # Outside of inference mode: a copy that validation makes must serve for training, too.
        with torch.inference_mode(False), torch.no_grad():
            copy = torch.cat([weight.bfloat16() for weight in weights])
        _COPIES[weights[0]] = versions, copy
    return _COPIES[weights[0]][1]


class _BFloat16Linear(torch.autograd.Function):
    """Products in bfloat16, summed in float32; the parameters and their gradients are float32.

    What is kept for the backward pass is half as large as in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        low = x.bfloat16()
        ctx.save_for_backward(low, weight_OI)
        ctx.dtype, ctx.has_bias = x.dtype, bias_O is not None
        ctx.widths = [p.size(0) for p in parameters[:: 1 + ctx.has_bias]]
        return onednn_linear(low, weight_OI, bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_OI = ctx.saved_tensors
        grad_NO = grad.reshape(-1, grad.size(-1))
        grad_x = onednn_linear(grad, weight_OI.T).to(ctx.dtype)
        grads = [torch.split((grad_NO.T @ x.reshape(-1, x.size(-1))).float(), ctx.widths)]
        if ctx.has_bias:
            grads.append(torch.split(grad_NO.sum(dim=0, dtype=torch.float32), ctx.widths))
        of_parameters = [grad for of_layer in zip(*grads, strict=True) for grad in of_layer]
        return (grad_x, None, None, *of_parameters)
