"""Attention in the terminal: aligned and readable at any width, in any script."""

import numpy as np
import pytest
from rich.cells import cell_len

from aiayn.figures.heat_map import heat_map

WIDE, ARABIC = "\u6211\u559c\u6b22", "\u0627\u0644\u0642\u0637\u0629"


def lines(queries, keys, weights, *, width=80, color=False):
    return list(heat_map(queries, keys, np.array(weights), width=width, color=color))


def test_a_row_holds_percents_and_ink_that_grows_with_them():
    head, row = lines(["its"], ["a", "b", "c"], [[0.0, 0.25, 0.75]])
    assert head.plain == "       a    b    c"
    assert row.plain == "its      \u2591 25 \u2588 75"


def test_colors_take_the_place_of_ink():
    row = lines(["its"], ["a", "b"], [[0.0, 1.0]], color=True)[1]
    assert row.plain == "its" + " " * 7 + "100"
    assert len({span.style.bgcolor for span in row.spans}) == 2


@pytest.mark.parametrize("color", [False, True])
def test_every_line_is_as_wide_as_the_others_whatever_the_script(color):
    tokens = [WIDE, ARABIC, "</s>", "an-endlessly-long-token" * 3]
    found = lines(tokens, tokens, np.full((4, 4), 0.25), color=color)
    assert len(found) == 5
    assert len({cell_len(line.plain) for line in found}) == 1


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_long_sentence_is_shown_in_blocks_that_fit_and_leave_nothing_out(width):
    keys = [f"key{number}" for number in range(30)]
    found = [line.plain for line in lines(["a", "b"], keys, np.full((2, 30), 0.5), width=width)]
    assert max(map(cell_len, found)) <= width
    assert " ".join(found[::4]).split() == keys
    assert sum(line.split().count("50") for line in found) == 60


def test_a_token_of_the_other_direction_does_not_reorder_its_neighbors():
    head = lines(["a"], [ARABIC, ARABIC], [[0.5, 0.5]])[0].plain
    assert head.count(f"{ARABIC}\u200e") == 2
