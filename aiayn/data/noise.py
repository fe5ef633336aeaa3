"""Text as careless people write it, for models that are to understand them.

Beyond the paper. Upper and title case are a matter of both sides: a shouted sentence has a
shouted translation. Typing errors are a matter of the source alone.
"""

import re
from random import Random

# Letters between two errors, on average.
LETTERS_PER_TYPO = 20
_FIRST_OF_WORD = re.compile(r"(?<!\S)\S")


def add_noise(source: str, target: str, random: Random) -> tuple[str, str]:
    """Return a pair in upper case, in title case, or with typing errors in its source."""
    match random.randrange(3):
        case 0:
            return source.upper(), target.upper()
        case 1:
            return title_case(source), title_case(target)
        case _:
            return with_typos(source, random), target


def title_case(text: str) -> str:
    """Return a text in which every word begins with a capital."""
    return _FIRST_OF_WORD.sub(lambda first: first[0].upper(), text)


def with_typos(text: str, random: Random) -> str:
    """Return a text with at least one typing error: a letter swapped, lost or doubled."""
    letters = list(text)
    for _ in range(1 + len(letters) // LETTERS_PER_TYPO):
        place = random.randrange(max(len(letters) - 1, 1))
        pair = letters[place : place + 2]
        match random.randrange(3):
            case 0:
                letters[place : place + 2] = pair[::-1]
            case 1 if len(letters) > 1:
                letters[place : place + 2] = pair[1:]
            case _:
                letters[place : place + 2] = [pair[0], *pair]
    return "".join(letters)
