"""Noun phrases, people and places, drawn at random and said in both languages.

Every function takes `draw`, the random numbers in [0, 1) of the corpus: nothing else is random.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from aiayn.sample.declension import (
    ACCUSATIVE,
    DATIVE,
    DEFINITE,
    FEMININE,
    GENITIVE,
    MASCULINE,
    NEUTER,
    NOMINATIVE,
    OWNERS,
    PLURAL,
    STRONG,
    THE,
    THIS,
    WEAK,
    A,
    Choice,
    Slot,
    Slots,
    slots,
)
from aiayn.sample.lexicon import ALL_NOUNS, Adjective, Noun, tagged
from aiayn.sample.nouns import (
    CITIES,
    COUNTRIES,
    COUNTRIES_WITH_ARTICLE,
    MEN,
    SURNAMES,
    WOMEN,
)

Draw = Callable[[], float]
Item = TypeVar("Item")

VOWELS = "aeiou"

CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}


class Phrase(NamedTuple):
    """A noun phrase in one case; `row` is its gender, or PLURAL, for what refers back to it."""

    en: str
    de: str
    person: int
    definite: bool
    row: int


class Subject(NamedTuple):
    """What a verb agrees with, and what can be said about it."""

    en: str
    de: str
    person: int
    row: int = 0
    reflexive: str = "sich"
    pronoun: bool = False
    noun: Noun | None = None

    @property
    def adjectives(self) -> tuple[Adjective, ...]:
        """What can be said about the subject."""
        return self.noun.adjectives if self.noun else PERSON_ADJECTIVES


class Pronoun(NamedTuple):
    """A personal pronoun as an object."""

    en: str
    accusative: str
    dative: str


def pick(draw: Draw, items: Sequence[Item]) -> Item:
    """Return one of the items."""
    return items[int(draw() * len(items))]


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Read `Rome=Rom Vienna=Wien`."""
    return tuple((en, de) for en, de in (pair.split("=") for pair in text.split()))


def prepend(preposition: str, phrase: str) -> str:
    """Put a German preposition before a phrase, run together with an article where it must."""
    article, _, rest = phrase.partition(" ")
    both = f"{preposition} {article}"
    return f"{CONTRACTIONS.get(both, both)} {rest}" if rest else both


PEOPLE = tagged("person")
PERSON_ADJECTIVES = next(noun for noun in ALL_NOUNS if "worker" in noun.tags).adjectives
OWNABLE = {"thing", "clothes", "vehicle", "furniture", "reading", "machine", "family", "kept"}
ACCESSORIES = tagged("worn")
CUP, GLASS = (
    next(noun for noun in ALL_NOUNS if noun.en[0] == name) for name in ("cup", "glass")
)

NAMES = (
    *((name, (name,) * 4) for name in f"{MEN} {WOMEN}".split()),
    *((f"Mr {name}", (f"Herr {name}", *(f"Herrn {name}",) * 3)) for name in SURNAMES.split()),
    *((f"Mrs {name}", (f"Frau {name}",) * 4) for name in SURNAMES.split()),
)
PRONOUNS = (
    Subject("I", "ich", 0, 0, "mich", True),
    Subject("he", "er", 1, 0, "sich", True),
    Subject("she", "sie", 1, 0, "sich", True),
    Subject("we", "wir", 2, 0, "uns", True),
    Subject("they", "sie", 2, 0, "sich", True),
)
THIRD_PERSONS = tuple(pronoun for pronoun in PRONOUNS if pronoun.reflexive == "sich")
OTHERS = (
    Pronoun("him", "ihn", "ihm"),
    Pronoun("her", "sie", "ihr"),
    Pronoun("them", "sie", "ihnen"),
)
OURSELVES = (Pronoun("me", "mich", "mir"), Pronoun("us", "uns", "uns"))

BY_OWNERS: tuple[Choice, ...] = tuple((owner, 0, 1) for owner in OWNERS)


def _slots_by_gender(*choices: Choice) -> tuple[Slots, ...]:
    return tuple(slots(choices, gender) for gender in (MASCULINE, FEMININE, NEUTER))


PLACE_SLOTS = _slots_by_gender((THE, 0, 12), (A, 0, 3), (THIS, 0, 1))
HOME_SLOTS = _slots_by_gender((THE, 0, 12), *BY_OWNERS)
KNOWN_SLOTS = _slots_by_gender((THE, 0, 6), (THIS, 0, 1))
OWNER_SLOTS = _slots_by_gender((THE, 0, 6), (THIS, 0, 1), *BY_OWNERS)
POSSESSORS = tuple(noun for noun in PEOPLE if noun.en[0])
POSSESSED = 0.07
ACCOMPANIED = 0.04
OF_BUILDINGS = 0.4
DESCRIBED = 0.34

BESIDE = (("behind", "hinter"), ("in front of", "vor"), ("next to", "neben"))
BUILDINGS = tagged("town", "landmark")
HOUSES = tuple(noun for noun in tagged("built") if "town" in noun.tags)
SURFACES = tagged("surface")
SEATS = tagged("seat")
TOWNS = pairs(CITIES)
LANDS = (
    *((en, f"in {de}", f"nach {de}") for en, de in pairs(COUNTRIES)),
    *((en, f"in der {de[4:]}", f"in {de}") for en, de in COUNTRIES_WITH_ARTICLE),
)


def noun_phrase(draw: Draw, noun: Noun, case: int, slot: Slot) -> Phrase:
    """Say a noun after an article, with adjectives now and then."""
    english, german = noun.en[slot.number], noun.de[slot.number][case]
    article = slot.en
    if draw() < DESCRIBED:
        adjective_en, adjective_de = attribute(draw, noun, slot)
        english, german = f"{adjective_en}{english}", f"{adjective_de}{german}"
    if article == "a " and english[0] in VOWELS and not english.startswith("uni"):
        article = "an "
    row = PLURAL if slot.number else noun.gender
    return Phrase(
        f"{article}{english}", f"{slot.de}{german}", slot.number + 1, slot.definite, row
    )


def attribute(draw: Draw, noun: Noun, slot: Slot) -> tuple[str, str]:
    """Say one adjective before a noun, in some degree, or two; each is followed by a space."""
    ending = slot.ending
    roll = draw()
    if noun.colours and roll < 0.3:
        colour = pick(draw, noun.colours)
        english, german = f"{colour.en} ", f"{colour.de}{ending} "
        if roll > 0.15:
            return english, german
        other = pick(draw, noun.adjectives)
        return f"{other.en} {english}", f"{other.de}{ending} {german}"
    adjective = pick(draw, noun.adjectives)
    if roll > 0.88 and adjective.superlative and adjective.comparative:
        if slot.en == "the ":
            return f"{adjective.superlative[0]} ", f"{adjective.superlative[1]}{ending} "
        if slot.en == "a ":
            return f"{adjective.comparative[0]} ", f"{adjective.comparative[1]}{ending} "
        return f"very {adjective.en} ", f"sehr {adjective.de}{ending} "
    return f"{adjective.en} ", f"{adjective.de}{ending} "


def full_phrase(draw: Draw, noun: Noun, case: int, choices: tuple[Slot, ...]) -> Phrase:
    """Say a noun, sometimes with its owner or with what somebody wears or carries."""
    slot = pick(draw, choices)
    roll = draw()
    if roll < POSSESSED and slot.definite and not noun.tags.isdisjoint(OWNABLE):
        return _possessed(draw, noun, case, slot.number)
    phrase = noun_phrase(draw, noun, case, slot)
    if slot.en == "the " and noun.kind == "part" and not noun.compound and roll < OF_BUILDINGS:
        building = pick(draw, HOUSES)
        of = noun_phrase(draw, building, GENITIVE, place_slot(draw, building, GENITIVE))
        return phrase._replace(en=f"{phrase.en} of {of.en}", de=f"{phrase.de} {of.de}")
    if roll > 1 - ACCOMPANIED and noun.kind == "worker" and not slot.number:
        thing = pick(draw, ACCESSORIES)
        held = noun_phrase(draw, thing, DATIVE, pick(draw, PLACE_SLOTS[thing.gender][DATIVE]))
        return phrase._replace(
            en=f"{phrase.en} with {held.en}", de=f"{phrase.de} mit {held.de}"
        )
    return phrase


def _possessed(draw: Draw, noun: Noun, case: int, number: int) -> Phrase:
    """Say a noun with its owner: Anna's old car, the teacher's car."""
    row = PLURAL if number else noun.gender
    if draw() < 0.5:
        english, german = pick(draw, NAMES)
        slot = Slot(f"{english}'s ", f"{german[GENITIVE]}s ", STRONG[row][case], number, True)
        return noun_phrase(draw, noun, case, slot)
    owner = pick(draw, POSSESSORS)
    choices = KNOWN_SLOTS if owner.kind == "worker" else OWNER_SLOTS
    of = pick(draw, choices[owner.gender][GENITIVE])
    article = f"{DEFINITE[row][case]} "
    slot = Slot(f"{of.en}{owner.en[0]}'s ", article, WEAK[row][case], number, True)
    phrase = noun_phrase(draw, noun, case, slot)
    return phrase._replace(de=f"{phrase.de} {of.de}{owner.de[0][GENITIVE]}")


def drink_phrase(draw: Draw, noun: Noun, choices: Callable[[Noun], tuple[Slot, ...]]) -> Phrase:
    """Say a cup or a glass of something to drink, as an object."""
    vessel = CUP if noun.kind == "brew" else GLASS
    slot = pick(draw, choices(vessel))
    german = vessel.de[slot.number][ACCUSATIVE]
    return Phrase(
        f"{slot.en}{vessel.en[slot.number]} of {noun.en[0]}",
        f"{slot.de}{german} {noun.de[0][NOMINATIVE]}",
        slot.number + 1,
        slot.definite,
        0,
    )


def person_subject(draw: Draw, *, negated: bool, asked: bool = False) -> Subject:
    """Draw somebody who does something: a pronoun, a name or a noun."""
    roll = draw()
    if roll < 0.3:
        return pick(draw, THIRD_PERSONS if asked else PRONOUNS)
    if roll < 0.45:
        english, german = pick(draw, NAMES)
        return Subject(english, german[NOMINATIVE], 1)
    return noun_subject(draw, pick(draw, PEOPLE), negated=negated)


def noun_subject(draw: Draw, noun: Noun, *, negated: bool) -> Subject:
    """Say a noun as a subject."""
    choices = noun.slots if negated else noun.subject_slots
    phrase = full_phrase(draw, noun, NOMINATIVE, choices[NOMINATIVE])
    return Subject(phrase.en, phrase.de, phrase.person, phrase.row, noun=noun)


def pronoun_object(draw: Draw, subject: Subject) -> Pronoun:
    """Draw him, her, them, me or us, but nobody who does something to themselves."""
    if subject.reflexive == "sich" and draw() < 0.4:
        return pick(draw, OURSELVES)
    return pick(draw, OTHERS)


def person_object(draw: Draw, case: int, *, negated: bool) -> Phrase:
    """Draw somebody to whom something happens: a name or a noun."""
    if draw() < 0.25:
        english, german = pick(draw, NAMES)
        return Phrase(english, german[case], 1, True, 0)
    noun = pick(draw, PEOPLE)
    return full_phrase(draw, noun, case, (noun.negated_slots if negated else noun.slots)[case])


def place_slot(draw: Draw, noun: Noun, case: int) -> Slot:
    """Draw an article for a place: mostly the one that is known."""
    choices = HOME_SLOTS if noun.kind == "home" else PLACE_SLOTS
    return pick(draw, choices[noun.gender][case])


def where(draw: Draw, noun: Noun) -> tuple[str, str]:
    """Say that something is at a place: in the garden, im Garten."""
    if draw() < 0.15 and "town" in noun.tags:
        return beside(draw, noun, DATIVE)
    english, german, _ = noun.prepositions
    phrase = noun_phrase(draw, noun, DATIVE, place_slot(draw, noun, DATIVE))
    return f"{english} {phrase.en}", prepend(german, phrase.de)


def beside(draw: Draw, noun: Noun, case: int) -> tuple[str, str]:
    """Say that something is near a thing (dative), or goes there (accusative)."""
    english, german = pick(draw, BESIDE)
    phrase = noun_phrase(draw, noun, case, place_slot(draw, noun, case))
    return f"{english} {phrase.en}", f"{german} {phrase.de}"


def on_furniture(draw: Draw, noun: Noun, case: int) -> tuple[str, str]:
    """Say that something is on a piece of furniture (dative), or is put there."""
    if draw() < 0.25:
        return beside(draw, noun, case)
    under = draw() < 0.2
    phrase = noun_phrase(draw, noun, case, place_slot(draw, noun, case))
    if under:
        return f"under {phrase.en}", f"unter {phrase.de}"
    return f"on {phrase.en}", f"auf {phrase.de}"


def whither(draw: Draw, noun: Noun) -> tuple[str, str]:
    """Say that somebody goes to a place: to the garden, in den Garten."""
    preposition = noun.prepositions[2]
    case = DATIVE if preposition == "zu" else ACCUSATIVE
    phrase = noun_phrase(draw, noun, case, place_slot(draw, noun, case))
    return f"to {phrase.en}", prepend(preposition, phrase.de)
