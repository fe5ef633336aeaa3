"""Search, and the translation of lines of text."""
