"""What training costs: parameters, and floating-point operations as the paper counts them."""

import torch

from aiayn.checkpoint import SkipInit
from aiayn.config import ModelConfig
from aiayn.model.transformer import Transformer

# Sustained single precision of the paper's GPUs, as its footnote gives it.
P100_FLOPS = 9.5e12
# Training cost in table 2.
PAPER_COST = {"base": 3.3e18, "big": 2.3e19}


def paper_flops(seconds: float, gpus: int) -> float:
    """Training time x number of GPUs x sustained capacity of each: table 2's estimate."""
    return seconds * gpus * P100_FLOPS


def training_flops(
    model: ModelConfig,
    vocabularies: tuple[int, int | None],
    tokens: tuple[int, int],
    *,
    passes: int = 1,
) -> float:
    """Count the matrix products: 2 operations a weight forward and 4 backward, for each token.

    Attention's own products, which grow with the square of the length, are left out: for
    sentences of 30 tokens they are below a hundredth. Vocabularies and tokens are those of
    source and target; each token goes through the network in so many passes.
    """
    parts = parameters_of(model, *vocabularies)
    encoder = sum(count for name, count in parts.items() if name.startswith("encoder."))
    decoder = sum(count for name, count in parts.items() if name.startswith("decoder."))
    output = (vocabularies[1] or vocabularies[0]) * model.d_model
    return 6.0 * passes * (encoder * tokens[0] + (decoder + output) * tokens[1])


def count_parameters(model: Transformer) -> dict[str, int]:
    """Return the number of parameters by part and in total; a shared matrix counts once."""
    parts: dict[str, int] = {"embeddings": 0, "positions": 0}
    for name, parameter in model.named_parameters():
        stack, *rest = name.split(".")
        if stack in ("encoder", "decoder"):
            sublayer = rest[1] if "add" not in rest[1] else "layer_norm"
            part = f"{stack}.{sublayer}"
        else:
            part = "positions" if "positions" in stack else "embeddings"
        parts[part] = parts.get(part, 0) + parameter.numel()
    return {**parts, "total": sum(parts.values())}


def parameters_of(
    config: ModelConfig, source_vocabulary: int, target_vocabulary: int | None = None
) -> dict[str, int]:
    """Count the parameters of a model without allocating it."""
    with torch.device("meta"), SkipInit():
        return count_parameters(Transformer(config, source_vocabulary, target_vocabulary))
