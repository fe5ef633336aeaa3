"""SVG as text: elements, escaped text, and panels stacked into a document."""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

Attribute = float | str | None


class Drawing(NamedTuple):
    """Elements drawn from the origin, and the space they take."""

    width: float
    height: float
    elements: str


def element(tag: str, *children: str, **attributes: Attribute) -> str:
    """Return an element with its attributes in the order given.

    `stroke_width` becomes `stroke-width` and `class_` becomes `class`. Numbers are written with
    up to 6 digits, and an attribute that is None is left out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


def text(content: str, **attributes: Attribute) -> str:
    """Return a text element; the content may hold any characters that XML allows."""
    return element("text", escape(content), **attributes)


def stack(drawings: Iterable[Drawing], *, style: str) -> str:
    """Return a document with the drawings one below the other on white."""
    width = height = 0.0
    panels = []
    for drawing in drawings:
        panels.append(element("g", drawing.elements, transform=f"translate(0,{height:g})"))
        width, height = max(width, drawing.width), height + drawing.height
    document = element(
        "svg",
        element("style", style),
        element("rect", width="100%", height="100%", fill="white"),
        *panels,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
    )
    return document + "\n"


def _value(value: float | str) -> str:
    return escape(value) if isinstance(value, str) else f"{value:g}"
