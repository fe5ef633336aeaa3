"""Subwords as people read them."""

import pytest

from aiayn.figures.tokens import (
    find_word,
    is_right_to_left,
    readable,
    runs_right_to_left,
    shorten,
)

ARABIC = "\u0623\u0631\u0649"


def pieces(text):
    """Write spaces for SentencePiece's mark: `_dis agree _with .`."""
    return text.replace("_", "\u2581").split()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("_It _is </s>", "It is </s>"),
        ("_dis agree ment .", "dis \u00b7agree \u00b7ment ."),
        ("_ dis agree", "\u2423 dis \u00b7agree"),
        ("_d o g _a", "d o g a"),
        ("<s> S NP", "<s> S \u00b7NP"),
        ("_caf <0xC3> <0xA9> s", "caf \u00b7\u00e9\u00b9 \u00b7\u00e9\u00b2 \u00b7s"),
        ("_in <0xC3> <0x0A>", "in <0xC3> \u240a"),
        ("_\u6211 \u559c\u6b22", "\u6211 \u559c\u6b22"),
        ("_a\u202eb \ufffe", "a\ufffdb \ufffd"),
        ("_ab <unk>", "ab <unk>"),
    ],
)
def test_subwords_are_shown_as_words_and_their_continuations(given, wanted):
    assert readable(pieces(given)) == wanted.split()


def test_one_text_comes_out_for_each_subword_whatever_the_bytes():
    odd = pieces("<0xF0> <0x9F> <0x98> <0x80> <0x80> <0xFF> _a <0xE4>")
    shown = readable(odd)
    assert len(shown) == len(odd)
    assert {text[0] for text in shown[:4]} == {"\U0001f600"}
    assert shown[4:6] == ["<0x80>", "<0xFF>"]


@pytest.mark.parametrize(
    ("word", "places"),
    [
        ("its", [0, 5, 6]),
        ("making", [2, 3]),
        ("caf\u00e9", [7, 8, 9]),
        ("mak", [2]),
        ("it", [5]),
        ("nothing", []),
        ("", []),
    ],
)
def test_a_word_is_found_however_it_is_cut(word, places):
    cut = pieces("_its _is _mak ing _ it s _caf <0xC3> <0xA9>")
    assert find_word(cut[:4] + cut[5:], word) == [p - (p > 4) for p in places]


def test_a_space_of_its_own_belongs_to_the_word_that_it_begins():
    assert find_word(pieces("_The _ d o g _ s e es"), "dog") == [1, 2, 3, 4]


def test_direction_is_that_of_the_first_letter_with_one():
    assert is_right_to_left("\u00b7" + ARABIC)
    assert not is_right_to_left("a" + ARABIC)
    assert not is_right_to_left("12.")
    assert runs_right_to_left([ARABIC, ARABIC, "</s>"])
    assert not runs_right_to_left([ARABIC, "</s>"])


def test_a_long_text_is_cut_by_the_room_it_takes():
    assert shorten("four", 4) == "four"
    assert shorten("fives", 4) == "fiv\u2026"
    assert shorten("\u6211" * 4, 6) == "\u6211\u6211\u2026"
