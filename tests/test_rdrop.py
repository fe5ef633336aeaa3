"""R-Drop: two passes with other dropout, and what they predict drawn together."""

import pytest
import torch
import torch.nn.functional as F
from test_distributed import COMMAND, TORCHRUN, run_module
from test_guided import first_update
from test_kernels import assert_equal_with_gradients, random
from toy import run_training, tiny_config

from aiayn.checkpoint import load_model
from aiayn.errors import UsageError
from aiayn.kernels import cross_entropy
from aiayn.kernels.cross_entropy import fused_linear_cross_entropy
from aiayn.training.loss import batch_loss, r_drop_loss, smoothed_cross_entropy
from aiayn.training.state import fresh_state
from aiayn.training.update import accumulate_gradients

CPU = torch.device("cpu")
SETTINGS = ("model.dropout=0.3", "optim.rdrop=5")


def test_two_passes_that_agree_cost_what_one_does_and_others_more():
    logits, gold = torch.randn(4, 9), torch.tensor([1, 2, 3, 4])
    one = smoothed_cross_entropy(logits, gold, 0.1)
    torch.testing.assert_close(r_drop_loss(logits, logits, gold, 0.1, 5.0), one)
    other = r_drop_loss(logits, torch.randn(4, 9), gold, 0.1, 5.0)
    apart = r_drop_loss(logits, torch.randn(4, 9), gold, 0.1, 50.0)
    assert one.smoothed < other.smoothed < apart.smoothed


def test_the_divergence_is_that_of_kullback_and_leibler_both_ways():
    logits, gold = torch.randn(2, 5, 9), torch.zeros(5, dtype=torch.long)
    log_p, log_q = logits.log_softmax(-1)
    both = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    both += F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    weighed, free = (r_drop_loss(*logits, gold, 0.1, weight).smoothed for weight in (4.0, 0.0))
    torch.testing.assert_close(weighed - free, both)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("logits_at_once", [1, 5 * 11, 2**22])
def test_the_fused_loss_equals_r_drop_forward_and_back(smoothing, logits_at_once, monkeypatch):
    monkeypatch.setattr(cross_entropy, "elements_at_once", lambda device: logits_at_once)
    both, weight = random(23, 2, 8, dtype=torch.float32), random(11, 8, dtype=torch.float32)
    bias, gold = random(11, dtype=torch.float32), torch.randint(11, (23,))
    twice = gold.repeat_interleave(2)
    states = both.flatten(0, 1)
    fused = fused_linear_cross_entropy(states, weight, twice, smoothing, bias, rdrop=5.0)
    passes = F.linear(both, weight, bias).unbind(1)
    plain = r_drop_loss(*passes, gold, smoothing, 5.0)
    torch.testing.assert_close(fused[1] / 2, plain.plain)
    assert_equal_with_gradients(fused[0] / 2, plain.smoothed, both, weight, bias)


def test_in_bfloat16_the_loss_stays_near_that_of_float32():
    both, weight = (random(*shape, dtype=torch.float32) for shape in ((23, 2, 8), (11, 8)))
    gold = torch.randint(11, (46,)).view(23, 2)[:, :1].expand(-1, 2).flatten()
    exact, low = (
        torch.autograd.grad(loss, [both, weight])
        for loss in (
            fused_linear_cross_entropy(both.flatten(0, 1), weight, gold, 0.1, rdrop=5.0)[0],
            _in_bfloat16(both.flatten(0, 1), weight, gold),
        )
    )
    for ours, theirs in zip(low, exact, strict=True):
        assert F.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.999


def _in_bfloat16(states, weight, gold):
    with torch.autocast("cpu", torch.bfloat16):
        return fused_linear_cross_entropy(states, weight, gold, 0.1, rdrop=5.0)[0]


def test_halves_after_out_of_memory_draw_both_dropouts_of_the_whole(data):
    config = tiny_config(*SETTINGS, "batch.micro_tokens=400")
    state = fresh_state(config, data.codec, CPU, torch.float32)
    (whole, *_) = first_update(data, config)
    found = []
    for too_large in (0, whole.padded_tokens):
        state.too_large = too_large
        losses = accumulate_gradients(state, [("0", whole)], torch.float32)
        found.append((losses, state.gradients.total.clone()))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_the_passes_differ_by_their_dropout(data):
    config = tiny_config(*SETTINGS)
    state = fresh_state(config, data.codec, CPU, torch.float32)
    batch = first_update(data, config)[0]
    weighed, free = (_smoothed(state, batch, rdrop) for rdrop in (5.0, 1e-9))
    assert weighed > 1.01 * free
    state.model.eval()
    assert _smoothed(state, batch, 5.0) == pytest.approx(_smoothed(state, batch, 0.0), rel=1e-6)


def _smoothed(state, batch, rdrop):
    torch.manual_seed(1)
    with torch.no_grad():
        return batch_loss(state.model, batch, 0.1, rdrop=rdrop).smoothed.item()


def test_two_processes_end_the_run_that_one_began(data, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    run_training(data.path, whole, tiny_config(*SETTINGS))
    run_training(data.path, resumed, tiny_config(*SETTINGS, "train.steps=8"))
    done = run_module(*TORCHRUN, "train", data.path, "-o", resumed, *COMMAND, *SETTINGS)
    assert done.returncode == 0, done.stderr
    one, two = (load_model(run / "last.pt").weights for run in (whole, resumed))
    assert [key for key in one if not torch.equal(one[key], two[key])] == []


def test_without_dropout_there_is_nothing_to_draw_together(data, tmp_path):
    config = tiny_config("model.dropout=0", "optim.rdrop=5")
    with pytest.raises(UsageError, match=r"optim.rdrop is 5.0, and without dropout"):
        run_training(data.path, tmp_path / "run", config)
