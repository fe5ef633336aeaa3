"""Two processes train the same model as one: torchrun with gloo, on this machine."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from toy import TINY, as_in_a_terminal, run_training, tiny_config

from aiayn.checkpoint import load_model
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError
from aiayn.run_folder import list_steps

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "aiayn")
COMMAND = ("--preset", "tiny", "--device", "cpu", *TINY)
SETTINGS = (
    "model.layers=2",
    "model.d_model=128",
    "model.d_ff=512",
    "batch.tokens=1500",
    "batch.micro_tokens=300",
    "train.steps=50",
    "train.save_every=20",
    "train.valid_every=25",
)
"""As wide as the preset tiny, for 50 updates: runs that differ in a bit part meanwhile."""


def run_module(*line: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, line)],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """The same run made by one process and by two."""
    folder = tmp_path_factory.mktemp("ranks")
    run_training(data.path, folder / "one", tiny_config(*SETTINGS))
    line = ("train", data.path, "-o", folder / "two", *COMMAND, *SETTINGS)
    done = run_module(*TORCHRUN, *line)
    assert done.returncode == 0, done.stderr
    assert "2 x cpu" in done.stderr
    assert done.stderr.count("done: 50 updates") == 1
    return folder / "one", folder / "two"


def metrics(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["last.pt", "average.pt", "best.pt"])
def test_two_processes_reach_the_weights_of_one_bit_for_bit_with_dropout(runs, name):
    one, two = (load_model(run / name) for run in runs)
    assert (one.config.model.dropout, one.step) == (0.1, two.step)
    assert one.weights.keys() == two.weights.keys()
    for key, weight in one.weights.items():
        assert torch.equal(weight, two.weights[key]), key


def test_two_processes_report_the_numbers_of_one(runs):
    one, two = map(metrics, runs)
    assert [row["step"] for row in one] == [row["step"] for row in two]
    assert sum("valid" in row for row in one) == 2
    for row, other in zip(one, two, strict=True):
        if "valid" in row:
            assert row["valid"] == pytest.approx(other["valid"], rel=1e-12)
            continue
        for key in ("loss", "plain_loss", "tokens", "learning_rate", "epoch"):
            assert row[key] == other[key], key
        # A sum of squares, whose order is that of the threads.
        assert row["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-12)


def test_any_size_of_micro_batch_leads_to_the_same_weights(data, tmp_path):
    # Without ReLU: micro-batches of other sizes differ in the last digits, and once in some
    # updates these decide on which side of zero its input lies.
    smooth = ("model.dropout=0", "model.activation=swish", "optim.warmup=200")
    found = []
    for limit in (100, 300, 5000):
        run, settings = tmp_path / str(limit), (*SETTINGS, *smooth)
        config = tiny_config(*settings, f"batch.micro_tokens={limit}")
        run_training(data.path, run, config)
        found.append(load_model(run / "last.pt").weights)
    for key, weight in found[0].items():
        for other in found[1:]:
            limit = 1e-5 * float(weight.abs().max())
            torch.testing.assert_close(weight, other[key], rtol=0, atol=limit)


def test_one_process_resumes_the_run_of_two(runs, data, tmp_path):
    one, two = (Path(shutil.copytree(run, tmp_path / run.name)) for run in runs)
    for run in (one, two):
        settings = tiny_config(*SETTINGS, "train.steps=52")
        run_training(data.path, run, settings)
    rows = [metrics(run)[-1] for run in (one, two)]
    assert rows[0]["step"] == 52
    assert rows[0]["valid"] == pytest.approx(rows[1]["valid"], rel=1e-12)


def test_processes_save_by_the_clock_and_stop_together(data, tmp_path):
    settings = ("train.steps=100000", "train.save_every=1s", "train.log_every=100000")
    line = ("train", data.path, "-o", tmp_path, *COMMAND, *settings, "train.valid_every=0")
    process = subprocess.Popen(
        [sys.executable, "-m", "aiayn", *map(str, line), "--nproc", "2"],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=as_in_a_terminal,
    )
    for _ in range(100_000):
        if list_steps(tmp_path) or process.poll() is not None:
            break
        time.sleep(0.001)
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75
    last = load_model(tmp_path / "last.pt")
    assert f"stopped by a signal after update {last.step:,}; everything is saved" in err
    assert last.step >= max(list_steps(tmp_path))


SMALL_MEMORY = """
import os, sys
from pathlib import Path
from toy import run_training, tiny_config
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError
from aiayn.training import update

real, sizes = update.batch_loss, []
def batch_loss(model, batch, smoothing, **options):
    if os.environ["RANK"] == "1" and batch.padded_tokens > 60:
        raise RuntimeError("DefaultCPUAllocator: not enough memory")
    sizes.append(batch.padded_tokens)
    return real(model, batch, smoothing, **options)

update.batch_loss = batch_loss
data, run, *settings = sys.argv[1:]
run_training(Path(data), Path(run), tiny_config(*settings))
print("largest at last", max(sizes[-4:]))
"""


def test_what_does_not_fit_in_one_process_is_cut_in_all_with_the_same_result(data, tmp_path):
    settings = (
        "train.steps=6",
        "train.log_every=1",
        "model.dropout=0",
        "model.activation=swish",
        "batch.micro_tokens=250",
    )
    run_training(data.path, tmp_path / "one", tiny_config(*settings))
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n")
    script.write_text(script.read_text() + SMALL_MEMORY)
    line = (*TORCHRUN[:4], script, data.path, tmp_path / "two", *settings)
    done = run_module(*line)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("do not fit in memory at once") == 1
    largest = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(largest) == 2
    assert max(largest) <= 120  # the other process could hold them whole
    one, two = (load_model(tmp_path / run / "last.pt") for run in ("one", "two"))
    for key, weight in one.weights.items():
        limit = 1e-5 * float(weight.abs().max())
        torch.testing.assert_close(weight, two.weights[key], rtol=0, atol=limit)


def test_processes_share_every_item_once():
    items = list("abcdefg")
    groups = [ProcessGroup(rank, 3, torch.device("cpu")) for rank in range(3)]
    shared = [pair for group in groups for pair in group.share(items)]
    assert sorted(shared) == list(enumerate(items))


def test_a_process_alone_needs_no_other():
    alone = ProcessGroup(0, 1, torch.device("cpu"))
    tensor = torch.ones(2)
    alone.all_reduce(tensor)
    assert (alone.max(3), alone.broadcast("a"), alone.gather([1, 2], 2)) == (3, "a", [1, 2])
    assert tensor.tolist() == [1, 1]
    with pytest.raises(DataError, match="torn"):
        alone.on_first_rank(lambda: fail("torn"))


def fail(message):
    raise DataError(message)
