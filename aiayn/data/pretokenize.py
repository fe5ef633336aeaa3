"""What happens to plain text before subwords are found in it, and how it is undone.

`moses` puts spaces between words and punctuation, as in the paper's English-German data:
`tokenizer.perl -l LANGUAGE`, so hyphens stay and quotes and brackets are escaped Moses' way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

Pretokenize = Literal["none", "moses"]


@dataclass(frozen=True)
class Preparation:
    """What happens to the text of one side before the subwords; it can be sent to a process."""

    pretokenize: Pretokenize
    language: str
    lowercase: bool

    def __call__(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts as the subwords see them."""
        if self.pretokenize == "moses":
            texts = [self._tokenizer.tokenize(text, return_str=True) for text in texts]
        if self.lowercase:
            texts = [text.lower() for text in texts]
        return texts

    def undo(self, text: str) -> str:
        """Return plain text; only lower case stays as it is."""
        if self.pretokenize == "moses":
            return str(self._detokenizer.detokenize(text.split(" ")))
        return text

    @cached_property
    def _tokenizer(self) -> Any:
        return _sacremoses().MosesTokenizer(self.language)

    @cached_property
    def _detokenizer(self) -> Any:
        return _sacremoses().MosesDetokenizer(self.language)


def _sacremoses() -> Any:
    # A third of a second to import, so only those who pretokenize wait for it.
    return import_module("sacremoses")
