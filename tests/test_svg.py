"""SVG as text: well-formed whatever it holds, and panels that do not overlap."""

from xml.etree import ElementTree

from aiayn.figures.curves import draw_curves
from aiayn.figures.svg import Drawing, element, stack, text

SPACE = {"svg": "http://www.w3.org/2000/svg"}


def test_attributes_keep_their_order_and_take_their_names_from_python():
    found = element("line", class_="axis", x1=0.5, stroke_width=2, stroke=None)
    assert found == '<line class="axis" x1="0.5" stroke-width="2"/>'


def test_an_element_with_children_is_closed_by_its_name():
    assert element("g", "<a/>", "<b/>") == "<g><a/><b/></g>"
    assert element("g", "") == "<g></g>"


def test_content_and_attributes_survive_being_read_as_xml():
    odd = "<&>\"' \u0627"
    read = ElementTree.fromstring(text(odd, title=odd))
    assert (read.text, read.get("title")) == (odd, odd)


def test_drawings_are_stacked_in_a_document_as_wide_as_the_widest():
    drawings = [Drawing(30, 10.5, "<a/>"), Drawing(50, 20, "<b/>"), Drawing(40, 5, "<c/>")]
    figure = ElementTree.fromstring(stack(drawings, style="a{fill:red}"))
    assert figure.get("viewBox") == "0 0 50 35.5"
    panels = figure.findall("svg:g", SPACE)
    assert [panel.get("transform") for panel in panels] == [
        "translate(0,0)",
        "translate(0,10.5)",
        "translate(0,30.5)",
    ]


def test_a_curve_passes_through_its_points_and_ends_at_its_name():
    rows = [{"step": 100, "loss": 3.0, "plain_loss": 4.0, "learning_rate": 0.1}]
    rows.append({"step": 200, "loss": 1.0, "plain_loss": 2.0, "learning_rate": 0.1})
    figure = ElementTree.fromstring(draw_curves(rows))
    curves = figure.findall(".//svg:path[@stroke]", SPACE)
    # 608 units across for 200 updates; the loss falls from the top of its panel to the bottom.
    assert [curve.get("d") for curve in curves] == ["M360,32L664,176", "M360,176L664,176"]
    (name,) = (t for t in figure.iterfind(".//svg:text", SPACE) if t.text == "training")
    assert (name.get("x"), name.get("y")) == ("668", "180")


def test_what_was_not_measured_has_no_panel():
    rows = [{"step": 1, "loss": 3.0, "plain_loss": 4.0, "learning_rate": 0.1}]
    texts = [t.text for t in ElementTree.fromstring(draw_curves(rows)).iter()]
    assert "loss (nats per token)" in texts
    assert "validation score" not in texts
