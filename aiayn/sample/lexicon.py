"""Nouns and adjectives as values: read from the word lists, with every form worked out."""

from collections.abc import Iterator
from dataclasses import dataclass

from aiayn.sample.declension import (
    COUNTABLE,
    FEMININE,
    MASCULINE,
    MASS,
    NEUTER,
    OF_SUBJECTS,
    ONLY_PLURAL,
    ONLY_SINGULAR,
    PUBLIC,
    RELATIVES,
    Choice,
    Slots,
    negated,
    slots,
)
from aiayn.sample.nouns import COMPOUNDS, NOUNS, PLACES
from aiayn.sample.words import ADJECTIVES, COLOURED, KINDS

PLAIN_WEIGHT = 6
"""A noun comes this many times as often as each of the compounds that end in it."""

NOBODYS = ("worker", "animal", "vehicle", "town", "land", "landmark", "shore")
OWNED = {"mine", "kept", "private"}
GENDERS = {"m": MASCULINE, "f": FEMININE, "n": NEUTER}


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective with its degrees; the German ones are stems, ready for an ending."""

    en: str
    de: str
    predicate: str
    comparative: tuple[str, str] | None
    superlative: tuple[str, str] | None
    tags: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in two languages; `en` is by number, `de` by number and case."""

    en: tuple[str, str]
    de: tuple[tuple[str, ...], tuple[str, ...]]
    gender: int
    kind: str
    tags: frozenset[str]
    prepositions: tuple[str, ...]
    """Of a place: where in English, where and whither in German."""
    adjectives: tuple[Adjective, ...]
    colours: tuple[Adjective, ...]
    slots: Slots
    subject_slots: Slots
    negated_slots: Slots
    compound: bool


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the kind and the columns of each line."""
    kind = ""
    for line in text.strip().splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line:
            yield kind, [column.strip() for column in line.split("|")]


def _adjective(columns: list[str]) -> Adjective:
    english, german, tags = columns
    en, *degrees = english.split()
    base, comparative, superlative = german.split()
    predicate, _, stem = base.partition("/")
    if degrees == ["-"]:
        compared = most = None
    else:
        more_en, most_en = (f"more {en}", f"most {en}") if degrees == ["more"] else degrees
        compared, most = (more_en, comparative), (most_en, superlative)
    return Adjective(en, stem or predicate, predicate, compared, most, frozenset(tags.split()))


ALL_ADJECTIVES = tuple(_adjective(columns) for _, columns in _entries(ADJECTIVES))
COLOURS = tuple(adjective for adjective in ALL_ADJECTIVES if "colour" in adjective.tags)


def english_plural(noun: str) -> str:
    """Return the regular plural of an English noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def german_forms(gender: str, words: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the four cases of the singular and of the plural."""
    singular, plural = words[0], words[-1]
    if plural == ".":
        dative = plural = ""
    else:
        dative = plural if plural.endswith(("n", "s")) else f"{plural}n"
    ending = "-" if gender == "f" else words[1]
    oblique = singular + (ending[1:] if ending[0] == "=" else "")
    genitive = singular + ending[1:]
    return (singular, oblique, oblique, genitive), (plural, plural, dative, plural)


def _choices(kind: str, words: list[str], tags: frozenset[str]) -> tuple[Choice, ...]:
    if words[0] == ".":
        return ONLY_PLURAL
    if words[-1] == ".":
        return MASS
    if kind == "family":
        return ONLY_SINGULAR if "sole" in tags else RELATIVES
    return PUBLIC if kind in NOBODYS and not tags & OWNED else COUNTABLE


def _noun(kind: str, columns: list[str], modifier: str = "=") -> Noun:
    """Return a noun from its line, or a compound of it with a modifier `english=German`."""
    english, german, tags, prepositions = [*columns, "", ""][:4]
    first_en, first_de = modifier.split("=")
    singular, *plural = [
        f"{first_en} {word}".replace("_", " ").strip() for word in english.split()
    ]
    gender, *words = german.split()
    if first_de:
        words = [word if word[0] in "-=." else first_de + word.lower() for word in words]
    wider = [name for name, kinds in KINDS.items() if kind in kinds.split()]
    all_tags = frozenset([kind, *wider, *tags.split()])
    choices = _choices(kind, words, all_tags)
    return Noun(
        en=(singular, plural[0] if plural else english_plural(singular)),
        de=german_forms(gender, words),
        gender=GENDERS[gender],
        kind=kind,
        tags=all_tags,
        prepositions=tuple(prepositions.split()),
        adjectives=tuple(a for a in ALL_ADJECTIVES if not a.tags.isdisjoint(all_tags)),
        colours=COLOURS if kind in COLOURED else (),
        slots=slots(choices, GENDERS[gender]),
        subject_slots=slots(
            choices + OF_SUBJECTS if choices in (COUNTABLE, PUBLIC) else choices,
            GENDERS[gender],
        ),
        negated_slots=slots(negated(choices), GENDERS[gender]),
        compound=bool(first_de),
    )


def _nouns() -> Iterator[Noun]:
    lines = {}
    for kind, columns in [*_entries(NOUNS), *_entries(PLACES)]:
        lines[columns[0].split()[0]] = (kind, columns)
        yield _noun(kind, columns)
    for line in COMPOUNDS.strip().splitlines():
        modifiers, heads = line.split(">")
        for head in heads.split():
            for modifier in modifiers.split():
                yield _noun(*lines[head], modifier)


ALL_NOUNS = tuple(_nouns())


def tagged(*tags: str) -> tuple[Noun, ...]:
    """Return the nouns with any of the tags, each as often as it is to come."""
    return tuple(
        noun
        for listed in ALL_NOUNS
        if not listed.tags.isdisjoint(tags)
        for noun in (listed,) * (1 if listed.compound else PLAIN_WEIGHT)
    )
