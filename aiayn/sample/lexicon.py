"""The words and patterns of lexicon.yaml as values, and what the grammar asks of them.

The head of that file explains its columns.
"""

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from aiayn.sample.morphology import (
    ACCUSATIVE,
    DATIVE,
    Cases,
    EnglishVerb,
    GermanVerb,
    german_verb,
    noun_cases,
)

Tags = frozenset[str]

_DATA = yaml.safe_load(files(__package__).joinpath("lexicon.yaml").read_text("utf-8"))


class Determiner(NamedTuple):
    """A determiner; `weights` say how often it comes in the singular, the plural, with mass."""

    en: str
    de: str
    declension: str
    roles: str
    weights: str


class Adjective(NamedTuple):
    """An adjective with its degrees, if it has any; tags are those of its nouns."""

    en: str
    de: str
    comparative_en: str
    comparative_de: str
    superlative_en: str
    superlative_de: str
    tags: Tags


class Tense(NamedTuple):
    """A tense or a modal: auxiliaries, the forms after them, and the adverbials beside them."""

    name: str
    auxiliary_en: str
    form_en: str
    auxiliary_de: str
    form_de: str
    when: str
    adverbs: str


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: `en` by number, `de` by number and case."""

    en: tuple[str, str]
    de: tuple[Cases, Cases]
    gender: str
    tags: Tags
    prepositions: tuple[str, ...]
    """Of a place: at it in English; at it and to it in German."""


class Argument(NamedTuple):
    """What a verb needs: a noun phrase in a case, a place or a predicate, by its frame."""

    frame: str
    en: str
    de: str
    tags: Tags

    @property
    def case(self) -> int:
        """The German case of a noun phrase."""
        return DATIVE if self.frame == "dat" else ACCUSATIVE


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, and what goes with it."""

    group: str
    en: EnglishVerb
    de: GermanVerb
    subjects: Tags
    arguments: tuple[Argument, ...] = ()
    manners: tuple[str, ...] = ()
    places: Tags = frozenset()

    def fits(self, time: str) -> bool:
        """Tell whether a clause about that time can have this verb."""
        if time == "past":
            # `They read` might be lesen or lasen.
            return self.en.past != self.en.base
        return self.group != "state" or time in ("present", "event")


def _columns(line: str, number: int) -> list[str]:
    """Return the columns of a line, a lone `_` and those left out as empty."""
    columns = [column.strip() for column in line.split("|")]
    return [*(column.strip("_") for column in columns), *[""] * (number - len(columns))]


def _tags(words: str) -> Tags:
    """Return tags and the wider ones that they belong to."""
    own = set(words.split())
    wider = (name for name, tags in _DATA["kinds"].items() if own & set(tags.split()))
    return frozenset([*own, *wider])


def _noun(kind: str, line: str) -> Noun:
    english, german, tags, prepositions = _columns(line, 4)
    singular, plural = english.replace("_", " ").split(", ")
    gender, *words = german.split()
    forms = noun_cases(words[0], words[1], words[2])
    return Noun(
        (singular, plural), forms, gender, _tags(f"{kind} {tags}"), tuple(prepositions.split())
    )


def _argument(text: str) -> Argument:
    """Read `acc thing`, `for/auf acc person`, `to town` or `predicate`."""
    en = de = ""
    frame, *tags = text.split()
    if "/" in frame:
        en, de = frame.replace("_", " ").split("/")
        frame, *tags = tags
    return Argument(frame, en, de, frozenset(tags))


def _verb(group: str, line: str) -> Verb:
    english, german, subjects, arguments, manners, places = _columns(line, 6)
    return Verb(
        group,
        EnglishVerb(*english.split(maxsplit=5)),
        german_verb(german),
        frozenset(subjects.split()),
        tuple(_argument(text) for text in arguments.split(" + ") if text),
        tuple(manners.split()),
        frozenset(places.split()),
    )


def _passive(verb: Verb) -> Verb:
    """Return what is done to the object of a verb: be and werden with its participle."""
    be = VERBS["be"][0].en._replace(particle=f"{verb.en.participle} {verb.en.particle}".strip())
    participle = verb.de.participle
    # Like a separable prefix, the participle ends a main clause and leads a verb at the end.
    werden = german_verb("werden werde wird wurde +worden")._replace(
        prefix=f"{participle} ", participle=f"{participle} worden"
    )
    return Verb("passive", be, werden, verb.arguments[0].tags)


def _patterns(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """Return English and German patterns, as often as the number before them says."""
    rows = [[column.strip() for column in line.split("|")] for line in lines]
    return tuple(
        (english, german)
        for *weight, english, german in rows
        for _ in range(int(weight[0]) if weight else 1)
    )


DETERMINERS = [Determiner(*_columns(line, 5)) for line in _DATA["determiners"]]
ADJECTIVES = [
    Adjective(*columns[:6], frozenset(columns[6].split()))
    for columns in (_columns(line, 7) for line in _DATA["adjectives"])
]
TENSES = {line.split(" ")[0]: Tense(*_columns(line, 7)) for line in _DATA["tenses"]}
NOUNS = [_noun(kind, line) for kind, lines in _DATA["nouns"].items() for line in lines]
VERBS = {
    group: tuple(_verb(group, line) for line in lines)
    for group, lines in _DATA["verbs"].items()
}
_DONE = tuple(_passive(verb) for verb in VERBS["act"])
VERBS["passive"] = (
    *_DONE,
    *(replace(verb, arguments=(_argument("by/von dat person"),)) for verb in _DONE),
)
PRONOUNS = [_columns(line, 4) for line in _DATA["pronouns"]]
TIMES = {name: tuple(words.split()) for name, words in _DATA["times"].items()}
MIXES = {name: tuple(words.split()) for name, words in _DATA["mixes"].items()}
PATTERNS = {name: _patterns(lines) for name, lines in _DATA["patterns"].items()}


@cache
def nouns_with(tags: Tags) -> tuple[Noun, ...]:
    """Return the nouns that have any of the tags."""
    return tuple(noun for noun in NOUNS if not noun.tags.isdisjoint(tags))


@cache
def adjectives_for(tags: Tags) -> tuple[Adjective, ...]:
    """Return the adjectives of nouns that have the tags."""
    return tuple(word for word in ADJECTIVES if not word.tags.isdisjoint(tags))


@cache
def verbs_taking(tags: Tags, time: str) -> tuple[Verb, ...]:
    """Return what a person can do about something that has the tags."""
    return tuple(
        verb
        for group in ("act", "do", "chance", "state", "relate")
        for verb in VERBS[group]
        if [a.frame in ("acc", "dat") and not a.tags.isdisjoint(tags) for a in verb.arguments]
        == [True]
        and "person" in verb.subjects
        and verb.fits(time)
    )


@cache
def determiners_for(noun: Noun, role: str) -> tuple[tuple[Determiner, bool], ...]:
    """Return determiners, and whether the noun is plural, as often as they are to come."""
    counts = [form[0] != "." for form in noun.de]
    family, owned = "family" in noun.tags, "owned" in noun.tags
    chosen = []
    for word in DETERMINERS:
        possessive = "possessive" in word.roles
        if role not in word.roles.split() or (not owned if possessive else family):
            continue
        singular, plural, mass = map(int, word.weights.split())
        singular = (singular if counts[1] else mass) if counts[0] else 0
        chosen += [(word, False)] * singular + [(word, True)] * (plural if counts[1] else 0)
    return tuple(chosen)
