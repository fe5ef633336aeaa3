"""Averaging checkpoints: section 6.1."""

import json
from dataclasses import replace

import pytest
import torch
from toy import make_data, tiny_config

from aiayn.checkpoint import ModelFile, build_model, load_model, save_model
from aiayn.errors import DataError, UsageError
from aiayn.run_folder import step_path
from aiayn.training.average import (
    average,
    best_checkpoints,
    last_checkpoints,
    named_checkpoints,
)

TIED = ("source_embedding.weight", "target_embedding.weight", "output.weight")


def save_step(run, codec, step, *, seed, config=None):
    torch.manual_seed(seed)
    config = config or tiny_config()
    weights = build_model(config, codec).state_dict()
    path = step_path(run, step)
    path.parent.mkdir(exist_ok=True)
    save_model(path, ModelFile(config=config, codec=codec, weights=weights, step=step))
    return path


@pytest.fixture
def run(data, tmp_path):
    """A folder with checkpoints of four updates, each with weights of its own."""
    for step in (10, 20, 30, 40):
        save_step(tmp_path, data.codec, step, seed=step)
    return tmp_path


def test_the_average_is_the_arithmetic_mean_of_every_weight(run):
    paths = [step_path(run, step) for step in (10, 20, 40)]
    found, files = average(paths), [load_model(path) for path in paths]
    for name, weight in found.weights.items():
        mean = torch.stack([file.weights[name].double() for file in files]).mean(dim=0)
        torch.testing.assert_close(weight, mean.float(), rtol=0, atol=0)


def test_the_average_of_equal_checkpoints_is_the_checkpoint(run):
    path = step_path(run, 10)
    found, wanted = average([path] * 3), load_model(path)
    assert all(
        torch.equal(found.weights[name], wanted.weights[name]) for name in wanted.weights
    )


def test_tied_weights_stay_tied_in_memory_and_on_disk(run):
    found = average(last_checkpoints(run, 2))
    assert len({found.weights[name].data_ptr() for name in TIED}) == 1
    save_model(run / "average.pt", found)
    loaded = load_model(run / "average.pt").weights
    assert len({loaded[name].data_ptr() for name in TIED}) == 1


def test_an_average_remembers_where_it_comes_from(run):
    found = average(last_checkpoints(run, 3))
    assert found.history == {"averaged_steps": [20, 30, 40]}
    assert (found.step, found.training) == (40, {})


def test_the_last_checkpoints_are_the_newest_ones(run):
    assert last_checkpoints(run, 2) == [step_path(run, 30), step_path(run, 40)]


def test_more_checkpoints_than_there_are_cannot_be_averaged(run):
    with pytest.raises(UsageError, match="holds 4 checkpoints, expected 5") as raised:
        last_checkpoints(run, 5)
    assert "--last 4" in raised.value.fix


def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(run):
    with pytest.raises(UsageError, match="no checkpoint of update 25") as raised:
        named_checkpoints(run, [20, 25])
    assert "10, 20, 30, 40" in raised.value.fix


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no checkpoints"):
        last_checkpoints(tmp_path, 1)


def test_checkpoints_of_different_models_are_refused(run, data):
    wider = tiny_config("model.d_ff=65")
    path = save_step(run, data.codec, 50, seed=1, config=wider)
    with pytest.raises(DataError, match="are not checkpoints of one model"):
        average([step_path(run, 40), path])


def test_checkpoints_with_different_vocabularies_are_refused(run, tmp_path):
    (tmp_path / "other").mkdir()
    codec = make_data(tmp_path / "other", seed=5).codec
    path = save_step(run, codec, 50, seed=1)
    with pytest.raises(DataError, match="are not checkpoints of one model"):
        average([step_path(run, 40), path])


def test_settings_of_the_run_may_differ_between_checkpoints(run, data):
    longer = replace(tiny_config(), train=tiny_config("train.steps=99").train)
    path = save_step(run, data.codec, 50, seed=1, config=longer)
    assert average([step_path(run, 40), path]).step == 50


def write_validations(run, **losses):
    rows = [{"step": int(s[5:]), "valid": {"loss": loss}} for s, loss in losses.items()]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_best_checkpoints_are_those_that_validated_best(run, capsys):
    write_validations(run, step_10=1.5, step_20=0.5, step_30=2.0, step_40=0.9)
    assert best_checkpoints(run, 2) == [step_path(run, 20), step_path(run, 40)]
    assert capsys.readouterr().err == ""


def test_better_ones_that_were_not_kept_are_named(run, capsys):
    write_validations(run, step_10=1.5, step_20=0.5, step_25=0.1, step_30=2.0, step_40=0.9)
    assert best_checkpoints(run, 2) == [step_path(run, 20), step_path(run, 40)]
    warning = "no checkpoint was kept of update 25, which validated better than update 40"
    assert warning in capsys.readouterr().err


def test_more_validated_checkpoints_than_there_are_cannot_be_averaged(run):
    write_validations(run, step_20=0.5, step_25=0.1)
    with pytest.raises(UsageError, match="holds 1 validated checkpoint, expected 2"):
        best_checkpoints(run, 2)


def test_the_command_averages_the_last_checkpoints(run, aiayn):
    code, out, err = aiayn("average", run, "-o", run / "model.pt", "--last", 2)
    assert (code, out) == (0, "")
    assert "averaged updates 30, 40 into" in err
    found, wanted = load_model(run / "model.pt"), average(last_checkpoints(run, 2))
    assert all(
        torch.equal(found.weights[name], wanted.weights[name]) for name in wanted.weights
    )


def test_the_command_averages_named_checkpoints(run, aiayn):
    assert aiayn("average", run, "-o", run / "model.pt", "--steps", "10,40")[0] == 0
    assert load_model(run / "model.pt").history == {"averaged_steps": [10, 40]}


@pytest.mark.parametrize(
    "options",
    [
        ("--last", "9"),
        ("--last", "0"),
        ("--last", "-1"),
        ("--steps", "x"),
        ("--steps", "7"),
        ("--best", "1"),
        ("--best", "1", "--steps", "10"),
        ("--last", "2", "--steps", "10"),
        ("--steps", "10,10"),
    ],
    ids=" ".join,
)
def test_the_command_refuses_checkpoints_that_cannot_be(run, aiayn, options):
    code, out, err = aiayn("average", run, "-o", run / "model.pt", *options)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert not (run / "model.pt").exists()


@pytest.mark.parametrize("name", ["last.pt", "checkpoints/step-00000010.pt"])
def test_the_files_of_a_run_are_never_replaced_by_their_average(run, aiayn, name):
    (run / "last.pt").write_bytes((run / "checkpoints/step-00000040.pt").read_bytes())
    before = (run / name).read_bytes()
    code, _, err = aiayn("average", run, "-o", run / name, "--last", 2)
    assert (code, (run / name).read_bytes()) == (2, before)
    assert "is the input and the output" in err


def test_an_average_replaces_a_model_and_nothing_else(run, aiayn, tmp_path):
    (tmp_path / "text").write_text("ba be\n")
    assert aiayn("average", run, "-o", tmp_path / "text", "--last", 2)[0] == 2
    assert (tmp_path / "text").read_text() == "ba be\n"
    for last in (2, 1):
        assert aiayn("average", run, "-o", tmp_path / "model.pt", "--last", last)[0] == 0
    assert load_model(tmp_path / "model.pt").step == 40
