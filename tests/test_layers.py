"""Figure 1: the feed-forward network, the post-norm residual, and the layers built of them."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from aiayn.kernels.layout import Layout
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward

PADDED, CAUSAL = Layout(), Layout(causal=True)


def give(value: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a sub-layer that returns this whatever it is given."""
    return lambda x: value


def self_attention() -> MultiHeadAttention:
    return MultiHeadAttention(8, heads=2, d_k=4, d_v=4)


def decoder_layer() -> DecoderLayer:
    cross_attention = MultiHeadAttention(8, heads=2, d_k=4, d_v=4, is_self_attention=False)
    return DecoderLayer(
        self_attention(), cross_attention, FeedForward(8, 16), dropout=0.1, epsilon=1e-6
    )


def assert_normalized(x: Tensor) -> None:
    torch.testing.assert_close(x.mean(-1), torch.zeros(x.shape[:-1]), rtol=0, atol=1e-4)
    variance = x.var(-1, correction=0)
    torch.testing.assert_close(variance, torch.ones(x.shape[:-1]), rtol=0, atol=1e-4)


def test_the_feed_forward_network_is_equation_2():
    network = FeedForward(2, 3)
    with torch.no_grad():
        network.w_1.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        network.w_1.bias.copy_(torch.tensor([0.0, 0.0, -2.0]))
        network.w_2.weight.copy_(torch.tensor([[1.0, 10.0, 100.0], [0.0, 0.0, 1.0]]))
        network.w_2.bias.copy_(torch.tensor([0.5, 0.0]))
    # max(0, (3, -1) W_1 + b_1) = (3, 0, 0); max(0, (1, 4) W_1 + b_1) = (1, 4, 3)
    out = network(torch.tensor([[[3.0, -1.0], [1.0, 4.0]]]))
    assert out.tolist() == [[[3.5, 0.0], [341.5, 3.0]]]


def test_swish_in_place_of_relu_is_x_sigmoid_x():
    network = FeedForward(1, 1, activation="swish")
    with torch.no_grad():
        network.w_1.weight.fill_(1.0)
        network.w_2.weight.fill_(1.0)
    out = network(torch.tensor([[-1.0], [2.0]]))
    expected = [-1 / (1 + math.e), 2 / (1 + math.exp(-2))]
    torch.testing.assert_close(out.flatten(), torch.tensor(expected))


def test_the_feed_forward_network_starts_glorot_uniform_without_biases():
    torch.manual_seed(1)
    network = FeedForward(512, 2048)
    for linear in (network.w_1, network.w_2):
        assert linear.weight.abs().max().item() == pytest.approx(0.048412, rel=1e-3)
        assert linear.weight.std().item() == pytest.approx(0.048412 / math.sqrt(3), rel=1e-2)
        assert not linear.bias.any()


def test_relu_dropout_acts_inside_the_network_in_training_only():
    network = FeedForward(8, 16, dropout=0.5)
    x = torch.randn(1, 3, 8)
    assert not torch.equal(network.train()(x), network(x))
    assert torch.equal(network.eval()(x), network(x))


def test_the_residual_connection_adds_what_the_sub_layer_was_given():
    add, x = AddAndNorm(8, dropout=0.0, epsilon=1e-6), torch.randn(3, 8)
    torch.testing.assert_close(add(x, torch.square), add.norm(x + x**2))
    assert torch.equal(add(x, torch.zeros_like), add.norm(x))


def test_the_norm_stands_after_the_sum():
    add = AddAndNorm(3, dropout=0.0, epsilon=1e-6)
    # The sum is (3, 0, -3): mean 0, variance 6.
    out = add(torch.tensor([1.0, 1.0, -5.0]), give(torch.tensor([2.0, -1.0, 2.0])))
    torch.testing.assert_close(out, torch.tensor([1.5**0.5, 0.0, -(1.5**0.5)]))


def test_the_epsilon_of_the_norm_is_1e_6_and_stands_under_the_root():
    add = AddAndNorm(2, dropout=0.0, epsilon=1e-6)
    # Mean 0 and variance 1e-6: 1e-3 / sqrt(1e-6 + 1e-6) = sqrt(0.5).
    out = add(torch.tensor([1e-3, -1e-3]), torch.zeros_like)
    torch.testing.assert_close(out, torch.tensor([0.5**0.5, -(0.5**0.5)]))


def test_another_epsilon_can_be_set():
    add = AddAndNorm(2, dropout=0.0, epsilon=3e-6)
    # Mean 0 and variance 1e-6: 1e-3 / sqrt(1e-6 + 3e-6) = 0.5.
    out = add(torch.tensor([1e-3, -1e-3]), torch.zeros_like)
    torch.testing.assert_close(out, torch.tensor([0.5, -0.5]))


def test_the_norm_starts_with_gain_1_and_bias_0():
    norm = AddAndNorm(8, dropout=0.0, epsilon=1e-6).norm
    assert norm.weight.tolist() == [1.0] * 8
    assert norm.bias.tolist() == [0.0] * 8


def test_dropout_acts_on_the_sub_layer_and_not_on_the_residual():
    torch.manual_seed(1)
    add = AddAndNorm(10_000, dropout=0.3, epsilon=1e-6).train()
    # Before the norm there stand 1 where the sub-layer is dropped and 1 + 1 / 0.7 elsewhere.
    low, high = add(torch.ones(10_000), torch.ones_like).unique(return_counts=True)[1]
    assert low.item() == pytest.approx(3000, abs=200)
    assert low + high == 10_000
    # A residual that stands alone comes through whole.
    x = torch.randn(10_000)
    assert torch.equal(add(x, torch.zeros_like), add.norm(x))


def test_without_training_nothing_is_dropped():
    add = AddAndNorm(8, dropout=0.3, epsilon=1e-6).eval()
    x, sublayer = torch.randn(2, 8)
    assert torch.equal(add(x, give(sublayer)), add.norm(x + sublayer))


def test_every_sub_layer_leaves_mean_0_and_variance_1():
    torch.manual_seed(1)
    outputs: list[Tensor] = []
    encoder = EncoderLayer(self_attention(), FeedForward(8, 16), dropout=0.1, epsilon=1e-6)
    decoder = decoder_layer()
    for module in (*encoder.modules(), *decoder.modules()):
        if isinstance(module, AddAndNorm):
            module.register_forward_hook(lambda *call: outputs.append(call[-1]))
    memory = encoder(100 * torch.randn(2, 5, 8), PADDED)
    decoder(100 * torch.randn(2, 4, 8), memory, CAUSAL, PADDED)
    assert len(outputs) == 5
    for output in outputs:
        assert_normalized(output)


def test_the_encoder_layer_returns_what_its_last_norm_returns():
    layer = EncoderLayer(self_attention(), FeedForward(8, 16), dropout=0.1, epsilon=1e-6)
    last: list[Tensor] = []
    layer.add_2.norm.register_forward_hook(lambda *call: last.append(call[-1]))
    assert layer(torch.randn(2, 5, 8), PADDED) is last[0]


def test_the_decoder_layer_looks_at_itself_then_at_the_encoder_then_feeds_forward():
    layer, order = decoder_layer(), []
    for name, part in layer.named_children():
        part.register_forward_hook(lambda *_, name=name: order.append(name))
    layer(torch.randn(2, 4, 8), torch.randn(2, 5, 8), CAUSAL, PADDED)
    assert order == [
        "self_attention",
        "add_1",
        "cross_attention",
        "add_2",
        "feed_forward",
        "add_3",
    ]


def test_the_decoder_layer_lets_no_position_see_a_later_one():
    torch.manual_seed(1)
    layer = decoder_layer().eval()
    y, memory = torch.randn(1, 5, 8), torch.randn(1, 3, 8)
    changed = y.clone()
    changed[:, 3:] += 1
    before, after = (layer(each, memory, CAUSAL, PADDED) for each in (y, changed))
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])


def test_both_layers_are_blind_to_the_padding_of_the_source():
    torch.manual_seed(1)
    encoder = EncoderLayer(
        self_attention(), FeedForward(8, 16), dropout=0.1, epsilon=1e-6
    ).eval()
    decoder = decoder_layer().eval()
    source = Layout(torch.tensor([True, True, True, False, False])[None, None, None])
    x, y = torch.randn(1, 5, 8), torch.randn(1, 4, 8)
    changed = x.clone()
    changed[:, 3:] += 1
    assert torch.equal(encoder(x, source)[:, :3], encoder(changed, source)[:, :3])
    assert torch.equal(decoder(y, x, CAUSAL, source), decoder(y, changed, CAUSAL, source))
