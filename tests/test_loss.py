"""Section 5.4: label smoothing by hand, and what the fused loss computes when."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from toy import threads

from aiayn.config import ModelConfig
from aiayn.device import elements_at_once
from aiayn.kernels import cross_entropy
from aiayn.model.transformer import Transformer
from aiayn.special_ids import PAD
from aiayn.training.loss import Loss, smoothed_cross_entropy, target_distribution

V = 37_000


def fused_loss(*arguments: object) -> Loss:
    return Loss(*cross_entropy.fused_linear_cross_entropy(*arguments))


def states_and_gold(tokens: int = 23, width: int = 8, vocabulary: int = 11) -> list[Tensor]:
    torch.manual_seed(1)
    states, output = 2 * torch.randn(tokens, width), torch.randn(vocabulary, width)
    gold = torch.randint(vocabulary, (tokens,))
    return [states.requires_grad_(), output.requires_grad_(), gold]


PRODUCTS = ("mm", "addmm", "addmm_", "linear", "_linear_pointwise")


class Products(TorchDispatchMode):
    """Notes the sizes of the matrix products that torch is asked for."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in PRODUCTS:
            self.sizes.append(tuple(found.shape))
        return found


def test_the_wrong_classes_share_epsilon_evenly_among_themselves():
    (row,) = target_distribution(torch.tensor([2]), 5, 0.1).tolist()
    assert row == pytest.approx([0.025, 0.025, 0.9, 0.025, 0.025])


def test_the_target_over_37000_classes_is_that_of_the_paper_s_code():
    row = target_distribution(torch.tensor([7]), V, 0.1)[0].double()
    assert row[7].item() == pytest.approx(0.9)
    assert row[8].item() == pytest.approx(2.7027757507e-6)
    assert row.sum().item() == pytest.approx(1)


def test_the_least_loss_that_can_be_attained_is_the_entropy_of_the_target():
    gold = torch.tensor([7])
    target = target_distribution(gold, V, 0.1)
    best = smoothed_cross_entropy(target.log(), gold, 0.1)
    assert best.smoothed.item() == pytest.approx(1.37694759, rel=1e-4)


def test_a_uniform_guess_costs_the_logarithm_of_the_vocabulary():
    guess = smoothed_cross_entropy(torch.zeros(1, V), torch.tensor([7]), 0.1)
    assert guess.smoothed.item() == pytest.approx(10.51867319, rel=1e-6)
    assert guess.plain.item() == pytest.approx(10.51867319, rel=1e-6)


def test_the_smoothed_loss_of_two_classes_is_right_by_hand():
    # p = (3/4, 1/4), gold 0: -0.9 ln 3/4 - 0.1 ln 1/4
    logits = torch.tensor([[math.log(3), 0.0]])
    result = smoothed_cross_entropy(logits, torch.tensor([0]), 0.1)
    assert result.smoothed.item() == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    assert result.plain.item() == pytest.approx(-math.log(0.75))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_plain_loss_is_cross_entropy_whatever_the_smoothing(smoothing):
    states, output, gold = states_and_gold()
    expected = F.cross_entropy(states @ output.T, gold, reduction="sum")
    for result in (
        smoothed_cross_entropy(states @ output.T, gold, smoothing),
        fused_loss(states, output, gold, smoothing),
    ):
        torch.testing.assert_close(result.plain, expected)


def test_no_more_logits_than_a_chunk_exist_at_once(monkeypatch):
    monkeypatch.setattr(cross_entropy, "elements_at_once", lambda device: 5 * 11)
    with torch.no_grad(), Products() as products:
        fused_loss(*states_and_gold(), 0.1)
    assert products.sizes == [(rows, 11) for rows in (4, 5, 4, 5, 5)]


def test_no_chunk_is_a_single_row_which_threads_add_up_otherwise():
    words = 33_000  # torch shares a sum of so many among threads if it is the only one
    tokens = elements_at_once(torch.device("cpu")) // words + 1
    found = []
    for count in (1, 2, 3):
        states, output, gold = states_and_gold(tokens, vocabulary=words)
        with threads(count):
            smoothed, plain = fused_loss(states, output, gold, 0.1)
            smoothed.backward()
        found.append([smoothed, plain, states.grad, output.grad])
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


def test_great_logits_overflow_neither_loss_nor_gradient():
    states, output, gold = states_and_gold()
    result = fused_loss(1000 * states, output, gold, 0.1)
    expected = smoothed_cross_entropy(1000 * states @ output.T, gold, 0.1)
    torch.testing.assert_close(result, expected)
    assert all(
        g.isfinite().all() for g in torch.autograd.grad(result.smoothed, [states, output])
    )


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_in_half_precision_loss_and_gradient_stay_near_those_of_float32(half, monkeypatch):
    monkeypatch.setattr(cross_entropy, "elements_at_once", lambda device: 5 * 11)
    states, output, gold = states_and_gold()
    expected = smoothed_cross_entropy(states @ output.T, gold, 0.1)
    wanted = torch.autograd.grad(expected.smoothed, [states, output])
    with torch.autocast("cpu", half):
        result = fused_loss(states, output, gold, 0.1)
    assert result.smoothed.dtype == torch.float32
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=0)
    for ours, theirs in zip(
        torch.autograd.grad(result.smoothed, [states, output]), wanted, strict=True
    ):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=5e-2, atol=5e-2)


def test_in_float16_a_gradient_too_small_for_it_is_not_lost():
    # Beside a logit of 16 a wrong class has p = e^-16 = 1.1e-7: two steps of float16.
    states = torch.tensor([[16.0, 0.0]])
    output = torch.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        result = fused_loss(states, output, torch.tensor([0]), 0.0)
    (gradient,) = torch.autograd.grad(result.smoothed, [output])
    assert gradient[1, 0].item() == pytest.approx(16 * math.exp(-16), rel=1e-2)


def test_in_bfloat16_only_the_logits_are_bfloat16_and_the_sums_are_not():
    states, output, gold = states_and_gold()
    # Whole numbers of one digit are exact in bfloat16, and so are these logits.
    states, output = states.detach().sign(), output.detach().sign()
    expected = smoothed_cross_entropy(states @ output.T, gold, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        result = fused_loss(states, output, gold, 0.1)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_sums_are_the_same_and_the_logits_the_only_product(mode):
    states, output, gold = states_and_gold()
    with Products() as all_products:
        expected = fused_loss(states, output, gold, 0.1)
    with mode(), Products() as products:
        without = fused_loss(states, output, gold, 0.1)
    torch.testing.assert_close(without, expected)
    assert not without.smoothed.requires_grad
    assert (len(all_products.sizes), len(products.sizes)) == (3, 1)


def test_no_token_costs_nothing_and_moves_nothing():
    states, output, _ = states_and_gold()
    result = fused_loss(states[:0], output, torch.empty(0, dtype=torch.long), 0.1)
    assert result.smoothed.item() == result.plain.item() == 0
    (gradient,) = torch.autograd.grad(result.smoothed, [output])
    assert not gradient.any()


@pytest.mark.parametrize("pieces", [[(0, 6)], [(0, 1), (1, 4), (4, 6)], [(0, 3), (3, 6)]])
def test_the_gradient_does_not_depend_on_how_an_update_is_split(pieces):
    torch.manual_seed(1)
    config = ModelConfig(layers=1, d_model=8, d_ff=16, heads=2, d_k=4, d_v=4, dropout=0.0)
    model = Transformer(config, 20)
    learned = [p for p in model.parameters() if p.requires_grad]
    lengths = torch.tensor([[7], [7], [5], [4], [2], [1]])
    pairs = torch.randint(1, 20, (2, 6, 7)).where(torch.arange(7) < lengths, PAD)

    def backward(sources: Tensor, targets: Tensor) -> None:
        longest = int((targets != PAD).sum(1).max())
        sources, targets = sources[:, :longest], targets[:, :longest]
        states, real = model.states(sources, targets), targets != PAD
        result = fused_loss(states[real], model.output.weight, targets[real], 0.1)
        (result.smoothed / lengths.sum()).backward()

    backward(*pairs)
    whole = [parameter.grad.clone() for parameter in learned]
    model.zero_grad()
    for start, stop in pieces:
        backward(*pairs[:, start:stop])
    split = [parameter.grad for parameter in learned]
    torch.testing.assert_close(split, whole, rtol=1e-4, atol=1e-6)


def test_in_float16_a_frequent_word_does_not_overflow_and_a_rare_one_does_not_vanish():
    states, weight = 2 * torch.randn(900, 8), torch.randn(500, 8) / 8
    states[:, 0] = 3.0
    gold = torch.full((900,), 7)
    exact, half = (
        _gradients(states, weight, gold, dtype) for dtype in (torch.float32, torch.float16)
    )
    for ours, theirs in zip(half, exact, strict=True):
        assert ours.isfinite().all()
        # Of each token, and of each word.
        assert F.cosine_similarity(ours, theirs, dim=1).min() > 0.99


def _gradients(states, weight, gold, dtype):
    inputs = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        loss, _ = cross_entropy.fused_linear_cross_entropy(*inputs, gold, 0.1)
    return torch.autograd.grad(loss, inputs)
