"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

    import aiayn
    model = aiayn.load("run")
    model.translate(["The dog sees the cat."])

Names are loaded when they are used: importing the package does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiayn.config import Config, DecodeConfig, ModelConfig
    from aiayn.errors import AiaynError, DataError, UsageError
    from aiayn.generation.sampling import Sampling
    from aiayn.generation.score_targets import ScoredTarget
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translator import Output, Translation
    from aiayn.library import Attention, Model, load
    from aiayn.model.attention import MultiHeadAttention, attention
    from aiayn.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
    from aiayn.model.positions import sinusoids
    from aiayn.model.transformer import Transformer
    from aiayn.presets import PRESETS, preset

__version__ = "0.1.0"

# Where each name of the library is, by module.
_MODULES = {
    "aiayn.config": ("Config", "DecodeConfig", "ModelConfig"),
    "aiayn.errors": ("AiaynError", "DataError", "UsageError"),
    "aiayn.generation.sampling": ("Sampling",),
    "aiayn.generation.score_targets": ("ScoredTarget",),
    "aiayn.generation.search": ("BeamSearch",),
    "aiayn.generation.translator": ("Output", "Translation"),
    "aiayn.library": ("Attention", "Model", "load"),
    "aiayn.model.attention": ("MultiHeadAttention", "attention"),
    "aiayn.model.layers": ("AddAndNorm", "DecoderLayer", "EncoderLayer", "FeedForward"),
    "aiayn.model.positions": ("sinusoids",),
    "aiayn.model.transformer": ("Transformer",),
    "aiayn.presets": ("PRESETS", "preset"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "PRESETS",
    "AddAndNorm",
    "AiaynError",
    "Attention",
    "BeamSearch",
    "Config",
    "DataError",
    "DecodeConfig",
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "Model",
    "ModelConfig",
    "MultiHeadAttention",
    "Output",
    "Sampling",
    "ScoredTarget",
    "Transformer",
    "Translation",
    "UsageError",
    "__version__",
    "attention",
    "load",
    "preset",
    "sinusoids",
]


def __getattr__(name: str) -> object:
    """Return a name of the library; its module is imported when the name is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'aiayn' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the names of the library."""
    return __all__
