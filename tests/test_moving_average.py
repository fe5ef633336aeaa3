"""The moving average of the weights: `train.ema`."""

from pathlib import Path

import pytest
import torch
from test_distributed import COMMAND
from torch import nn
from toy import run_training, tiny_config

from aiayn.checkpoint import load_model
from aiayn.data.folder import DataFolder
from aiayn.errors import Stopped
from aiayn.training.loop import train
from aiayn.training.moving_average import MovingAverage, decay_at

EMA = ("train.ema=0.9", "train.valid_every=12")


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_model(path).weights


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run of 12 updates with a moving average."""
    path = tmp_path_factory.mktemp("ema") / "run"
    run_training(data.path, path, tiny_config(*EMA))
    return path


def test_the_mean_moves_towards_the_weights_by_one_minus_the_decay():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.0)
    average = MovingAverage(model, 0.75)
    nn.init.constant_(model.weight, 8.0)
    average.update(step=1000)
    assert average.state_dict() == {"weight": torch.tensor([[2.0]])}


def test_the_decay_of_the_first_updates_is_smaller():
    assert decay_at(0, 0.999) == 0.1
    assert decay_at(8, 0.999) == 0.5
    assert decay_at(100_000, 0.999) == 0.999


def test_a_model_has_the_mean_for_a_while_and_its_own_weights_again():
    model = nn.Linear(3, 2)
    average, own = MovingAverage(model, 0.9), model.weight.detach().clone()
    nn.init.constant_(average.means[0], 1.0)
    with average.in_place():
        assert torch.equal(model.weight, torch.ones(2, 3))
    assert torch.equal(model.weight, own)


def test_training_is_the_same_with_and_without(run, data, tmp_path):
    run_training(data.path, tmp_path, tiny_config("train.valid_every=12"))
    assert_equal(weights(run / "last.pt"), weights(tmp_path / "last.pt"))


def test_the_average_of_a_run_is_the_mean_in_its_last_checkpoint(run):
    found, last = load_model(run / "average.pt"), load_model(run / "last.pt")
    assert found.history == {"ema": 0.9}
    for name, mean in last.training["ema"].items():
        assert torch.equal(found.weights[name], mean)
    assert not torch.equal(found.weights["output.weight"], last.weights["output.weight"])


def test_the_best_model_is_a_mean_too(run):
    assert_equal(weights(run / "best.pt"), weights(run / "average.pt"))


def test_a_run_stopped_in_between_has_the_same_mean(run, data, tmp_path):
    for _ in range(2):
        with pytest.raises(Stopped):
            train(DataFolder.open(data.path), tmp_path, tiny_config(*EMA), deadline=0)
    run_training(data.path, tmp_path, tiny_config(*EMA))
    for name in ("last.pt", "best.pt", "average.pt"):
        assert_equal(weights(run / name), weights(tmp_path / name))


def test_average_says_that_it_takes_the_weights_themselves(run, data, tmp_path, aiayn):
    code, _, err = aiayn("average", run, "--last", 1, "-o", tmp_path / "one.pt")
    assert (code, f"the moving average of {run} (train.ema) is in" in err) == (0, True)


def test_another_decay_is_another_run(run, data, aiayn):
    code, _, err = aiayn("train", data.path, "-o", run, *COMMAND, *EMA, "train.ema=0.8")
    assert (code, "train.ema: 0.9 -> 0.8" in err) == (2, True)
