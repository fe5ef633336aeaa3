"""What training costs: the paper's estimate, our count, and the plan of a run."""

import pytest
import torch
from toy import tiny_config

from aiayn.config import BatchConfig, TrainConfig
from aiayn.data.plan import plan_epoch
from aiayn.training.cost import PAPER_COST, paper_flops, parameters_of, training_flops
from aiayn.training.disk import disk_space
from aiayn.training.estimate import estimate

HOUR = 3600


def test_the_papers_estimate_gives_the_papers_numbers():
    assert paper_flops(12 * HOUR, 8) == pytest.approx(3.2832e18)
    assert paper_flops(3.5 * 24 * HOUR, 8) == pytest.approx(2.29824e19)
    assert paper_flops(12 * HOUR, 8) == pytest.approx(PAPER_COST["base"], rel=0.01)


def test_a_token_costs_six_operations_a_weight_that_it_meets():
    model = tiny_config().model
    parts = parameters_of(model, 100)
    encoder = sum(count for name, count in parts.items() if name.startswith("encoder"))
    decoder = sum(count for name, count in parts.items() if name.startswith("decoder"))
    flops = training_flops(model, (100, None), (7, 3))
    assert flops == 6 * (7 * encoder + 3 * (decoder + 100 * model.d_model))
    assert training_flops(model, (100, None), (7, 3), passes=2) == 2 * flops


def test_two_passes_are_twice_the_operations_of_a_run(data):
    one, two = (
        estimate(data, tiny_config(*more), 1, torch.device("cpu"), torch.float32)
        for more in ((), ("optim.rdrop=5",))
    )
    flops = [float(each["floating-point operations"]) for each in (one, two)]
    assert flops[1] == pytest.approx(2 * flops[0], rel=0.05)  # two digits are shown


def test_the_estimate_of_a_run_follows_its_plan(data):
    config = tiny_config("batch.micro_tokens=250")
    corpus = data.corpus("train")
    batch = BatchConfig(tokens=400)
    plan = plan_epoch(corpus.source_lengths, corpus.target_lengths, batch, seed=1, epoch=0)
    found = estimate(data, config, 2, torch.device("cpu"), torch.float32)
    assert found["updates per epoch"] == len(plan)
    assert found["epochs"] == pytest.approx(12 / len(plan), abs=0.01)
    assert found["target tokens per update"] <= 400
    wanted = "400 tokens = 2 processes x 1 micro-batches x 200"
    assert found["update"] == wanted
    more = estimate(data, config, 3, torch.device("cpu"), torch.float32)
    assert more["update"] == f"{wanted}, and 1 idle"
    assert found["parameters"] == parameters_of(config.model, len(data.codec.source))


def test_a_cpu_needs_room_for_the_exact_sum_of_gradients(data):
    config = tiny_config("model.d_model=2048", "model.d_ff=32768")
    total = parameters_of(config.model, len(data.codec.source))["total"]
    here, there = (
        float(
            estimate(data, config, 1, torch.device(name), torch.float32)[
                "memory per process"
            ].split()[1]
        )
        for name in ("cpu", "cuda")
    )
    assert here - there == pytest.approx(8 * total / 1e9, abs=0.11)
    assert here > there


def test_a_dry_run_for_another_machine_need_not_find_its_device(data, tmp_path, aiayn):
    line = ("train", data.path, "-o", tmp_path / "run", "--dry-run", "--device")
    assert [aiayn(*line, name)[0] for name in ("cuda", "nonsense")] == [0, 2]


def test_disk_space_counts_the_checkpoints_that_the_steps_allow():
    train = TrainConfig(steps=25, save_every="10", keep="last=20,best=1", average=5)
    found = disk_space(train, 1000)
    # Three checkpoints, best.pt and average.pt; three files of weights and two moments.
    assert (found.weights, found.resumable) == (4000 * 5, 4000 * 9)
    assert found.least == 4000 * (3 + 9)
    by_time = disk_space(TrainConfig(steps=25, save_every="10m", keep="last=20,best=1"), 1000)
    assert (by_time.weights, by_time.least) == (4000 * 23, 4000 * (1 + 3))
