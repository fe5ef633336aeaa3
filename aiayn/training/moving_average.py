"""An exponential moving average of the weights: `train.ema`, in place of averaged checkpoints.

Beyond the paper, whose section 6.1 averages the last checkpoints: here every update counts, the
later the more, and validation sees what the run ends with.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The mean of all weights so far, in which the past fades by `decay` at each update."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [name for name, _ in model.named_parameters()]
        self.weights: list[Tensor] = list(model.parameters())
        self.means = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def restart(self) -> None:
        """Forget the past: the mean is what the weights are."""
        torch._foreach_copy_(self.means, self.weights)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after an update, by one call for all of them."""
        torch._foreach_lerp_(self.means, self.weights, 1 - decay_at(step, self.decay))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model have the mean for its weights while the block runs."""
        with torch.no_grad():
            kept = [weight.clone() for weight in self.weights]
            torch._foreach_copy_(self.weights, self.means)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, kept)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the means by the names of the weights."""
        return dict(zip(self.names, self.means, strict=True))

    def load_state_dict(self, means: dict[str, Tensor]) -> None:
        """Load what `state_dict` returned."""
        for name, mean in self.state_dict().items():
            mean.copy_(means[name])


def decay_at(step: int, decay: float) -> float:
    """Return the decay of an update; that of the first ones is smaller, to forget the start."""
    return min(decay, (1 + step) / (10 + step))
