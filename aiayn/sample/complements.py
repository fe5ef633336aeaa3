"""What a verb needs beside its subject: objects, prepositions, places, predicates."""

from collections.abc import Callable
from typing import NamedTuple

from aiayn.sample.declension import ACCUSATIVE, DATIVE, NOMINATIVE, Slot
from aiayn.sample.lexicon import ALL_NOUNS, Adjective, Noun, tagged
from aiayn.sample.phrases import (
    BUILDINGS,
    LANDS,
    SEATS,
    SURFACES,
    TOWNS,
    Draw,
    Phrase,
    Subject,
    beside,
    drink_phrase,
    full_phrase,
    on_furniture,
    person_object,
    pick,
    prepend,
    pronoun_object,
    where,
    whither,
)
from aiayn.sample.predicates import Verb
from aiayn.sample.words import DEGREES


class Complement(NamedTuple):
    """The pieces of a complement; each starts with a space if there is anything."""

    en: str = ""
    first: str = ""
    """German pronouns, and somebody in the dative before something in the accusative."""
    known: str = ""
    """German objects that are definite."""
    new: str = ""
    """German objects that are not."""
    post: str = ""
    """German pieces at the end: prepositions, places, predicates."""
    negates: bool = False
    """Whether the objects already hold the German negation, kein."""
    head: tuple[Noun, int] | None = None
    """The noun at the end of the English, and its row, if a relative clause may follow."""


NOTHING = Complement()

BY_VEHICLE = (
    ("by train", "mit dem Zug"),
    ("by bus", "mit dem Bus"),
    ("by car", "mit dem Auto"),
    ("by plane", "mit dem Flugzeug"),
    ("by ship", "mit dem Schiff"),
)

POURED = ("drink", "order")
LAID = {"thing", "reading", "clothes"}
MOVED = {"animal", "vehicle", "person"}
PLACES_IN_TOWN = tagged("town")
PEERS = {noun.kind: tagged(noun.kind) for noun in ALL_NOUNS}


def _choices(noun: Noun, case: int, negated: bool) -> tuple[Slot, ...]:
    return (noun.negated_slots if negated else noun.slots)[case]


def _object(draw: Draw, verb: Verb, case: int, negated: bool) -> tuple[Phrase, Noun | None]:
    """Say an object that is not a pronoun; the noun comes with it if it can be described."""
    if verb.to_person and (not verb.objects or draw() < 0.5):
        return person_object(draw, case, negated=negated), None
    noun = pick(draw, verb.objects)
    if "drink" in noun.tags and verb.infinitive in POURED and draw() < 0.4:
        return drink_phrase(draw, noun, lambda cup: _choices(cup, case, negated)), None
    return full_phrase(draw, noun, case, _choices(noun, case, negated)), noun


def _one_object(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """A direct object in the accusative or, after some verbs, in the dative."""
    if verb.to_person and verb.by_person and draw() < 0.25:
        pronoun = pronoun_object(draw, subject)
        german = pronoun.dative if verb.case == DATIVE else pronoun.accusative
        return Complement(f" {pronoun.en}", first=f" {german}")
    phrase, noun = _object(draw, verb, verb.case, negated)
    english, german, definite = f" {phrase.en}", f" {phrase.de}", phrase.definite
    head = (noun, phrase.row) if noun else None
    if not negated and draw() < 0.04:
        more, _ = _object(draw, verb, verb.case, negated)
        english, german = f"{english} and {more.en}", f"{german} und {more.de}"
        definite, head = definite and more.definite, None
    if definite:
        return Complement(english, known=german, head=head)
    return Complement(english, new=german, negates=negated, head=head)


def _two_objects(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """Somebody in the dative, then something in the accusative."""
    if draw() < 0.4:
        pronoun = pronoun_object(draw, subject)
        receiver, first = pronoun.en, f" {pronoun.dative}"
    else:
        phrase = person_object(draw, DATIVE, negated=negated)
        while not phrase.definite:
            phrase = person_object(draw, DATIVE, negated=negated)
        receiver, first = phrase.en, f" {phrase.de}"
    noun = pick(draw, verb.objects)
    gift = full_phrase(draw, noun, ACCUSATIVE, _choices(noun, ACCUSATIVE, negated))
    # `gave her old books` might be about her books.
    if verb.doubles and receiver != "her" and draw() < 0.6:
        english = f" {receiver} {gift.en}"
    else:
        english = f" {gift.en} to {receiver}"
    if gift.definite:
        return Complement(english, first, known=f" {gift.de}")
    return Complement(english, first, new=f" {gift.de}", negates=negated)


def _preposition(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """An object after a preposition that the verb asks for."""
    preposition = f" {verb.preposition_en}" if verb.preposition_en else ""
    if verb.to_person and draw() < 0.25:
        pronoun = pronoun_object(draw, subject)
        german = pronoun.dative if verb.case == DATIVE else pronoun.accusative
        return Complement(
            f"{preposition} {pronoun.en}", post=f" {verb.preposition_de} {german}"
        )
    phrase, noun = _object(draw, verb, verb.case, negated=False)
    german = prepend(verb.preposition_de, phrase.de)
    head = (noun, phrase.row) if noun else None
    return Complement(f"{preposition} {phrase.en}", post=f" {german}", head=head)


def _nothing(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    return NOTHING


def _destination(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """The way to a place, and now and then what takes somebody there."""
    english = german = ""
    if verb.objects and ("city" not in verb.object_tags or draw() < 0.7):
        to_en, to_de = whither(draw, pick(draw, verb.objects))
    elif draw() < 0.25:
        to_en, _, to_de = pick(draw, LANDS)
        to_en = f"to {to_en}"
    else:
        town_en, town_de = pick(draw, TOWNS)
        to_en, to_de = f"to {town_en}", f"nach {town_de}"
    if verb.infinitive == "travel" and draw() < 0.4:
        by_en, by_de = pick(draw, BY_VEHICLE)
        english, german = f" {by_en}", f" {by_de}"
    return Complement(f" {to_en}{english}", post=f"{german} {to_de}")


def _position(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """A place where somebody is."""
    if "seat" in verb.object_tags:
        english, german = on_furniture(draw, pick(draw, SEATS), DATIVE)
    elif "beside" in verb.object_tags:
        english, german = beside(draw, pick(draw, BUILDINGS), DATIVE)
    elif draw() < 0.4:
        english, german = somewhere(draw)
    else:
        english, german = where(draw, pick(draw, verb.objects))
    return Complement(f" {english}", post=f" {german}")


def somewhere(draw: Draw) -> tuple[str, str]:
    """Say a town or a country as a place."""
    if draw() < 0.25:
        land, german, _ = pick(draw, LANDS)
        return f"in {land}", german
    english, german = pick(draw, TOWNS)
    return f"in {english}", f"in {german}"


def _placing(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """Something, and the piece of furniture where it is put: accusative for both."""
    noun = pick(draw, verb.objects)
    phrase = full_phrase(draw, noun, ACCUSATIVE, _choices(noun, ACCUSATIVE, negated))
    on_en, on_de = on_furniture(draw, pick(draw, SURFACES), ACCUSATIVE)
    english, german, post = f" {phrase.en} {on_en}", f" {phrase.de}", f" {on_de}"
    if phrase.definite:
        return Complement(english, known=german, post=post)
    return Complement(english, new=german, post=post, negates=negated)


def _predicate(draw: Draw, verb: Verb, subject: Subject, negated: bool) -> Complement:
    """An adjective in some degree, or a place."""
    tags = subject.noun.tags if subject.noun else MOVED
    roll = draw()
    if roll < 0.3 and not LAID.isdisjoint(tags):
        english, german = on_furniture(draw, pick(draw, SURFACES), DATIVE)
        return Complement(f" {english}", post=f" {german}")
    if roll < 0.15 and not MOVED.isdisjoint(tags):
        english, german = where(draw, pick(draw, PLACES_IN_TOWN))
        return Complement(f" {english}", post=f" {german}")
    adjective = pick(draw, subject.adjectives)
    if roll > 0.8 and adjective.comparative:
        return _comparison(draw, adjective, subject, equal=roll > 0.93)
    if roll > 0.6:
        degree_en, degree_de = pick(draw, DEGREES)
        said = f" {degree_de} {adjective.predicate}"
        return Complement(f" {degree_en} {adjective.en}", post=said)
    return Complement(f" {adjective.en}", post=f" {adjective.predicate}")


def _comparison(
    draw: Draw, adjective: Adjective, subject: Subject, *, equal: bool
) -> Complement:
    """Older than somebody or something, or as old."""
    if subject.noun is None or "person" in subject.noun.tags:
        other = person_object(draw, NOMINATIVE, negated=False)
    else:
        noun = pick(draw, PEERS[subject.noun.kind])
        other = full_phrase(draw, noun, NOMINATIVE, noun.slots[NOMINATIVE])
    if equal or adjective.comparative is None:
        english, german = f" as {adjective.en} as", f" so {adjective.predicate} wie"
    else:
        english, german = (
            f" {adjective.comparative[0]} than",
            f" {adjective.comparative[1]} als",
        )
    return Complement(f"{english} {other.en}", post=f"{german} {other.de}")


FRAMES: dict[str, Callable[[Draw, Verb, Subject, bool], Complement]] = {
    "accusative": _one_object,
    "dative": _one_object,
    "giving": _two_objects,
    "preposition": _preposition,
    "plain": _nothing,
    "motion": _destination,
    "position": _position,
    "placing": _placing,
    "be": _predicate,
}


def complement(draw: Draw, verb: Verb, subject: Subject, *, negated: bool) -> Complement:
    """Say what the verb needs, in the way of its frame."""
    return FRAMES[verb.frame](draw, verb, subject, negated)
