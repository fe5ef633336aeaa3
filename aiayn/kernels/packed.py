"""Linear layers for inference, whose weights are laid out once as the products read them.

Each equals `F.linear`, the 8-bit one approximately. I, O width of input and output.
"""

import warnings
from abc import abstractmethod
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiayn.kernels.layout import MULTIPLE
from aiayn.kernels.linear import onednn_linear
from aiayn.kernels.native import LARGEST

# Outputs from which on this engine is faster: 1.5 times with 256 rows and 8,000 outputs.
WIDE, WIDE_ENGINE = 4096, "onednn"
# Older processors add products of 8 bits in 16; x has only 7 there, so that none overflows.
REDUCE_RANGE = not torch.cpu._is_vnni_supported()


class InferenceLinear(nn.Module):
    """A linear layer whose weights do not change again."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""

    @abstractmethod
    def relu(self, x: Tensor) -> Tensor:
        """Return max(0, x W^T + b)."""


class PackedLinear(InferenceLinear):
    """x W^T + b with W laid out as oneDNN's products read it, in float32 on a CPU.

    With 256 rows it is 1.1 to 1.5 times as fast as a plain layer, with 4 rows 2 to 3 times.
    It is for decoding steps, whose numbers of rows are few: oneDNN makes a kernel for each,
    and keeps half a megabyte. The positions of a batch are rounded up to few numbers.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.bias_O = None if linear.bias is None else linear.bias.detach()
        # Undocumented, as in `onednn_linear`.
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        return self._multiply(x, "none")

    def relu(self, x: Tensor) -> Tensor:
        """Return max(0, x W^T + b) in the same pass."""
        return self._multiply(x, "relu")

    def _multiply(self, x: Tensor, activation: Literal["none", "relu"]) -> Tensor:
        if x.dim() == 2:
            return onednn_linear(x, self.packed, self.bias_O, activation)
        x_NI = x.flatten(0, -2)
        rows = x_NI.size(0)
        if rows > 1:  # a single row would be summed in another order beside others
            x_NI = F.pad(x_NI, (0, 0, 0, -rows % MULTIPLE))
        y_NO = onednn_linear(x_NI, self.packed, self.bias_O, activation)
        return y_NO[:rows].view(*x.shape[:-1], self.out_features)


class BFloat16Linear(PackedLinear):
    """The same with W and x in bfloat16, on a CPU that multiplies them."""

    def __init__(self, linear: nn.Linear) -> None:
        low = nn.Linear(
            linear.in_features, linear.out_features, linear.bias is not None, "meta"
        )
        low.weight = nn.Parameter(linear.weight.detach().bfloat16(), requires_grad=False)
        if linear.bias is not None:
            low.bias = nn.Parameter(linear.bias.detach().bfloat16(), requires_grad=False)
        super().__init__(low)

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b in float32."""
        return super().forward(x.bfloat16()).float()

    def relu(self, x: Tensor) -> Tensor:
        """Return max(0, x W^T + b) in bfloat16, as the product that follows reads it."""
        return super().relu(x.bfloat16())


class Int8Linear(InferenceLinear):
    """x W^T + b with W in 8 bits, a scale for each output, and x quantized as it comes.

    The kernels are torch's, for x86 and ARM processors.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        # The overload by name: choosing one would take longer than a small product.
        self.product = torch.ops.quantized.linear_dynamic.default
        self.product_relu = torch.ops.quantized.linear_relu_dynamic.default
        weight_OI = linear.weight.detach().float()
        scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-8).double() / LARGEST
        zero_O = torch.zeros_like(scale_O, dtype=torch.long)
        bias_O = None if linear.bias is None else linear.bias.detach().float()
        with warnings.catch_warnings():
            # torch plans to move quantized tensors elsewhere; our bound on its version holds.
            warnings.simplefilter("ignore")
            integers_OI = torch.quantize_per_channel(weight_OI, scale_O, zero_O, 0, torch.qint8)
        # Weights are packed for the engine that is set; the layer stays with it.
        engines = torch.backends.quantized
        before = engines.engine
        if self.out_features >= WIDE and WIDE_ENGINE in engines.supported_engines:
            engines.engine = WIDE_ENGINE
        try:
            self.packed = torch.ops.quantized.linear_prepack(integers_OI, bias_O)
        finally:
            engines.engine = before

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        return cast(Tensor, self.product(x, self.packed, REDUCE_RANGE))

    def relu(self, x: Tensor) -> Tensor:
        """Return max(0, x W^T + b) in the same pass."""
        return cast(Tensor, self.product_relu(x, self.packed, REDUCE_RANGE))
