"""Label-smoothed cross-entropy: section 5.4.

The target distribution gives the gold class 1 - epsilon and every other class
epsilon / (V - 1), as the paper's code did. `smoothed_cross_entropy` says so in the fewest
words; training uses
`project_and_compare`, which never holds the logits of more than a chunk of tokens.

N tokens laid end to end; D d_model; W vocabulary.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.device import elements_at_once
from aiayn.model.linear import has_products, product

HALF_SCALE = 1024.0
"""In float16 the gradient of a rare token would vanish; products are taken this much larger."""


class Loss(NamedTuple):
    """Sums over tokens, in nats: smoothed, which is minimised, and plain, which is read."""

    smoothed: Tensor
    plain: Tensor


def target_distribution(gold_N: Tensor, vocabulary: int, smoothing: float) -> Tensor:
    """Return the distribution (N, W) that the model is to match."""
    wrong = smoothing / (vocabulary - 1)
    target_NW = torch.full((gold_N.size(0), vocabulary), wrong, device=gold_N.device)
    return target_NW.scatter(1, gold_N[:, None], 1 - smoothing)


def smoothing_floor(vocabulary: int, smoothing: float) -> float:
    """Return the entropy of the target distribution: the least loss that a token can have."""
    if smoothing == 0:
        return 0.0
    wrong = smoothing / (vocabulary - 1)
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(wrong)


def smoothed_cross_entropy(logits_NW: Tensor, gold_N: Tensor, smoothing: float) -> Loss:
    """-sum_w target(w) log p(w) and -log p(gold), p = softmax(logits), over all tokens."""
    log_p_NW = F.log_softmax(logits_NW.float(), dim=-1)
    target_NW = target_distribution(gold_N, logits_NW.size(-1), smoothing)
    return Loss(
        smoothed=-(target_NW * log_p_NW).sum(),
        plain=-log_p_NW.gather(1, gold_N[:, None]).sum(),
    )


def project_and_compare(
    states_ND: Tensor,
    output_WD: Tensor,
    gold_N: Tensor,
    smoothing: float,
    bias_W: Tensor | None = None,
) -> Loss:
    """Return `smoothed_cross_entropy` of the logits `states output^T + bias`.

    Logits exist for a chunk of tokens at a time. Their gradient, softmax - target, is known as
    soon as they are, so it is turned at once into the gradients of states and output, and no
    log-probability is kept for the way back.
    """
    if not torch.is_grad_enabled():
        # Else the gradients of a parameter would be computed even where nobody takes them.
        states_ND, output_WD = states_ND.detach(), output_WD.detach()
        bias_W = None if bias_W is None else bias_W.detach()
    smoothed, plain = cast(
        tuple[Tensor, Tensor],
        _ProjectAndCompare.apply(states_ND, output_WD, bias_W, gold_N, smoothing),  # type: ignore[no-untyped-call]
    )
    return Loss(smoothed, plain)


class _ProjectAndCompare(torch.autograd.Function):
    """The two sums, with gradients computed on the way forward; only the first has one."""

    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        output_WD: Tensor,
        bias_W: Tensor | None,
        gold_N: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad)
        grad_states_ND = torch.zeros_like(states_ND) if wanted else None
        grad_output_WD = torch.zeros_like(output_WD) if wanted else None
        grad_bias_W = torch.zeros_like(bias_W) if wanted and bias_W is not None else None
        sums = torch.zeros(2, dtype=torch.float32, device=states_ND.device)
        multiply = product if has_products(states_ND) else F.linear
        for piece in _chunks(
            gold_N.size(0), elements_at_once(gold_N.device) // output_WD.size(0)
        ):
            logits_NW = multiply(states_ND[piece], output_WD, bias_W)
            loss, delta_NW = _compare(logits_NW, gold_N[piece], smoothing)
            sums += loss
            if grad_states_ND is not None and grad_output_WD is not None:
                _multiply(delta_NW, output_WD, logits_NW.dtype, out=grad_states_ND[piece])
                _multiply(delta_NW.T, states_ND[piece], logits_NW.dtype, out=grad_output_WD)
            if grad_bias_W is not None:
                grad_bias_W += delta_NW.sum(dim=0)
        ctx.save_for_backward(grad_states_ND, grad_output_WD, grad_bias_W)
        smoothed, plain = sums.unbind()
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads = (None if each is None else each.mul_(grad) for each in ctx.saved_tensors)
        return (*grads, None, None)


def _chunks(count: int, most: int) -> Iterator[slice]:
    """Cut a number of rows into slices of at most so many, which differ by one at most.

    So none is a single row, which torch would add up in an order of the threads' own.
    """
    pieces = math.ceil(count / max(1, most))
    for piece in range(pieces):
        yield slice(count * piece // pieces, count * (piece + 1) // pieces)


def _compare(logits_NW: Tensor, gold_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return (smoothed, plain) and the gradient of the first towards the logits."""
    wrong = smoothing / (logits_NW.size(-1) - 1)
    work_NW = logits_NW.float()
    gold_logit_N = work_NW.gather(1, gold_N[:, None]).squeeze(1)
    total_logit_N = work_NW.sum(dim=1) if smoothing else gold_logit_N
    top_N = work_NW.amax(dim=1)
    work_NW = work_NW.sub_(top_N[:, None]).exp_()
    normaliser_N = work_NW.sum(dim=1)
    log_normaliser_N = top_N + normaliser_N.log()

    plain_N = log_normaliser_N - gold_logit_N
    expected_N = (1 - smoothing) * gold_logit_N + wrong * (total_logit_N - gold_logit_N)
    loss = torch.stack([(log_normaliser_N - expected_N).sum(), plain_N.sum()])

    delta_NW = work_NW.div_(normaliser_N[:, None]).sub_(wrong)
    minus = torch.full_like(gold_logit_N, wrong + smoothing - 1)
    return loss, delta_NW.scatter_add_(1, gold_N[:, None], minus[:, None])


def _multiply(a: Tensor, b: Tensor, dtype: torch.dtype, *, out: Tensor) -> None:
    """Add the product of two matrices, taken in `dtype`, to `out`."""
    if dtype == out.dtype:
        out.addmm_(a, b)
    elif dtype == torch.float16:
        out.add_((a * HALF_SCALE).to(dtype) @ b.to(dtype), alpha=1 / HALF_SCALE)
    else:
        out.add_(a.to(dtype) @ b.to(dtype))
