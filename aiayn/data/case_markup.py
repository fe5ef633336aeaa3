"""Words in capitals as an ordinary spelling and a mark: inline casing.

Beyond the paper (Berard et al. 2019, Etchegoyhen and Gete 2020). To the subwords `RED house` is
`red^ house`, with MARK for the ^, so a word has the pieces that it has elsewhere; without this
it is mostly spelled letter by letter. A word is what spaces separate, and single capitals stay
as they are: sentences begin with `A` and `I`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from aiayn.data.vocabulary import Vocabulary

MARK = "\u21e7"
# With a 0 it is one that the text itself has: no mark of ours is followed by a digit.
_MARKS = re.compile(f"{MARK}(0?)")
# A forced prefix can bring about that something follows a mark of ours.
_WORD = re.compile(f"(?:(.*){MARK}(?!0))?(.*)", re.DOTALL)


@dataclass(frozen=True)
class CaseMarkup:
    """Marks the words in capitals, in whichever case the vocabulary has fewer pieces for them.

    So `HUND` is `Hund^` and `ROT` is `rot^` to a vocabulary of German.
    """

    vocabulary: Vocabulary

    def mark(self, text: str) -> str:
        """Return a text whose words in capitals are in another case, with a mark each."""
        return " ".join(map(self._mark_word, text.split(" ")))

    def _mark_word(self, word: str) -> str:
        if MARK in word:
            return word.replace(MARK, f"{MARK}0")
        return _ordinary_case(word, self.vocabulary) + MARK if is_in_capitals(word) else word


@lru_cache(1 << 16)
def _ordinary_case(word: str, vocabulary: Vocabulary) -> str:
    cases = [word.lower(), word.capitalize()]
    pieces = vocabulary.encode_batch(cases)
    title = len(pieces[1]) < len(pieces[0]) and cases[1].upper() == word
    return cases[title]


def is_in_capitals(word: str) -> bool:
    """Whether a word has several letters, all capitals, of which lower case loses nothing."""
    letters = sum(character.lower() != character.upper() for character in word)
    return letters > 1 and word.isupper() and word.lower().upper() == word


def without_capitals(text: str) -> str:
    """Return a text with its words in capitals in lower case, to learn a vocabulary from."""
    return " ".join(
        word.lower() if is_in_capitals(word) else word
        for word in text.replace(MARK, "").split(" ")
    )


def restore_capitals(text: str) -> str:
    """Return the text that was marked; a word with a mark may have any case."""
    return " ".join(map(_restore_word, text.split(" "))) if MARK in text else text


def _restore_word(word: str) -> str:
    found = _WORD.fullmatch(word)
    assert found is not None
    marked, rest = found.groups(default="")
    return _MARKS.sub(lambda mark: MARK if mark[1] else "", marked.upper() + rest)
