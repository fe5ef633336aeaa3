"""Attention as one self-contained page, to look at layer by layer and head by head."""

import json
import re
from html import escape
from importlib.resources import files

import numpy as np

from aiayn.figures.attention_svg import color
from aiayn.figures.tokens import readable
from aiayn.generation.attention_maps import SentenceAttention

TEMPLATE = "attention_page.html"
# Weights are written as ten-thousandths: four digits, and half the size of fractions.
WHOLE = 10_000


def draw_page(attention: SentenceAttention, *, title: str, chosen: dict[str, list[int]]) -> str:
    """Return the page; `chosen` are the queries of each kind that are picked out at first."""
    data = {
        "layers": attention.layers,
        "heads": [{"name": str(head), "color": color(head)} for head in attention.heads],
        "whole": WHOLE,
        "kinds": {
            kind: {
                "layers": maps.layers,
                "queries": readable(maps.queries),
                "keys": readable(maps.keys),
                "chosen": chosen.get(kind, []),
                "weights": np.rint(maps.weights_NHLM * WHOLE).astype(int).tolist(),
            }
            for kind, maps in attention.maps.items()
        },
    }
    template = files("aiayn.figures").joinpath(TEMPLATE).read_text(encoding="utf-8")
    filled = {"title": escape(title), "data": _for_script(data)}
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], template)


def _for_script(value: object) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # U+2028 and U+2029 end a line in older JavaScript.
    for character in ("<", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
