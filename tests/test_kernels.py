"""Each kernel equals one plain function, which reads like the equation."""

import ast
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toy import threads

from aiayn import kernels
from aiayn.config import ModelConfig
from aiayn.data.batch import collate
from aiayn.device import autocast, autocast_type, has_bfloat16
from aiayn.kernels import attention as attention_kernels
from aiayn.kernels import cross_entropy, layout
from aiayn.kernels import linear as linear_module
from aiayn.kernels.attention import (
    SHORT,
    can_attend_packed,
    fused_attention,
    has_fused_attention,
    packed_attention,
    softmax,
    step_attention,
)
from aiayn.kernels.autograd import apply, is_training_on_cpu
from aiayn.kernels.cross_entropy import fused_linear_cross_entropy
from aiayn.kernels.dropout import Drawn, attention_dropout, drawn_for, dropout
from aiayn.kernels.layout import MULTIPLE, Layout, Packing, packed_rows
from aiayn.kernels.linear import (
    ONEDNN_IS_FAST,
    Linear,
    LowCopy,
    can_use_onednn,
    concat_weights,
    fused_linear,
    linear,
    low_copy,
    low_linear,
    onednn_linear,
)
from aiayn.kernels.norm import LayerNorm
from aiayn.kernels.packed import BFloat16Linear, InferenceLinear, Int8Linear, PackedLinear
from aiayn.kernels.topk import largest_sums
from aiayn.model.attention import attention
from aiayn.model.restricted import neighborhood, restricted_attention
from aiayn.model.transformer import Transformer
from aiayn.training import loss
from aiayn.training.loss import batch_loss, smoothed_cross_entropy

SHAPES = [(), (1,), (7,), (0,), (3, 5), (2, 3, 4)]


def gradients(y: Tensor, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    """Return the gradients of a random projection of y."""
    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(y)
    return torch.autograd.grad(y, [x for x in inputs if x is not None], direction)


def assert_equal_with_gradients(found: Tensor, wanted: Tensor, *inputs: Tensor | None) -> None:
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients(found, *inputs), gradients(wanted, *inputs))


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def test_every_public_kernel_is_tested_here():
    used = {
        node.id
        for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    for path in Path(kernels.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_":
                assert node.name in used, f"test that {node.name} of {path.name} is right"


# Linear layers: x W^T + b.


def layer_inputs(*shape: int, bias: bool = True) -> list[Tensor | None]:
    """Return x, W and b."""
    x, weight = (random(*size, 16, dtype=torch.float32) for size in (shape, (24,)))
    return [x, weight, random(24, dtype=torch.float32) if bias else None]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_linear_equals_f_linear_forward_and_back(shape, bias):
    inputs = layer_inputs(*shape, bias=bias)
    assert_equal_with_gradients(linear(*inputs), F.linear(*inputs), *inputs)


def test_linear_equals_f_linear_of_a_view_that_is_not_contiguous():
    x, weight, bias = layer_inputs(6, 5)
    inputs = [x.transpose(0, 1), weight, bias]
    found, wanted = (each(*inputs).transpose(0, 1) for each in (linear, F.linear))
    assert_equal_with_gradients(found, wanted, *inputs)


def test_linear_is_f_linear_to_the_bit_where_no_gradient_is_wanted():
    inputs = layer_inputs(9)
    with torch.no_grad():
        assert torch.equal(linear(*inputs), F.linear(*inputs))


def test_linear_uses_f_linear_for_float64_and_within_autocast():
    inputs = [t.detach().double().requires_grad_() for t in layer_inputs(4)]
    assert torch.autograd.gradcheck(linear, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(*layer_inputs(4)).dtype == torch.bfloat16


@pytest.mark.parametrize("frozen", [0, 1, 2], ids=["x", "weight", "bias"])
def test_linear_computes_no_gradient_of_what_does_not_learn(frozen):
    inputs = layer_inputs(4)
    inputs[frozen] = inputs[frozen].detach()
    linear(*inputs).sum().backward()
    assert [t.grad is None for t in inputs] == [n == frozen for n in range(3)]


def test_training_multiplies_by_onednn_where_it_is_fast(monkeypatch):
    calls = []
    monkeypatch.setattr(
        linear_module,
        "onednn_linear",
        lambda *given: calls.append(given) or onednn_linear(*given),
    )
    inputs = layer_inputs(4)
    assert can_use_onednn(inputs[0]) == ONEDNN_IS_FAST
    gradients(linear(*inputs), *inputs)
    assert len(calls) == 2 * ONEDNN_IS_FAST


def layers_of_one_input(*, bias: bool = True) -> list[Linear]:
    return [Linear(16, width, bias=bias) for width in (24, 8)]


@pytest.mark.parametrize("bias", [True, False])
def test_fused_linear_equals_its_layers_one_by_one(bias):
    layers, x = layers_of_one_input(bias=bias), random(7, 16, dtype=torch.float32)
    wanted = torch.cat([F.linear(x, each.weight, each.bias) for each in layers], dim=-1)
    parameters = [p for layer in layers for p in layer.parameters()]
    assert_equal_with_gradients(fused_linear(x, layers), wanted, x, *parameters)


needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(), reason="this processor does not multiply bfloat16"
)


def relative_error(found: Tensor, wanted: Tensor) -> float:
    return ((found.float() - wanted).norm() / wanted.norm()).item()


@needs_bfloat16
@pytest.mark.parametrize("bias", [True, False])
def test_products_in_bfloat16_are_those_of_float32_to_a_percent_forward_and_back(bias):
    layers, x = layers_of_one_input(bias=bias), random(37, 16, dtype=torch.float32)
    parameters = [p for layer in layers for p in layer.parameters()]
    wanted = fused_linear(x, layers)
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast_type(x.device) == torch.bfloat16
        found = fused_linear(x, layers)
    assert found.dtype == torch.bfloat16
    assert relative_error(found, wanted) < 0.01
    for one, other in zip(
        gradients(found, x, *parameters), gradients(wanted, x, *parameters), strict=True
    ):
        assert one.dtype == torch.float32
        assert relative_error(one, other) < 0.01


@needs_bfloat16
def test_weights_become_bfloat16_once_an_update():
    weights = [layer.weight for layer in layers_of_one_input()]
    with torch.inference_mode():  # as validation does
        first = low_copy(weights, torch.bfloat16)
    assert torch.equal(first, torch.cat(weights).bfloat16())
    assert low_copy(weights, torch.bfloat16) is first
    with torch.no_grad():
        weights[1].add_(1.0)
    assert torch.equal(low_copy(weights, torch.bfloat16), torch.cat(weights).bfloat16())
    assert not first.is_inference()


@needs_bfloat16
def test_a_step_of_adam_makes_a_new_copy_in_bfloat16():
    (layer,) = layers = [Linear(16, 8)]
    optimizer = torch.optim.Adam(layer.parameters(), lr=1.0, fused=True)
    before = low_copy([layer.weight], torch.bfloat16).clone()
    with torch.autocast("cpu", torch.bfloat16):
        fused_linear(torch.randn(3, 16), layers).sum().backward()
    optimizer.step()
    assert not torch.equal(low_copy([layer.weight], torch.bfloat16), before)
    copy = linear_module._COPIES[layer.weight]
    assert isinstance(copy, LowCopy)
    assert copy.joined is low_copy([layer.weight], torch.bfloat16)
    assert torch.equal(copy.joined, layer.weight.bfloat16())


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="this torch is built without oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_onednn_linear_equals_f_linear(bias):
    x, weight, b = (None if t is None else t.detach() for t in layer_inputs(5, bias=bias))
    torch.testing.assert_close(onednn_linear(x, weight, b), F.linear(x, weight, b))


@pytest.mark.parametrize("bias", [True, False])
def test_the_layer_equals_a_plain_one_of_its_parameters(bias):
    layer, plain, x = Linear(16, 24, bias=bias), nn.Linear(16, 24, bias=bias), random(3, 16)
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x.float()), plain(x.float()))


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_with_concatenated_weights_equals_the_layers_side_by_side(bias):
    layers, x = [Linear(16, width, bias=bias) for width in (8, 24)], random(3, 16).float()
    found = linear(x, *concat_weights(layers))
    torch.testing.assert_close(found, torch.cat([layer(x) for layer in layers], dim=-1))


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="this torch is built without oneDNN")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 64])
@torch.no_grad()
def test_a_packed_layer_equals_f_linear(rows, bias):
    layer, x = Linear(64, 96, bias=bias), torch.randn(rows, 3, 64)
    wanted = F.linear(x, layer.weight, layer.bias)
    packed = PackedLinear(layer)
    torch.testing.assert_close(packed(x), wanted)
    torch.testing.assert_close(packed.relu(x), F.relu(wanted))


@needs_bfloat16
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_layer_of_bfloat16_equals_f_linear_but_for_a_percent(bias):
    layer, x = Linear(64, 96, bias=bias), torch.randn(5, 3, 64)
    wanted = F.linear(x, layer.weight, layer.bias)
    low = BFloat16Linear(layer)
    assert low(x).dtype == torch.float32
    assert relative_error(low(x), wanted) < 0.01
    assert relative_error(low.relu(x), F.relu(wanted)) < 0.01


@torch.no_grad()
def test_every_layer_of_inference_has_its_relu_in_the_same_pass():
    layer, x = Linear(256, 64), torch.randn(10, 256)
    for kind in InferenceLinear.__subclasses__():
        made = kind(layer)
        torch.testing.assert_close(made.relu(x), F.relu(made(x)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [64, 4096])
@torch.no_grad()
def test_a_layer_of_8_bits_equals_f_linear_but_for_two_percent(width, bias):
    layer, x = Linear(256, width, bias=bias), torch.randn(10, 3, 256)
    # Outputs of very different size keep their precision: each has a scale of its own.
    layer.weight *= torch.logspace(-3, 3, width)[:, None]
    found, wanted = Int8Linear(layer)(x), F.linear(x, layer.weight, layer.bias)
    error = (found - wanted).flatten(0, 1).norm(dim=0) / wanted.flatten(0, 1).norm(dim=0)
    assert found.shape == wanted.shape
    assert 0 < error.max() < 0.02


# Softmax, layer normalization, dropout.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_equals_torch_softmax_forward_and_back(shape):
    x = random(*shape, 21)
    assert_equal_with_gradients(softmax(x), torch.softmax(x, dim=-1), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_equals_its_equation_forward_and_back(shape):
    norm, x = LayerNorm(160, eps=1e-6).double(), random(*shape, 160)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    wanted = (x - mean) / torch.sqrt(variance + 1e-6) * norm.weight + norm.bias
    assert_equal_with_gradients(norm(x), wanted, x, norm.weight, norm.bias)


def test_gradients_of_softmax_and_layer_norm_are_thread_invariant():
    norm, x = LayerNorm(160), random(5000, 160, dtype=torch.float32)
    found = []
    for count in (1, 2, 3):
        with threads(count):
            found.append(
                [*gradients(norm(x), x, *norm.parameters()), *gradients(softmax(x), x)]
            )
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


def test_dropout_drops_at_its_rate_and_keeps_the_expectation():
    dropped = dropout(torch.ones(1_000_003), 0.1, training=True)
    assert (dropped == 0).double().mean().item() == pytest.approx(0.1, abs=1e-3)
    assert dropped.double().mean().item() == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(dropped.unique(), torch.tensor([0, 1 / 0.9]), rtol=1e-4, atol=0)


def test_dropout_is_the_identity_outside_of_training_and_at_rate_0():
    x = torch.randn(3, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_the_gradient_of_dropout_passes_where_the_value_does():
    x = random(1000)
    out = dropout(x, 0.3, training=True)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), out.detach())


def test_the_seed_decides_what_dropout_drops():
    masks = []
    for number in (1, 1, 2):
        torch.manual_seed(number)
        masks.append(dropout(torch.ones(4, 1001), 0.5, training=True))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert not masks[0][0].equal(masks[0][1])


def test_a_part_of_a_batch_drops_what_the_whole_would():
    rows, weights = torch.ones(32, 9), torch.ones(6, 2, 3, 3)
    torch.manual_seed(1)
    whole = dropout(rows, 0.4, training=True), attention_dropout(weights, 0.4)
    torch.manual_seed(1)
    with drawn_for(Drawn(first=20, rows=packed_rows(30, rows.device)), Drawn(2, 6)):
        # The last rows of a part may lie beyond those of the whole; they are not tokens.
        part = dropout(rows[:15], 0.4, training=True), attention_dropout(weights[:3], 0.4)
    assert part[0][:12].equal(whole[0][20:])
    assert part[1].equal(whole[1][2:5])


def test_the_kernels_for_training_are_for_gradients_on_a_cpu():
    x = torch.zeros(1)
    assert is_training_on_cpu(x)
    assert not is_training_on_cpu(x.to("meta"))
    with torch.no_grad():
        assert not is_training_on_cpu(x)


def test_apply_calls_an_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    x = random(3)
    assert_equal_with_gradients(apply(Double, x), x + x, x)


# Packed rows in place of padding.


def packed_layout() -> tuple[Layout, Tensor]:
    """Return the layout of sentences of 2 and 3 tokens, and where they stand."""
    real_BL = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]]).bool()
    index_N = real_BL.flatten().nonzero().squeeze(1)
    return Layout(packing=Packing.of(index_N, real_BL)), real_BL


def test_packing_equals_boolean_indexing_forward_and_back():
    layout, real_BL = packed_layout()
    x = random(2, 4, 3)
    packed = layout.pack(x)
    assert packed.shape == (MULTIPLE, 3)  # a round number of rows
    assert_equal_with_gradients(packed[:5], x[real_BL], x)


def test_unpacking_equals_assignment_by_boolean_indexing_forward_and_back():
    layout, real_BL = packed_layout()
    rows = random(MULTIPLE, 3)
    wanted = torch.zeros(2, 4, 3, dtype=rows.dtype)
    wanted[real_BL] = rows[:5]
    assert_equal_with_gradients(layout.unpack(rows), wanted, rows)


def test_a_padded_layout_leaves_a_rectangle_as_it_is():
    x = torch.randn(2, 4, 3)
    assert Layout().pack(x) is x
    assert Layout().unpack(x) is x


# Attention.


@needs_bfloat16
@pytest.mark.parametrize("length", [5, SHORT + 1])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_fused_attention_in_bfloat16_is_that_of_float32_to_a_percent(length, mask):
    allowed = torch.ones(2, 1, 1, length, dtype=torch.bool)
    allowed[1, ..., -2:] = False
    keys = Layout(allowed if mask == "padding" else None, causal=mask == "causal")
    q, k, v = (random(2, 3, length, 4, dtype=torch.float32) for _ in range(3))
    wanted = fused_attention(q, k, v, keys)
    with torch.autocast("cpu", torch.bfloat16):
        found = fused_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), keys)
    assert found.dtype == torch.bfloat16
    assert relative_error(found, wanted.detach()) < 0.01
    for one, other in zip(gradients(found, q, k, v), gradients(wanted, q, k, v), strict=True):
        assert relative_error(one, other) < 0.02


def test_step_attention_equals_attention():
    q, k, v = torch.randn(3, 2, 4, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 5)
    allowed = torch.rand(3, 2, 4, 7) < 0.5
    allowed[..., 0] = True
    bias = torch.zeros(3, 2, 4, 7).masked_fill(~allowed, -math.inf)
    flat = (each.flatten(0, 1) for each in (k, v, bias))
    found = step_attention(q.transpose(1, 2), *flat)
    wanted = attention(q, k, v, allowed)[0].transpose(1, 2).reshape(12, 10)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_equals_attention_forward_and_back(causal):
    q, k, v = (random(3, 2, 6, 4) for _ in range(3))
    allowed = torch.ones(6, 6, dtype=torch.bool)
    wanted, _ = attention(q, k, v, allowed.tril() if causal else allowed)
    found = fused_attention(q, k, v, Layout(causal=causal))
    assert_equal_with_gradients(found, wanted, q, k, v)


def attend_by_sentence(q, k, v, starts_q, starts_k, longest_q, longest_k, *, window_size):
    """What torch's kernel for GPUs computes, sentence by sentence."""
    found = []
    for begin, end in zip(
        pairwise(starts_q.tolist()), pairwise(starts_k.tolist()), strict=True
    ):
        assert begin[1] - begin[0] <= longest_q
        assert end[1] - end[0] <= longest_k
        parts = q[slice(*begin)], k[slice(*end)], v[slice(*end)]
        sides = [part.transpose(0, 1)[None] for part in parts]
        causal = window_size == (-1, 0)
        found.append(F.scaled_dot_product_attention(*sides, is_causal=causal)[0])
    return torch.cat([heads.transpose(0, 1) for heads in found])


def test_packed_attention_gives_the_loss_and_the_gradients_of_padded_attention(monkeypatch):
    monkeypatch.setattr(layout, "spare_rows", lambda device: 2)  # as on a GPU
    monkeypatch.setattr(attention_kernels, "_varlen_attention", lambda: attend_by_sentence)
    config = ModelConfig(layers=2, d_model=16, d_ff=32, heads=2, d_k=8, d_v=8, dropout=0)
    model = Transformer(config, 20)
    learned = [p for p in model.parameters() if p.requires_grad]
    batch = collate([(np.arange(3, 3 + n), np.arange(3, 15 - n)) for n in (9, 4, 1, 6)])
    found = []
    for packed in (False, True):
        monkeypatch.setattr(loss, "can_attend_packed", lambda *_, packed=packed: packed)
        smoothed = batch_loss(model, batch, 0.1).smoothed
        found.append([smoothed, *gradients(smoothed, *learned)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("d_k", "d_v", "dtype", "serves"),
    [
        (64, 64, torch.bfloat16, True),
        (64, 64, torch.float32, False),
        (64, 32, torch.bfloat16, False),
        (20, 20, torch.bfloat16, False),
        (512, 512, torch.bfloat16, False),
    ],
)
def test_attention_needs_no_padding_where_the_gpu_has_a_kernel_for_it(d_k, d_v, dtype, serves):
    device = torch.device("meta")  # stands for a GPU
    with autocast(device, dtype):
        assert can_attend_packed(d_k, d_v, device) == serves
        assert not can_attend_packed(d_k, d_v, torch.device("cpu"))


def test_packed_attention_takes_all_sentences_as_one(monkeypatch):
    monkeypatch.setattr(layout, "spare_rows", lambda device: 2)
    monkeypatch.setattr(attention_kernels, "_varlen_attention", lambda: attend_by_sentence)
    ids = torch.tensor([[5, 5, 5], [5, 0, 0]])
    index = (ids != 0).flatten().nonzero().squeeze(1)
    rows = Layout(causal=True, packing=Packing.of(index, ids, torch.tensor([3, 1])))
    assert rows.packing.starts.tolist() == [0, 3, 4, 32]
    assert rows.packing.longest == 28
    x = torch.randn(32, 6)
    assert torch.equal(rows.repack(rows.unpack(x)), x)
    heads = torch.unflatten(rows.unpack(x), -1, (2, 3)).transpose(1, 2)
    found = packed_attention(heads, heads, heads, rows, rows)[0, :, :3]
    first = heads[:, :, :3]
    wanted, _ = attention(first, first, first, torch.ones(3, 3, dtype=torch.bool).tril())
    torch.testing.assert_close(found, wanted[0])


def test_low_linear_multiplies_what_is_in_bfloat16_already():
    x, weight, bias = (t.detach().bfloat16() for t in layer_inputs(5))
    wanted = F.linear(x.float(), weight.float(), bias.float())
    assert relative_error(low_linear(x, weight, bias), wanted) < 0.01


def test_fused_attention_is_used_where_its_gradient_is_thread_invariant():
    q, wide = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 5)
    assert has_fused_attention(q, q, dropout=0.0)
    assert not has_fused_attention(q, wide, dropout=0.0)
    assert not has_fused_attention(q, q, dropout=0.1)
    with torch.no_grad():
        assert has_fused_attention(q, wide, dropout=0.0)


@pytest.mark.parametrize("window", [1, 2, 3, 8, 19, 40])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_restricted_attention_equals_attention_to_the_neighborhood(window, causal, padded):
    q, k, v = (random(3, 2, 37, width) for width in (4, 4, 5))
    i = torch.arange(37)
    # One sentence is full and one a single word.
    allowed = (i < torch.tensor([[37], [20], [1]]))[:, None, None, :] if padded else None
    mask = neighborhood(i, i, allowed, window=window, causal=causal)
    found = restricted_attention(q, k, v, Layout(allowed, causal), window=window)
    assert_equal_with_gradients(found, attention(q, k, v, mask)[0], q, k, v)


# The output layer and its loss; the choice among logits.


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("logits_at_once", [1, 5 * 11, 2**22])
def test_the_fused_loss_equals_smoothed_cross_entropy_forward_and_back(
    smoothing, bias, logits_at_once, monkeypatch
):
    monkeypatch.setattr(cross_entropy, "elements_at_once", lambda device: logits_at_once)
    states, weight = (random(rows, 8, dtype=torch.float32) for rows in (23, 11))
    b, gold = random(11, dtype=torch.float32) if bias else None, torch.randint(11, (23,))
    fused = fused_linear_cross_entropy(states, weight, gold, smoothing, b)
    plain = smoothed_cross_entropy(F.linear(states, weight, b), gold, smoothing)
    torch.testing.assert_close(fused[1], plain.plain)
    # A random factor on the way back, as the division by the tokens of an update is one.
    assert_equal_with_gradients(fused[0], plain.smoothed, states, weight, b)


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize(
    "width", [1, 5, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 1030, 1100]
)
@pytest.mark.parametrize("impossible", [0.0, 0.5, 0.999])
def test_largest_sums_equal_topk(width, count, impossible):
    logits_BJW, added_BJ = torch.randn(9, 2, width), torch.randn(9, 2)
    logits_BJW[torch.rand(logits_BJW.shape) < impossible] = -math.inf
    sums_BN = (logits_BJW + added_BJ[..., None]).flatten(1)
    values, places = largest_sums(logits_BJW.clone(), added_BJ, count)
    assert torch.equal(values, sums_BN.topk(min(count, 2 * width)).values)
    assert torch.equal(sums_BN.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())
