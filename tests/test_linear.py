"""Linear layers: whichever kernels compute them, they are F.linear and its gradients."""

import pytest
import torch
import torch.nn.functional as F

from aiayn.kernels.linear import Linear, linear
from aiayn.model import linear as linear_module

AFTER = {None: lambda x: x, "relu": F.relu, "swish": F.silu}


def tensors(*shape, width=24, bias=True):
    torch.manual_seed(1)
    x, weight = torch.randn(*shape, 16), torch.randn(width, 16)
    found = [x, weight, torch.randn(width) if bias else None]
    return [t if t is None else t.requires_grad_() for t in found]


def gradients(y, inputs):
    torch.manual_seed(2)
    wanted = [t for t in inputs if t is not None]
    return torch.autograd.grad(y, wanted, torch.randn_like(y))


@pytest.mark.parametrize("activation", AFTER)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (3, 5), (2, 3, 4)], ids=str)
def test_outputs_and_gradients_are_those_of_the_plain_layer(shape, bias, activation):
    inputs = tensors(*shape, bias=bias)
    found = linear(*inputs, activation)
    wanted = AFTER[activation](F.linear(*inputs))
    torch.testing.assert_close(found, wanted)
    for one, other in zip(gradients(found, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_learning_takes_the_fast_products_where_they_are_there(monkeypatch):
    calls = []
    real = linear_module.product
    monkeypatch.setattr(
        linear_module, "product", lambda *given: calls.append(given) or real(*given)
    )
    inputs = tensors(4)
    y = linear(*inputs)
    assert len(calls) == int(linear_module.ONEDNN_IS_FAST)
    gradients(y, inputs)
    assert len(calls) == 2 * int(linear_module.ONEDNN_IS_FAST)


@pytest.mark.parametrize("frozen", [0, 1, 2], ids=["x", "weight", "bias"])
def test_what_does_not_learn_gets_no_gradient(frozen):
    inputs = tensors(4)
    inputs[frozen] = inputs[frozen].detach()
    linear(*inputs).sum().backward()
    assert [t.grad is None for t in inputs] == [n == frozen for n in range(3)]


def test_the_gradient_of_a_view_that_is_not_contiguous_is_right():
    x, weight, bias = tensors(6, 5)
    inputs = [x.transpose(0, 1), weight, bias]
    found = linear(*inputs).transpose(0, 1)
    wanted = F.linear(*inputs).transpose(0, 1)
    for one, other in zip(gradients(found, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_without_learning_it_is_the_plain_layer_to_the_bit():
    inputs = tensors(9)
    with torch.no_grad():
        assert torch.equal(linear(*inputs, "relu"), F.relu(F.linear(*inputs)))


def test_other_types_take_the_plain_layer():
    x, weight, bias = (t.detach().double().requires_grad_() for t in tensors(4))
    assert torch.autograd.gradcheck(lambda *given: linear(*given, "relu"), (x, weight, bias))


def test_autocast_is_heeded():
    inputs = tensors(4)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(*inputs).dtype == torch.bfloat16


def test_the_layer_has_the_parameters_of_a_plain_one():
    layer = Linear(3, 5, activation="relu")
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "weight": (5, 3),
        "bias": (5,),
    }
    assert Linear(3, 5, bias=False).bias is None
