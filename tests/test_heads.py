"""Heads counted over sentences, as the recipe of figures 3 to 5 does."""

import numpy as np
import pytest
from test_recipes import RECIPES, load

heads = load(RECIPES / "figures_attention/heads.py")
PIECES = ["▁a", "▁c", "at", ".", "</s>"]
WORDS = [[0], [1, 2], [3], [4]]


def measure(weights):
    """Distance, entropy, previous, same, next, punctuation, end: means over the words."""
    return heads.measure(np.array([weights]), np.array([False, False, True, False]))[0].mean(1)


def test_subwords_belong_to_words_and_punctuation_is_a_word():
    assert heads.group_words(PIECES) == WORDS
    assert [heads.is_punctuation([piece]) for piece in PIECES] == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_weights_are_summed_over_keys_and_averaged_over_queries():
    weights = np.zeros((1, 5, 5))
    weights[0, 1], weights[0, 2] = [1, 0, 0, 0, 0], [0, 0.25, 0.25, 0, 0.5]
    assert heads.between_words(weights, WORDS)[0, 1].tolist() == [0.5, 0.25, 0, 0.25]


def test_a_head_that_looks_at_the_previous_word_is_local():
    distance, entropy, previous, same, following, punctuation, end = measure(
        [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    )
    assert (distance, previous, same) == pytest.approx((2 / 3, 2 / 3, 1 / 3))
    assert entropy == pytest.approx(0, abs=1e-6)
    assert (following, punctuation, end) == (0, 0, 0)
    head = heads.Head(
        "1.1", distance, entropy, dict.fromkeys(heads.SHARES, 0.0) | {"previous": previous}
    )
    assert head.kind(uniform=1.0) == "local: previous word"


def test_the_end_is_no_next_word_and_has_no_distance():
    *_, following, punctuation, end = measure([[0, 0, 0, 1]] * 4)
    assert (following, punctuation, end) == (0, 0, 1)
    assert measure([[0, 0, 0, 1]] * 4)[0] == measure([[0.25] * 4] * 4)[0]


def test_attention_on_punctuation_is_counted():
    assert measure([[0, 0, 1, 0]] * 4)[5] == 1
    assert measure([[0.25] * 4] * 4)[1] == pytest.approx(2)
