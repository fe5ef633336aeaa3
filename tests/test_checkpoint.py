"""Model files: whole or refused, with a way out, and nothing in them is ever run."""

import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toy import make_data, tiny_config

from aiayn.checkpoint import ModelFile, build_model, load_model, save_model
from aiayn.errors import DataError, UsageError
from aiayn.model_path import find_model
from aiayn.run_folder import list_steps, step_path


@pytest.fixture
def model(data):
    torch.manual_seed(1)
    config = tiny_config()
    weights = build_model(config, data.codec).state_dict()
    return ModelFile(config=config, codec=data.codec, weights=weights, step=7)


@pytest.fixture
def path(model, tmp_path):
    save_model(tmp_path / "model.pt", model)
    return tmp_path / "model.pt"


def refusal(path: Path) -> DataError:
    with pytest.raises(DataError) as raised:
        load_model(path)
    assert str(path) in raised.value.message
    assert raised.value.fix
    return raised.value


def test_a_model_file_gives_back_all_that_was_put_in(model, tmp_path):
    whole = replace(model, history={"averaged_steps": [5, 7]}, training={"place": {"step": 7}})
    save_model(tmp_path / "model.pt", whole)
    found = load_model(tmp_path / "model.pt")
    assert (found.config, found.step) == (whole.config, 7)
    assert (found.history, found.training) == (whole.history, whole.training)
    assert found.codec.fingerprint == whole.codec.fingerprint
    assert found.weights.keys() == whole.weights.keys()
    assert all(torch.equal(found.weights[name], whole.weights[name]) for name in found.weights)


def test_a_loaded_model_computes_what_the_saved_one_did(model, path):
    source, target = torch.tensor([[5, 6, 1]]), torch.tensor([[7, 8, 9, 1]])
    found = load_model(path).build()
    assert not found.training
    assert torch.equal(found(source, target), model.build()(source, target))


def test_a_model_with_two_vocabularies_comes_back_with_two(tmp_path):
    codec = make_data(tmp_path, shared=False).codec
    config = tiny_config("model.tie=none")
    weights = build_model(config, codec).state_dict()
    save_model(tmp_path / "m.pt", ModelFile(config=config, codec=codec, weights=weights))
    found = load_model(tmp_path / "m.pt")
    assert not found.codec.shared
    assert found.build().source_embedding.weight.size(0) == len(codec.source)


def test_tied_weights_are_stored_once(path):
    weights = load_model(path).weights
    places = {
        weights[name].data_ptr()
        for name in ("source_embedding.weight", "target_embedding.weight", "output.weight")
    }
    assert len(places) == 1


def test_a_model_file_needs_nothing_else(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.move(path, tmp_path / "elsewhere" / "model.pt")
    found = load_model(tmp_path / "elsewhere" / "model.pt")
    assert found.codec.decode_target(found.codec.encode_target("ab eb")) == "ab eb"


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_a_torn_file_is_refused(path, kept):
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    assert "is damaged" in refusal(path).message


def test_a_flipped_bit_is_never_taken_for_a_weight(path):
    content = path.read_bytes()
    end = range(len(content) - 4000, len(content), 100)  # where the names of the parts stand
    for place in (*range(0, len(content), len(content) // 20), *end):
        path.write_bytes(content[:place] + bytes([content[place] ^ 128]) + content[place + 1 :])
        try:
            found = load_model(path)
        except DataError:
            continue
        path.write_bytes(content)
        intact = load_model(path).weights
        assert all(torch.equal(found.weights[name], intact[name]) for name in intact)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged or is not a model file"),
        (b"no model: caf\xc3\xa9\n", "is text, and not a model file"),
        (4095 * b"x" + "é".encode(), "is text, and not a model file"),
        (bytes(1000), "is damaged or is not a model file"),
        (b"PK\x03\x04" + bytes(99), "is damaged or is not a model file"),
    ],
    ids=["empty", "text", "text with a character across a boundary", "zeros", "zip"],
)
def test_a_foreign_file_is_refused(tmp_path, content, message):
    (tmp_path / "text.pt").write_bytes(content)
    assert message in refusal(tmp_path / "text.pt").message


@pytest.mark.parametrize("content", [{"weights": {}}, [1, 2], {"format": "another"}])
def test_a_torch_file_of_another_program_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    assert "is not a model file of aiayn" in refusal(tmp_path / "other.pt").message


def test_a_file_from_before_unequal_depths_still_loads(path):
    before, content = load_model(path), torch.load(path, weights_only=True)
    del content["config"]["model"]["decoder_layers"]
    torch.save(content, path)
    assert load_model(path).config == before.config


def test_a_file_of_a_newer_version_says_so(path):
    content = torch.load(path, weights_only=True)
    torch.save(content | {"version": 99}, path)
    problem = refusal(path)
    assert "format version 99, and this aiayn reads 1" in problem.message
    assert "newer aiayn" in problem.fix


def test_a_file_with_our_format_and_nothing_else_is_refused(tmp_path):
    torch.save({"format": "aiayn model"}, tmp_path / "model.pt")
    assert "is incomplete: there is no 'version'" in refusal(tmp_path / "model.pt").message


@pytest.mark.parametrize("part", ["version", "config", "codec", "weights", "step", "training"])
@pytest.mark.parametrize("found", [None, "text", [3]])
def test_a_file_with_a_part_that_is_something_else_is_refused(path, part, found):
    content = torch.load(path, weights_only=True)
    torch.save(content | {part: found}, path)
    assert "is incomplete" in refusal(path).message


NORM = "encoder.0.add_1.norm.bias"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop(NORM), f"its settings and its weights do not agree on {NORM}"),
        (lambda w: w.update(more=w[NORM]), "its settings and its weights do not agree on more"),
        (lambda w: w.update({NORM: torch.zeros(3)}), f"{NORM} is [3], and its settings ask"),
    ],
    ids=["one less", "one more", "another size"],
)
def test_a_file_whose_weights_are_not_those_of_its_settings_is_refused(path, change, message):
    content = torch.load(path, weights_only=True)
    change(content["weights"])
    torch.save(content, path)
    problem = refusal(path)
    assert f"is incomplete: {message}" in problem.message
    assert problem.exit_code == 3


class Bomb:
    """Writes a file when it is unpickled by something that runs what it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_file_is_refused_and_does_not_run(path, tmp_path):
    content = torch.load(path, weights_only=True)
    torch.save(content | {"history": Bomb(tmp_path / "exploded")}, path)
    refusal(path)
    assert not (tmp_path / "exploded").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "exploded").exists()


def test_a_plain_pickle_is_refused_and_does_not_run(tmp_path):
    (tmp_path / "bomb.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    refusal(tmp_path / "bomb.pt")
    assert not (tmp_path / "exploded").exists()


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        load_model(tmp_path / "nowhere.pt")


def test_a_folder_stands_for_its_average_then_its_best_then_its_last_model(tmp_path):
    for name in ("last.pt", "best.pt", "average.pt"):
        (tmp_path / name).touch()
        assert find_model(tmp_path) == tmp_path / name


def test_an_average_of_fewer_updates_than_the_last_model_has_does_not_stand_for_a_run(
    model, tmp_path
):
    save_model(tmp_path / "average.pt", model)
    save_model(tmp_path / "best.pt", model)
    save_model(tmp_path / "last.pt", replace(model, step=8))
    os.utime(tmp_path / "average.pt", (1, 1))
    assert find_model(tmp_path) == tmp_path / "best.pt"
    (tmp_path / "best.pt").unlink()
    assert find_model(tmp_path) == tmp_path / "last.pt"


def test_an_average_stands_for_a_run_whatever_times_copying_has_left(model, tmp_path):
    for name in ("average.pt", "best.pt", "last.pt"):
        save_model(tmp_path / name, model)
    os.utime(tmp_path / "average.pt", (1, 1))
    assert find_model(tmp_path) == tmp_path / "average.pt"


def test_a_model_file_stands_for_itself(tmp_path):
    assert find_model(tmp_path / "some.pt") == tmp_path / "some.pt"


def test_a_folder_without_a_model_names_what_it_looked_for(tmp_path):
    with pytest.raises(UsageError, match=r"none of average\.pt, best\.pt, last\.pt") as raised:
        find_model(tmp_path)
    assert "aiayn train" in raised.value.fix


def test_a_folder_made_for_ctranslate2_is_told_from_one_to_import(tmp_path):
    for name, fix in (("config.json", "aiayn import"), ("model.bin", "--engine ctranslate2")):
        (tmp_path / name).touch()
        with pytest.raises(UsageError) as raised:
            find_model(tmp_path)
        assert fix in raised.value.fix


def test_a_file_that_cannot_be_written_leaves_the_old_one_intact(model, path, tmp_path):
    before = path.read_bytes()
    (tmp_path / "model.pt.partial").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        save_model(path, replace(model, step=8))
    assert path.read_bytes() == before


def test_a_missing_folder_is_named(model, tmp_path):
    with pytest.raises(UsageError, match=r"nowhere does not exist"):
        save_model(tmp_path / "nowhere" / "model.pt", model)


def test_checkpoints_are_listed_in_the_order_of_their_updates(tmp_path):
    assert list_steps(tmp_path) == {}
    for step in (900, 20, 123456789):
        step_path(tmp_path, step).parent.mkdir(exist_ok=True)
        step_path(tmp_path, step).touch()
    (tmp_path / "checkpoints" / "step-00000001.pt.partial").touch()
    (tmp_path / "checkpoints" / "step-x.pt").touch()
    assert list(list_steps(tmp_path)) == [20, 900, 123456789]
