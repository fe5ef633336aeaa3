"""`aiayn info`: presets, data folders, runs and model files, for people and for machines."""

import json
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace

import pytest

from aiayn.checkpoint import load_model, save_model
from aiayn.config import Config
from aiayn.config_file import read_yaml
from aiayn.presets import PRESETS, preset


@pytest.fixture
def told(aiayn):
    """Return a function that gives what `aiayn info --json` prints."""

    def run(*line):
        code, out, _ = aiayn("info", *line, "--json")
        assert code == 0
        return json.loads(out)

    return run


@pytest.mark.parametrize(
    ("name", "total"),
    [("base", 63_082_496), ("big", 214_245_376), ("table3-B1", 55_990_784)],
)
def test_a_preset_has_the_papers_number_of_parameters(told, name, total):
    found = told("--preset", name, "--vocab-size", 37000)
    assert found["parameters"]["total"] == total
    assert sum(found["parameters"].values()) == 2 * total
    assert found["settings"] == asdict(preset(name))


def test_every_preset_is_listed_with_what_makes_it_differ(told, aiayn):
    found = told("--presets")
    assert list(found) == list(PRESETS)
    assert found["base"] == {}
    assert found["table3-B1"] == {"model.d_k": "64 -> 16", "train.average": "5 -> 1"}
    _, out, _ = aiayn("info", "--presets")
    assert "model.positions=learned" in out


def test_two_vocabularies_are_counted_apart(told):
    found = told("--preset", "parsing", "--vocab-size", "16384,512")
    assert found["parameters"]["embeddings"] == (16384 + 2 * 512) * 1024


def test_a_person_sees_thousands_apart(aiayn):
    code, out, err = aiayn("info", "--preset", "base")
    assert (code, err) == (0, "")
    assert "63,082,496" in out
    assert "optim.warmup" in out


def test_several_things_are_compared_in_a_few_lines(aiayn, data, trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other")
    out = aiayn("info", trained, other, data.path, "--preset", "base")[1]
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) < 15
    assert [lines[0][:2], lines[1][:2]] == [["data", "train"], [str(data.path), "400"]]
    first, second = (
        lines.index(line) for line in lines if line[:1] in ([str(trained)], [str(other)])
    )
    assert lines[first][1:] == lines[second][1:]
    assert "differ" not in out


def test_runs_are_compared_by_the_settings_that_differ(aiayn, trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other")
    model = load_model(other / "last.pt")
    changed = replace(model.config.optim, warmup=77)
    for name in ("last.pt", "average.pt"):
        save_model(other / name, replace(model, config=replace(model.config, optim=changed)))
    lines = [line.split() for line in aiayn("info", trained, other)[1].splitlines()]
    (head,) = (number for number, line in enumerate(lines) if line[:1] == ["differ"])
    assert lines[head + 1 :] == [["optim.warmup", "60", "77"], []]


def test_every_name_in_json_with_a_space_has_one_without(told, trained):
    found = told(trained)
    assert found["target_tokens"] == found["target tokens"]
    assert (
        found["cost"]["floating_point_operations"] == found["cost"]["floating-point operations"]
    )


def test_the_settings_of_a_preset_are_a_file_for_train(aiayn, tmp_path):
    _, out, _ = aiayn("info", "--preset", "big", "--yaml")
    (tmp_path / "big.yaml").write_text(out)
    assert read_yaml(tmp_path / "big.yaml", Config()) == preset("big")


def test_an_unknown_preset_is_answered_with_the_nearest_one(aiayn):
    code, out, err = aiayn("info", "--preset", "table3-b1")
    assert (code, out) == (2, "")
    assert "did you mean table3-B1?" in err


@pytest.mark.parametrize("size", ["many", "3", "1,2,3", "-5", ""])
def test_a_vocabulary_size_that_cannot_be_is_refused(aiayn, size):
    assert aiayn("info", "--preset", "base", f"--vocab-size={size}")[0] == 2


def test_a_data_folder_tells_what_it_holds(told, data):
    found = told(data.path)
    assert found["data"] == str(data.path)
    assert found["splits"]["train"]["kept"] == 400
    assert found["vocabulary"]["source"] == len(data.codec.source)


def test_the_checksums_of_a_data_folder_can_be_verified(aiayn, data, tmp_path):
    folder = shutil.copytree(data.path, tmp_path / "data")
    code, _, err = aiayn("info", folder, "--verify")
    assert code == 0
    assert "checksums are right" in err
    ids = bytearray((folder / "train-00000.bin").read_bytes())
    ids[10] ^= 1
    (folder / "train-00000.bin").write_bytes(ids)
    code, _, err = aiayn("info", folder, "--verify")
    assert code == 3
    assert "train-00000.bin" in err


def test_a_run_tells_how_far_it_is_and_what_it_reached(told, trained):
    found = told(trained)
    assert found["updates"] == "250 of 250"
    assert found["model"] == str(trained / "average.pt")
    assert found["averaged_steps"] == [200, 250]
    assert found["checkpoints"] == [50, 100, 150, 200, 250]
    assert found["best"]["step"] == 250
    assert found["cost"]["floating-point operations"] > 0
    assert found["differs from base"]["model.layers"] == "6 -> 1"


def test_a_model_file_tells_its_step_and_parameters(told, trained, data):
    found = told(trained / "checkpoints" / "step-00000100.pt")
    assert found["step"] == 100
    assert found["vocabulary"]["source"] == len(data.codec.source)
    assert found["parameters"]["embeddings"] == len(data.codec.source) * 32
    assert found["settings"]["model"]["d_model"] == 32


def test_several_things_are_told_as_a_list(told, trained, data):
    assert [kind for kind in ("run", "data") for one in told(trained, data.path) if kind in one]
    assert len(told(trained, data.path, "--preset", "base")) == 3


def test_a_run_killed_while_it_wrote_is_told_all_the_same(told, trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 260, "lo')
    assert told(run)["best"]["step"] == 250


def test_the_curves_of_a_run_are_drawn(aiayn, trained, tmp_path):
    assert aiayn("info", trained, "--svg", tmp_path / "curves.svg")[0] == 0
    picture = ElementTree.parse(tmp_path / "curves.svg")
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"loss (nats per token)", "validation score", "learning rate"} <= set(texts)


def test_curves_can_be_piped(aiayn, trained):
    code, out, _ = aiayn("info", trained, "--svg", "-")
    assert (code, ElementTree.fromstring(out).tag) == (0, "{http://www.w3.org/2000/svg}svg")


def test_curves_need_a_run(aiayn, data, tmp_path):
    code, _, err = aiayn("info", data.path, "--svg", tmp_path / "curves.svg")
    assert code == 2
    assert "--svg draws one run" in err


@pytest.mark.parametrize("line", [[], ["nowhere"], ["."]], ids=["nothing", "missing", "empty"])
def test_what_there_is_nothing_to_tell_about_is_refused(aiayn, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = aiayn("info", *line)
    assert (code, out) == (2, "")
    assert "fix:" in err


def test_text_is_not_taken_for_a_model(aiayn, tmp_path):
    (tmp_path / "t.en").write_text("a dog\n")
    code, out, err = aiayn("info", tmp_path / "t.en")
    assert (code, out) == (2, "")
    assert "t.en is text, and not a data folder, run or model" in err
    assert "aiayn preprocess" in err
