"""Byte-pair encoding as subword-nmt and fastBPE apply it, from a file of merges.

A word is its characters, of which the last is marked as the end; the earliest of the merges
that fit is applied, everywhere in the word, until none fits. In the result, every piece but the
last of a word ends in @@.
"""

from collections.abc import Iterable
from itertools import pairwise

from aiayn.data.vocabulary import SPACE, TableVocabulary
from aiayn.errors import DataError
from aiayn.special_ids import EOS, PAD, UNK

END = "</w>"
JOINER = "@@"
# Words that are kept with their pieces; a corpus says the same ones again and again.
KEPT_WORDS = 100_000


class Merges:
    """The merges of a file, in order: subword-nmt 0.1 and 0.2, or fastBPE with counts."""

    def __init__(self, content: bytes) -> None:
        try:
            lines = content.decode().rstrip("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError("it is not text in UTF-8", fix="give a file of merges") from None
        version = lines.pop(0).split()[-1] if lines and lines[0].startswith("#version:") else ""
        # Version 0.1 had the end as a symbol of its own; fastBPE counts, and has no version.
        has_counts = bool(lines) and len(lines[0].split()) == 3
        self.end_is_symbol = version == "0.1" or not (version or has_counts)
        self.ranks: dict[tuple[str, str], int] = {}
        for number, line in enumerate(lines, start=1 + bool(version)):
            symbols = line.strip("\r ").split(" ")
            if len(symbols) != 2 + has_counts or not all(symbols):
                raise DataError(
                    f"line {number} is not a merge of two symbols", fix="give a file of merges"
                )
            self.ranks.setdefault((symbols[0], symbols[1]), len(self.ranks))
        if not self.ranks:
            raise DataError("it has no merges", fix="give a file of merges")

    def segment(self, word: str) -> list[str]:
        """Return the pieces of a word."""
        symbols = [*word, END] if self.end_is_symbol else [*word[:-1], word[-1] + END]
        while len(symbols) > 1:
            best = min(
                pairwise(symbols), key=lambda pair: self.ranks.get(pair, len(self.ranks))
            )
            if best not in self.ranks:
                break
            symbols = _merge(symbols, best)
        if symbols[-1] == END:
            symbols.pop()
        last = symbols.pop().removesuffix(END)
        return [*(f"{symbol}{JOINER}" for symbol in symbols), last]

    def units(self) -> list[str]:
        """Return every piece that a word of known characters can have."""
        found: dict[str, None] = {}
        characters = sorted(
            {c for pair in self.ranks for s in pair for c in s.removesuffix(END)}
        )
        for character in characters:
            found |= {f"{character}{JOINER}": None, character: None}
        for pair in self.ranks:
            merged = "".join(pair)
            ends = merged.endswith(END)
            found[merged.removesuffix(END) if ends else f"{merged}{JOINER}"] = None
            # The end may be merged last, or never.
            if self.end_is_symbol:
                found[merged.removesuffix(END)] = None
        return list(found)


def _merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Join the two symbols wherever they stand beside one another, from the left."""
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        width = 2 if tuple(symbols[i : i + 2]) == pair else 1
        merged.append("".join(symbols[i : i + width]))
        i += width
    return merged


class CodesVocabulary(TableVocabulary):
    """A file of merges, and a table with the piece of each id; words stand between spaces."""

    suffix = "codes"
    is_of_model = False

    @classmethod
    def of_codes(cls, content: bytes) -> "CodesVocabulary":
        """Return a vocabulary of all pieces that the merges can make."""
        table = ("<pad>", "</s>", "<unk>", *Merges(content).units())
        return cls(content, "bpe", tuple(dict.fromkeys(table)))

    def _open(self) -> None:
        self._merges = Merges(self.model_bytes)
        self._known: dict[str, list[str]] = {}

    def _segment(self, text: str) -> list[str]:
        return [piece for word in text.split() for piece in self._pieces_of(word)]

    def marked_pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the subwords of a text, with SPACE before those that begin a word."""
        marked, begins = [], True
        for i in ids:
            piece = self.table[i]
            # Marks such as EOS are no words.
            marked.append(SPACE * (begins and i > UNK) + piece.removesuffix(JOINER))
            begins = not piece.endswith(JOINER)
        return marked

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids on one line; padding and EOS are left out."""
        pieces = self.pieces(i for i in ids if i not in (PAD, EOS))
        return " ".join(pieces).replace(f"{JOINER} ", "").removesuffix(JOINER)

    def _pieces_of(self, word: str) -> list[str]:
        if word not in self._known:
            if len(self._known) >= KEPT_WORDS:
                self._known.clear()
            self._known[word] = self._merges.segment(word)
        return self._known[word]
