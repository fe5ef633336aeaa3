"""Restricted self-attention, section 4: who sees whom, in the model and in decoding."""

import pytest
import torch
from test_decoder import SOURCES, Prefixes, assert_close, decoder_of, grow
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from toy import keep_attention_weights

from aiayn.config import ModelConfig
from aiayn.errors import UsageError
from aiayn.kernels.layout import Layout
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.restricted import neighborhood, restricted_attention
from aiayn.model.transformer import Transformer
from aiayn.special_ids import PAD


def padding_mask(length: int) -> Tensor:
    """Three sentences, of which one is full and one a single word."""
    return (torch.arange(length) < torch.tensor([[length], [20], [1]]))[:, None, None, :]


def model_with(window: int, *, layers: int = 1) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "d_k": 8, "d_v": 8, "dropout": 0.0}
    return Transformer(ModelConfig(layers=layers, attention_window=window, **sizes), 11).eval()


def with_another_token(ids: Tensor, place: int) -> Tensor:
    changed = ids.clone()
    changed[:, place] = (ids[:, place] - 1) % 9 + 2
    return changed


@pytest.mark.parametrize(
    ("window", "causal", "keys"),
    [
        (4, False, [1, 2, 3, 4, 5]),
        (5, False, [1, 2, 3, 4, 5]),
        (4, True, [1, 2, 3]),
        (1, False, [3]),
        (99, False, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_position_sees_half_a_window_to_either_side(window, causal, keys):
    i = torch.arange(8)
    seen = neighborhood(i, i, window=window, causal=causal)
    assert seen[3].nonzero().flatten().tolist() == keys


@pytest.mark.parametrize("length", [37, 300])
@pytest.mark.parametrize("window", [3, 30, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_the_fast_path_equals_equation_1_with_and_without_blocks(length, window, causal):
    torch.manual_seed(1)
    layer = MultiHeadAttention(12, heads=3, d_k=4, d_v=4, window=window).double()
    x = torch.randn(3, length, 12, dtype=torch.float64)
    layout = Layout(None if causal else padding_mask(length), causal)
    fast = layer(x, x, layout, layout)
    layer.keep_weights = True
    torch.testing.assert_close(fast, layer(x, x, layout, layout))


def test_the_plain_path_shows_no_weight_outside_of_the_window():
    model = model_with(4)
    keep_attention_weights(model)
    model(torch.randint(2, 11, (2, 9)), torch.randint(2, 11, (2, 9)))
    distance = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    for layer in (model.encoder[0], model.decoder[0]):
        assert not layer.self_attention.weights_BHLM[..., distance > 2].any()
        assert layer.self_attention.weights_BHLM[..., 8, 6:].all()


@pytest.mark.parametrize("length", [40, 300])
def test_each_layer_sees_half_a_window_further(length):
    source = torch.randint(2, 11, (1, length))
    changed = with_another_token(source, 20)
    model = model_with(4, layers=3)
    differs = (model.encode(source, Layout()) != model.encode(changed, Layout())).any(-1)
    assert differs.nonzero()[:, 1].tolist() == list(range(20 - 3 * 2, 20 + 3 * 2 + 1))


def test_attention_to_the_source_is_not_restricted():
    model = model_with(1)
    source, target = torch.randint(2, 11, (1, 40)), torch.randint(2, 11, (1, 12))
    changed = with_another_token(source, 39)
    assert (model(source, target) != model(changed, target)).any(-1).all()


def test_a_window_wider_than_the_sentence_is_no_window():
    source, target = torch.randint(2, 11, (2, 2, 9))
    torch.testing.assert_close(model_with(18)(source, target), model_with(0)(source, target))


@pytest.mark.parametrize("padding", [30, 300])
def test_padding_beyond_the_window_is_harmless(padding):
    model = model_with(4, layers=2).double()
    source, target = torch.randint(2, 11, (2, 1, 12))
    longer = torch.cat([source, torch.full((1, padding), PAD)], dim=1)
    padded = model(longer, target)
    torch.testing.assert_close(padded, model(source, target))
    padded.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("window", [1, 3, 4, 40])
@torch.inference_mode()
def test_decoding_with_caches_equals_the_model_on_each_prefix(window):
    model = model_with(window, layers=2)
    (step, first), plain = decoder_of(model, SOURCES), Prefixes(model, SOURCES)
    assert_close(first, plain.logits().expand_as(first))
    for _ in range(7):
        grow(step, plain, sentences=3)


@pytest.mark.parametrize("window", [4, 8])
def test_operations_grow_with_the_length_times_the_window(window):
    def operations(length: int, window: int) -> int:
        # d_k and d_v differ, so that the products are plain ones, which torch counts.
        q, v = torch.zeros(1, 1, length, 2), torch.zeros(1, 1, length, 3)
        with FlopCounterMode(display=False) as counter:
            restricted_attention(q, q, v, Layout(), window=window)
        return counter.get_total_flops()

    once = operations(64, window)
    assert once > 0
    assert operations(128, window) == 2 * once
    assert operations(64, 2 * window) == 2 * once


def test_a_negative_window_is_refused():
    with pytest.raises(UsageError, match="attention_window is -1, expected at least 0"):
        ModelConfig(attention_window=-1)
