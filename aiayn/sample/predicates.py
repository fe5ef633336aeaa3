"""Verbs as values: their forms, who does what to whom, and the tenses, manners and places."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aiayn.sample.conjugation import (
    CAN,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    MAY,
    MUST,
    PAST,
    PAST_PROGRESSIVE,
    PERFECT,
    PLUPERFECT,
    PRESENT,
    PROGRESSIVE,
    SHOULD,
    WANT,
    WANTED,
    WAS_ABLE,
    WAS_ALLOWED,
    WOULD_LIKE,
    Conjugation,
    English,
    conjugate,
    conjugate_be,
    conjugate_passive,
    parse_english,
    parse_german,
)
from aiayn.sample.declension import ACCUSATIVE, DATIVE
from aiayn.sample.lexicon import ALL_NOUNS, Noun, tagged
from aiayn.sample.verbs import (
    ACCUSATIVE_VERBS,
    ASKING_VERBS,
    DATIVE_VERBS,
    GIVING_VERBS,
    INFINITIVE_VERBS,
    MOTION_VERBS,
    PLACING_VERBS,
    PLAIN_VERBS,
    POSITION_VERBS,
    PREPOSITION_VERBS,
    THAT_VERBS,
    WEATHER_VERBS,
)
from aiayn.sample.words import MANNERS

Tenses = dict[str, tuple[int, ...]]

WILLED: Tenses = {
    "present": (PRESENT,) * 6
    + (PROGRESSIVE,) * 3
    + (CAN, MUST, SHOULD, MAY, WANT, HAVE_TO, WOULD_LIKE),
    "past": (PAST,) * 10 + (PAST_PROGRESSIVE, HAD_TO, WANTED, WAS_ALLOWED, WAS_ABLE),
    "perfect": (PERFECT,),
    "before": (PLUPERFECT,),
    "future": (FUTURE,),
    "event": (PRESENT, PRESENT, PRESENT, CAN, WANT, HAVE_TO),
    "past event": (PAST,),
}
"""Tenses by the time that a clause is about, as often as they are to come."""

BY_CHANCE: Tenses = WILLED | {"present": (PRESENT,), "past": (PAST,), "event": (PRESENT,)}
STATIC: Tenses = BY_CHANCE | {"perfect": (PRESENT,), "before": (PAST,), "future": (PRESENT,)}
TIMELESS: Tenses = WILLED | {
    "past": (PAST_PROGRESSIVE, HAD_TO, WANTED, WAS_ALLOWED, WAS_ABLE),
    "past event": (HAD_TO, WANTED, WAS_ABLE),
}
"""For read: its past looks like its present."""
LYING: Tenses = STATIC | {
    "present": (PROGRESSIVE,),
    "past": (PAST_PROGRESSIVE,),
    "perfect": (PROGRESSIVE,),
    "before": (PAST_PROGRESSIVE,),
    "past event": (PAST_PROGRESSIVE,),
}
"""For lie: its past looks like lay."""
BEING: Tenses = WILLED | {
    "present": (PRESENT,) * 9 + (MUST,),
    "past": (PAST,),
    "event": (PRESENT,),
}
SUFFERED: Tenses = WILLED | {
    "present": (PRESENT, PROGRESSIVE, CAN, MUST, SHOULD, HAVE_TO),
    "past": (PAST,) * 6 + (HAD_TO, PAST_PROGRESSIVE),
    "event": (PRESENT,),
}
INSTINCT: Tenses = WILLED | {
    "present": (PRESENT, PRESENT, PROGRESSIVE),
    "past": (PAST, PAST, PAST, PAST_PROGRESSIVE),
    "event": (PRESENT,),
}
RAINING: Tenses = INSTINCT | {"present": (PRESENT, PROGRESSIVE, PROGRESSIVE)}
PLACED_FRAMES = ("accusative", "dative", "giving", "preposition", "plain")
PLACE_TAGS = ("home", "town", "land", "shore")


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with everything that a clause needs to know about it."""

    frame: str
    conjugation: Conjugation
    infinitive: str
    ing: str
    zu: str
    imperative: tuple[str, str]
    """The verb before Sie, and the prefix at the end."""
    tenses: Tenses
    preposition_en: str = ""
    preposition_de: str = ""
    case: int = ACCUSATIVE
    reflexive: bool = False
    by_person: bool = True
    to_person: bool = False
    subjects: tuple[Noun, ...] = ()
    objects: tuple[Noun, ...] = ()
    object_tags: frozenset[str] = frozenset()
    manners: tuple[tuple[str, str], ...] = ()
    places: tuple[Noun, ...] = ()
    in_cities: bool = False
    timed: bool = True
    commanded: bool = True
    doubles: bool = True
    """Whether English may say it without a preposition: gives the child a book."""


def _read(text: str) -> Iterator[list[str]]:
    for line in text.strip().splitlines():
        yield [column.strip() for column in line.split("|")]


def _tenses(english: English, notes: list[str], *, by_person: bool) -> Tenses:
    if english.past == "-":
        return LYING
    if english.past == english.base:
        return TIMELESS
    if "static" in notes:
        return STATIC
    if "chance" in notes:
        return BY_CHANCE
    return WILLED if by_person else INSTINCT


def _verb(frame: str, columns: list[str]) -> Verb:
    """Return a verb from its line in the word list."""
    english_column, german_column, subjects, objects, notes_column = [*columns, "", ""][:5]
    english, german = parse_english(english_column), parse_german(german_column)
    notes = notes_column.split()
    preposition_en = preposition_de = ""
    case = DATIVE if frame == "dative" else ACCUSATIVE
    if frame == "preposition":
        particle, _, preposition_en = english.particle.rpartition(" ")
        english = replace(english, particle=particle)
        preposition_de, case = notes[0], {"A": ACCUSATIVE, "D": DATIVE}[notes[1]]
    static = "static" in notes
    subject_tags, object_tags = subjects.split(), objects.split()
    by_person = "person" in subject_tags
    places = [tag for tag in PLACE_TAGS if tag in notes]
    anywhere = not places and not static and "nowhere" not in notes and frame in PLACED_FRAMES
    return Verb(
        frame=frame,
        conjugation=conjugate(english, german, static=static),
        infinitive=f"{english.base} {english.particle}".strip(),
        ing=f"{english.ing} {english.particle}".strip(),
        zu=german.zu,
        imperative=(german.infinitive, german.prefix),
        tenses=_tenses(english, notes, by_person=by_person),
        preposition_en=preposition_en,
        preposition_de=preposition_de,
        case=case,
        reflexive=german.reflexive,
        by_person=by_person,
        to_person="person" in object_tags,
        subjects=tagged(*set(subject_tags) - {"person"}),
        objects=tagged(*set(object_tags) - {"person"}),
        object_tags=frozenset(object_tags),
        manners=tuple(MANNERS[note] for note in notes if note in MANNERS),
        places=tagged(*(PLACE_TAGS if anywhere else places)),
        in_cities=anywhere,
        timed=not static,
        commanded=not static and "chance" not in notes,
        doubles=not english_column.endswith(" -"),
    )


def _verbs(frame: str, text: str) -> tuple[Verb, ...]:
    return tuple(_verb(frame, columns) for columns in _read(text))


def _passives() -> Iterator[Verb]:
    """Yield what is done to things: nobody is named, or they come after by."""
    for verb, columns in zip(ACCUSATIVES, _read(ACCUSATIVE_VERBS), strict=True):
        if verb.objects and verb.timed and verb.infinitive not in NEVER_PASSIVE:
            yield replace(
                verb,
                frame="plain",
                conjugation=conjugate_passive(
                    parse_english(columns[0]), parse_german(columns[1])
                ),
                tenses=SUFFERED if verb.commanded else BY_CHANCE,
                by_person=False,
                subjects=verb.objects,
                manners=(),
            )


NEVER_PASSIVE = (
    "look for",
    "look at",
    "take",
    "wear",
    "bring along",
    "forget",
    "try on",
    "like",
)
ACCUSATIVES = _verbs("accusative", ACCUSATIVE_VERBS)
PASSIVES = tuple(_passives())
DATIVES = _verbs("dative", DATIVE_VERBS)
GIVING = _verbs("giving", GIVING_VERBS)
WITH_PREPOSITION = _verbs("preposition", PREPOSITION_VERBS)
PLAIN = _verbs("plain", PLAIN_VERBS)
MOTION = _verbs("motion", MOTION_VERBS)
POSITION = _verbs("position", POSITION_VERBS)
PLACING = _verbs("placing", PLACING_VERBS)
REPORTING = _verbs("plain", THAT_VERBS)
ASKING = _verbs("plain", ASKING_VERBS)
INTENDING = _verbs("plain", INFINITIVE_VERBS)
WEATHER = tuple(replace(verb, tenses=RAINING) for verb in _verbs("plain", WEATHER_VERBS))
BE = Verb(
    frame="be",
    conjugation=conjugate_be(),
    infinitive="be",
    ing="being",
    zu="zu sein",
    imperative=("", ""),
    tenses=BEING,
    subjects=tuple(noun for noun in ALL_NOUNS if "person" not in noun.tags),
    timed=False,
)
