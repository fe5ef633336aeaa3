"""Vocabularies of Marian models: SentencePiece finds pieces, and a table gives them ids.

Source and target may have a SentencePiece model each and still share one table, and so one
embedding. A line may open with the language to translate to, as in `>>fra<< It rains.`
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

from aiayn.data.settings import Subword
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.special_ids import EOS, PAD, UNK

LANGUAGE = re.compile(r">>.*?<<")
"""The target language at the start of a line: one piece, which SentencePiece never sees."""


class MarianVocabulary(Vocabulary):
    """A SentencePiece model, and a table with the piece of each id."""

    def __init__(self, model_bytes: bytes, kind: Subword, table: tuple[str, ...]) -> None:
        super().__init__(model_bytes, kind)
        self.table: tuple[str, ...] = table

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self.model_bytes, self.kind, self.table)

    def __len__(self) -> int:
        return len(self.table)

    def encode_batch(self, texts: Sequence[str], *, end: bool = False) -> list[list[int]]:
        """Return the ids of many texts, each followed by EOS if `end`."""
        tail = [EOS] if end else []
        return [[self._ids.get(p, UNK) for p in self._segment(text)] + tail for text in texts]

    def _segment(self, text: str) -> list[str]:
        language = LANGUAGE.match(text)
        start = language.end() if language else 0
        # Pieces and not ids: the table may hold pieces that this model does not know.
        pieces: list[str] = self._processor.encode(text[start:], out_type=str)
        return [language[0], *pieces] if language else pieces

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.table)}

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids on one line; padding, ends and the unknown are left out."""
        pieces = self.pieces(i for i in ids if i not in (PAD, EOS, UNK))
        text: str = self._processor.decode_pieces(pieces)
        return text.replace(SPACE, " ").replace("\n", " ").strip()

    def _piece(self, index: int) -> str:
        return self.table[index]
