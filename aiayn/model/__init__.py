"""Section 3 of the paper; knows tensors, not files."""
