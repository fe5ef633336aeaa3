"""Layer normalization: torch's own, with gradients that any number of threads finds."""

import pytest
import torch
import torch.nn.functional as F
from toy import threads

from aiayn.kernels.norm import LayerNorm

D = 160


def layer() -> LayerNorm:
    torch.manual_seed(1)
    norm = LayerNorm(D, eps=1e-6)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    return norm


def gradients(y, *inputs):
    torch.manual_seed(2)
    return torch.autograd.grad(y, inputs, torch.randn_like(y))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (0,)], ids=str)
def test_outputs_and_gradients_are_those_of_torch(shape):
    norm = layer().double()
    x = torch.randn(*shape, D, dtype=torch.float64, requires_grad=True)
    found = norm(x)
    wanted = F.layer_norm(x, (D,), norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(found, wanted)
    inputs = (x, norm.weight, norm.bias)
    for one, other in zip(gradients(found, *inputs), gradients(wanted, *inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_do_not_depend_on_the_number_of_threads():
    norm, x = layer(), torch.randn(5000, D, requires_grad=True)
    found = []
    for count in (1, 2, 3):
        with threads(count):
            found.append(gradients(norm(x), x, norm.weight, norm.bias))
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))
