"""The ids that every vocabulary begins with."""

# Fills up a batch, and is what the decoder starts from; its embedding is zero.
PAD = 0
# Ends every source and every target.
EOS = 1
# Stands for what a vocabulary does not know.
UNK = 2
