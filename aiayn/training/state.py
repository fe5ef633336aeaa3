"""What training changes and a checkpoint holds, so that resuming is the same run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from aiayn.checkpoint import ModelFile, build_model
from aiayn.config import Config, OptimConfig
from aiayn.data.codec import Codec
from aiayn.device import can_compile
from aiayn.model.transformer import Transformer
from aiayn.run_folder import Progress
from aiayn.training.gradients import Gradients
from aiayn.training.guided import watch_guided_head
from aiayn.training.moving_average import MovingAverage


@dataclass(slots=True)
class TrainState:
    """The model, the optimizer, and the progress of the run."""

    config: Config
    codec: Codec
    model: Transformer
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    gradients: Gradients
    average: MovingAverage | None = None
    """Of the weights, where `train.ema` asks for it."""
    compiled: bool = False
    """Whether the network, and the loss, run through torch.compile."""
    progress: Progress = field(default_factory=Progress)
    too_large: int = 0
    """Padded tokens for which memory ran out in this session; 0: it never did."""

    def to_file(self, *, resumable: bool) -> ModelFile:
        """Return a model file; a resumable one holds the state of training, too."""
        training: dict[str, Any] = {}
        if resumable:
            training = {
                "place": asdict(self.progress),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
            }
            if self.average:
                training["ema"] = self.average.state_dict()
        return ModelFile(
            config=self.config,
            codec=self.codec,
            weights=self.model.state_dict(),
            step=self.progress.step,
            training=training,
        )

    def restore(self, file: ModelFile) -> None:
        """Load everything from a resumable file."""
        self.model.load_state_dict(file.weights)
        self.optimizer.load_state_dict(file.training["optimizer"])
        self.scaler.load_state_dict(file.training["scaler"])
        if self.average:
            self.average.load_state_dict(file.training["ema"])
        self.progress = Progress.of(file)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the model have the moving average of its weights, if there is one."""
        if self.average is None:
            yield
            return
        with self.average.in_place():
            yield


def fresh_state(
    config: Config, codec: Codec, device: torch.device, dtype: torch.dtype
) -> TrainState:
    """Return the state before the first update; the seed determines the weights."""
    torch.manual_seed(config.train.seed)
    model = build_model(config, codec).to(device).train()
    compiled = config.train.compile == "true" or (
        config.train.compile == "auto" and can_compile(device)
    )
    if compiled:
        # Layer by layer: 2 graphs in place of 2 N, and sequence lengths stay dynamic.
        for layer in (*model.encoder, *model.decoder):
            layer.compile(dynamic=True)
    watch_guided_head(model, config)
    optimizer = build_optimizer(model, config.optim)
    # Losses are summed, not averaged, over tokens, so gradients are large from the start.
    scaler = torch.amp.GradScaler(device.type, init_scale=1.0, enabled=dtype == torch.float16)
    gradients, average = Gradients(model), build_average(model, config.train.ema)
    return TrainState(config, codec, model, optimizer, scaler, gradients, average, compiled)


def build_average(model: Transformer, decay: float) -> MovingAverage | None:
    """Return the moving average of the weights, which begins with what they are; 0: none."""
    return MovingAverage(model, decay) if decay else None


def build_optimizer(model: Transformer, optim: OptimConfig) -> torch.optim.Optimizer:
    """Return Adam as in section 5.3; the learning rate is set before each step."""
    betas = (optim.beta1, optim.beta2)
    return torch.optim.Adam(
        model.parameters(), lr=0.0, betas=betas, eps=optim.epsilon, fused=True
    )
