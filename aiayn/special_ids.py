"""The ids that every vocabulary begins with: padding, end of sentence, unknown."""

# Padding is also what the decoder starts from; its embedding is zero.
PAD, EOS, UNK = 0, 1, 2
