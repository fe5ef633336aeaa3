"""Output layer and label-smoothed cross-entropy fused: logits exist for a chunk at a time.

`fused_linear_cross_entropy` equals `smoothed_cross_entropy` of aiayn.training.loss, applied to
`F.linear(states, weight, bias)`, and with R-Drop `r_drop_loss`.

N tokens; D d_model; W vocabulary.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.device import autocast_type, elements_at_once
from aiayn.kernels.autograd import apply
from aiayn.kernels.layout import MULTIPLE
from aiayn.kernels.linear import can_use_onednn, low_copy, low_linear, onednn_linear

# Returns (smoothed, plain) and the gradient of the first.
Compare = Callable[[Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
Multiply = Callable[..., Tensor]
# In float16 the gradient of a rare token would underflow, so differences are scaled up, until
# their absolute values could sum to this: a sixteenth of the largest number, for the factors.
HALF_SUM = 4096.0


def fused_linear_cross_entropy(
    states_ND: Tensor,
    weight_WD: Tensor,
    gold_N: Tensor,
    smoothing: float,
    bias_W: Tensor | None = None,
    *,
    rdrop: float = 0.0,
    compiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the smoothed and the plain loss, summed; only the first has a gradient.

    The gradient of the logits, softmax - target, is known as soon as they are, so it is turned
    at once into the gradients of states and weight, and nothing is kept for the backward pass.

    With a weight of R-Drop, the states of each token are those of two passes, one after the
    other, and the losses are summed over both.
    """
    if not torch.is_grad_enabled():
        # Inside an autograd function, needs_input_grad is true of parameters even so.
        states_ND, weight_WD = states_ND.detach(), weight_WD.detach()
        bias_W = None if bias_W is None else bias_W.detach()
    compare = _compiled() if compiled else _loss_and_gradient
    smoothed, plain = apply(
        _FusedLoss, states_ND, weight_WD, bias_W, gold_N, (smoothing, rdrop), compare
    )
    return smoothed, plain


@cache
def _compiled() -> Compare:
    """Return `_loss_and_gradient` as a few kernels in place of twenty."""
    return torch.compile(_loss_and_gradient, dynamic=True)


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        weight_WD: Tensor,
        bias_W: Tensor | None,
        gold_N: Tensor,
        weights: tuple[float, float],
        compare: Compare,
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad)
        grad_states_ND = torch.zeros_like(states_ND) if wanted else None
        grad_weight_WD = torch.zeros_like(weight_WD) if wanted else None
        grad_bias_W = torch.zeros_like(bias_W) if wanted and bias_W is not None else None
        sums = torch.zeros(2, dtype=torch.float32, device=states_ND.device)
        multiply, states, weight = _operands(states_ND, weight_WD)
        rows = elements_at_once(gold_N.device) // weight_WD.size(0)
        for chunk in _even_chunks(gold_N.size(0), rows, together=2 if weights[1] else 1):
            logits_NW = _logits(multiply, states[chunk], weight, bias_W)
            losses, delta_NW = compare(logits_NW, gold_N[chunk], *weights)
            sums += losses
            if grad_states_ND is not None and grad_weight_WD is not None:
                # A token differs from its target by 2 at most, over all classes.
                _add_product(delta_NW, weight, out=grad_states_ND[chunk], most=2)
                of_tokens, most = states[chunk], delta_NW.size(0)
                _add_product(delta_NW.T, of_tokens, out=grad_weight_WD, most=most)
            if grad_bias_W is not None:
                grad_bias_W += delta_NW.sum(dim=0)
        ctx.save_for_backward(grad_states_ND, grad_weight_WD, grad_bias_W)
        smoothed, plain = sums.unbind()
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads = (None if each is None else each.mul_(grad) for each in ctx.saved_tensors)
        return (*grads, None, None, None)


def _operands(states_ND: Tensor, weight_WD: Tensor) -> tuple[Multiply, Tensor, Tensor]:
    """Return how to multiply, and both matrices in the type that products run in."""
    dtype = autocast_type(states_ND.device)
    if dtype is not None:
        return low_linear, states_ND.to(dtype), low_copy([weight_WD], dtype)
    if can_use_onednn(states_ND):
        return onednn_linear, states_ND, weight_WD
    device = states_ND.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        return F.linear, states_ND.to(dtype), weight_WD.to(dtype)
    return F.linear, states_ND, weight_WD


def _logits(
    multiply: Multiply, states_ND: Tensor, weight_WD: Tensor, bias_W: Tensor | None
) -> Tensor:
    """Return the product; by oneDNN, of one of few numbers of rows.

    For a new number it makes a kernel, in 0.2 to 0.4 ms, and keeps half a megabyte.
    """
    rows = states_ND.size(0)
    # A sixteenth more at most. A single row stays alone: it is summed in an order of its own.
    step = min(MULTIPLE, 1 << max(0, rows.bit_length() - 5))
    if states_ND.is_cpu and multiply is not F.linear and rows % step:
        states_ND = F.pad(states_ND, (0, 0, 0, -rows % step))
    return multiply(states_ND, weight_WD, bias_W)[:rows]


def _even_chunks(count: int, most: int, together: int) -> Iterator[slice]:
    """Cut `count` rows into slices of at most `most`, whose sizes differ by one at most.

    So none is a single row, which torch would sum in an order that depends on the threads. Rows
    that belong together count as one.
    """
    units = count // together
    chunks = math.ceil(units / max(1, most // together))
    for chunk in range(chunks):
        start, stop = units * chunk // chunks, units * (chunk + 1) // chunks
        yield slice(start * together, stop * together)


def _loss_and_gradient(
    logits_NW: Tensor, gold_N: Tensor, smoothing: float, rdrop: float
) -> tuple[Tensor, Tensor]:
    """Return (smoothed, plain) and the gradient of the first with respect to the logits."""
    wrong = smoothing / (logits_NW.size(-1) - 1)
    work_NW = logits_NW.float()
    gap_NW = _gap(work_NW) if rdrop else None
    gold_logit_N = work_NW.gather(1, gold_N[:, None]).squeeze(1)
    total_logit_N = work_NW.sum(dim=1) if smoothing else gold_logit_N
    top_N = work_NW.amax(dim=1)
    # In place: this matrix is the largest there is, and the logits are not read again.
    work_NW = work_NW.sub_(top_N[:, None]).exp_()
    normalizer_N = work_NW.sum(dim=1)
    log_normalizer_N = top_N + normalizer_N.log()

    plain_N = log_normalizer_N - gold_logit_N
    expected_N = (1 - smoothing) * gold_logit_N + wrong * (total_logit_N - gold_logit_N)
    losses = torch.stack([(log_normalizer_N - expected_N).sum(), plain_N.sum()])

    delta_NW = work_NW.div_(normalizer_N[:, None])
    if gap_NW is not None:
        divergence, delta_NW = _divergence_and_gradient(delta_NW, gap_NW, rdrop / 2)
        losses[0] += divergence
    delta_NW = delta_NW.sub_(wrong)
    minus = torch.full_like(gold_logit_N, wrong + smoothing - 1)
    return losses, delta_NW.scatter_add_(1, gold_N[:, None], minus[:, None])


def _gap(logits_NW: Tensor) -> Tensor:
    """Return how much larger each logit is than that of the other pass."""
    first_NW, second_NW = logits_NW.unflatten(0, (-1, 2)).unbind(1)
    gap_NW = first_NW - second_NW
    return torch.stack([gap_NW, -gap_NW], dim=1).flatten(0, 1)


def _divergence_and_gradient(
    p_NW: Tensor, gap_NW: Tensor, weight: float
) -> tuple[Tensor, Tensor]:
    """Return weight (KL(p || q) + KL(q || p)), and p with its gradient added.

    p belongs to one pass and q to the other. With logits a and b the sum is sum (p - q)(a - b),
    because normalizers cancel; its gradient by a is p (a - b - sum p (a - b)) + p - q.
    """
    expected_N = (p_NW * gap_NW).sum(dim=1)
    q_NW = p_NW.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
    gradient_NW = gap_NW.sub_(expected_N[:, None]).mul_(p_NW).add_(p_NW).sub_(q_NW)
    # KL(p || q) + KL(q || p) = sum p (a - b) + sum q (b - a): a summand of each row.
    return weight * expected_N.sum(), p_NW.add(gradient_NW, alpha=weight)


def _add_product(delta: Tensor, b: Tensor, *, out: Tensor, most: float) -> None:
    """Add the product of two matrices, computed in the type of the second, to `out`.

    The absolute values of a row of the first sum to about `most` at most.
    """
    if b.dtype == out.dtype:
        out.addmm_(delta, b)
    elif b.dtype == torch.float16:
        scale = HALF_SUM / most
        out.add_((delta * scale).to(b.dtype) @ b, alpha=1 / scale)
    else:
        out.add_(delta.to(b.dtype) @ b)
