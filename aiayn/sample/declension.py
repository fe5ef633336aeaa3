"""German articles and endings by gender, case and number, beside their English."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from aiayn.sample.numbers import ONES_DE, ONES_EN

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
"""The plural is a fourth gender: it has endings of its own, the same for all three others."""

ByGenderAndCase = tuple[tuple[str, str, str, str], ...]

DEFINITE: ByGenderAndCase = (
    ("der", "den", "dem", "des"),
    ("die", "die", "der", "der"),
    ("das", "das", "dem", "des"),
    ("die", "die", "den", "der"),
)
RELATIVE: ByGenderAndCase = (
    ("der", "den", "dem", "dessen"),
    ("die", "die", "der", "deren"),
    ("das", "das", "dem", "dessen"),
    ("die", "die", "denen", "deren"),
)
STRONG: ByGenderAndCase = (
    ("er", "en", "em", "en"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "en"),
    ("e", "e", "en", "er"),
)
MIXED: ByGenderAndCase = (
    ("er", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("es", "es", "en", "en"),
    ("en", "en", "en", "en"),
)
WEAK: ByGenderAndCase = (
    ("e", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("e", "e", "en", "en"),
    ("en", "en", "en", "en"),
)
DER_WORD: ByGenderAndCase = (
    ("er", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "es"),
    ("e", "e", "en", "er"),
)
EIN_WORD: ByGenderAndCase = (
    ("", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("", "", "em", "es"),
    ("e", "e", "en", "er"),
)
UNCHANGED: ByGenderAndCase = (("",) * 4,) * 4


class Slot(NamedTuple):
    """What stands before a noun in one case, and the ending it asks of an adjective."""

    en: str
    de: str
    ending: str
    number: int
    definite: bool


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article or a word in its place, in English and in every German form."""

    en: str
    de: ByGenderAndCase
    endings: ByGenderAndCase
    definite: bool

    def slot(self, gender: int, case: int, number: int) -> Slot:
        """Return the forms before a noun; each ends in a space if there is anything."""
        row = PLURAL if number else gender
        german = self.de[row][case]
        return Slot(
            f"{self.en} " if self.en else "",
            f"{german} " if german else "",
            self.endings[row][case],
            number,
            self.definite,
        )


def determiner(
    english: str, stem: str, forms: ByGenderAndCase, endings: ByGenderAndCase, definite: bool
) -> Determiner:
    """Return a determiner whose German forms are a stem with endings."""
    german = tuple(
        (f"{stem}{nom}", f"{stem}{acc}", f"{stem}{dat}", f"{stem}{gen}")
        for nom, acc, dat, gen in forms
    )
    return Determiner(english, german, endings, definite)


THE = Determiner("the", DEFINITE, WEAK, True)
A = determiner("a", "ein", EIN_WORD, MIXED, False)
NOT_A = determiner("a", "kein", EIN_WORD, MIXED, False)
NOT_ANY = determiner("", "kein", EIN_WORD, MIXED, False)
BARE = Determiner("", UNCHANGED, STRONG, False)
THIS = determiner("this", "dies", DER_WORD, WEAK, True)
THESE = determiner("these", "dies", DER_WORD, WEAK, True)
EVERY = determiner("every", "jed", DER_WORD, WEAK, True)
WHICH = determiner("which", "welch", DER_WORD, WEAK, True)
ALL = determiner("all", "all", DER_WORD, WEAK, True)
OWNERS = tuple(
    determiner(english, stem, EIN_WORD, MIXED, True)
    for english, stem in (
        ("my", "mein"),
        ("his", "sein"),
        ("her", "ihr"),
        ("our", "unser"),
        ("their", "ihr"),
    )
)
QUANTITIES = (
    determiner("many", "viel", DER_WORD, STRONG, False),
    determiner("some", "einig", DER_WORD, STRONG, False),
    determiner("several", "mehrer", DER_WORD, STRONG, False),
)
COUNTED = tuple(
    determiner(english, german, UNCHANGED, STRONG, False)
    for english, german in zip(ONES_EN[2:13], ONES_DE[2:13], strict=True)
)

Choice = tuple[Determiner, int, int]
"""A determiner, the number it takes (0 singular, 1 plural), and how often it comes."""

COUNTABLE: tuple[Choice, ...] = (
    (THE, 0, 14),
    (A, 0, 12),
    (THIS, 0, 3),
    (THE, 1, 8),
    (THESE, 1, 2),
    (BARE, 1, 2),
    *((owner, 0, 2) for owner in OWNERS),
    *((owner, 1, 1) for owner in OWNERS),
    *((word, 1, 1) for word in QUANTITIES),
    *((number, 1, 1) for number in COUNTED),
)
PUBLIC: tuple[Choice, ...] = tuple(choice for choice in COUNTABLE if choice[0] not in OWNERS)
"""For what is nobody's: my king, his airport."""
MASS: tuple[Choice, ...] = ((THE, 0, 6), (BARE, 0, 6), (THIS, 0, 1), (OWNERS[0], 0, 1))
RELATIVES: tuple[Choice, ...] = tuple(
    (owner, number, weight) for owner in OWNERS for number, weight in ((0, 5), (1, 1))
)
ONLY_SINGULAR: tuple[Choice, ...] = tuple((owner, 0, 1) for owner in OWNERS)
ONLY_PLURAL: tuple[Choice, ...] = tuple((owner, 1, 1) for owner in OWNERS)
OF_SUBJECTS: tuple[Choice, ...] = ((EVERY, 0, 2), (ALL, 1, 1))
"""Before subjects only: beside a negated verb they would be ambiguous."""

NEGATED = {A.en: NOT_A, BARE.en: NOT_ANY}
"""What a negation makes of an article: `not a` and `not any` are kein."""

Slots = tuple[tuple[Slot, ...], ...]


@cache
def slots(choices: tuple[Choice, ...], gender: int) -> Slots:
    """Return, for each case, the slots of the choices as often as they are to come."""
    return tuple(
        tuple(
            slot
            for chosen, number, weight in choices
            for slot in (chosen.slot(gender, case, number),) * weight
        )
        for case in range(4)
    )


def negated(choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Return the choices that a negated verb allows; the indefinite ones become kein."""
    return tuple(
        (chosen if chosen.definite else NEGATED[chosen.en], number, weight)
        for chosen, number, weight in choices
        if chosen.definite or chosen.en in NEGATED
    )
