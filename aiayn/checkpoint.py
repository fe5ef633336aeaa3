"""Model files on disk.

A model file holds weights, settings and vocabulary, so that `aiayn generate FILE` needs nothing
else. Opening one never runs code: see `plain_file`. `last.pt` is a model file with the
optimizer's state on top.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from aiayn.config import Config
from aiayn.config_file import from_settings
from aiayn.data.atomic import atomic_write
from aiayn.data.codec import Codec
from aiayn.data.text import is_text
from aiayn.errors import DataError, UsageError
from aiayn.model.transformer import Transformer
from aiayn.plain_file import UNREADABLE, load_plain

FORMAT = "aiayn model"
# Raised when a file that is written cannot be read by an earlier version.
VERSION = 1

# How modules initialize a tensor without nn.init; div scales random numbers just drawn.
FILLS = {"normal_", "uniform_", "fill_", "zero_", "div"}

ANOTHER_CHECKPOINT = (
    "give a run folder or a .pt file that aiayn wrote; if this is one, use another checkpoint"
    " of its run"
)


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """What a model file holds."""

    config: Config
    codec: Codec
    weights: dict[str, Tensor]
    step: int = 0
    history: dict[str, Any] = field(default_factory=dict)
    """Where the weights come from: steps that were averaged, scores on the validation set."""
    training: dict[str, Any] = field(default_factory=dict)
    """What continuing needs beyond the weights: only in last.pt."""

    def check(self) -> None:
        """Refuse weights that are not those of a network with these settings."""
        # Before a network of a billion layers is built only to compare it.
        layers = self.config.model.layers + self.config.model.decoder_layers
        if layers > len(self.weights):
            raise ValueError(f"it lacks the weights of {layers:,} layers")
        with torch.device("meta"), SkipInit():
            wanted = build_model(self.config, self.codec).state_dict()
        if unmatched := wanted.keys() ^ self.weights.keys():
            raise ValueError(f"its settings and its weights do not agree on {min(unmatched)}")
        for name, weight in wanted.items():
            if weight.shape != self.weights[name].shape:
                raise ValueError(
                    f"{name} is {list(self.weights[name].shape)}, and its settings ask for"
                    f" {list(weight.shape)}"
                )

    def copy_to_host(self) -> "ModelFile":
        """Return a copy in host memory, which further training does not change."""
        copies: dict[tuple[int, torch.Size], Tensor] = {}

        def copy(tensor: Tensor) -> Tensor:
            # Tied weights stay one tensor, of which a file holds one copy.
            key = tensor.data_ptr(), tensor.shape
            if key not in copies:
                copies[key] = tensor.to("cpu", copy=True)
            return copies[key]

        weights, training = tree_map_only(Tensor, copy, (self.weights, self.training))
        return replace(self, weights=weights, training=training)

    def build(self) -> Transformer:
        """Return the network with these weights, ready for inference."""
        with SkipInit():
            model = build_model(self.config, self.codec)
        model.load_state_dict(self.weights)
        return model.eval()


def build_model(config: Config, codec: Codec) -> Transformer:
    """Return a network with fresh weights for these settings and this vocabulary."""
    return Transformer(config.model, *codec.sizes)


def save_model(path: Path, model: ModelFile) -> None:
    """Write a model file; a failure leaves the file from before."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "config": asdict(model.config),
        "codec": model.codec.to_state(),
        "weights": model.weights,
        "step": model.step,
        "history": model.history,
        "training": model.training,
    }
    try:
        with atomic_write(path) as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as problem:
        # torch turns a failed write into a RuntimeError that does not say what happened.
        reason = problem.strerror if isinstance(problem, OSError) else "is the disk full?"
        raise UsageError(
            f"{path} cannot be written ({reason}); files from before are intact",
            fix="free some space or choose another place, then run the same command again",
        ) from None


def load_model(path: Path) -> ModelFile:
    """Read a model file onto the CPU."""
    content = _read(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(
            f"{path} is not a model file of aiayn",
            fix="give a run folder, or a .pt file that `aiayn train` or `average` wrote",
        )
    try:
        if int(content["version"]) > VERSION:
            raise DataError(
                f"{path} has format version {content['version']}, and this aiayn reads"
                f" {VERSION}",
                fix="install a newer aiayn",
            )
        model = ModelFile(
            config=from_settings(content["config"]),
            codec=Codec.from_state(content["codec"]),
            weights=dict(content["weights"]),
            step=int(content["step"]),
            history=dict(content["history"]),
            training=dict(content["training"]),
        )
        model.check()
        return model
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, UsageError) as found:
        reason = f"there is no {found}" if isinstance(found, KeyError) else str(found)
        raise DataError(f"{path} is incomplete: {reason}", fix=ANOTHER_CHECKPOINT) from None


def _read(path: Path) -> Any:
    if not path.exists():
        raise UsageError(f"{path} does not exist", fix="check the path")
    try:
        return load_plain(path)
    except UNREADABLE:
        pass
    if path.is_file() and is_text(path):
        raise DataError(
            f"{path} is text, and not a model file",
            fix="name the model, a run folder or a .pt file; text to translate comes after -i:"
            f" aiayn generate MODEL -i {path}",
        )
    raise DataError(f"{path} is damaged or is not a model file", fix=ANOTHER_CHECKPOINT)


class SkipInit(TorchFunctionMode):
    """Build modules in this context with their tensors allocated and not filled.

    Drawing the weights of a large model only to overwrite them takes seconds. On the meta
    device, the fills would also import sympy and torch._dynamo, which takes longer than loading
    torch itself.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        # Descriptors, such as those of a tensor's attributes, have no such names.
        module, name = getattr(func, "__module__", ""), getattr(func, "__name__", "")
        if func is torch.randn:
            func = torch.empty
        elif module == "torch.nn.init" or name in FILLS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
