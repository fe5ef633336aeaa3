"""The rows of the paper's tables, as differences from base."""

import pytest

from aiayn.config import Config, differences
from aiayn.errors import UsageError
from aiayn.presets import BASE, PRESETS, preset
from aiayn.training.cost import parameters_of

HEADS = "model.heads: 8 -> {}", "model.d_k: 64 -> {}", "model.d_v: 64 -> {}"
BIG = (
    "model.d_model: 512 -> 1024",
    "model.d_ff: 2048 -> 4096",
    "model.heads: 8 -> 16",
    "train.steps: 100000 -> 300000",
    "train.average: 5 -> 20",
)


def heads(count: int, width: int) -> list[str]:
    numbers = (count, width, width)
    return [text.format(number) for text, number in zip(HEADS, numbers, strict=True)]


ROWS = {
    "A1": heads(1, 512),
    "A2": heads(4, 128),
    "A3": heads(16, 32),
    "A4": heads(32, 16),
    "B1": ["model.d_k: 64 -> 16"],
    "B2": ["model.d_k: 64 -> 32"],
    "C1": ["model.layers: 6 -> 2"],
    "C2": ["model.layers: 6 -> 4"],
    "C3": ["model.layers: 6 -> 8"],
    "C4": ["model.d_model: 512 -> 256", "model.d_k: 64 -> 32", "model.d_v: 64 -> 32"],
    "C5": ["model.d_model: 512 -> 1024", "model.d_k: 64 -> 128", "model.d_v: 64 -> 128"],
    "C6": ["model.d_ff: 2048 -> 1024"],
    "C7": ["model.d_ff: 2048 -> 4096"],
    "D1": ["model.dropout: 0.1 -> 0.0"],
    "D2": ["model.dropout: 0.1 -> 0.2"],
    "D3": ["optim.smoothing: 0.1 -> 0.0"],
    "D4": ["optim.smoothing: 0.1 -> 0.2"],
    "E": ["model.positions: sinusoidal -> learned"],
}


def test_base_is_the_first_row_of_table_3():
    model = BASE.model
    widths = (model.layers, model.d_model, model.d_ff, model.heads, model.d_k, model.d_v)
    assert widths == (6, 512, 2048, 8, 64, 64)
    assert (model.dropout, model.attention_dropout, model.relu_dropout) == (0.1, 0.0, 0.0)
    assert (model.positions, model.tie, model.attention_bias) == ("sinusoidal", "all", True)
    assert (BASE.optim.smoothing, BASE.train.steps, BASE.batch.tokens) == (0.1, 100_000, 25_000)


def test_base_searches_and_averages_as_section_6_1_says():
    assert (BASE.decode.beam, BASE.decode.alpha, BASE.decode.extra_length) == (4, 0.6, 50)
    assert (BASE.train.average, BASE.train.save_every) == (5, "10m")


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_table_3_changes_what_is_printed_and_averages_nothing(row):
    changed = differences(BASE, PRESETS[f"table3-{row}"])
    assert changed == [*ROWS[row], "train.average: 5 -> 1"]


@pytest.mark.parametrize(
    ("name", "dropout"), [("big", ["model.dropout: 0.1 -> 0.3"]), ("big-en-fr", [])]
)
def test_big_is_wider_trains_longer_and_drops_less_for_french(name, dropout):
    assert differences(BASE, PRESETS[name]) == [*BIG[:3], *dropout, *BIG[3:]]


def test_the_parser_has_four_wide_layers_and_a_wide_beam():
    assert differences(BASE, PRESETS["parsing"]) == [
        "model.layers: 6 -> 4",
        "model.d_model: 512 -> 1024",
        "model.d_k: 64 -> 128",
        "model.d_v: 64 -> 128",
        "model.dropout: 0.1 -> 0.2",
        "model.attention_dropout: 0.0 -> 0.2",
        "model.tie: all -> none",
        "decode.beam: 4 -> 21",
        "decode.alpha: 0.6 -> 0.3",
        "decode.extra_length: 50 -> 300",
        "decode.longest: 256 -> 1024",
    ]


def test_tiny_is_small_enough_for_a_laptop():
    assert parameters_of(PRESETS["tiny"].model, 1000)["total"] < 2_000_000


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name):
    assert parameters_of(PRESETS[name].model, 1000)["total"] > 0


def test_a_preset_is_found_by_its_name():
    assert preset("base") == Config()
    assert preset("table3-B1").model.d_k == 16


@pytest.mark.parametrize(
    ("wrong", "right"), [("bas", "base"), ("table3-b1", "table3-B1"), ("parse", "parsing")]
)
def test_an_unknown_preset_names_the_nearest(wrong, right):
    with pytest.raises(UsageError, match=f"no preset '{wrong}'") as refusal:
        preset(wrong)
    assert refusal.value.fix == f"did you mean {right}?"


def test_a_preset_like_no_other_is_answered_with_all_names():
    with pytest.raises(UsageError) as refusal:
        preset("xyzzy")
    assert all(name in refusal.value.fix for name in PRESETS)
