"""Forms of words: German declension and conjugation, and the verbs of both languages."""

import re
from functools import cache
from typing import NamedTuple

CASES = NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
CASE_NAMES = ("nom", "acc", "dat", "gen")
# A gender of its own: the German plural does not tell the others apart.
PLURAL = "p"

# The four forms of a word or a phrase, by case.
Cases = tuple[str, ...]

STRONG = {
    "m": ("er", "en", "em", "es"),
    "f": ("e", "e", "er", "er"),
    "n": ("es", "es", "em", "es"),
    PLURAL: ("e", "e", "en", "er"),
}
ARTICLE = {
    "m": ("der", "den", "dem", "des"),
    "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"),
    PLURAL: ("die", "die", "den", "der"),
}
RELATIVE = ARTICLE | {PLURAL: ("die", "die", "denen", "der")}
# Where `ein` and the possessives have no ending, so that the adjective shows the gender.
WITHOUT_ENDING = (("m", NOMINATIVE), ("n", NOMINATIVE), ("n", ACCUSATIVE))


@cache
def determiner(stem: str, declension: str, gender: str, case: int) -> str:
    """Return a German determiner, declined like der, dies, ein, viel or zwei."""
    if declension == "der":
        return ARTICLE[gender][case]
    if declension == "zwei" or (declension == "ein" and (gender, case) in WITHOUT_ENDING):
        return stem
    return stem + STRONG[gender][case]


@cache
def attributive(adjective: str, declension: str, gender: str, case: int) -> str:
    """Return a German adjective as it stands between a determiner and a noun."""
    # müde, dunkel and teuer lose an e before any ending.
    stem = re.sub(r"e$|e(?=l$)|(?<=u)e(?=r$)", "", adjective)
    bare = declension == "ein" and (gender, case) in WITHOUT_ENDING
    if bare or declension in ("viel", "zwei"):
        of = case == GENITIVE and gender in "mn"
        return f"{stem}en" if of else stem + STRONG[gender][case]
    weak = case == NOMINATIVE or (case == ACCUSATIVE and gender in "fn")
    return f"{stem}e" if weak and gender != PLURAL else f"{stem}en"


def noun_cases(singular: str, ending: str, plural: str) -> tuple[Cases, Cases]:
    """Return the cases of a German noun, singular and plural.

    Its ending is that of the genitive, `-es`, or of all cases but the nominative, `=en`.
    """
    oblique = singular + ending[1:] if ending[0] == "=" else singular
    dative = plural if plural.endswith(("n", "s")) else f"{plural}n"
    return (singular, oblique, oblique, singular + ending[1:]), (plural, plural, dative, plural)


class EnglishVerb(NamedTuple):
    """The forms of an English verb, and the particle after all of them."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    particle: str = ""

    def finite(self, past: bool, person: int) -> str:
        """Return the form for I (0), a singular (1) or a plural (2)."""
        if self.base == "be":
            return (("was", "was", "were") if past else ("am", "is", "are"))[person]
        if past:
            return self.past
        return self.third if person == 1 else self.base


class GermanVerb(NamedTuple):
    """A German verb; its auxiliary is haben or sein, or sich if it is reflexive, with haben."""

    infinitive: str
    first: str
    third: str
    past: str
    participle: str
    auxiliary: str
    prefix: str = ""

    def finite(self, past: bool, person: int) -> str:
        """Return the form for ich (0), a singular (1) or a plural (2)."""
        if person < 2:
            return self.past if past else (self.first, self.third)[person]
        if past:
            return f"{self.past}n" if self.past.endswith("e") else f"{self.past}en"
        return "sind" if self.infinitive == "sein" else self.infinitive

    @property
    def zu(self) -> str:
        """The infinitive with zu, which goes inside a separable verb: anzurufen."""
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"
