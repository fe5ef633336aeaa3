"""The figure for papers: well-formed, legible, and true to the weights."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from aiayn.figures.attention_svg import Panel, color, draw_attention

SPACE = {"svg": "http://www.w3.org/2000/svg"}
ARABIC = "\u0627\u0644\u0642\u0637\u0629"


@pytest.fixture
def panel():
    weights = np.zeros((2, 2, 3), np.float32)
    weights[0, :, 0] = 1.0
    weights[1, 0] = 0.004, 0.25, 0.746
    weights[1, 1] = 0.0, 0.5, 0.5
    return Panel(
        "cross attention", ["its", "</s>"], ["Law", "<&>", "."], [5, 6], weights, [0, 1]
    )


def draw(*panels):
    return ElementTree.fromstring(draw_attention(panels))


def texts(figure):
    return [text.text for text in figure.iterfind(".//svg:text", SPACE)]


def test_every_token_and_head_is_named_in_well_formed_xml(panel):
    assert texts(draw(panel)) == [
        "cross attention", "Law", "<&>", ".", "its", "</s>", "head 5", "head 6"
    ]  # fmt: skip


def test_a_line_is_as_strong_as_its_weight_and_none_is_drawn_for_nothing(panel):
    groups = list(draw(panel).iterfind(".//svg:g[@stroke]", SPACE))
    assert [group.get("stroke") for group in groups] == [color(5), color(6)]
    drawn = [[float(line.get("stroke-opacity")) for line in group] for group in groups]
    assert drawn == [[1.0, 1.0], [0.25, 0.75, 0.5, 0.5]]


def test_lines_run_from_the_query_below_to_the_key_above(panel):
    figure = draw(panel)
    line = figure.find(".//svg:line", SPACE)
    assert float(line.get("y1")) > float(line.get("y2"))
    ends = {text.text: text.get("transform") for text in figure.iterfind(".//svg:text", SPACE)}
    for token, end in (("its", "x1"), ("Law", "x2")):
        across = float(re.search(r"translate\(([\d.]+),", ends[token])[1])
        assert across == pytest.approx(float(line.get(end)), abs=6)


def test_one_word_alone_shades_what_it_looks_at(panel):
    figure = draw(replace(panel, rows=[1]))
    assert len(list(figure.iterfind(".//svg:line", SPACE))) == 3
    shades = list(figure.iterfind(".//svg:rect[@fill-opacity]", SPACE))
    assert [shade.get("fill-opacity") for shade in shades] == ["0.50", "0.25", "0.25"]
    far = figure.iterfind(".//svg:text[@class='far']", SPACE)
    assert [text.text for text in far] == ["its"]


def test_a_sentence_from_right_to_left_begins_on_the_right(panel):
    figure = draw(replace(panel, keys=[ARABIC, "\u0641\u064a", "</s>"]))
    places = {
        text.text: float(re.search(r"translate\(([\d.]+),", text.get("transform"))[1])
        for text in figure.iterfind(".//svg:text[@transform]", SPACE)
        if text.text in (ARABIC, "</s>")
    }
    assert places[ARABIC] > places["</s>"]
    (arabic,) = (t for t in figure.iterfind(".//svg:text", SPACE) if t.text == ARABIC)
    assert (arabic.get("direction"), arabic.get("text-anchor")) == ("rtl", "end")


def test_everything_stands_within_the_picture(panel):
    many = np.full((16, 2, 60), 1 / 60, np.float32)
    long = replace(panel, keys=["a" * 50] * 60, heads=list(range(1, 17)), weights_HLM=many)
    figure = draw(long, panel)
    width, height = (float(part) for part in figure.get("viewBox").split()[2:])
    for line in figure.iterfind(".//svg:line", SPACE):
        assert 0 < float(line.get("x2")) < width
    assert 0 < max(float(t.get("y", 0)) for t in figure.iterfind(".//svg:text", SPACE)) < height
    assert max(map(len, texts(figure))) == 24


def test_heads_have_colors_of_their_own():
    assert len({color(head) for head in range(1, 33)}) == 32
    assert all(re.fullmatch("#[0-9a-f]{6}", color(head)) for head in (1, 32, "mean"))
