"""Words in capitals as their ordinary spelling and a mark: inline casing.

Beyond the paper (Berard et al. 2019, Etchegoyhen and Gete 2020). To the subwords `RED house` is
`red^ house`, with MARK for the ^, so a word has the pieces that it has elsewhere; without this
it is mostly spelled letter by letter. A word is what spaces separate, and single capitals stay
as they are: sentences begin with `A` and `I`.
"""

import re

MARK = "\u21e7"
# With a 0 it is one that the text itself has: no mark of ours is followed by a digit.
_MARKS = re.compile(f"{MARK}(0?)")


def mark_capitals(text: str) -> str:
    """Return a text whose words in capitals are in lower case, with a mark each."""
    return " ".join(map(_mark_word, text.split(" ")))


def restore_capitals(text: str) -> str:
    """Return the text that was marked; a word with a mark may have any case."""
    if MARK not in text:
        return text
    return " ".join(map(_restore_word, text.split(" ")))


def in_capitals(text: str) -> str:
    """Return a marked text wholly in capitals: its words keep their case, and get the mark.

    This is how a model learns to write in capitals with the pieces that it knows.
    """
    return " ".join(map(_capital_word, text.split(" ")))


def _mark_word(word: str) -> str:
    if MARK in word:
        return word.replace(MARK, f"{MARK}0")
    if word.isupper() and _letters(word) > 1 and word.lower().upper() == word:
        return word.lower() + MARK
    return word


def _restore_word(word: str) -> str:
    text = _MARKS.sub(lambda found: MARK if found[1] else "", word)
    return text.upper() if word.endswith(MARK) else text


def _capital_word(word: str) -> str:
    if word.endswith(MARK):
        return word
    return word + MARK if _letters(word) > 1 else word.upper()


def _letters(word: str) -> int:
    return sum(character.lower() != character.upper() for character in word)
