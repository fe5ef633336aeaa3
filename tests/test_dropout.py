"""Dropout by its own mask on the CPU."""

import torch

from aiayn.kernels.dropout import dropout


def test_dropout_keeps_the_mean_and_drops_the_share_it_was_asked_for():
    torch.manual_seed(0)
    dropped = dropout(torch.ones(1_000_003), 0.1, training=True)
    assert abs((dropped == 0).double().mean() - 0.1) < 1e-3
    assert abs(dropped.double().mean() - 1) < 1e-3
    assert len(dropped.unique()) == 2


def test_dropout_is_the_identity_outside_training_and_at_rate_0():
    x = torch.randn(3, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_the_gradient_passes_where_the_value_does():
    x = torch.randn(1000, requires_grad=True)
    out = dropout(x, 0.3, training=True)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), out.detach())


def test_the_seed_decides_what_is_dropped():
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(torch.ones(4, 1001), 0.5, training=True))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert not masks[0][0].equal(masks[0][1])
