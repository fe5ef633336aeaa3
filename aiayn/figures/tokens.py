"""Subwords as people read them in figures: words without marks, bytes as characters."""

import re
import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from aiayn.data.vocabulary import SPACE

# Stands before a subword that continues a word.
CONTINUES = "\u00b7"
# Stands for a space that is, or is in, a subword of its own.
BLANK = "\u2423"
BYTE_NUMBERS = ("", "\u00b9", "\u00b2", "\u00b3", "\u2074")
ELLIPSIS = "\u2026"
REPLACEMENT = "\ufffd"

MARKS = frozenset({"<s>", "</s>", "<pad>", "<unk>"})
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_LETTERS_WITH_A_DIRECTION = frozenset({"L", "R", "AL"})
# Reordering that would reach beyond the token.
_REORDERING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def readable(pieces: Sequence[str]) -> list[str]:
    """Return one text for each subword.

    A subword that begins a word is shown as it is, one that continues a word after a dot. A
    character that the vocabulary spells in bytes is shown at each of them, with their numbers.
    """
    spelled = _spell(pieces)
    # Where there are only single characters, dots would be half of what is shown.
    dots = any(len(text.strip(SPACE)) > 1 for text, _ in spelled if text not in MARKS)
    shown: list[str] = []
    before = SPACE
    for text, number in spelled:
        begins = text.startswith(SPACE) or before.endswith(SPACE) or before in MARKS
        bare = text.removeprefix(SPACE).replace(SPACE, BLANK) or BLANK
        dot = CONTINUES if dots and not begins and _continues_a_word(bare) else ""
        shown.append(dot + "".join(map(_visible, bare)) + BYTE_NUMBERS[number])
        before = text
    return shown


def find_word(pieces: Sequence[str], word: str) -> list[int]:
    """Return where the subwords stand that spell a word, at each of its occurrences."""
    texts = [text.replace(SPACE, "") if number < 2 else "" for text, number in _spell(pieces)]
    found: set[int] = set()
    for start in range(len(texts)):
        spelled = ""
        for end in range(start, len(texts)):
            spelled += texts[end]
            # A space of its own belongs to the word that it begins.
            if not word.startswith(spelled) or (end > start and pieces[end].startswith(SPACE)):
                break
            if spelled and spelled == word:
                found.update(range(start, end + 1))
    return sorted(found)


def is_right_to_left(text: str) -> bool:
    """Return whether a text runs from right to left, by its first letter that has one."""
    directions = (unicodedata.bidirectional(character) for character in text)
    return next((d for d in directions if d in _LETTERS_WITH_A_DIRECTION), "L") != "L"


def runs_right_to_left(tokens: Sequence[str]) -> bool:
    """Return whether most tokens of a sentence are written from right to left."""
    return 2 * sum(map(is_right_to_left, tokens)) > len(tokens)


def shorten(text: str, cells: int) -> str:
    """Cut a text that takes more cells of a terminal, and mark it."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ELLIPSIS


def _spell(pieces: Sequence[str]) -> list[tuple[str, int]]:
    """Return each piece as text; of a character's bytes, the character and the byte's number.

    The number is 0 for what is not one of several bytes. Bytes that spell nothing stay bytes.
    """
    spelled = [(piece, 0) for piece in pieces]
    values = [int(match[1], 16) if (match := _BYTE.fullmatch(p)) else None for p in pieces]
    for start in range(len(pieces)):
        for size in range(1, len(BYTE_NUMBERS)):
            run = [value for value in values[start : start + size] if value is not None]
            if len(run) < size:
                break
            character = bytes(run).decode(errors="replace")
            # A character's first byte says how many there are, so no other size decodes.
            if len(character) == 1 and character != REPLACEMENT:
                numbers = range(1, size + 1) if size > 1 else [0]
                spelled[start : start + size] = [(character, number) for number in numbers]
                break
    return spelled


def _continues_a_word(text: str) -> bool:
    """Return whether a text begins with a letter of a script that separates words by spaces."""
    return text[0].isalnum() and unicodedata.east_asian_width(text[0]) not in "WF"


def _visible(character: str) -> str:
    """Return a character that can stand in a terminal, in XML and beside other tokens."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the pictures of control characters
    unprintable = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    reorders = unicodedata.bidirectional(character) in _REORDERING
    # The last two of each plane are no characters, and not allowed in XML.
    return REPLACEMENT if unprintable or reorders or code & 0xFFFE == 0xFFFE else character
