"""What depends on the hardware: device, precision, memory that runs out, random numbers."""

from types import SimpleNamespace

import pytest
import torch

from aiayn import device
from aiayn.device import (
    autocast,
    choose_device,
    choose_precision,
    peak_memory,
    seed_dropout,
)
from aiayn.distributed import require_own_devices
from aiayn.errors import UsageError
from aiayn.memory import is_out_of_memory

CPU = torch.device("cpu")


def test_auto_finds_a_device():
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    assert choose_device("cpu") == CPU


def test_an_unknown_device_is_refused_with_those_that_are_known():
    with pytest.raises(UsageError, match="there is no device 'gpu'") as raised:
        choose_device("gpu")
    assert "cuda" in raised.value.fix


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_here_is_refused():
    with pytest.raises(UsageError, match="no cuda device here"):
        choose_device("cuda")


@pytest.fixture
def gpus(monkeypatch):
    """Return a function that lets torch see so many GPUs."""

    def see(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return see


def test_each_process_of_a_machine_has_the_gpu_of_its_number(gpus):
    gpus(4)
    assert choose_device("auto", local_rank=3) == torch.device("cuda", 3)
    with pytest.raises(UsageError, match="process 5 of this machine has no cuda device"):
        choose_device("auto", local_rank=4)


def test_a_process_that_sees_one_gpu_has_it_whatever_its_number(gpus):
    gpus(1)  # as `srun --gpus-per-task=1` shows them
    assert choose_device("cuda", local_rank=5) == torch.device("cuda", 0)


def test_more_processes_than_gpus_are_refused_with_their_number(gpus, data, tmp_path, aiayn):
    gpus(1)
    code, _, err = aiayn("train", data.path, "-o", tmp_path / "run", "--nproc", 2)
    assert code == 2
    assert "process 2 of this machine has no cuda device: there are 1" in err
    assert "fix: start at most 1, or pass --device cpu" in err


class Group:
    """Two processes, of which this is the second."""

    rank, world_size, device = 1, 2, torch.device("cuda", 0)

    def __init__(self, first: str) -> None:
        self.first = first

    def gather(self, items, total):
        return [self.first, *items]


def test_processes_that_would_share_a_gpu_are_refused(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="GPU-b")
    )
    require_own_devices(Group("GPU-a"))
    with pytest.raises(UsageError, match="processes 0, 1 have the same GPU"):
        require_own_devices(Group("GPU-b"))


@pytest.mark.parametrize(("there", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_is_bfloat16_on_a_processor_that_multiplies_it(monkeypatch, there, dtype):
    monkeypatch.setattr(device, "has_bfloat16", lambda: there)
    assert choose_precision("auto", CPU) == dtype


def test_the_cpu_computes_in_the_precision_that_is_named():
    assert choose_precision("float32", CPU) == torch.float32
    assert choose_precision("float16", CPU) == torch.float16


def test_only_another_precision_than_float32_changes_products():
    square = torch.ones(4, 4)
    with autocast(CPU, torch.float32):
        assert (square @ square).dtype == torch.float32
    with autocast(CPU, torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("problem", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
    ids=repr,
)
def test_a_lack_of_memory_is_told_from_other_errors(problem, is_memory):
    assert is_out_of_memory(problem) is is_memory


def test_a_real_lack_of_memory_is_recognised():
    with pytest.raises((RuntimeError, MemoryError)) as raised:
        torch.empty(2**55, dtype=torch.float64)
    assert is_out_of_memory(raised.value)


def test_the_same_seed_gives_the_same_dropout():
    drawn = []
    for seed in (5, 6, 5):
        seed_dropout(CPU, seed)
        drawn.append(torch.nn.functional.dropout(torch.ones(100), 0.5))
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


def test_memory_is_counted():
    assert peak_memory(CPU) > 10_000_000
