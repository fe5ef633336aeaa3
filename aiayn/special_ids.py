"""The ids that every vocabulary begins with."""

PAD = 0
"""Fills up a batch, and is what the decoder starts from; its embedding is zero."""
EOS = 1
"""Ends every source and every target."""
UNK = 2
"""Stands for what a vocabulary does not know."""
