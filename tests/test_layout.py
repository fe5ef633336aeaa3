"""A network whose tokens are packed gives what it gives with padding."""

from dataclasses import replace

import pytest
import torch
from test_transformer import SMALL, padded_batch, small_model
from torch import Tensor, nn
from toy import keep_attention_weights

from aiayn.data.batch import batch_of
from aiayn.kernels import layout as layout_module
from aiayn.model.transformer import Transformer


def states_both_ways(model: Transformer) -> tuple[Tensor, Tensor]:
    """Return the states of all tokens: those of a padded batch, and of a packed one."""
    batch = batch_of(*padded_batch())
    padded = model.states(batch.source_BS, batch.target_BT).flatten(0, 1)[batch.target_index]
    packed = model.states(batch.source_BS, batch.target_BT, *batch.layouts())
    return padded, packed[: batch.tokens]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"d_k": 2, "d_v": 5, "attention_bias": False},
        {"attention_window": 3},
        {"positions": "learned", "max_positions": 8},
    ],
    ids=str,
)
def test_packed_states_and_gradients_equal_padded_ones(settings):
    model = small_model(replace(SMALL, **settings)).double()
    padded, packed = states_both_ways(model)
    torch.testing.assert_close(packed, padded)
    weights = [
        p for name, p in model.named_parameters() if p.requires_grad and "output" not in name
    ]
    found, wanted = (
        torch.autograd.grad(states.square().sum(), weights) for states in (packed, padded)
    )
    torch.testing.assert_close(found, wanted)


def test_the_plain_path_of_attention_can_be_packed_too():
    model = small_model()
    keep_attention_weights(model)
    padded, packed = states_both_ways(model)
    torch.testing.assert_close(packed, padded)


def test_no_layer_but_attention_sees_padding(monkeypatch):
    monkeypatch.setattr(layout_module, "MULTIPLE", 2)
    model, seen = small_model(), []
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            module.register_forward_hook(lambda _, x, y: seen.append(len(y)))
    batch = batch_of(*padded_batch())
    model.states(batch.source_BS, batch.target_BT, *batch.layouts())
    assert set(seen) == {12, 14}


def test_no_row_beyond_the_tokens_divides_by_zero():
    model = small_model(replace(SMALL, norm_epsilon=0.0, attention_bias=False))
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    _, packed = states_both_ways(model)
    packed.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
