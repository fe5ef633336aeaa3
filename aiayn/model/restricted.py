"""Restricted self-attention: section 4 and the last row of table 1.

A position looks at a neighborhood of size r around itself, which takes O(r n d) operations
where looking everywhere takes O(n^2 d).

B sentences; L length; C blocks; W positions of a block, X those that it looks at; H heads;
K, V d_k and d_v per head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from aiayn.kernels.layout import Layout


def is_worth_blocks(length: int, window: int) -> bool:
    """Return whether `restricted_attention` is faster than a mask: for long sequences."""
    return window > 0 and length >= max(256, 4 * window)


def neighborhood(
    i: Tensor, j: Tensor, allowed: Tensor | None = None, *, window: int, causal: bool = False
) -> Tensor:
    """Return True where a query at i sees a key at j: |i - j| <= r // 2, and j <= i if causal.

    A position sees itself even where `allowed` hides it: softmax over nothing is not a number,
    and one such row in the padding would spread through the whole sentence.
    """
    i, j = i[..., :, None], j[..., None, :]
    seen = (i - j).abs() <= window // 2
    if causal:
        seen = seen & (j <= i)
    return seen if allowed is None else seen & allowed | (i == j)


def restricted_attention(
    q_BHLK: Tensor,
    k_BHLK: Tensor,
    v_BHLV: Tensor,
    keys: Layout,
    *,
    window: int,
    dropout: float = 0.0,
) -> Tensor:
    """Return equation 1 over neighborhoods; scores outside of them are not computed.

    Queries are cut into blocks of r, the window. Each block looks at its own keys and at r // 2
    more on either side, as if it were a sentence of its own.
    """
    length, half, device = q_BHLK.size(2), window // 2, q_BHLK.device
    allowed, causal = keys.allowed, keys.causal
    starts = torch.arange(0, length, window, device=device)[:, None]
    # Keys before the first and after the last position are clamped, and hidden below.
    i_CW = starts + torch.arange(window, device=device)
    j_CX = starts + torch.arange(-half, window + (0 if causal else half), device=device)
    inside_BCX = ((j_CX >= 0) & (j_CX < length)).expand(q_BHLK.size(0), -1, -1)
    if allowed is not None:
        inside_BCX = inside_BCX & allowed[:, 0, 0, j_CX.clamp(0, length - 1)]
    seen_BCWX = neighborhood(i_CW, j_CX, inside_BCX[:, :, None], window=window, causal=causal)
    mixed_BHWV = F.scaled_dot_product_attention(
        _blocks(q_BHLK, i_CW),
        _blocks(k_BHLK, j_CX),
        _blocks(v_BHLV, j_CX),
        attn_mask=seen_BCWX.flatten(0, 1)[:, None],
        dropout_p=dropout,
    )
    mixed_BLHV = mixed_BHWV.transpose(1, 2).reshape(q_BHLK.size(0), -1, *v_BHLV.shape[1::2])
    return mixed_BLHV[:, :length].transpose(1, 2)


def _blocks(x_BHLK: Tensor, positions_CW: Tensor) -> Tensor:
    """Return the blocks at these positions as sentences (B * C, H, W, K); ends repeat."""
    positions = positions_CW.flatten().clamp(0, x_BHLK.size(2) - 1)
    x_BLHK = x_BHLK.transpose(1, 2).index_select(1, positions)
    return x_BLHK.reshape(-1, positions_CW.size(1), *x_BLHK.shape[2:]).transpose(1, 2)
