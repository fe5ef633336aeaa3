"""Run an update on fake CUDA tensors, in a torch without CUDA: `python fake_cuda.py SHIM`.

SHIM is the library that `SOURCE` becomes. Prints as JSON, for each precision: ATen calls, calls
that wait for the device, the peak of memory, and the peak that `--dry-run` estimates.
"""

import ctypes
import json
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

SOURCE = """
// Tells autograd that there is one CUDA device, whose streams and events do nothing.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::Stream;

struct NoDevice : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  Stream getStream(Device device) const noexcept override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream getDefaultStream(Device device) const override { return getStream(device); }
  void record(void**, const Stream&, DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
};
static NoDevice no_device;
static c10::impl::DeviceGuardImplRegistrar registered(DeviceType::CUDA, &no_device);

namespace at {
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  int getNumGPUs() const override { return 1; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);  // by this name
}
"""

READS = {"_local_scalar_dense", "nonzero", "item"}
LENGTH, TOKENS = 28, 3600


def attend_as_cuda_does(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
    """Call the kernel that torch picks on an A100: flash, or with a mask the efficient one."""
    aten = torch.ops.aten
    if attn_mask is None and q.dtype != torch.float32:
        return aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal)[0]
    if attn_mask is not None:
        bias = q.new_zeros(()).where(attn_mask, -torch.inf)
        attn_mask = bias.expand(*q.shape[:3], k.size(2))
    efficient = aten._scaled_dot_product_efficient_attention
    return efficient(q, k, v, attn_mask, True, dropout_p, is_causal)[0]


@contextmanager
def model_on(device):
    """Let `fresh_state` build its model on a device, where fake tensors cannot be moved to."""
    build, move = state_module.build_model, nn.Module.to
    with device:
        model = build(CONFIG, CODEC)
    state_module.build_model, nn.Module.to = (lambda *_: model), (lambda self, *_: self)
    yield
    state_module.build_model, nn.Module.to = build, move


def run(dtype):
    pairs = [
        (np.arange(3, 3 + LENGTH - n % 3), np.arange(3, 3 + LENGTH - n % 4))
        for n in range(TOKENS // LENGTH)
    ]
    batch = collate(pairs)
    device = torch.device("cuda", 0)
    with FakeTensorMode(allow_non_fake_inputs=True), Trace() as trace:
        with model_on(device):
            state = state_module.fresh_state(CONFIG, CODEC, device, dtype)
        update = Update(0, 0, (0, 1), TOKENS, TOKENS, [(0, batch.to(device))])
        for _ in range(2):  # the first makes Adam's moments
            trace.kernels.clear()
            run_update(state, update, ProcessGroup(0, 1, device), dtype)
    # Fake tensors ask for their device at every turn, which is no call.
    calls = Counter(kernel.name for kernel in trace.kernels if kernel.name != "device")
    return {
        "calls": calls.total(),
        "reads": sorted(READS & calls.keys()),
        "peak": trace.peak,
        "estimate": trace_micro_batch(CONFIG, CODEC, batch, dtype).peak,
    }


if __name__ == "__main__":
    ctypes.CDLL(sys.argv[1])  # before torch looks for CUDA
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch._subclasses.fake_tensor import FakeTensorMode

    from aiayn.data.batch import collate
    from aiayn.distributed import ProcessGroup
    from aiayn.presets import preset
    from aiayn.training import state as state_module
    from aiayn.training.loader import Update
    from aiayn.training.trace import Trace, trace_micro_batch
    from aiayn.training.update import run_update

    BASE = preset("base")
    CONFIG = replace(BASE, train=replace(BASE.train, compile="false"))
    CODEC = SimpleNamespace(sizes=(37_000, None))
    F.scaled_dot_product_attention = attend_as_cuda_does
    torch.cuda.get_device_capability = lambda *_: (8, 0)
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.manual_seed = lambda _: None
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.Tensor.pin_memory = lambda self: self
    found = {str(dtype): run(dtype) for dtype in (torch.float32, torch.bfloat16)}
    sys.stdout.write(json.dumps(found))
