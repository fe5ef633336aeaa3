"""A network made ready for decoding: matrices that never change again are put into shape.

I, O width of a layer's input and output.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.checkpoint import ModelFile, load_model
from aiayn.config import Precision
from aiayn.device import choose_precision
from aiayn.errors import UsageError
from aiayn.model.attention import MultiHeadAttention, side_by_side
from aiayn.model.linear import Linear, product
from aiayn.model.transformer import Transformer

LARGEST = 127
"""The largest weight in 8 bits."""
WIDE, WIDE_ENGINE = 4096, "onednn"
"""Outputs from which on these kernels are faster: 1.5 times with 256 rows and 8,000 outputs."""


MakeLayer = Callable[[Linear], nn.Module]


def plain(linear: Linear) -> nn.Module:
    """Return a layer as it is."""
    return linear


def load_models(
    paths: Sequence[Path], device: torch.device, precision: str
) -> tuple[list[ModelFile], list[Transformer]]:
    """Read models that decide together, ready for decoding."""
    files = [load_model(path) for path in paths]
    for path, file in zip(paths, files, strict=True):
        if file.codec.fingerprint != files[0].codec.fingerprint:
            raise UsageError(
                f"{path} has another vocabulary than {paths[0]}",
                fix="models that decide together are trained on one data folder, or on folders"
                " made with --vocab-from",
            )
    if precision == "int8" and device.type != "cpu":
        raise UsageError(
            f"int8 runs on the CPU, and the device is {device.type}",
            fix="pass --device cpu, or --precision bfloat16 or float16",
        )
    dtype = torch.float32
    if precision != "int8":
        dtype = choose_precision(cast(Precision, precision), device)
    models = [prepare(file.build(), *choose_layers(device, precision)) for file in files]
    return files, [model.to(device, dtype) for model in models]


def choose_layers(device: torch.device, precision: str) -> tuple[MakeLayer, MakeLayer]:
    """Return what makes the fastest linear layers for the source, and for steps."""
    if precision == "int8":
        return Int8Linear, Int8Linear
    packs = device.type == "cpu" and precision == "float32" and torch._C._has_mkldnn
    return plain, PackedLinear if packs else plain


def prepare(
    model: Transformer, for_source: MakeLayer = plain, for_steps: MakeLayer = plain
) -> Transformer:
    """Fuse the projections of attention, and make all linear layers of the kinds wanted."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            fuse(module)
    for path, module in list(model.named_modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Linear) and child.weight.numel():
                source = path.startswith("encoder") or (
                    path.endswith("cross_attention") and name == "fused"
                )
                setattr(module, name, (for_source if source else for_steps)(child))
    return model


def fuse(attention: MultiHeadAttention) -> None:
    """Apply projections that read the same input as one layer from now on."""
    weight_OI, bias_O = side_by_side(attention.together)
    wide = Linear(weight_OI.size(1), weight_OI.size(0), bias=bias_O is not None, device="meta")
    wide.weight = nn.Parameter(weight_OI, requires_grad=False)
    if bias_O is not None:
        wide.bias = nn.Parameter(bias_O, requires_grad=False)
    for part in [p for linear in attention.together for p in linear.parameters()]:
        part.data = part.new_empty(0)  # nothing is in memory twice
    attention.fused = wide


class PackedLinear(nn.Module):
    """x W^T + b with W laid out as oneDNN's products read it.

    With 256 rows it is 1.1 to 1.5 times as fast as a plain layer, with 4 rows twice to thrice.
    It is for steps, whose numbers of rows are few: oneDNN keeps half a megabyte for each.
    """

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.activation = linear.activation
        self.bias_O = None if linear.bias is None else linear.bias.detach()
        # Not documented, as `product` says.
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return product(x, self.packed, self.bias_O, self.activation)


class Int8Linear(nn.Module):
    """x W^T + b with W in 8 bits, a scale for each output, and x turned to 8 bits as it comes.

    The kernels are those of torch for x86 and ARM processors.
    """

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.activation = linear.activation
        # The overloads by name: choosing one would take longer than a small product.
        ops = torch.ops.quantized
        relu = self.activation == "relu"
        self.product = (ops.linear_relu_dynamic if relu else ops.linear_dynamic).default
        weight_OI = linear.weight.detach().float()
        scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-8).double() / LARGEST
        zero_O = torch.zeros_like(scale_O, dtype=torch.long)
        bias_O = None if linear.bias is None else linear.bias.detach().float()
        with warnings.catch_warnings():
            # torch plans to move quantized tensors elsewhere; our bound on its version holds.
            warnings.simplefilter("ignore")
            integers_OI = torch.quantize_per_channel(weight_OI, scale_O, zero_O, 0, torch.qint8)
        with quantized_engine(WIDE_ENGINE if self.out_features >= WIDE else ""):
            self.packed = torch.ops.quantized.linear_prepack(integers_OI, bias_O)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        found: Tensor = self.product(x, self.packed, REDUCE_RANGE)
        return F.silu(found) if self.activation == "swish" else found


@contextmanager
def quantized_engine(name: str) -> Iterator[None]:
    """Pack weights for kernels other than torch's choice, where there are such."""
    before = torch.backends.quantized.engine
    if name in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


REDUCE_RANGE = not torch.cpu._is_vnni_supported()
"""Older processors add products of 8 bits in 16; x has only 7 there, so that none overflows."""
