"""An update on the meta device: what it computes, moves and holds, without any numbers.

Memory is counted exactly. Seconds are a roofline estimate for a GPU that need not be here: each
kernel takes as long as its bytes, its operations or its launch, whichever is longest.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from aiayn.checkpoint import SkipInit, build_model
from aiayn.config import Config
from aiayn.data.batch import Batch
from aiayn.data.codec import Codec
from aiayn.training.gradients import Gradients
from aiayn.training.guided import watch_guided_head
from aiayn.training.state import TrainState, build_average
from aiayn.training.update import accumulate_gradients

META = torch.device("meta")
# Matrix products by name, and which argument is the left factor. Attention's own products are
# left out: they are a few percent.
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "addmm_": 1, "baddbmm": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """What a GPU sustains, rather than what its data sheet promises."""

    bytes_per_second: float
    float32: float
    """Operations a second of products of float32, on TF32 units where there are some."""
    bfloat16: float
    """The same in bfloat16; 0: it has none."""
    launch: float
    """Seconds that a kernel takes at least."""


GPUS = {
    "P100": Gpu(bytes_per_second=0.55e12, float32=8e12, bfloat16=0, launch=5e-6),
    "V100": Gpu(bytes_per_second=0.75e12, float32=13e12, bfloat16=0, launch=4e-6),
    "A100": Gpu(bytes_per_second=1.5e12, float32=80e12, bfloat16=190e12, launch=3.5e-6),
    "H100": Gpu(bytes_per_second=2.5e12, float32=190e12, bfloat16=450e12, launch=3e-6),
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One call that computes something."""

    name: str
    bytes: int
    operations: int

    def seconds(self, gpu: Gpu, dtype: torch.dtype) -> float:
        """Return an estimate of the time that it takes."""
        rate = gpu.bfloat16 if dtype == torch.bfloat16 else gpu.float32
        return max(self.bytes / gpu.bytes_per_second, self.operations / rate, gpu.launch)


class Trace(TorchDispatchMode):
    """Records the kernels of a block and the most bytes that its tensors take at a time."""

    def __init__(self) -> None:
        initialize: Callable[[], None] = super().__init__
        initialize()
        self.kernels: list[Kernel] = []
        self.bytes = self.peak = 0
        self._known: set[int] = set()

    def hold(self, tensor: Tensor) -> None:
        """Count the memory of a tensor, until it is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.bytes -= size

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        outputs = [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        for tensor in outputs:
            self.hold(tensor)
        if not getattr(func, "is_view", False):
            inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            name = getattr(func, "overloadpacket", func).__name__
            size = sum(x.numel() * x.element_size() for x in (*inputs, *outputs))
            # Two operations for each number of the product and each that is summed over.
            rows = args[PRODUCTS[name]].size(-1) if name in PRODUCTS else 0
            operations = 2 * outputs[0].numel() * rows if rows else 0
            self.kernels.append(Kernel(name, size, operations))
        return found


@dataclass(frozen=True, slots=True)
class TracedMicroBatch:
    """What a process holds and computes for one micro-batch."""

    peak: int
    """Bytes, with weights, gradients and the optimizer's state."""
    kernels: list[Kernel] = field(repr=False)

    def seconds(self, gpu: Gpu, dtype: torch.dtype) -> float:
        """Return an estimate of the time that a GPU needs."""
        return sum(kernel.seconds(gpu, dtype) for kernel in self.kernels)


def trace_micro_batch(
    config: Config, codec: Codec, batch: Batch, dtype: torch.dtype
) -> TracedMicroBatch:
    """Train on a micro-batch on the meta device, which stands for a GPU."""
    with Trace() as trace:
        with META, SkipInit():
            model = build_model(config, codec).train()
        watch_guided_head(model, config)
        # Not the fused one, which exists where there is a device; it takes no step here.
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=False)
        average = build_average(model, config.train.ema)
        state = TrainState(config, codec, model, optimizer, scaler, Gradients(model), average)
        moments = torch.empty(2 * state.gradients.total.numel(), device=META)
        on_meta = batch.to(META)
        # The first time copies the weights, where products are not in float32.
        accumulate_gradients(state, [("first", on_meta)], dtype)
        trace.kernels.clear()
        accumulate_gradients(state, [("second", on_meta)], dtype)
        del moments
    return TracedMicroBatch(trace.peak, trace.kernels)
