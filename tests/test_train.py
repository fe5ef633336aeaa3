"""Training a run: what stops it, how it resumes, what it refuses and what it leaves."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from toy import TINY, as_in_a_terminal, make_data, tiny_config

from aiayn import run_folder
from aiayn.checkpoint import load_model
from aiayn.data.inputs import ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.errors import Stopped
from aiayn.run_folder import RunFolder, list_steps, step_path
from aiayn.scoring.score import Score
from aiayn.training.loop import train

TIMEOUT = 120
COMMAND = ("--preset", "tiny", "--device", "cpu", *TINY)


def constant_score(model, group):
    """A stand-in for BLEU that costs nothing."""
    return Score(name="constant", value=1.0, signature="none")


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """A run of 12 updates that nothing has stopped, made by the command itself."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    line = [sys.executable, "-m", "aiayn", "train", data.path, "-o", run, *COMMAND]
    subprocess.run(line, check=True, timeout=TIMEOUT)
    return run


@pytest.fixture
def copied(undisturbed, tmp_path):
    """A copy of that run, to be spoiled."""
    return Path(shutil.copytree(undisturbed, tmp_path / "run"))


def metrics(run):
    """Return the lines of metrics.jsonl as strict JSON."""

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def weights_of(path):
    return load_model(path).weights


def assert_same_weights(one, other):
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def assert_same_run(one, other):
    """Hold two runs equal bit for bit: all weights, the optimizer, the progress."""
    for name in ("last.pt", "best.pt", "average.pt"):
        assert_same_weights(one / name, other / name)
    assert [path.name for path in list_steps(one).values()] == [
        path.name for path in list_steps(other).values()
    ]
    first, second = (load_model(run / "last.pt").training for run in (one, other))
    assert first["place"] | {"seconds": 0} == second["place"] | {"seconds": 0}
    torch.testing.assert_close(first["optimizer"], second["optimizer"], rtol=0, atol=0)


def test_training_lowers_the_loss(trained):
    losses = [row["plain_loss"] for row in metrics(trained) if "loss" in row]
    assert losses[-1] < losses[0] / 3


def test_the_same_command_gives_the_same_run(undisturbed, data, tmp_path, aiayn):
    assert aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND)[0] == 0
    assert_same_run(tmp_path / "run", undisturbed)


def test_another_seed_gives_another_run(undisturbed, data, tmp_path, aiayn):
    aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, "--seed", 2)
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "run" / "last.pt", undisturbed / "last.pt")


def test_a_run_stopped_after_every_update_is_the_same_run(data, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(data, whole, tiny_config(), device="cpu", score=constant_score)
    for _ in range(11):
        with pytest.raises(Stopped, match="everything is saved"):
            train(data, stopped, tiny_config(), device="cpu", deadline=0, score=constant_score)
    train(data, stopped, tiny_config(), device="cpu", deadline=0, score=constant_score)
    assert_same_run(stopped, whole)


def start(data, run, *settings):
    line = [sys.executable, "-m", "aiayn", "train", data.path, "-o", run, *COMMAND, *settings]
    return subprocess.Popen(
        line, stderr=subprocess.PIPE, encoding="utf-8", preexec_fn=as_in_a_terminal
    )


def wait_until(process, run, step):
    """Wait until a run has measured an update from this one on."""
    deadline = time.monotonic() + TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if (run / "metrics.jsonl").exists():
            lines = (run / "metrics.jsonl").read_text().split("\n")[:-1]
            if lines and json.loads(lines[-1])["step"] >= step:
                return
        time.sleep(0.005)
    process.kill()
    raise AssertionError(process.communicate(timeout=TIMEOUT)[1])


LONG = ("train.steps=80", "train.log_every=1", "train.save_every=4", "train.valid_every=30")


def test_a_run_killed_at_any_time_is_the_same_run(data, tmp_path, aiayn):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for step in (3, 20):
        process = start(data, killed, *LONG)
        wait_until(process, killed, step)
        process.kill()
        assert process.wait(TIMEOUT) == -signal.SIGKILL
        process.stderr.close()
    for run in (killed, whole):
        assert aiayn("train", data.path, "-o", run, *COMMAND, *LONG)[0] == 0
    assert_same_run(killed, whole)
    steps = [row["step"] for row in metrics(killed) if "loss" in row]
    assert steps == list(range(1, 81))


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [(signal.SIGTERM, 75, "a signal"), (signal.SIGINT, 130, "Ctrl-C")],
)
def test_a_signal_stops_a_run_with_everything_saved(data, tmp_path, number, code, why):
    process = start(data, tmp_path / "run", *LONG, "train.steps=100000")
    wait_until(process, tmp_path / "run", 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code
    assert f"stopped by {why} after update" in err
    assert "run the same command again" in err
    assert "Traceback" not in err
    step = metrics(tmp_path / "run")[-1]["step"]
    assert load_model(tmp_path / "run" / "last.pt").step == step


def test_a_time_limit_stops_a_run_with_exit_code_75(data, tmp_path, aiayn):
    line = ("train", data.path, "-o", tmp_path / "run", *COMMAND, *LONG)
    code, _, err = aiayn(*line, "train.steps=100000", "--time-limit", "1s")
    assert code == 75
    assert "stopped by the time limit" in err


def test_metrics_are_json_lines_with_each_update_once(undisturbed):
    rows = metrics(undisturbed)
    assert [row["step"] for row in rows if "loss" in row] == [4, 5, 6, 8, 10, 12]
    assert [row["step"] for row in rows if "valid" in row] == [6, 12]
    assert {"learning_rate", "gradient_norm", "tokens_per_second"} <= rows[0].keys()


def test_what_was_done_beyond_the_checkpoint_is_done_again(copied, data, aiayn):
    (copied / "last.pt").unlink()
    shutil.copy(step_path(copied, 12), step_path(copied, 11))
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"step": 13, "lo')  # a line that a kill has cut short
    assert aiayn("train", data.path, "-o", copied, *COMMAND)[0] == 0
    assert [row["step"] for row in metrics(copied) if "valid" in row] == [6, 12]
    steps = [row["step"] for row in metrics(copied) if "loss" in row]
    assert steps == sorted(set(steps))
    assert list(list_steps(copied)) == [5, 10, 12]


def test_a_finished_run_is_not_trained_further(copied, undisturbed, data, aiayn):
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND)
    assert code == 0
    assert "up to date: 12 updates" in err
    assert_same_run(copied, undisturbed)


def test_a_finished_run_resumes_for_more_steps(copied, data, aiayn):
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND, "train.steps=14")
    assert code == 0
    assert "changed since the run began: train.steps: 12 -> 14" in err
    assert "resuming after update 12" in err
    assert load_model(copied / "last.pt").step == 14


def test_a_damaged_last_checkpoint_is_replaced_by_the_one_before(
    copied, undisturbed, data, aiayn
):
    content = (copied / "last.pt").read_bytes()
    (copied / "last.pt").write_bytes(content[: len(content) // 2])
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND)
    assert code == 0
    assert "last.pt is damaged" in err
    assert f"falling back to {copied}/previous.pt" in err
    assert "resuming after update 10" in err
    assert_same_run(copied, undisturbed)


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(copied, data, aiayn):
    for name in ("last.pt", "previous.pt"):
        (copied / name).write_bytes(b"")
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND)
    assert code == 3
    assert err.count("falling back") == 1
    assert f"previous.pt is damaged or is not a model file, so {copied} cannot be" in err
    assert f"--init-from {copied}/checkpoints/step-00000012.pt" in err


def test_other_settings_on_a_run_are_listed_and_refused(copied, undisturbed, data, aiayn):
    changes = ("optim.warmup=61", "model.dropout=0.2", "train.seed=2")
    code, _, err = aiayn("train", data.path, "-o", copied, *COMMAND, *changes)
    assert code == 2
    for change in ("optim.warmup: 60 -> 61", "model.dropout: 0.1 -> 0.2", "train.seed: 1 -> 2"):
        assert change in err
    assert "--init-from" in err
    assert_same_run(copied, undisturbed)


def test_other_data_for_a_run_are_refused(copied, tmp_path, aiayn):
    (tmp_path / "other").mkdir()
    other = make_data(tmp_path / "other", seed=9)
    code, _, err = aiayn("train", other.path, "-o", copied, *COMMAND)
    assert code == 2
    assert "was trained on other data" in err


def test_micro_batches_of_another_size_may_finish_a_run(copied, data, aiayn):
    changes = ("batch.micro_tokens=60", "train.steps=13")
    assert aiayn("train", data.path, "-o", copied, *COMMAND, *changes)[0] == 0


def test_a_run_that_diverges_ends_with_its_last_checkpoint_intact(data, tmp_path, aiayn):
    settings = ("optim.factor=1e30", "train.save_every=1", "train.valid_every=0")
    code, _, err = aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, *settings)
    assert code == 5
    assert "diverged at update 2 (epoch 0, batch 1)" in err
    assert load_model(tmp_path / "run" / "last.pt").step == 1
    assert all(row["step"] <= 1 for row in metrics(tmp_path / "run"))


def test_a_validation_loss_that_is_no_number_ends_a_run_before_it_is_saved(
    data, tmp_path, aiayn
):
    settings = ("optim.factor=1e30", "train.save_every=1", "train.valid_every=1")
    code, _, err = aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, *settings)
    assert code == 5
    assert "after update 1 the validation loss is" in err
    assert not (tmp_path / "run" / "last.pt").exists()
    assert not (tmp_path / "run" / "best.pt").exists()


def test_the_stored_settings_reproduce_the_run(undisturbed, data, tmp_path, aiayn):
    stored = ("--preset", "big", "--config", undisturbed / "config.yaml")
    assert aiayn("train", data.path, "-o", tmp_path / "run", *stored)[0] == 0
    assert_same_run(tmp_path / "run", undisturbed)
    assert (tmp_path / "run/config.yaml").read_text() == (
        undisturbed / "config.yaml"
    ).read_text()


def test_a_run_folder_says_where_it_comes_from(undisturbed):
    found = json.loads((undisturbed / "provenance.json").read_text())
    (session,) = found["sessions"]
    assert len(found["data_sha256"]) == 64
    assert "train" in session["command"]
    assert {"aiayn", "torch", "python"} <= session.keys()
    assert (undisturbed / "vocab" / "shared.model").exists()
    assert "done: 12 updates" in (undisturbed / "train.log").read_text()


def test_the_average_of_a_run_is_that_of_its_last_checkpoints(undisturbed):
    average = load_model(undisturbed / "average.pt")
    assert list(list_steps(undisturbed)) == [5, 10, 12]
    assert average.history == {"averaged_steps": [10, 12]}


def test_only_the_newest_checkpoints_are_kept(data, tmp_path, aiayn):
    settings = ("train.save_every=1", "train.keep=last=3", "train.average=1")
    aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, *settings)
    assert list(list_steps(tmp_path / "run")) == [10, 11, 12]
    assert not (tmp_path / "run" / "average.pt").exists()


def test_the_best_checkpoints_are_kept_beside_the_newest(data, tmp_path):
    falling = iter(range(100, 0, -1))

    def score(model, group):
        return Score(name="falling", value=next(falling), signature="none")

    settings = ("train.save_every=1", "train.valid_every=1", "train.average=1")
    config = tiny_config(*settings, "train.keep=last=2,best=1")
    train(data, tmp_path, config, device="cpu", score=score)
    assert list(list_steps(tmp_path)) == [1, 11, 12]


def test_a_run_without_improvement_stops_when_patience_ends(data, tmp_path, capsys):
    # With the learning rate of 0 neither score nor loss moves.
    config = tiny_config("train.patience=2", "train.valid_every=1", "optim.factor=0")
    train(data, tmp_path / "run", config, device="cpu", score=constant_score)
    last = load_model(tmp_path / "run" / "last.pt")
    assert last.step == 3
    assert last.training["place"]["best_step"] == 1
    assert load_model(tmp_path / "run" / "best.pt").step == 1
    assert "no improvement in 2 validations" in capsys.readouterr().err


def test_among_equal_scores_the_lower_loss_is_better(data, tmp_path):
    config = tiny_config("train.patience=2", "train.valid_every=1")
    train(data, tmp_path, config, device="cpu", score=constant_score)
    last = load_model(tmp_path / "last.pt")
    assert (last.step, last.training["place"]["best_step"]) == (12, 12)
    assert RunFolder(tmp_path).best_steps()[0] == 12


def test_a_run_that_has_nothing_to_do_keeps_its_settings(undisturbed, data, tmp_path, aiayn):
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    line = ("train", data.path, "-o", run, *COMMAND)
    before = (run / "config.yaml").read_text(), (run / "provenance.json").read_text()
    code, _, err = aiayn(*line, "train.steps=5")
    assert (code, "up to date" in err) == (0, True)
    assert ((run / "config.yaml").read_text(), (run / "provenance.json").read_text()) == before
    assert aiayn(*line, "train.steps=13")[0] == 0
    assert "steps: 13" in (run / "config.yaml").read_text()


def test_a_second_run_in_the_same_folder_is_refused(undisturbed, data, aiayn, monkeypatch):
    monkeypatch.setattr(run_folder, "LOCK_PATIENCE_SECONDS", 0)
    with RunFolder(undisturbed).locked():
        code, _, err = aiayn("train", data.path, "-o", undisturbed, *COMMAND)
    assert (code, f"another run is writing {undisturbed}" in err) == (2, True)
    assert aiayn("train", data.path, "-o", undisturbed, *COMMAND)[0] == 0


def test_a_new_run_can_begin_with_the_weights_of_another(undisturbed, data, tmp_path, aiayn):
    settings = ("--init-from", undisturbed, "optim.factor=0", "train.steps=1")
    assert aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, *settings)[0] == 0
    assert_same_weights(tmp_path / "run" / "last.pt", undisturbed / "average.pt")


def test_weights_for_another_vocabulary_are_refused(undisturbed, tmp_path, aiayn):
    (tmp_path / "other").mkdir()
    other = make_data(tmp_path / "other", seed=9)
    line = ("train", other.path, "-o", tmp_path / "run", *COMMAND)
    code, _, err = aiayn(*line, "--init-from", undisturbed)
    assert code == 2
    assert "different vocabularies" in err


def test_source_and_target_may_have_vocabularies_of_their_own(tmp_path, aiayn):
    data = make_data(tmp_path, shared=False)
    assert aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND)[0] == 0
    weights = weights_of(tmp_path / "run" / "last.pt")
    assert weights["output.weight"].data_ptr() == weights["target_embedding.weight"].data_ptr()
    assert weights["source_embedding.weight"].size(0) == len(data.codec.source)


def test_a_run_without_validation_pairs_is_warned_of(data, tmp_path, aiayn):
    folder = data.path.parent
    text = ParallelText(folder / "train.source", folder / "train.target")
    settings = Settings(vocab_size=320)
    only = preprocess({"train": [text]}, tmp_path / "data", settings=settings)
    code, _, err = aiayn("train", only.path, "-o", tmp_path / "run", *COMMAND)
    assert code == 0
    assert "has no validation pairs" in err
    assert not (tmp_path / "run" / "best.pt").exists()


def test_a_folder_that_holds_something_else_is_left_alone(data, tmp_path, aiayn):
    (tmp_path / "thesis.txt").write_text("precious")
    code, _, err = aiayn("train", data.path, "-o", tmp_path, *COMMAND)
    assert code == 2
    assert "is not empty and holds no run" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time-limit", "500"], "--time-limit is '500'"),
        (["--time-limit", "soon"], "--time-limit is 'soon'"),
        (["--steps", "0"], "steps is 0"),
        (["--preset", "tny"], "there is no preset 'tny'"),
        (["optim.warmpu=3"], "there is no setting optim.warmpu"),
        (["--device", "tpu"], "there is no device 'tpu'"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_is_written(
    data, tmp_path, aiayn, options, message
):
    line = ("train", data.path, "-o", tmp_path / "run", *COMMAND)
    code, _, err = aiayn(*line, *options)
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_data_folder_is_refused(tmp_path, aiayn):
    code, _, err = aiayn("train", tmp_path, "-o", tmp_path / "run", *COMMAND)
    assert code == 2
    assert "aiayn preprocess" in err


def test_a_dry_run_tells_the_plan_and_writes_nothing(data, tmp_path, aiayn):
    code, out, _ = aiayn("train", data.path, "-o", tmp_path / "run", *COMMAND, "--dry-run")
    assert code == 0
    assert "updates per epoch" in out
    assert not (tmp_path / "run").exists()
