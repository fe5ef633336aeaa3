"""What training changes and a checkpoint holds: loading it and going on is the same run."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from aiayn.checkpoint import ModelFile, build_model
from aiayn.config import Config, OptimConfig
from aiayn.data.codec import Codec
from aiayn.errors import DataError
from aiayn.model.transformer import Transformer
from aiayn.training.gradients import Gradients


@dataclass(slots=True)
class Place:
    """How far the run is. Dropout and order need no more: their seeds follow from it."""

    step: int = 0
    epoch: int = 0
    update: int = 0
    """The next update of the epoch."""
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    """Time spent training, over all sittings."""
    best: float | None = None
    """The best validation score so far; higher is better."""
    best_loss: float = math.inf
    """The validation loss that goes with it, which decides among equal scores."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""


@dataclass(slots=True)
class TrainState:
    """The network, the optimiser, and the place in the run."""

    config: Config
    codec: Codec
    model: Transformer
    optimizer: torch.optim.Adam
    scaler: torch.amp.GradScaler
    gradients: Gradients
    place: Place = field(default_factory=Place)
    too_large: int = 0
    """Padded tokens for which memory ran out in this sitting; 0: it never did."""

    def to_file(self, *, whole: bool) -> ModelFile:
        """Return a model file; a whole one holds all that continuing needs."""
        training: dict[str, Any] = {}
        if whole:
            training = {
                "place": asdict(self.place),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
            }
        return ModelFile(
            config=self.config,
            codec=self.codec,
            weights=self.model.state_dict(),
            step=self.place.step,
            training=training,
        )

    def restore(self, file: ModelFile) -> None:
        """Take everything over from a file that `to_file` made whole."""
        self.model.load_state_dict(file.weights)
        self.optimizer.load_state_dict(file.training["optimizer"])
        self.scaler.load_state_dict(file.training["scaler"])
        self.place = Place(**file.training["place"])


def require_whole(file: ModelFile, path: Path) -> None:
    """Refuse a checkpoint that does not hold what `restore` needs."""
    try:
        place, _, _ = (file.training[name] for name in ("place", "optimizer", "scaler"))
        Place(**place)
    except (KeyError, TypeError):
        raise DataError(
            f"{path} holds weights, and not all that going on with a run needs",
            fix="put back the run's own last.pt or previous.pt; --init-from MODEL begins"
            " another run with the weights of a model",
        ) from None


def fresh_state(
    config: Config, codec: Codec, device: torch.device, dtype: torch.dtype
) -> TrainState:
    """Return the state before the first update; the seed determines the weights."""
    torch.manual_seed(config.train.seed)
    model = build_model(config, codec).to(device).train()
    if config.train.compile:
        compile_layers(model)
    return TrainState(
        config=config,
        codec=codec,
        model=model,
        optimizer=build_optimizer(model, config.optim),
        # Losses are summed, not averaged, over tokens, so gradients are large from the start.
        scaler=torch.amp.GradScaler(
            device.type, init_scale=1.0, enabled=dtype == torch.float16
        ),
        gradients=Gradients(model),
    )


def compile_layers(model: Transformer) -> None:
    """Compile the layers, not the whole: 2 graphs in place of 2 N, and lengths stay free."""
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True)


def build_optimizer(model: Transformer, optim: OptimConfig) -> torch.optim.Adam:
    """Return Adam as in section 5.3; the learning rate is set before each step."""
    betas = (optim.beta1, optim.beta2)
    return torch.optim.Adam(
        model.parameters(), lr=0.0, betas=betas, eps=optim.epsilon, fused=True
    )
