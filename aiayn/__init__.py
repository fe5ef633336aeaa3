"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), as shell commands."""

__version__ = "0.1.0"
