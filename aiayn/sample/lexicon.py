"""The words and patterns of lexicon.yaml, whose head explains its columns, as values."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from aiayn.sample.morphology import ACCUSATIVE, DATIVE, EnglishVerb, GermanVerb, noun_cases

Tags = frozenset[str]

# A slot of a pattern, or a word outside of slots with the number that it may have.
SLOT_OR_WORD = re.compile(r"\{[^}]*\}|([\w'-]+)(?:\^(\d))?")
# A pattern's own marks count from this character on, which no text has.
OWN_MARKS = 0xE000

_DATA = yaml.safe_load(files(__package__).joinpath("lexicon.yaml").read_text("utf-8"))


class Determiner(NamedTuple):
    """A determiner; the weights are those of the singular, the plural and mass nouns."""

    en: str
    de: str
    declension: str
    roles: str
    weights: str


class Tense(NamedTuple):
    """A tense or a modal: auxiliaries by person, the verb beside them, and adverbials."""

    name: str
    auxiliary_en: str
    form_en: str
    auxiliary_de: str
    form_de: str
    when: str
    adverbs: str


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: English by number, German by number and case, prepositions if it is a place."""

    en: list[str]
    de: tuple[tuple[str, ...], tuple[str, ...]]
    gender: str
    tags: Tags
    prepositions: list[str]


class Argument(NamedTuple):
    """What a verb needs: a noun phrase in a case, a place or a pattern, by its frame."""

    frame: str
    en: str
    de: str
    case: int
    tags: Tags


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, and what goes with it."""

    group: str
    en: EnglishVerb
    de: GermanVerb
    subjects: Tags
    arguments: list[Argument]
    manners: list[str]
    places: Tags

    def fits(self, time: str, subject: Tags | None, gap: Tags | None) -> bool:
        """Whether a clause about that time can have this verb, subject and gap."""
        # `They read` is ambiguous: lesen or lasen.
        if time == "past" and self.en.past == self.en.base:
            return False
        if self.group == "state" and time not in ("present", "past", "event"):
            return False
        if gap and (len(self.arguments) != 1 or gap.isdisjoint(self.arguments[0].tags)):
            return False
        return not self.subjects.isdisjoint(subject or (["person"] if gap else self.subjects))


def _columns(line: str, number: int) -> list[str]:
    columns = [column.strip().strip("_") for column in line.split("|")]
    return columns + [""] * (number - len(columns))


def _noun(kind: str, line: str) -> Noun:
    english, german, tags, prepositions = _columns(line, 4)
    gender, *forms = german.split()
    own = {kind, *tags.split()}
    wider = [name for name, kinds in _DATA["kinds"].items() if own & set(kinds.split())]
    all_tags = frozenset([*own, *wider])
    return Noun(english.split(", "), noun_cases(*forms), gender, all_tags, prepositions.split())


def _argument(text: str) -> Argument:
    """Read `acc thing`, `for/auf acc person`, `to town` or `predicate`."""
    en = de = ""
    frame, *tags = text.split()
    if "/" in frame:
        en, de = frame.replace("_", " ").split("/")
        frame, *tags = tags
    return Argument(frame, en, de, DATIVE if frame == "dat" else ACCUSATIVE, frozenset(tags))


def _verb(group: str, line: str) -> Verb:
    english, german, subjects, arguments, manners, places = _columns(line, 6)
    return Verb(
        group,
        EnglishVerb(*english.split(maxsplit=5)),
        GermanVerb(*german.split()),
        frozenset(subjects.split()),
        [_argument(text) for text in arguments.split(" + ") if text],
        manners.split(),
        frozenset(places.split()),
    )


def _passive(verb: Verb, arguments: list[Argument]) -> Verb:
    """Return what is done to the object of a verb: be and werden with its participle."""
    be = VERBS["be"][0].en._replace(particle=f"{verb.en.participle} {verb.en.particle}".strip())
    # Like a separable prefix, the participle ends a main clause and leads a verb at the end.
    end = f"{verb.de.participle} "
    werden = GermanVerb("werden", "werde", "wird", "wurde", f"{end}worden", "sein", end)
    return Verb("passive", be, werden, verb.arguments[0].tags, arguments, [], frozenset())


def _pattern(line: str) -> list[tuple[str, str]]:
    """Return an English and a German pattern, as often as the number before them says."""
    *weight, english, german = (column.strip() for column in line.split("|"))
    return [(english, german)] * int(weight[0] if weight else 1)


def _unmarked(pattern: str) -> str:
    return re.sub(r"\^\d", "", pattern)


def _marked(english: str, german: str) -> tuple[str, str]:
    """Put marks after the words outside of slots: those with the same mark are aligned."""
    sides = [_numbers(english), _numbers(german)]
    least = min(map(len, sides))
    if not any(sides[0]):
        # The last words belong together, and those before them: in the | morning, am | Morgen.
        sides = [
            [*range(1, least + 1)]
            if len(sides[0]) == len(sides[1])
            else [1] * (len(side) - 1) + [min(least, 2)]
            for side in sides
        ]
    return _mark(english, sides[0]), _mark(german, sides[1])


def _numbers(pattern: str) -> list[int]:
    return [int(word[2] or 0) for word in SLOT_OR_WORD.finditer(pattern) if word[1]]


def _mark(pattern: str, numbers: list[int]) -> str:
    left = iter(numbers)

    def put(found: re.Match[str]) -> str:
        number = next(left) if found[1] else 0
        return (found[1] or found[0]) + (chr(OWN_MARKS + number) if number else "")

    return SLOT_OR_WORD.sub(put, pattern)


DETERMINERS = [Determiner(*_columns(line, 5)) for line in _DATA["determiners"]]
ADJECTIVES = [_columns(line, 5) for line in _DATA["adjectives"]]
PRONOUNS = [_columns(line, 6) for line in _DATA["pronouns"]]
TENSES = {line.split()[0]: Tense(*_columns(line, 7)) for line in _DATA["tenses"]}
NOUNS = [_noun(kind, line) for kind, lines in _DATA["nouns"].items() for line in lines]
VERBS = {name: [_verb(name, line) for line in lines] for name, lines in _DATA["verbs"].items()}
_BY = _argument("by/von dat person")
VERBS["passive"] = [_passive(verb, by) for verb in VERBS["act"] for by in ([], [_BY])]
TIMES = {name: words.split() for name, words in _DATA["times"].items()}
MIXES: dict[str, list[str]] = {name: words.split() for name, words in _DATA["mixes"].items()}
MARKED_PATTERNS = {
    name: [_marked(*pair) for line in lines for pair in _pattern(line)]
    for name, lines in _DATA["patterns"].items()
}
PATTERNS = {
    name: [
        (_unmarked(one), _unmarked(other)) for line in lines for one, other in _pattern(line)
    ]
    for name, lines in _DATA["patterns"].items()
}


@cache
def nouns_with(tags: Tags) -> list[Noun]:
    """Return the nouns that have any of the tags."""
    return [noun for noun in NOUNS if not noun.tags.isdisjoint(tags)]


@cache
def adjectives_for(tags: Tags, kind: str) -> list[tuple[str, str]]:
    """Return adjectives of that kind: attribute, predicate or comparative."""
    return [
        (more_en, more_de) if kind == "comparative" else (en, de)
        for en, de, more_en, more_de, nouns in ADJECTIVES
        if not tags.isdisjoint(nouns.split())
        and (more_en or kind != "comparative")
        # `It was cold` would mean the weather: as predicates, such adjectives are kept to it.
        and (kind == "attribute" or ("weather" in nouns) == ("weather" in tags))
    ]


@cache
def determiners_for(noun: Noun, role: str) -> list[tuple[Determiner, bool]]:
    """Return determiners, and whether the noun is plural, as often as they are to come."""
    (singular, *_), (plural, *_) = noun.de
    chosen = []
    for word in DETERMINERS:
        # Family nouns always take a possessive; nouns such as king and airport never do.
        fits = "owned" in noun.tags if "possessive" in word.roles else "family" not in noun.tags
        fits = fits and ("name" in noun.tags) == ("name" in word.roles)
        if fits and role in word.roles.split():
            one, many, mass = map(int, word.weights.split())
            one = 0 if singular == "." else mass if plural == "." else one
            chosen += [(word, False)] * one + [(word, True)] * (many if plural != "." else 0)
    return chosen
