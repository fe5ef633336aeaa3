"""The learning rate of section 5.3."""


def learning_rate(step: int, *, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """lrate = d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), equation 3; step >= 1."""
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
