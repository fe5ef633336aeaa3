"""Curves and attention, drawn: SVG, an HTML page, the terminal."""
