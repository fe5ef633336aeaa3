"""Models made ready for decoding: their weights do not change again."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import nn

from aiayn.checkpoint import ModelFile, load_model
from aiayn.config import Precision
from aiayn.device import choose_precision
from aiayn.errors import UsageError
from aiayn.generation.native_model import require_one_vocabulary
from aiayn.kernels.linear import Linear, concat_weights
from aiayn.kernels.packed import BFloat16Linear, InferenceLinear, Int8Linear, PackedLinear
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import FeedForward
from aiayn.model.transformer import Transformer

MakeLayer = Callable[[Linear], nn.Module]


def plain(linear: Linear) -> nn.Module:
    """Return a layer as it is."""
    return linear


def load_models(
    paths: Sequence[Path],
    device: torch.device,
    precision: str,
) -> tuple[list[ModelFile], list[Transformer]]:
    """Read one model, or the models of an ensemble, ready for decoding."""
    files = [load_model(path) for path in paths]
    require_one_vocabulary(paths, [file.codec for file in files])
    if precision == "int8" and device.type != "cpu":
        raise UsageError(
            f"int8 runs on the CPU, and the device is {device.type}",
            fix="pass --device cpu, or --precision bfloat16 or float16",
        )
    packs = device.type == "cpu" and torch._C._has_mkldnn
    dtype, layers = torch.float32, (plain, PackedLinear if packs else plain)
    if precision == "int8":
        layers = Int8Linear, Int8Linear
    elif precision != "float32":
        dtype = choose_precision(cast(Precision, precision), device)
        layers = plain, plain
        if packs and dtype == torch.bfloat16:
            # Only products are in bfloat16: what is between them is as fast in float32.
            dtype, layers = torch.float32, (BFloat16Linear, BFloat16Linear)
    models = [prepare(file.build(), *layers) for file in files]
    return files, [model.to(device, dtype) for model in models]


def prepare(
    model: Transformer, for_source: MakeLayer = plain, for_steps: MakeLayer = plain
) -> Transformer:
    """Fuse the projections of attention, and replace the linear layers."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            fuse_projections(module)
    for path, module in list(model.named_modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Linear) and child.weight.numel():
                # Keys and values of the source are computed once for all its positions.
                of_source = path.endswith("cross_attention") and name == "fused_projections"
                source = path.startswith("encoder") or of_source
                setattr(module, name, (for_source if source else for_steps)(child))
    for module in model.modules():
        if isinstance(module, FeedForward) and module.activation == "relu":
            first: nn.Module = module.w_1
            module.fused_hidden = first.relu if isinstance(first, InferenceLinear) else None
    return model


def fuse_projections(attention: MultiHeadAttention) -> None:
    """Apply the projections that read the same input as one layer from now on."""
    projections = attention.projections_of_memory
    weight_OI, bias_O = concat_weights(projections)
    fused = Linear(weight_OI.size(1), weight_OI.size(0), bias=bias_O is not None, device="meta")
    fused.weight = nn.Parameter(weight_OI, requires_grad=False)
    if bias_O is not None:
        fused.bias = nn.Parameter(bias_O, requires_grad=False)
    for parameter in [p for each in projections for p in each.parameters()]:
        parameter.data = parameter.new_empty(0)  # nothing is in memory twice
    attention.fused_projections = fused
