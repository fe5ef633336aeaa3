"""What only a GPU can show: `pytest -m gpu`, for whoever has one."""

import json
from pathlib import Path

import pytest
import torch
from toy import TINY, sentences, tiny_config

from aiayn.checkpoint import load_model
from aiayn.data.folder import DataFolder
from aiayn.device import float32_products
from aiayn.distributed import ProcessGroup
from aiayn.training.loader import updates_from
from aiayn.training.state import fresh_state
from aiayn.training.update import run_update

DEVICE = "cuda"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


def rows(run: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in lines if "loss" in row]


@pytest.fixture
def train(aiayn, data):
    """Return a function that trains on the device, and returns what the run has logged."""

    def run(folder: Path, *settings: object) -> str:
        line = ("train", data.path, "-o", folder, "--preset", "tiny", "--device", DEVICE, *TINY)
        code, _, err = aiayn(*line, "train.log_every=1", *settings)
        assert code == 0, err
        return (folder / "train.log").read_text()

    return run


def one_update(data: DataFolder, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses and norm of one update, and its gradient."""
    config = tiny_config("model.dropout=0")
    group = ProcessGroup(0, 1, torch.device(device))
    state = fresh_state(config, data.codec, group.device, torch.float32)
    corpus = data.corpus("train")
    update = next(updates_from(corpus, config.batch, group, seed=1, epoch=0, number=0))
    with float32_products("highest"):
        numbers = run_update(state, update, group, torch.float32)
    return numbers.cpu().double(), state.gradients.flat.cpu().double()


def test_an_update_has_the_losses_and_the_gradient_that_it_has_on_the_cpu(data):
    numbers, gradient = one_update(data, DEVICE)
    wanted, wanted_gradient = one_update(data, "cpu")
    torch.testing.assert_close(numbers, wanted, rtol=1e-5, atol=0)
    assert float((gradient - wanted_gradient).norm() / wanted_gradient.norm()) < 1e-4


@pytest.mark.parametrize("search", [(), ("--greedy",), ("--sample", "--seed", 3)], ids=repr)
def test_decoding_gives_the_text_of_the_cpu(aiayn, trained, search):
    text = "".join(f"{line}\n" for line in sentences(40, seed=9)).encode()
    found = [
        aiayn("generate", trained, "--device", device, *search, stdin=text)
        for device in (DEVICE, "cpu")
    ]
    assert [code for code, _, _ in found] == [0, 0], found
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_training_in_half_precision_learns_and_its_checkpoint_is_read_anywhere(
    train, tmp_path, precision
):
    settings = ("train.steps=40", "optim.warmup=12", f"train.precision={precision}")
    talk = train(tmp_path / "run", *settings)
    assert f"1 x {DEVICE}, {precision}" in talk
    losses = [row["plain_loss"] for row in rows(tmp_path / "run")]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    saved = load_model(tmp_path / "run" / "last.pt")
    assert {weight.device.type for weight in saved.weights.values()} == {"cpu"}


def test_a_resumed_run_goes_on_as_one_that_was_not_stopped(train, tmp_path):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    train(whole, "train.steps=20")
    train(parted, "train.steps=10")
    assert "resuming after update 10" in train(parted, "train.steps=20")
    losses = [[row["plain_loss"] for row in rows(run)] for run in (whole, parted)]
    # Sums on a GPU have no fixed order.
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two GPUs")
def test_two_gpus_train_as_one_does_and_resume(train, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    train(one, "train.steps=20")
    assert f"2 x {DEVICE}" in train(two, "train.steps=10", "--nproc", 2)
    assert "resuming after update 10" in train(two, "train.steps=20", "--nproc", 2)
    losses = [[row["plain_loss"] for row in rows(run)] for run in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


@pytest.mark.filterwarnings("ignore")  # torch.compile warns of its own doings
def test_a_compiled_run_has_the_losses_of_one_that_is_not(train, tmp_path):
    settings = ("train.steps=6", "model.dropout=0", "train.valid_every=0")
    train(tmp_path / "plain", *settings, "--no-compile")
    train(tmp_path / "compiled", *settings, "--compile")
    losses = [[row["plain_loss"] for row in rows(tmp_path / n)] for n in ("plain", "compiled")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_memory_of_the_gpu_is_what_a_run_reports(train, tmp_path):
    torch.cuda.reset_peak_memory_stats()
    train(tmp_path / "run", "train.steps=4")
    assert rows(tmp_path / "run")[-1]["memory"] == torch.cuda.max_memory_allocated()
