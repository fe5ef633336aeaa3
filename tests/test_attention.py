"""Sections 3.2.1 and 3.2.2: equation 1 by hand, and the fused path against it."""

import math

import pytest
import torch
from torch import Tensor, nn

from aiayn.kernels.layout import Layout
from aiayn.model.attention import MultiHeadAttention, attention

EVERYWHERE = torch.ones(1, 1, dtype=torch.bool)
PADDED, CAUSAL = Layout(), Layout(causal=True)


def with_padding() -> Layout:
    """Three sentences of 5, 3 and 1 tokens."""
    return Layout((torch.arange(5) < torch.tensor([[5], [3], [1]]))[:, None, None, :])


def attend_to_itself(layer: MultiHeadAttention, x: Tensor, layout: Layout = PADDED) -> Tensor:
    return layer(x, x, layout, layout)


def two_paths(*, bias: bool = True) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """The fused and the plain path with equal weights and biases other than zero."""
    torch.manual_seed(1)
    fast = MultiHeadAttention(12, heads=3, d_k=2, d_v=5, bias=bias).double()
    for parameter in fast.parameters():
        nn.init.normal_(parameter)
    plain = MultiHeadAttention(12, heads=3, d_k=2, d_v=5, bias=bias).double()
    plain.load_state_dict(fast.state_dict())
    plain.keep_weights = True
    return fast, plain


@pytest.mark.parametrize("d_k", [4, 64])
def test_scores_are_divided_by_the_root_of_d_k(d_k):
    q = torch.zeros(1, 1, 1, d_k)
    q[..., 0] = math.sqrt(d_k) * math.log(3)
    k = torch.zeros(1, 1, 2, d_k)
    k[..., 0, 0] = 1
    _, weights = attention(q, k, torch.zeros(1, 1, 2, 1), EVERYWHERE)
    torch.testing.assert_close(weights.flatten(), torch.tensor([0.75, 0.25]))


def test_the_output_is_the_mean_of_values_by_weight():
    q, k = torch.zeros(1, 1, 1, 2), torch.randn(1, 1, 4, 2)
    v = torch.tensor([[[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [6.0, 8.0]]]])
    mixed, weights = attention(q, k, v, EVERYWHERE)
    torch.testing.assert_close(weights.flatten(), torch.full((4,), 0.25))
    torch.testing.assert_close(mixed.flatten(), torch.tensor([3.0, 2.0]))


def test_a_hidden_key_gets_a_weight_of_exactly_zero_and_the_others_share_one():
    q, k, v = torch.randn(3, 2, 2, 5, 4).unbind()
    allowed = torch.tensor([True, True, False, True, False])
    _, weights = attention(q, k, v, allowed)
    assert not weights[..., ~allowed].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))


def test_each_head_attends_by_itself_and_w_o_joins_them():
    heads, d_k, d_v = 3, 2, 5
    fast, _ = two_paths()
    x = torch.randn(2, 4, 12, dtype=torch.float64)
    parts = []
    for i in range(heads):
        keys, values = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        q, k, v = fast.w_q(x)[..., keys], fast.w_k(x)[..., keys], fast.w_v(x)[..., values]
        parts.append(attention(q, k, v, EVERYWHERE)[0])
    torch.testing.assert_close(attend_to_itself(fast, x), fast.w_o(torch.cat(parts, dim=-1)))


def test_w_q_and_w_o_have_the_shapes_of_row_b1():
    row_b1 = MultiHeadAttention(512, heads=8, d_k=16, d_v=64)
    assert row_b1.w_q.weight.shape == (128, 512)
    assert row_b1.w_k.weight.shape == (128, 512)
    assert row_b1.w_v.weight.shape == (512, 512)
    assert row_b1.w_o.weight.shape == (512, 512)


def test_without_biases_the_four_projections_have_none():
    layer = MultiHeadAttention(8, heads=2, d_k=4, d_v=4, bias=False)
    assert {name for name, _ in layer.named_parameters()} == {
        f"w_{letter}.weight" for letter in "qkvo"
    }


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize("itself", [True, False])
def test_the_fused_path_equals_equation_1_forward_and_back(bias, mask, itself):
    fast, plain = two_paths(bias=bias)
    x = torch.randn(3, 5, 12, dtype=torch.float64)
    memory = torch.randn(3, 5, 12, dtype=torch.float64)
    weight = torch.randn(3, 5, 12, dtype=torch.float64)
    keys = {"none": PADDED, "padding": with_padding(), "causal": CAUSAL}[mask]
    results = []
    for path in (fast, plain):
        query = x.clone().requires_grad_()
        seen = query if itself else memory.clone().requires_grad_()
        out = path(query, seen, PADDED, keys)
        learned = [p for p in path.parameters() if p.requires_grad]
        inputs = [query, *learned] + ([] if itself else [seen])
        results.append([out, *torch.autograd.grad((out * weight).sum(), inputs)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_projecting_together_or_apart_is_the_same():
    fast, _ = two_paths()
    x = torch.randn(2, 4, 12, dtype=torch.float64)
    torch.testing.assert_close(fast(x, x, PADDED, PADDED), fast(x, x.clone(), PADDED, PADDED))


@pytest.mark.parametrize("reference", [True, False])
def test_a_later_position_cannot_change_an_earlier_one(reference):
    torch.manual_seed(1)
    layer = MultiHeadAttention(8, heads=2, d_k=4, d_v=4)
    layer.keep_weights = reference
    x = torch.randn(1, 5, 8)
    changed = x.clone()
    changed[:, 3:] = 99.0
    before, after = (attend_to_itself(layer, each, CAUSAL) for each in (x, changed))
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize("reference", [True, False])
def test_what_stands_behind_padding_cannot_change_the_output(reference):
    torch.manual_seed(1)
    layer = MultiHeadAttention(8, heads=2, d_k=4, d_v=4)
    layer.keep_weights = reference
    x, memory, keys = torch.randn(3, 2, 8), torch.randn(3, 5, 8), with_padding()
    changed = memory.masked_fill(~keys.allowed[:, 0, 0, :, None], 99.0)
    assert torch.equal(layer(x, memory, PADDED, keys), layer(x, changed, PADDED, keys))


def test_the_reference_path_keeps_its_weights():
    _, plain = two_paths()
    x = torch.randn(3, 5, 12, dtype=torch.float64)
    attend_to_itself(plain, x, with_padding())
    assert plain.weights_BHLM.shape == (3, 3, 5, 5)
    assert not plain.weights_BHLM[1, :, :, 3:].any()


@pytest.mark.parametrize("reference", [True, False])
def test_attention_dropout_drops_weights_in_training_only(reference):
    layer = MultiHeadAttention(8, heads=2, d_k=4, d_v=4, dropout=1 - 1e-9)
    layer.keep_weights = reference
    x = torch.randn(1, 5, 8)
    assert not attend_to_itself(layer.train(), x).any()
    assert attend_to_itself(layer.eval(), x).all()


@pytest.mark.parametrize(
    ("is_self_attention", "limits"),
    [
        (True, {"q": 0.054127, "k": 0.054127, "v": 0.054127, "o": 0.076547}),
        (False, {"q": 0.076547, "k": 0.0625, "v": 0.0625, "o": 0.076547}),
    ],
)
def test_projections_start_glorot_uniform_over_all_that_read_one_input(
    is_self_attention, limits
):
    torch.manual_seed(1)
    layer = MultiHeadAttention(
        512, heads=8, d_k=64, d_v=64, is_self_attention=is_self_attention
    )
    for letter, limit in limits.items():
        weight = layer.get_submodule(f"w_{letter}").weight
        assert weight.abs().max().item() == pytest.approx(limit, rel=1e-3)
        assert weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=1e-2)
        assert not layer.get_submodule(f"w_{letter}").bias.any()
