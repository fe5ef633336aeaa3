"""Subwords: one SentencePiece model, held as bytes, that turns text into ids and back.

Nothing is lost on the way: the text is not normalized, spaces are kept as they are, and a
character that the vocabulary does not know is spelled in its UTF-8 bytes. Whole words are the
exception: spaces only separate them, and an unknown word is unknown.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, Self

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from aiayn.data.settings import Subword
from aiayn.errors import DataError, UsageError
from aiayn.special_ids import EOS, PAD, UNK

BYTES = range(3, 259)
"""The ids that spell a single byte, in every vocabulary but that of whole words."""

SPACE = "\u2581"
"""What SentencePiece writes for a space; in the text itself it would be decoded as one."""
RESERVED = "\u2585"
"""A line with this character is one that SentencePiece does not learn from."""
ESCAPE = "\ue581"
"""Private use: these three characters are written as ESCAPE and a digit for SentencePiece."""
_CHARACTERS = (ESCAPE, SPACE, RESERVED)
_PLAIN = re.compile(f"[{''.join(_CHARACTERS)}]")
_ESCAPED = re.compile(f"{ESCAPE}[012]")

COVERAGE = 0.9999
"""Share of the sample's characters that get an id of their own; the others become bytes."""
THREADS = 16
"""SentencePiece learns different numbers with different thread counts, so it is fixed."""
LONGEST_LINE = 1 << 16
"""Longer lines, in bytes, are not learned from."""


class Vocabulary:
    """A SentencePiece model: text to ids and back."""

    table: tuple[str, ...] | None = None
    """The piece of each id, where that is not what SentencePiece says."""

    def __init__(self, model_bytes: bytes, kind: Subword) -> None:
        self.model_bytes = model_bytes
        self.kind = kind
        self._processor = SentencePieceProcessor()
        self._processor.load_from_serialized_proto(model_bytes)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # A SentencePieceProcessor cannot be pickled; its bytes can.
        return type(self), (self.model_bytes, self.kind)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def spells_bytes(self) -> bool:
        """Whether the ids BYTES spell what the vocabulary does not know."""
        return self.kind != "word" and self.table is None

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without an end."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], *, end: bool = False) -> list[list[int]]:
        """Return the ids of many texts, each followed by EOS if `end`."""
        if self.kind == "word":
            return [self._encode_words(text, end) for text in texts]
        ids: list[list[int]] = self._processor.encode(
            _escape_all(texts), add_eos=end, num_threads=1
        )
        return ids

    def _encode_words(self, text: str, end: bool) -> list[int]:
        ids = [self._word_ids.get(word, UNK) for word in _escape(text).split()]
        return [*ids, EOS] if end else ids

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        """Words by name: SentencePiece itself would merge unknown neighbors into one."""
        return {self._piece(i).removeprefix(SPACE): i for i in range(UNK + 1, len(self))}

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids on one line; padding and ends are left out."""
        inner = [int(i) for i in ids if i not in (PAD, EOS)]
        if self.kind == "word":
            return _unescape(" ".join(self._piece(i).removeprefix(SPACE) for i in inner))
        text: str = self._processor.decode(inner)
        # Bytes can spell a line feed, and one line in is one line out.
        return _unescape(text).replace("\n", " ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the subwords with these ids, as SentencePiece writes them."""
        return [self._piece(int(i)) for i in ids]

    def _piece(self, index: int) -> str:
        return str(self._processor.id_to_piece(index))

    @classmethod
    def train(cls, lines: Iterable[str], *, kind: Subword, size: int) -> Self:
        """Learn a vocabulary from lines of text; of words and characters, at most `size`."""
        model = BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=(_learnable(line, kind) for line in lines),
                model_writer=model,
                model_type=kind,
                vocab_size=size,
                # Words and characters may be fewer; for the others it is checked below.
                hard_vocab_limit=False,
                pad_id=PAD,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                # Nothing is normalized and bytes spell the unknown, so decoding is exact.
                byte_fallback=kind != "word",
                character_coverage=COVERAGE if kind != "word" else 1.0,
                normalization_rule_name="identity",
                remove_extra_whitespaces=kind == "word",
                max_sentence_length=LONGEST_LINE,
                num_threads=THREADS,
                minloglevel=2,  # errors only
            )
        except RuntimeError as problem:
            raise _explain(str(problem), kind, size) from None
        vocabulary = cls(model.getvalue(), kind)
        if kind in ("bpe", "unigram") and len(vocabulary) < size:
            raise UsageError(
                f"{size:,} {kind} subwords were asked for, and this text gives at most"
                f" {len(vocabulary):,}",
                fix=f"pass --vocab-size {len(vocabulary)} or less, or give more text",
            )
        return vocabulary


def _explain(problem: str, kind: Subword, size: int) -> DataError | UsageError:
    """Say in our words why SentencePiece gave up."""
    if "sentences_.empty()" in problem:
        return DataError(
            "no line of the sample can be learned from: all are empty or longer than"
            f" {LONGEST_LINE:,} bytes",
            fix="give text with one sentence a line",
        )
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", problem)
    least = int(smallest[1]) if smallest else BYTES.stop + 1
    return UsageError(
        f"{size:,} {kind} units were asked for, and this text needs at least {least:,}:"
        " 3 marks, 256 bytes and its characters",
        fix=f"pass --vocab-size {least} or more",
    )


def _learnable(line: str, kind: Subword) -> str:
    # SentencePiece splits words at spaces only, and we split at any white space.
    return _escape(" ".join(line.split()) if kind == "word" else line)


def _escape_all(texts: Sequence[str]) -> list[str]:
    # One look at all of them is ten times faster than one at each, and nearly always enough.
    together = "".join(texts)
    if any(character in together for character in _CHARACTERS):
        return [_escape(text) for text in texts]
    return list(texts)


def _escape(text: str) -> str:
    return _PLAIN.sub(lambda found: f"{ESCAPE}{_CHARACTERS.index(found[0])}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _CHARACTERS[int(found[0][1])], text)
