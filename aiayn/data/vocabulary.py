"""Subwords: one SentencePiece model, held as bytes, that turns text into ids and back.

Nothing is lost on the way: the text is not normalized, spaces are kept as they are, and a
character that the vocabulary does not know is spelled in its UTF-8 bytes. Whole words are the
exception: spaces only separate them, and an unknown word is unknown. So are the vocabularies
of models from elsewhere, where a table gives the pieces their ids.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, Self

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from aiayn.data.settings import TAG, Subword
from aiayn.errors import DataError, UsageError
from aiayn.special_ids import EOS, PAD, UNK

# The ids that spell a single byte, in every vocabulary but that of whole words.
BYTES = range(3, 259)

# What SentencePiece writes for a space; in the text itself it would be decoded as one.
SPACE = "\u2581"
# A line with this character is one that SentencePiece does not learn from.
RESERVED = "\u2585"
# For private use: SentencePiece gets these three characters as ESCAPE and a digit.
ESCAPE = "\ue581"
_CHARACTERS = (ESCAPE, SPACE, RESERVED)
_PLAIN = re.compile(f"[{''.join(_CHARACTERS)}]")
_ESCAPED = re.compile(f"{ESCAPE}[012]")

# Share of the sample's characters that get an id of their own; the others become bytes.
COVERAGE = 0.9999
# Fixed, because what SentencePiece learns depends on the number of threads.
THREADS = 16
# Longer lines, in bytes, are not learned from.
LONGEST_LINE = 1 << 16
# The target language at the start of a line: where the table has such pieces, SentencePiece
# never sees them.
LANGUAGE = re.compile(r">>.*?<<")


class Vocabulary:
    """A SentencePiece model: text to ids and back."""

    table: tuple[str, ...] | None = None
    """The piece of each id, where that is not what SentencePiece says."""
    suffix = "model"
    """Of the file that its bytes are in."""

    def __init__(self, model_bytes: bytes, kind: Subword) -> None:
        self.model_bytes = model_bytes
        self.kind = kind
        self._open()

    def _open(self) -> None:
        """Read the bytes; a RuntimeError is how SentencePiece refuses damaged ones."""
        self._processor = SentencePieceProcessor()
        self._processor.load_from_serialized_proto(self.model_bytes)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # A SentencePieceProcessor cannot be pickled; its bytes can.
        return type(self), (self.model_bytes, self.kind)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def spells_bytes(self) -> bool:
        """Whether the ids BYTES spell what the vocabulary does not know."""
        return self.kind != "word" and self.table is None

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, each ending in EOS."""
        if self.kind == "word":
            # Looked up here: SentencePiece would merge neighboring unknown words into one.
            words = (_escape(text).split() for text in texts)
            return [[*(self._word_ids.get(word, UNK) for word in w), EOS] for w in words]
        texts = escape_all(texts)
        if len(texts) == 1:
            # Of a list, SentencePiece makes a thread, however short it is.
            return [self._processor.encode(texts[0], add_eos=True)]
        ids: list[list[int]] = self._processor.encode(texts, add_eos=True, num_threads=1)
        return ids

    def scores(self, ids: Iterable[int]) -> list[float]:
        """Return what SentencePiece prefers pieces by: early merges, or probable pieces."""
        return [float(self._processor.get_score(int(i))) for i in ids]

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        pieces = self.pieces(range(UNK + 1, len(self)))
        return {piece.removeprefix(SPACE): i for i, piece in enumerate(pieces, UNK + 1)}

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids on one line; padding and EOS are left out."""
        inner = [int(i) for i in ids if i not in (PAD, EOS)]
        if self.kind == "word":
            return _unescape(" ".join(x.removeprefix(SPACE) for x in self.pieces(inner)))
        text: str = self._processor.decode(inner)
        # Bytes can spell a line feed, and one line in is one line out.
        return _unescape(text).replace("\n", " ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the subwords with these ids, as SentencePiece writes them."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def marked_pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the subwords of a text, with SPACE before those that begin a word."""
        return self.pieces(ids)

    def ids_of_model(self) -> list[int]:
        """Return our id for each id of the SentencePiece model: the same, without a table."""
        return list(range(len(self)))

    def knows(self, piece: str) -> bool:
        """Whether there is such a piece."""
        return int(self._processor.piece_to_id(piece)) != UNK

    def tags(self) -> list[str]:
        """Return the tags of languages that a line may begin with."""
        return [piece for piece in self.pieces(range(len(self))) if TAG.fullmatch(piece)]

    @classmethod
    def train(
        cls, lines: Iterable[str], *, kind: Subword, size: int, whole: Sequence[str] = ()
    ) -> Self:
        """Learn a vocabulary from lines of text; of words and characters, at most `size`.

        What is to stay whole, such as tags, is a piece of it each.
        """
        model = BytesIO()
        size -= len(whole)
        if kind == "word":
            # SentencePiece splits words at spaces only, and we split at any white space.
            lines = (" ".join(line.split()) for line in lines)
        try:
            # Differs from the paper, which had subword-nmt and word-pieces without bytes.
            SentencePieceTrainer.train(
                sentence_iterator=map(_escape, lines),
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
            raise _explain(str(problem), kind, size, len(whole)) from None
        # Last, so that the ids of bytes stay where they are.
        vocabulary = cls(model.getvalue() + b"".join(map(serialized_piece, whole)), kind)
        size += len(whole)
        if kind in ("bpe", "unigram") and len(vocabulary) < size:
            raise UsageError(
                f"--vocab-size is {size:,}, and this text has at most {len(vocabulary):,}",
                fix=f"pass --vocab-size {len(vocabulary)} or less, or give more text",
            )
        return vocabulary


def serialized_piece(text: str) -> bytes:
    """Return a piece that is never cut, to append to a SentencePiece model.

    Their models are protocol buffers, in which what is repeated may go on at the end: field 1
    is a piece, with its text in field 1, its score in 2, and its type in 3, of which 4 is
    user-defined.
    """
    content = text.encode()
    inside = b"\x0a" + bytes([len(content)]) + content + b"\x15\0\0\0\0" + b"\x18\x04"
    return b"\x0a" + bytes([len(inside)]) + inside


class TableVocabulary(Vocabulary):
    """A SentencePiece model from elsewhere, and a table with the piece of each id of ours.

    Source and target may have a model each and still share one table, and so one embedding. A
    line may open with the language to translate to, as in `>>fra<< It rains.`, if the table has
    pieces that SentencePiece does not know.
    """

    def __init__(self, model_bytes: bytes, kind: Subword, table: tuple[str, ...]) -> None:
        super().__init__(model_bytes, kind)
        self.table: tuple[str, ...] = table
        self._ids = {piece: i for i, piece in enumerate(table)}

    @classmethod
    def of_model(cls, model_bytes: bytes) -> Self:
        """Return a SentencePiece model with our ids: padding, EOS, unknown, then as it has.

        What is not a SentencePiece model raises a RuntimeError.
        """
        processor = SentencePieceProcessor()
        processor.load_from_serialized_proto(model_bytes)
        pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        marks = {"<pad>": processor.pad_id(), "</s>": processor.eos_id()}
        # It need not have padding, nor an end.
        first = [name if i < 0 else pieces[i] for name, i in marks.items()]
        table = dict.fromkeys([*first, pieces[processor.unk_id()], *pieces])
        # The scores of BPE are ranks.
        scores = (processor.get_score(i) for i in range(len(pieces)))
        kind: Subword = "bpe" if all(score == int(score) for score in scores) else "unigram"
        return cls(model_bytes, kind, tuple(table))

    @cached_property
    def is_of_model(self) -> bool:
        """Whether the table has what SentencePiece knows, and at most padding and EOS more."""
        pieces, table = set(self._pieces_of_model()), set(self.table)
        return pieces <= table <= pieces | {"<pad>", "</s>"}

    def ids_of_model(self) -> list[int]:
        """Return our id for each id of the SentencePiece model."""
        return [self._ids[piece] for piece in self._pieces_of_model()]

    def _pieces_of_model(self) -> list[str]:
        return super().pieces(range(super().__len__()))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self.model_bytes, self.kind, self.table)

    def __len__(self) -> int:
        return len(self.table)

    def knows(self, piece: str) -> bool:
        """Whether there is such a piece."""
        return piece in self._ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, each ending in EOS."""
        return [[*(self._ids.get(p, UNK) for p in self._segment(x)), EOS] for x in texts]

    def _segment(self, text: str) -> list[str]:
        language = None if self.is_of_model else LANGUAGE.match(text)
        start = language.end() if language else 0
        # Pieces and not ids: the table may hold pieces that this model does not know.
        pieces: list[str] = self._processor.encode(text[start:], out_type=str)
        return [language[0], *pieces] if language else pieces

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids on one line; padding and EOS are left out.

        So is the unknown, as transformers does, where the table is not SentencePiece's own.
        """
        silent = (PAD, EOS) if self.is_of_model else (PAD, EOS, UNK)
        pieces = self.pieces(i for i in ids if i not in silent)
        text: str = self._processor.decode_pieces(pieces)
        return text.replace(SPACE, " ").replace("\n", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the subwords with these ids, as the table has them."""
        return [self.table[i] for i in ids]


def _explain(problem: str, kind: Subword, size: int, whole: int) -> DataError | UsageError:
    """Return the error to raise where SentencePiece cannot learn."""
    if "sentences_.empty()" in problem:
        return DataError(
            "no line of the sample can be learned from: all are empty or longer than"
            f" {LONGEST_LINE:,} bytes",
            fix="give text with one sentence a line",
        )
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", problem)
    least = whole + (int(smallest[1]) if smallest else BYTES.stop + 1)
    return UsageError(
        f"--vocab-size is {size + whole:,}, and this text needs at least {least:,}:"
        " 3 special tokens, 256 bytes, its characters, and tags or a mark",
        fix=f"pass --vocab-size {least} or more",
    )


def escape_all(texts: Sequence[str]) -> list[str]:
    """Return texts as SentencePiece gets them."""
    # One look at all of them is ten times faster than one at each, and nearly always enough.
    together = "".join(texts)
    if any(character in together for character in _CHARACTERS):
        return [_escape(text) for text in texts]
    return list(texts)


def _escape(text: str) -> str:
    return _PLAIN.sub(lambda found: f"{ESCAPE}{_CHARACTERS.index(found[0])}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _CHARACTERS[int(found[0][1])], text)
