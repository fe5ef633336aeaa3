"""The page of `aiayn attend --html`, in a real browser where there is one."""

import json
import re

import numpy as np
import pytest
from browser import (
    DOWN,
    ENTER,
    ESCAPE,
    LEFT,
    RIGHT,
    SHIFT,
    SPACE_BAR,
    TAB,
    UP,
)

from aiayn.figures.attention_page import draw_page
from aiayn.generation.attention_maps import AttentionMaps, SentenceAttention

NASTY = "</script><b>&\u2028"
ARABIC = "\u2581\u0627\u0644\u0642\u0637\u0629"
LAYERS, HEADS = 2, 3


def maps(queries, keys, *, seed):
    drawn = np.random.default_rng(seed).random((LAYERS, HEADS, len(queries), len(keys)))
    weights = (drawn / drawn.sum(axis=-1, keepdims=True)).astype(np.float32)
    return AttentionMaps(queries, keys, weights, layers=[5, 6])


@pytest.fixture(scope="module")
def attention():
    source, target = ["\u2581The", NASTY, ".", "</s>"], [ARABIC, "\u2581b", "</s>"]
    return SentenceAttention(
        source=source,
        target=target,
        maps={
            "encoder": maps(source, source, seed=1),
            "decoder": maps(target, ["<s>", *target[:-1]], seed=2),
            "cross": maps(target, source, seed=3),
        },
        heads=[1, 2, 3],
    )


@pytest.fixture(scope="module")
def file(attention, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    page = draw_page(attention, title=NASTY, chosen={"encoder": [1]})
    path.write_text(page, encoding="utf-8")
    return path


def test_the_weights_are_in_the_page_to_four_digits(file, attention):
    found = re.search(r'id="data">(.*?)</script>', file.read_text(), re.DOTALL)
    data = json.loads(found[1])
    for kind, one in attention.maps.items():
        given = np.array(data["kinds"][kind]["weights"]) / data["whole"]
        np.testing.assert_allclose(given, one.weights_NHLM, atol=5.1e-5)


def test_no_token_can_end_the_script_or_become_markup(file):
    text = file.read_text()
    assert NASTY not in text
    assert text.count("</script>") == 2
    assert "<b>" not in text


@pytest.fixture
def page(browser, file):
    """The page, freshly loaded; whatever it did, it complained of nothing and asked no one."""
    browser.open(file.as_uri())
    browser.point("h1")
    yield browser
    assert browser.console() == []
    assert browser.requests(file.as_uri()) == [file.as_uri()]


def lines(page):
    """How many lines are drawn for each head."""
    return page.run("[...document.querySelectorAll('#lines g')].map(g => g.childElementCount)")


def shown(page, selector):
    return page.run(f"document.querySelector('{selector}').textContent")


def focused(page):
    return page.run("document.activeElement.textContent")


def visible(weights):
    """How many weights are strong enough to be drawn."""
    return int((np.rint(weights * 10_000) >= 100).sum())


def test_the_page_opens_at_the_last_layer_of_attention_to_the_source(page, attention):
    weights = attention.maps["cross"].weights_NHLM[1]
    assert lines(page) == [visible(head) for head in weights]
    assert shown(page, "h1") == NASTY
    assert shown(page, "#keys li:nth-child(2)") == NASTY.replace("\u2028", "\ufffd")
    assert page.run("document.querySelectorAll('b').length") == 0


def test_a_click_on_a_head_takes_its_lines_away_and_brings_them_back(page):
    before = lines(page)
    page.point('[data-head="1"]', clicks=1)
    assert lines(page) == [before[0], before[2]]
    assert page.run("document.querySelector('[data-head=\"1\"]').ariaPressed") == "false"
    page.point('[data-head="1"]', clicks=1)
    assert lines(page) == before


def test_a_double_click_shows_one_head_alone(page):
    before = lines(page)
    page.point('[data-head="2"]', clicks=2)
    assert lines(page) == before[2:]
    page.point("#none", clicks=1)
    assert lines(page) == []
    page.point("#all", clicks=1)
    assert lines(page) == before


def test_kinds_and_layers_are_switched_by_clicking(page, attention):
    page.point("#layers label", clicks=1)
    assert lines(page) == [visible(head) for head in attention.maps["cross"].weights_NHLM[0]]
    page.point("#kinds label:nth-of-type(2)", clicks=1)
    assert lines(page) == [visible(head) for head in attention.maps["decoder"].weights_NHLM[0]]
    assert shown(page, "#keys li") == "<s>"


def test_pointing_at_a_token_shows_its_lines_alone(page, attention):
    everything = lines(page)
    page.point("#queries li:nth-child(2) button")
    weights = attention.maps["cross"].weights_NHLM[1, :, 1]
    assert lines(page) == [visible(head) for head in weights]
    assert "looks at" in shown(page, "#status")
    page.point("#keys li:nth-child(1) button")
    assert sum(lines(page)) == visible(attention.maps["cross"].weights_NHLM[1, :, :, 0])
    page.point("h1")
    assert lines(page) == everything


def test_a_token_can_be_held_and_let_go(page):
    everything = lines(page)
    page.point("#queries button", clicks=1)
    page.point("h1")
    held = lines(page)
    assert sum(held) < sum(everything)
    page.press(ESCAPE)
    assert lines(page) == everything


def test_tokens_that_were_picked_out_on_the_command_line_are_held_at_first(page, attention):
    page.point("#kinds label", clicks=1)
    assert sum(lines(page)) == visible(attention.maps["encoder"].weights_NHLM[1, :, 1])


def test_everything_can_be_done_by_keyboard(page, attention):
    everything = lines(page)
    weights = attention.maps["cross"].weights_NHLM
    page.press(TAB, TAB)  # past the kinds, at the layers
    page.press(LEFT)
    assert lines(page) == [visible(head) for head in weights[0]]
    page.press(RIGHT)
    assert lines(page) == everything
    page.press(TAB, SPACE_BAR)
    assert lines(page) == everything[1:]
    page.press(TAB, SHIFT + ENTER)
    assert lines(page) == everything[1:2]
    page.press(TAB, TAB, ENTER)
    assert (focused(page), lines(page)) == ("all", everything)
    page.press(TAB, TAB)
    assert sum(lines(page)) == visible(weights[1, :, 0])
    page.press(DOWN)
    assert sum(lines(page)) == visible(weights[1, :, 1])
    page.press(ENTER, UP, RIGHT)
    assert sum(lines(page)) == visible(weights[1, :, :, 0])
    page.press(TAB)
    assert sum(lines(page)) == visible(weights[1, :, 1])  # what Enter has held


def test_the_place_of_the_focus_can_be_seen(page):
    page.press(TAB, TAB, TAB)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_paper_in_either_scheme(page, scheme):
    page.emulate(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    page.point("#queries button")
    paper = luminance(page, "body", "backgroundColor")
    assert (paper > 0.5) == (scheme == "light")
    for selector in ("h1", "#hint", "h2", "#queries li:nth-child(2) button"):
        ink = luminance(page, selector, "color")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


def luminance(page, selector, style):
    """Relative luminance as WCAG defines it."""
    color = page.run(f"getComputedStyle(document.querySelector('{selector}')).{style}")
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_narrow_window_does_not_scroll_sideways_nor_jump(page):
    size = {"width": 320, "height": 600, "deviceScaleFactor": 1, "mobile": False}
    page.emulate("Emulation.setDeviceMetricsOverride", **size)
    assert page.run("document.documentElement.scrollWidth") <= 320
    assert page.run("document.getElementById('lines').clientWidth") >= 60
    place = "document.querySelector('#keys button').getBoundingClientRect().y"
    before = page.run(place)
    page.point("#keys button")
    assert "is looked at" in shown(page, "#status")
    assert page.run(place) == before
    page.emulate("Emulation.clearDeviceMetricsOverride")
