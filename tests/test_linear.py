"""Products by oneDNN are those of torch, forwards and backwards."""

import pytest
import torch
import torch.nn.functional as F

from aiayn.model import linear
from aiayn.model.linear import Linear, affine, is_for_onednn


def results(function, *inputs):
    """Return the output of a function and the gradients of its inputs."""
    leaves = [None if x is None else x.clone().requires_grad_() for x in inputs]
    found = F.relu_(function(*leaves))
    wanted = [leaf for leaf in leaves if leaf is not None]
    return [found, *torch.autograd.grad(found.sin().sum(), wanted)]


@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (4, 1, 16)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_large_products_are_those_of_torch_and_so_are_their_gradients(shape, bias, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    inputs = torch.randn(shape), torch.randn(5, 16), torch.randn(5) if bias else None
    assert is_for_onednn(*inputs[:2])
    for found, wanted in zip(results(affine, *inputs), results(F.linear, *inputs), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_nobody_wants_is_not_computed(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    layer, x = Linear(8, 4), torch.randn(3, 8)
    layer(x).sum().backward()
    assert x.grad is None
    assert layer.weight.grad is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_torch(dtype, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    assert not is_for_onednn(torch.ones(4, 4, dtype=dtype), torch.ones(4, 4, dtype=dtype))


def test_autocast_and_small_products_are_left_to_torch(monkeypatch):
    square = torch.ones(4, 4)
    assert not is_for_onednn(square, square)
    monkeypatch.setattr(linear, "LARGE", 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_for_onednn(square, square)
