"""Section 3.5: the sinusoids of the paper, those of its code, and the learned ones."""

import math

import pytest
import torch

from aiayn.errors import DataError, UsageError
from aiayn.model.positions import build_positions, halves, sinusoids


def test_position_0_alternates_0_and_1():
    assert sinusoids(1, 512)[0].tolist() == [0.0, 1.0] * 256


def test_even_columns_are_sines_and_odd_ones_cosines():
    encoding, pos = sinusoids(50, 16), torch.arange(50, dtype=torch.float64)
    for two_i in range(0, 16, 2):
        angle = pos / 10000 ** (two_i / 16)
        torch.testing.assert_close(encoding[:, two_i], angle.sin())
        torch.testing.assert_close(encoding[:, two_i + 1], angle.cos())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, 0.8414709848),
        (1, 0.5403023059),
        (2, 0.8218561900),
        (3, 0.5696950087),
        (510, 1.036632927e-4),
    ],
)
def test_position_1_is_that_of_the_paper(column, value):
    assert sinusoids(2, 512)[1, column].item() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 0.8414709848), (1, 0.8217786502), (255, 9.99999998e-5), (256, 0.5403023059)],
)
def test_halves_at_position_1_are_those_of_tensor2tensor(column, value):
    assert halves(2, 512)[1, column].item() == pytest.approx(value, rel=1e-9)


def test_moving_by_k_is_the_same_rotation_everywhere():
    d_model, k = 16, 7
    encoding = sinusoids(50, d_model)
    sine, cosine = encoding[:, 0::2], encoding[:, 1::2]
    turn = k / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    rotated_sine = sine * turn.cos() + cosine * turn.sin()
    rotated_cosine = cosine * turn.cos() - sine * turn.sin()
    torch.testing.assert_close(sine[k:], rotated_sine[:-k])
    torch.testing.assert_close(cosine[k:], rotated_cosine[:-k])


@pytest.mark.parametrize(("kind", "signal"), [("sinusoidal", sinusoids), ("halves", halves)])
def test_a_fixed_encoding_is_its_signal_at_any_length(kind, signal):
    positions = build_positions(kind, 8, limit=4)
    assert positions.limit is None
    for start, stop in [(0, 3), (700, 701), (2, 2000)]:
        expected = signal(stop, 8)[start:].float()
        assert torch.equal(positions(start, stop), expected)


def test_a_fixed_encoding_has_no_parameters_and_leaves_no_trace_in_a_checkpoint():
    positions = build_positions("sinusoidal", 8, limit=4)
    positions(0, 3)
    assert not list(positions.parameters())
    assert not positions.state_dict()


def test_a_fixed_encoding_follows_the_precision_of_the_model():
    positions = build_positions("sinusoidal", 8, limit=4).double()
    assert torch.equal(positions(0, 9), sinusoids(9, 8))


def test_learned_positions_start_with_unit_variance_where_they_are_added():
    torch.manual_seed(1)
    positions = build_positions("learned", 512, limit=256)
    assert positions.table.std().item() == pytest.approx(512**-0.5, rel=1e-2)
    assert positions(0, 256).std().item() == pytest.approx(1, rel=1e-2)


def test_learned_positions_are_rows_of_a_table_times_the_root_of_d_model():
    positions = build_positions("learned", 16, limit=10)
    assert positions.limit == 10
    assert torch.equal(positions(3, 7), positions.table[3:7] * math.sqrt(16))


def test_a_sentence_past_the_last_learned_position_is_refused_with_a_way_out():
    positions = build_positions("learned", 16, limit=10)
    assert positions(0, 10).shape == (10, 16)
    with pytest.raises(DataError, match="11 tokens, and the model knows 10") as refusal:
        positions(0, 11)
    assert "model.positions=sinusoidal" in refusal.value.fix


def test_an_odd_width_is_refused_unless_positions_are_learned():
    with pytest.raises(UsageError, match="sine and cosine come in pairs"):
        build_positions("sinusoidal", 511, limit=4)
    assert build_positions("learned", 511, limit=4)(0, 4).shape == (4, 511)
