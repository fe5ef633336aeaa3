"""x W^T + b in few passes: equals `F.linear`, in float32 or, under autocast, in bfloat16.

N rows; I, O width of input and output.
"""

from collections.abc import MutableMapping, Sequence
from typing import Any, Literal, NamedTuple, cast
from weakref import ReferenceType, ref

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

from aiayn.device import autocast_type
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
    dtype = autocast_type(x.device)
    if dtype is not None:
        weight_OI = low_copy([layer.weight for layer in layers], dtype)
        bias_O = None
        if layers[0].bias is not None:
            # oneDNN adds a float32 bias; a GPU's library wants one type for all.
            of_bias = torch.float32 if x.is_cpu else dtype
            bias_O = low_copy([layer.bias for layer in layers], of_bias)
        parameters = [p for layer in layers for p in layer.parameters()]
        return cast(Tensor, apply(_LowPrecisionLinear, x, weight_OI, bias_O, *parameters))
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


class LowCopy(NamedTuple):
    """Parameters in another type, one after the other."""

    joined: Tensor
    parts: list[Tensor]
    """The part of each parameter."""
    parameters: list[ReferenceType[Tensor]]
    versions: list[int]
    """Of the parameters; an optimizer's fused step does not count as a new one."""


# By the first parameter.
_COPIES: MutableMapping[Tensor, LowCopy] = WeakTensorKeyDictionary()


def low_copy(parameters: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Return parameters as one tensor of another type, which is made once an update."""
    found, versions = _COPIES.get(parameters[0]), [p._version for p in parameters]
    if found is None or found.joined.dtype != dtype or found.versions != versions:
        # Outside of inference mode: a copy that validation makes must serve for training, too.
        with torch.inference_mode(False), torch.no_grad():
            joined = torch.cat([p.to(dtype) for p in parameters])
            parts = list(torch.split(joined, [p.size(0) for p in parameters]))
        found = LowCopy(joined, parts, [ref(p) for p in parameters], versions)
        _COPIES[parameters[0]] = found
    return found.joined


@torch.no_grad()
def _renew_copies(*_: object) -> None:
    """Copy the parameters anew after a step of an optimizer, all by one call."""
    pairs = [
        (part, parameter)
        for copy in _COPIES.values()
        for part, each in zip(copy.parts, copy.parameters, strict=True)
        if (parameter := each()) is not None
    ]
    if pairs:
        torch._foreach_copy_([part for part, _ in pairs], [p for _, p in pairs])


register_optimizer_step_post_hook(_renew_copies)


class _LowPrecisionLinear(torch.autograd.Function):
    """Products in bfloat16 or float16; the parameters and their gradients are float32.

    What is kept for the backward pass is half as large as in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        low = x.to(weight_OI.dtype)
        ctx.save_for_backward(low, weight_OI)
        ctx.dtype, ctx.has_bias = x.dtype, bias_O is not None
        ctx.widths = [p.size(0) for p in parameters[:: 1 + ctx.has_bias]]
        return low_linear(low, weight_OI, bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_OI = ctx.saved_tensors
        grad_NO = grad.reshape(-1, grad.size(-1))
        grad_x = low_linear(grad, weight_OI.T).to(ctx.dtype)
        grads = [torch.split((grad_NO.T @ x.reshape(-1, x.size(-1))).float(), ctx.widths)]
        if ctx.has_bias:
            grads.append(torch.split(grad_NO.sum(dim=0, dtype=torch.float32), ctx.widths))
        of_parameters = [grad for of_layer in zip(*grads, strict=True) for grad in of_layer]
        return (grad_x, None, None, *of_parameters)


def low_linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W^T + b for operands that are in a low precision already."""
    return (onednn_linear if x.is_cpu else F.linear)(x, weight_OI, bias_O)
