"""Equation 1 by other kernels: each equals `attention` of aiayn.model.attention.

B sentences; L, M query and memory length; J hypotheses; R rows: all of them; C cached columns;
H heads; K, V d_k and d_v per head; N heads of all sentences.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from inspect import signature
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from aiayn.device import autocast_type, has_flash_attention
from aiayn.kernels.autograd import apply, is_training_on_cpu
from aiayn.kernels.layout import Layout

# Numbers that a head may have in torch's kernel for packed rows.
WIDEST_HEAD = 256
# Positions for which the weights of all pairs are less than what the layers keep.
SHORT = 256


def softmax(x: Tensor) -> Tensor:
    """Return x.softmax(dim=-1), with a thread-invariant gradient on a CPU."""
    if not is_training_on_cpu(x):
        return x.softmax(dim=-1)
    return cast(Tensor, apply(_Softmax, x))


class _Softmax(torch.autograd.Function):
    """The gradient of torch's own kernel differs in a digit between numbers of threads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        p = x.softmax(dim=-1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        weighted: Tensor = grad * p
        return weighted.sub_(p * weighted.sum(dim=-1, keepdim=True))


def has_fused_attention(q_BHLK: Tensor, v_BHMV: Tensor, dropout: float) -> bool:
    """Whether F.scaled_dot_product_attention gives the same bits for any number of threads.

    On a CPU its fused kernel does; where torch falls back to its composite kernel, gradients
    differ with the number of threads.
    """
    fused = not dropout and q_BHLK.size(-1) == v_BHMV.size(-1)
    return fused or not (q_BHLK.is_cpu and torch.is_grad_enabled())


def fused_attention(
    q_BHLK: Tensor, k_BHMK: Tensor, v_BHMV: Tensor, keys: Layout, dropout: float = 0.0
) -> Tensor:
    """Return equation 1 by torch's fused kernel, which never holds all (L, M) scores."""
    fused: Callable[..., Tensor] = F.scaled_dot_product_attention
    if q_BHLK.is_meta:
        # There torch would fall back to plain products, which no device does.
        fused = _fused_on_meta
    attend = partial(fused, attn_mask=keys.allowed, is_causal=keys.causal, dropout_p=dropout)
    if not (is_training_on_cpu(q_BHLK) and q_BHLK.dtype == torch.bfloat16):
        return attend(q_BHLK, k_BHMK, v_BHMV)
    # In bfloat16 torch's backward pass takes a fifth of an update, many times that of float32.
    with torch.autocast("cpu", enabled=False):
        if not dropout and max(q_BHLK.size(2), k_BHMK.size(2)) <= SHORT:
            return cast(Tensor, apply(_ShortAttention, q_BHLK, k_BHMK, v_BHMV, keys))
        return attend(q_BHLK.float(), k_BHMK.float(), v_BHMV.float()).bfloat16()


class _ShortAttention(torch.autograd.Function):
    """Equation 1 by batched products, with softmax in float32.

    Twice as fast as the fused kernel in float32 for short sequences; it keeps all weights.
    """

    @staticmethod
    def forward(
        ctx: Any, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMV: Tensor, keys: Layout
    ) -> Tensor:
        q_NLK, k_NMK, v_NMV = (x.flatten(0, 1) for x in (q_BHLK, k_BHMK, v_BHMV))
        ctx.scale, ctx.heads = 1 / math.sqrt(q_NLK.size(-1)), q_BHLK.shape[:2]
        scores_NLM = torch.bmm(q_NLK, k_NMK.mT).float().mul_(ctx.scale)
        if keys.causal:
            later = torch.ones(scores_NLM.shape[1:], dtype=torch.bool).triu(1)
            scores_NLM.masked_fill_(later, -math.inf)
        if keys.allowed is not None:
            scores_NLM.unflatten(0, ctx.heads).masked_fill_(~keys.allowed, -math.inf)
        weights_NLM = scores_NLM.softmax(dim=-1).to(q_NLK.dtype)
        ctx.save_for_backward(q_NLK, k_NMK, v_NMV, weights_NLM)
        heads_NLV: Tensor = torch.bmm(weights_NLM, v_NMV)
        return torch.unflatten(heads_NLV, 0, ctx.heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHLV: Tensor) -> tuple[Tensor | None, ...]:
        q_NLK, k_NMK, v_NMV, weights_NLM = ctx.saved_tensors
        grad_NLV = grad_BHLV.flatten(0, 1)
        p = weights_NLM.float()
        weighted = torch.bmm(grad_NLV, v_NMV.mT).float().mul_(p)
        scores = weighted.sub_(p.mul_(weighted.sum(dim=-1, keepdim=True)))
        grad_NLM = scores.mul_(ctx.scale).to(q_NLK.dtype)
        grads = (
            torch.bmm(grad_NLM, k_NMK),
            torch.bmm(grad_NLM.mT, q_NLK),
            torch.bmm(weights_NLM.mT, grad_NLV),
        )
        return (*(grad.unflatten(0, ctx.heads) for grad in grads), None)


def _fused_on_meta(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    heads, _ = kernel(q, k, v, 0.0, options["is_causal"], attn_mask=options["attn_mask"])
    return cast(Tensor, heads)


def can_attend_packed(d_k: int, d_v: int, device: torch.device) -> bool:
    """Whether `packed_attention` serves for heads of this width."""
    return (
        has_flash_attention(device)
        and autocast_type(device) is not None
        and d_k == d_v
        and d_k % 8 == 0
        and d_k <= WIDEST_HEAD
        and _varlen_attention() is not None
    )


@cache
def _varlen_attention() -> Callable[..., Tensor] | None:
    """Return torch's attention over packed rows; it has one from 2.13 on, slow to import."""
    try:
        found: Callable[..., Tensor] = import_module("torch.nn.attention.varlen").varlen_attn
    except ImportError:
        return None
    return found if "window_size" in signature(found).parameters else None


def packed_attention(
    q_1HRK: Tensor, k_1HRK: Tensor, v_1HRV: Tensor, queries: Layout, keys: Layout
) -> Tensor:
    """Return equation 1 for sentences that lie one after the other, without padding."""
    rows = [x.squeeze(0).transpose(0, 1) for x in (q_1HRK, k_1HRK, v_1HRV)]
    q, k = queries.packing, keys.packing
    attend = _varlen_attention()
    assert attend and q and k
    window = (-1, 0) if keys.causal else (-1, -1)  # positions before and after; -1: all
    heads_RHV = attend(*rows, q.starts, k.starts, q.longest, k.longest, window_size=window)
    return heads_RHV.transpose(0, 1)[None]


def step_attention(q_BJHK: Tensor, k_NCK: Tensor, v_NCV: Tensor, bias: Tensor) -> Tensor:
    """Return equation 1 for the few queries of a decoding step, heads side by side (R, H * V).

    With few queries and short sequences plain products are faster than the fused kernel. The
    bias is 0 where a query may look and -inf elsewhere, so that no layer makes it of a mask.
    """
    sentences, slots, heads, d_k = q_BJHK.shape
    q_NJK = q_BJHK.transpose(1, 2).reshape(-1, slots, d_k)
    scores_NJC = torch.baddbmm(bias, q_NJK, k_NCK.mT, alpha=1 / math.sqrt(d_k))
    heads_NJV = torch.bmm(scores_NJC.softmax(dim=-1), v_NCV)
    heads_BHJV = heads_NJV.view(sentences, heads, slots, -1)
    return heads_BHJV.transpose(1, 2).reshape(sentences * slots, -1)
