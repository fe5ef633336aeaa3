"""The path of a GPU, proven without one: on the meta device, which holds no numbers to read."""

import itertools
import socket
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partialmethod
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from toy import make_data, tiny_config

from aiayn import distributed, validation
from aiayn.config import DecodeConfig
from aiayn.config_file import apply_overrides
from aiayn.data.batch import batch_of, collate
from aiayn.device import float32_products
from aiayn.distributed import ProcessGroup
from aiayn.errors import ProcessLost
from aiayn.generation.decoder import CachedDecoder
from aiayn.kernels import layout
from aiayn.presets import preset
from aiayn.special_ids import EOS, PAD
from aiayn.training import gradients
from aiayn.training import update as update_module
from aiayn.training.loader import Update, updates_from
from aiayn.training.loss import batch_loss
from aiayn.training.state import fresh_state
from aiayn.training.update import run_update

META, CPU = torch.device("meta"), torch.device("cpu")
READS = {"_local_scalar_dense", "nonzero"}
"""ATen calls that make the host wait for the device."""


class Calls(TorchDispatchMode):
    """Counts ATen calls that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found[func.overloadpacket.__name__] += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.fixture
def on_meta(monkeypatch):
    """Let Adam's fused kernel pass for one of the meta device."""
    monkeypatch.setattr(
        sys.modules["torch.optim.optimizer"],
        "_get_fused_kernels_supported_devices",
        lambda: ["meta"],
    )


def one_update(device: torch.device) -> Update:
    pairs = [(np.arange(3, n % 20 + 9), np.arange(3, n % 17 + 12)) for n in range(130)]
    batch = collate(pairs)
    guide_BTS = torch.zeros(130, batch.target_BT.size(1), batch.source_BS.size(1))
    return Update(0, 0, 1, 1, 1, [(0, replace(batch, guide_BTS=guide_BTS).to(device))])


def count_calls(steps: int = 2, dtype=torch.float32, *settings: str) -> Counter[str]:
    """Return the ATen calls of the last of some updates; the first makes Adam's moments."""
    codec = SimpleNamespace(sizes=(37_000, None))
    state = fresh_state(apply_overrides(preset("base"), settings), codec, META, dtype)
    update, group = one_update(META), ProcessGroup(0, 1, META)
    for _ in range(steps):
        with Calls() as calls:
            run_update(state, update, group, dtype)
    return calls.found


def test_an_update_reads_nothing_back_from_the_device(on_meta):
    for dtype, most in ((torch.float32, 1450), (torch.bfloat16, 900)):
        found = count_calls(dtype=dtype)
        assert not READS & found.keys()
        assert found.total() <= most


def test_a_moving_average_of_the_weights_is_one_call_of_an_update(on_meta):
    without, found = count_calls(), count_calls(2, torch.float32, "train.ema=0.999")
    assert found - without == {"_foreach_lerp_": 1}


@pytest.mark.parametrize("setting", ["optim.guided=0.1", "optim.rdrop=5"])
def test_what_is_beyond_the_paper_reads_nothing_back_from_the_device(on_meta, setting):
    for dtype in (torch.float32, torch.bfloat16):
        found = count_calls(2, dtype, setting)
        assert not READS & found.keys()


def test_a_number_that_is_read_within_an_update_is_noticed(on_meta, monkeypatch):
    real = update_module.take_step
    monkeypatch.setattr(
        update_module,
        "take_step",
        lambda state: (float(state.gradients.total[0]), real(state)),
    )
    with pytest.raises(RuntimeError, match="meta"):
        count_calls(1)


def calls_of_a_step(layers: int) -> Counter[str]:
    """Return the ATen calls of a step of beam search on a device."""
    codec = SimpleNamespace(sizes=(1000, None))
    config = apply_overrides(preset("base"), [f"model.layers={layers}"])
    model = fresh_state(config, codec, META, torch.float32).model.eval()
    with torch.inference_mode():
        step = CachedDecoder(model, 4)
        step.reserve(3, 7, limit=57)
        step.admit([[5, 6, 7, EOS]] * 3)
        step(np.full((3, 4), PAD), np.zeros((3, 4), dtype=np.int64))
        with Calls() as calls:
            logits = step(np.full((3, 4), 5), np.zeros((3, 4), dtype=np.int64))
    assert logits.shape == (3, 4, 1000)
    return calls.found


def test_a_decoding_step_reads_nothing_back_from_the_device():
    assert not READS & calls_of_a_step(6).keys()


def test_a_decoding_step_is_few_calls():
    one, two = calls_of_a_step(1).total(), calls_of_a_step(2).total()
    assert two - one <= 26  # for each layer
    assert one <= 26 + 16


def test_float32_is_exact_in_validation_and_tf32_in_training(monkeypatch, tmp_path):
    seen = []

    class Translator:
        def __init__(self, *given, **named) -> None:
            pass

        def translate(self, lines):
            seen.append(torch.get_float32_matmul_precision())
            return [SimpleNamespace(text=line) for line in lines]

    monkeypatch.setattr(validation, "Translator", Translator)
    data = make_data(tmp_path)
    with float32_products("high"):
        validation.validation_score(data, DecodeConfig())(None, ProcessGroup(0, 1, CPU))
        assert torch.get_float32_matmul_precision() == "high"
    assert seen == ["highest"]


@pytest.fixture
def fake_group(monkeypatch):
    """Join a process group that does nothing; returns which of its functions were called."""
    called = []
    monkeypatch.setenv("RANK", "0")
    found = FakeStore(), 0, 1
    monkeypatch.setattr(distributed, "rendezvous", lambda url, timeout: iter([found]))
    for name in ("init_process_group", "new_group", "destroy_process_group"):
        monkeypatch.setattr(
            distributed.dist, name, lambda *_, name=name, **__: called.append(name)
        )
    return called


@pytest.mark.parametrize(
    "problem",
    [
        RuntimeError("Connection closed by peer [127.0.0.1]:5000"),
        dist.DistBackendError("NCCL communicator was aborted on rank 0."),
    ],
    ids=["gloo", "nccl"],
)
def test_a_group_that_lost_a_process_is_left_without_waiting_for_it(fake_group, problem):
    lost = pytest.raises(ProcessLost, match="another process of this run has died")
    with lost, distributed.join_process_group("cpu"):
        raise problem
    assert "destroy_process_group" not in fake_group


def join_by(port: int, rank: int, monkeypatch) -> None:
    """Join another process, whose first one listens there."""
    place = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    with distributed.join_process_group("cpu"):
        pytest.fail("there is nobody else")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_does_not_come_is_not_waited_for_without_end(monkeypatch, rank):
    monkeypatch.setattr(distributed, "LATEST_START", timedelta(seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ProcessLost, match=r"did not find one another: .*(1/2|timed out)"):
        join_by(port, rank, monkeypatch)


def test_a_process_that_dies_before_it_answers_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(distributed, "LATEST_START", timedelta(seconds=1))
    store = dist.HashStore()
    store.set("request 1", "of one that has died")
    with pytest.raises(dist.DistStoreError, match="1 of 2 do not answer"):
        distributed.agree_on_prefix(store, 0, 2)


def test_a_port_that_is_taken_is_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ProcessLost, match=f"{port}.*address already in use"):
            join_by(port, 0, monkeypatch)


def test_a_group_that_did_its_work_is_destroyed(fake_group):
    with distributed.join_process_group("cpu"):
        pass
    assert fake_group[-1] == "destroy_process_group"


def collectives(rank: int, world: int, data, config, monkeypatch) -> list[tuple]:
    """Return the collectives of two updates that one rank of a fake process group issues."""
    calls = []
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        real = dist.all_reduce
        with monkeypatch.context() as patch:
            patch.setattr(
                dist,
                "all_reduce",
                lambda x, *given, **named: (
                    calls.append((tuple(x.shape), x.dtype)),
                    real(x, *given, **named),
                )[1],
            )
            group = ProcessGroup(rank, world, CPU, dist.new_group(backend="fake"))
            state = fresh_state(config, data.codec, CPU, torch.float32)
            corpus = data.corpus("train")
            updates = updates_from(corpus, config.batch, group, seed=1, epoch=0, number=0)
            for _ in range(2):
                run_update(state, next(updates), group, torch.float32)
    finally:
        dist.destroy_process_group()
    return calls


@pytest.mark.parametrize("world", [8, 64])
def test_all_ranks_issue_the_same_collectives_idle_ones_too(tmp_path, monkeypatch, world):
    data, config = make_data(tmp_path), tiny_config()
    monkeypatch.setattr(gradients, "BUCKET", 5000)
    first, *others = (
        collectives(rank, world, data, config, monkeypatch) for rank in (0, 1, world - 1)
    )
    # Two updates: the gradient in pieces, and what is decided together in one message.
    assert len(first) == 2 * 7
    assert others == [first, first]


def ids(tokens: int) -> torch.Tensor:
    """Return 16 sentences with so many tokens, the first ones longer."""
    lengths = torch.full((16, 1), tokens // 16)
    lengths[: tokens % 16] += 1
    return torch.where(torch.arange(17).expand(16, 17) < lengths, 5, 0)


@pytest.mark.filterwarnings("ignore")  # torch.compile warns of its own doings
def test_the_number_of_tokens_compiles_nothing_anew(monkeypatch):
    # "eager" would see none of the guards that AOTAutograd, and so inductor, adds.
    compiled = partialmethod(nn.Module.compile, backend="aot_eager")
    monkeypatch.setattr(nn.Module, "compile", compiled)
    monkeypatch.setattr(layout, "spare_rows", lambda device: 2)  # as on a GPU
    small = {"layers": 1, "d_model": 8, "d_ff": 8, "heads": 2, "d_k": 4, "d_v": 4, "dropout": 0}
    config = tiny_config("train.compile=true", *(f"model.{k}={v}" for k, v in small.items()))
    codec = SimpleNamespace(sizes=(8, None))
    model = fresh_state(config, codec, CPU, torch.float32).model
    torch._dynamo.reset()
    counters.clear()
    for source, target in itertools.product((150, 159, 160), (204, 223, 224)):
        batch_loss(model, batch_of(ids(source), ids(target)), 0.1).smoothed.backward()
    # Encoder, decoder, and sizes that happen to be equal.
    assert counters["frames"]["ok"] <= 3
