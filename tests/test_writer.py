"""Checkpoints written in the background: copies, one at a time, with errors that surface."""

from dataclasses import replace
from threading import Event, Timer

import pytest
import torch
from toy import tiny_config

from aiayn.checkpoint import ModelFile, build_model
from aiayn.errors import UsageError
from aiayn.training.writer import CheckpointWriter

SECONDS = 60


@pytest.fixture
def model(data) -> ModelFile:
    config = tiny_config()
    weights = build_model(config, data.codec).state_dict()
    return ModelFile(config=config, codec=data.codec, weights=weights)


class Disk:
    """Takes files as slowly as the test wants."""

    def __init__(self) -> None:
        self.free = Event()
        self.written: list[ModelFile] = []

    def write(self, file: ModelFile) -> None:
        assert self.free.wait(SECONDS)
        self.written.append(file)


def test_what_is_written_is_what_was_there_when_the_save_began(model):
    moments = {"optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}}}
    file, disk, writer = replace(model, training=moments), Disk(), CheckpointWriter()
    wanted = {name: weight.clone() for name, weight in model.weights.items()}
    writer.start(disk.write, file)
    for weight in model.weights.values():
        weight.zero_()
    moments["optimizer"]["state"][0]["exp_avg"].zero_()
    disk.free.set()
    writer.wait()
    (found,) = disk.written
    torch.testing.assert_close(found.weights, wanted, rtol=0, atol=0)
    assert found.training["optimizer"]["state"][0]["exp_avg"].tolist() == [1, 1, 1]


def test_a_save_waits_for_the_one_before_it(model):
    disk, writer, order = Disk(), CheckpointWriter(), []

    def second(file: ModelFile) -> None:
        order.append(len(disk.written))

    writer.start(disk.write, model)
    Timer(0.2, disk.free.set).start()
    writer.start(second, model)
    assert len(disk.written) == 1
    writer.wait()
    assert order == [1]


def fail(file: ModelFile) -> None:
    raise UsageError("last.pt cannot be written")


def test_an_error_surfaces_at_the_next_save_or_at_the_end_and_only_once(model):
    writer, disk = CheckpointWriter(), Disk()
    disk.free.set()
    for surfaces in (lambda: writer.start(disk.write, model), writer.wait):
        writer.start(fail, model)
        with pytest.raises(UsageError, match="cannot be written"):
            surfaces()
        assert not disk.written
        writer.wait()


def test_a_copy_ties_what_the_model_ties_and_nothing_else(model):
    copied = model.copy_to_host().weights
    places = {name: weight.data_ptr() for name, weight in model.weights.items()}
    found = {name: weight.data_ptr() for name, weight in copied.items()}
    assert len(set(found.values())) == len(set(places.values())) < len(places)
    assert not set(found.values()) & set(places.values())
    assert found["source_embedding.weight"] == found["output.weight"]
