"""Section 5.3: the learning rate of equation 3, and the settings of Adam."""

from dataclasses import asdict

import pytest

from aiayn.config import OptimConfig
from aiayn.training.schedule import learning_rate


@pytest.mark.parametrize(
    ("step", "d_model", "rate"),
    [
        (1, 512, 1.746928107e-07),
        (1000, 512, 1.746928107e-04),
        (4000, 512, 6.987712430e-04),
        (10_000, 512, 4.419417382e-04),
        (100_000, 512, 1.397542486e-04),
        (1, 1024, 1.235264711e-07),
        (4000, 1024, 4.941058844e-04),
        (10_000, 1024, 3.125e-04),
        (300_000, 1024, 5.705443307e-05),
    ],
)
def test_the_rate_is_that_of_the_paper(step, d_model, rate):
    assert learning_rate(step, d_model=d_model, warmup=4000) == pytest.approx(rate, rel=1e-9)


def test_the_rate_rises_until_the_end_of_warmup_and_falls_from_there():
    rates = [learning_rate(step, d_model=512, warmup=4000) for step in range(1, 10_001)]
    assert rates.index(max(rates)) + 1 == 4000
    assert rates[:4000] == sorted(rates[:4000])
    assert rates[3999:] == sorted(rates[3999:], reverse=True)


def test_four_times_as_many_steps_after_warmup_halve_the_rate():
    peak = learning_rate(4000, d_model=512, warmup=4000)
    assert learning_rate(16_000, d_model=512, warmup=4000) == pytest.approx(peak / 2)


def test_half_the_warmup_has_half_the_peak_rate():
    peak = learning_rate(4000, d_model=512, warmup=4000)
    assert learning_rate(2000, d_model=512, warmup=4000) == pytest.approx(peak / 2)


def test_the_factor_multiplies_the_rate():
    rate = learning_rate(77, d_model=512, warmup=4000)
    assert learning_rate(77, d_model=512, warmup=4000, factor=2.5) == pytest.approx(2.5 * rate)


def test_adam_has_the_settings_of_the_paper_and_neither_decay_nor_clipping():
    assert asdict(OptimConfig()) == {
        "factor": 1.0,
        "warmup": 4000,
        "beta1": 0.9,
        "beta2": 0.98,
        "epsilon": 1e-9,
        "smoothing": 0.1,
        # beyond the paper
        "guided": 0.0,
        "rdrop": 0.0,
    }
