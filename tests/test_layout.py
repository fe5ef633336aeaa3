"""Tokens laid end to end give what rectangles give, without their padding."""

from dataclasses import replace

import pytest
import torch
from aiayn.model.rows import Rows
from test_transformer import SMALL, padded_batch, small_model
from torch import nn

from aiayn.data.batch import batch_of
from aiayn.model import rows as rows_module


def places() -> Rows:
    return Rows.of(torch.tensor([0, 1, 4, 5, 6]), torch.zeros(2, 4))


def test_rows_are_taken_from_a_rectangle_and_put_back_with_zeros_between():
    x = torch.arange(16.0).view(2, 4, 2)
    taken = places().take(x)
    assert taken[:5].tolist() == [[0, 1], [2, 3], [8, 9], [10, 11], [12, 13]]
    assert taken.shape == (32, 2)  # a round number of rows
    kept = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
    assert torch.equal(places().put(taken), x * kept[..., None])


def test_the_gradients_of_taking_and_putting_are_right():
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(32, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: places().take(x)[:5], x)
    assert torch.autograd.gradcheck(places().put, rows)


def states_both_ways(model):
    batch = batch_of(*padded_batch())
    padded = model.states(batch.source_BS, batch.target_BT).flatten(0, 1)[batch.target_index]
    return padded, model.token_states(
        batch.source_BS, batch.target_BT, batch.source_index, batch.target_index
    )


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
def test_the_network_gives_the_same_states_and_gradients_without_padding(settings):
    model = small_model(replace(SMALL, **settings)).double()
    padded, rows = states_both_ways(model)
    torch.testing.assert_close(rows, padded)
    weights = [p for name, p in model.named_parameters() if "output" not in name]
    found, wanted = (
        torch.autograd.grad(states.square().sum(), weights) for states in (rows, padded)
    )
    torch.testing.assert_close(found, wanted)


def test_the_plain_path_of_attention_works_without_padding_too():
    model = small_model()
    model.keep_attention_weights()
    padded, rows = states_both_ways(model)
    torch.testing.assert_close(rows, padded)


def test_no_layer_but_attention_sees_padding(monkeypatch):
    monkeypatch.setattr(rows_module, "MULTIPLE", 2)
    model, seen = small_model(), []
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            module.register_forward_hook(lambda _, x, y: seen.append(len(y)))
    batch = batch_of(*padded_batch())
    model.token_states(batch.source_BS, batch.target_BT, batch.source_index, batch.target_index)
    assert set(seen) == {12, 14}


def test_no_row_beyond_the_tokens_divides_by_zero():
    model = small_model(replace(SMALL, norm_epsilon=0.0, attention_bias=False))
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    _, rows = states_both_ways(model)
    rows.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
