"""Verbs in every tense, English and German, split into the pieces that word order moves.

A person is 0 for I, 1 for he, she and a singular noun, 2 for we, they and a plural noun: no
verb in either language tells more of them apart, as long as nobody is addressed.
"""

from dataclasses import dataclass
from typing import NamedTuple

Persons = tuple[str, str, str]

AM: Persons = ("am", "is", "are")
WAS: Persons = ("was", "was", "were")
HAVE: Persons = ("have", "has", "have")
DO: Persons = ("do", "does", "do")
DID: Persons = ("did", "did", "did")

HABE: Persons = ("habe", "hat", "haben")
HATTE: Persons = ("hatte", "hatte", "hatten")
BIN: Persons = ("bin", "ist", "sind")
WAR: Persons = ("war", "war", "waren")
WERDE: Persons = ("werde", "wird", "werden")
WURDE: Persons = ("wurde", "wurde", "wurden")

(
    PRESENT,
    PROGRESSIVE,
    PAST,
    PAST_PROGRESSIVE,
    PERFECT,
    PLUPERFECT,
    FUTURE,
    CAN,
    MUST,
    SHOULD,
    MAY,
    WANT,
    HAVE_TO,
    WOULD_LIKE,
    HAD_TO,
    WANTED,
    WAS_ALLOWED,
    WAS_ABLE,
) = range(18)


SIMPLE_TENSES = (PRESENT, PROGRESSIVE, PAST, PAST_PROGRESSIVE)
"""Have one German word, so a separable prefix stands alone at the end of a statement."""


class Form(NamedTuple):
    """A verb in one tense and person.

    In an English question the subject comes between `aux` and `main`. A German statement has
    `left` in second place and `right` at its end, a German subordinate clause `final` at its
    end; `meanwhile` is what German adds to say that something is going on. All but `left`
    bring a space in front.
    """

    aux: str
    main: str
    left: str
    right: str
    final: str
    meanwhile: str = ""


Forms = tuple[Form, Form, Form]


@dataclass(frozen=True, slots=True)
class English:
    """The five forms of an English verb, and the particle after them."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    particle: str = ""


@dataclass(frozen=True, slots=True)
class German:
    """The principal parts of a German verb; the prefix is one that separates."""

    infinitive: str
    present: Persons
    preterite: Persons
    participle: str
    prefix: str = ""
    with_sein: bool = False
    reflexive: bool = False

    @property
    def zu(self) -> str:
        """The infinitive with zu, which goes inside a separable verb: anzurufen."""
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"


@dataclass(frozen=True, slots=True, eq=False)
class Conjugation:
    """All forms of a verb, by tense and person."""

    statements: dict[int, Forms]
    negations: dict[int, Forms]
    questions: dict[int, Forms]


def parse_english(column: str) -> English:
    """Read `go/went/gone out`; a verb without slashes is regular."""
    word, _, particle = column.partition(" ")
    base, *irregular = word.split("/")
    stem = base if base.endswith("ee") else base.removesuffix("e")
    regular = [f"{base[:-1]}ied" if _ends_in_y(base) else f"{stem}ed"] * 2
    past, participle, ing = [*irregular, *regular[len(irregular) :], f"{stem}ing"][:3]
    return English(base, english_third(base), past, participle, ing, particle.strip("-"))


def english_third(base: str) -> str:
    """Return the third person singular of the present."""
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return f"{base}es"
    return f"{base[:-1]}ies" if _ends_in_y(base) else f"{base}s"


def _ends_in_y(base: str) -> bool:
    return base.endswith("y") and base[-2] not in "aeiou"


def parse_german(column: str) -> German:
    """Read `sich an~sehen sieht sah angesehen`."""
    reflexive = column.startswith("sich ")
    whole, third, past, participle = column.removeprefix("sich ").split()
    prefix, _, infinitive = whole.rpartition("~")
    if infinitive.endswith("eln"):
        first = f"{infinitive[:-3]}le"
    elif infinitive.endswith("ern"):
        first = f"{infinitive[:-1]}e"
    else:
        first = f"{infinitive[:-2]}e"
    if infinitive in ("mögen", "wissen"):
        first = third
    plural = f"{past}n" if past.endswith("e") else f"{past}en"
    return German(
        infinitive,
        (first, third, infinitive),
        (past, past, plural),
        participle.removeprefix("+"),
        prefix,
        participle.startswith("+"),
        reflexive,
    )


class _Part(NamedTuple):
    """One language's share of a tense: what changes with the person, and what follows it."""

    finite: Persons
    rest: str


ENGLISH_MODALS = {CAN: "can", MUST: "must", SHOULD: "should", MAY: "may", FUTURE: "will"}
GERMAN_MODALS: dict[int, Persons] = {
    FUTURE: WERDE,
    CAN: ("kann", "kann", "können"),
    MUST: ("muss", "muss", "müssen"),
    SHOULD: ("sollte", "sollte", "sollten"),
    MAY: ("darf", "darf", "dürfen"),
    WANT: ("will", "will", "wollen"),
    HAVE_TO: ("muss", "muss", "müssen"),
    WOULD_LIKE: ("möchte", "möchte", "möchten"),
    HAD_TO: ("musste", "musste", "mussten"),
    WANTED: ("wollte", "wollte", "wollten"),
    WAS_ALLOWED: ("durfte", "durfte", "durften"),
    WAS_ABLE: ("konnte", "konnte", "konnten"),
}


def _same(word: str) -> Persons:
    return (word, word, word)


def _with_auxiliary(infinitive: str) -> dict[int, _Part]:
    """Return the English tenses that have an auxiliary and end in an infinitive."""
    parts = {tense: _Part(_same(word), infinitive) for tense, word in ENGLISH_MODALS.items()}
    parts[WOULD_LIKE] = _Part(_same("would"), f"like to {infinitive}")
    parts[WAS_ALLOWED] = _Part(WAS, f"allowed to {infinitive}")
    parts[WAS_ABLE] = _Part(WAS, f"able to {infinitive}")
    parts[WANT] = _Part(DO, f"want to {infinitive}")
    parts[WANTED] = _Part(DID, f"want to {infinitive}")
    parts[HAVE_TO] = _Part(DO, f"have to {infinitive}")
    parts[HAD_TO] = _Part(DID, f"have to {infinitive}")
    return parts


def _without_auxiliary(infinitive: str) -> dict[int, _Part]:
    """Return the English tenses that need `do` for a question or a negation."""
    return {
        WANT: _Part(("want", "wants", "want"), f"to {infinitive}"),
        WANTED: _Part(_same("wanted"), f"to {infinitive}"),
        HAVE_TO: _Part(HAVE, f"to {infinitive}"),
        HAD_TO: _Part(_same("had"), f"to {infinitive}"),
    }


def _german_parts(
    present: _Part, preterite: _Part, perfect: _Part, infinitive: str
) -> dict[int, _Part]:
    """Return all German tenses; the rest of a part stands at the end of a statement."""
    had = HATTE if perfect.finite is HABE else WAR
    parts = {tense: _Part(finite, infinitive) for tense, finite in GERMAN_MODALS.items()}
    return parts | {
        PRESENT: present,
        PROGRESSIVE: present,
        PAST: preterite,
        PAST_PROGRESSIVE: preterite,
        PERFECT: perfect,
        PLUPERFECT: _Part(had, perfect.rest),
    }


def _space(words: str) -> str:
    return f" {words}" if words else ""


def _forms(
    aux: Persons, main: Persons, german: _Part, *, joined: bool, going_on: bool
) -> Forms:
    """Put the two languages together; a separable prefix is joined to a verb at the end."""
    gap = "" if joined else " "

    def form(person: int) -> Form:
        finite, rest = german.finite[person], german.rest
        return Form(
            _space(aux[person]),
            _space(main[person].strip()),
            finite,
            _space(rest),
            f" {rest}{gap}{finite}" if rest else f" {finite}",
            " gerade" if going_on else "",
        )

    return form(0), form(1), form(2)


def _conjugate(
    plain: dict[int, _Part],
    helped: dict[int, _Part],
    german: dict[int, _Part],
    *,
    joined: bool,
    ask_past_in: int,
) -> Conjugation:
    """Return all forms; German negates must by may, and asks about the past in the perfect."""
    statements, negations, questions = {}, {}, {}
    for tense, english in helped.items():
        kind = {
            "joined": joined and tense in SIMPLE_TENSES,
            "going_on": tense in (PROGRESSIVE, PAST_PROGRESSIVE),
        }
        main = _same(english.rest)
        statements[tense] = _forms(english.finite, main, german[tense], **kind)
        if tense in plain:
            first, second, third = (
                f"{word} {plain[tense].rest}" for word in plain[tense].finite
            )
            statements[tense] = _forms(_same(""), (first, second, third), german[tense], **kind)
        first, second, third = (
            "cannot" if tense == CAN else f"{word} not" for word in english.finite
        )
        denied = german[MAY if tense == MUST else tense]
        negations[tense] = _forms((first, second, third), main, denied, **kind)
        if tense == PAST and ask_past_in == PERFECT:
            kind["joined"] = False
        asked = german[ask_past_in if tense == PAST else tense]
        questions[tense] = _forms(english.finite, main, asked, **kind)
    return Conjugation(statements, negations, questions)


def conjugate(english: English, german: German, *, static: bool) -> Conjugation:
    """Return all forms of a full verb; the past of a static one is asked in the preterite."""
    tail = _space(english.particle)
    infinitive = english.base + tail
    plain = _without_auxiliary(infinitive) | {
        PRESENT: _Part((english.base, english.third, english.base), english.particle),
        PAST: _Part(_same(english.past), english.particle),
    }
    helped = _with_auxiliary(infinitive) | {
        PRESENT: _Part(DO, infinitive),
        PROGRESSIVE: _Part(AM, english.ing + tail),
        PAST: _Part(DID, infinitive),
        PAST_PROGRESSIVE: _Part(WAS, english.ing + tail),
        PERFECT: _Part(HAVE, english.participle + tail),
        PLUPERFECT: _Part(_same("had"), english.participle + tail),
    }
    parts = _german_parts(
        _Part(german.present, german.prefix),
        _Part(german.preterite, german.prefix),
        _Part(BIN if german.with_sein else HABE, german.participle),
        german.prefix + german.infinitive,
    )
    asked = PAST if static else PERFECT
    return _conjugate(plain, helped, parts, joined=True, ask_past_in=asked)


def conjugate_be() -> Conjugation:
    """Return all forms of be and sein."""
    parts = _german_parts(_Part(BIN, ""), _Part(WAR, ""), _Part(BIN, "gewesen"), "sein")
    return _conjugate_with_be("", parts)


def conjugate_passive(english: English, german: German) -> Conjugation:
    """Return all forms of the passive: was repaired, wurde repariert."""
    participle = german.participle
    parts = _german_parts(
        _Part(WERDE, participle),
        _Part(WURDE, participle),
        _Part(BIN, f"{participle} worden"),
        f"{participle} werden",
    )
    return _conjugate_with_be(english.participle + _space(english.particle), parts)


def _conjugate_with_be(rest: str, german: dict[int, _Part]) -> Conjugation:
    tail = _space(rest)
    plain = _without_auxiliary(f"be{tail}")
    helped = _with_auxiliary(f"be{tail}") | {
        PRESENT: _Part(AM, rest),
        PROGRESSIVE: _Part(AM, f"being{tail}"),
        PAST: _Part(WAS, rest),
        PAST_PROGRESSIVE: _Part(WAS, f"being{tail}"),
        PERFECT: _Part(HAVE, f"been{tail}"),
        PLUPERFECT: _Part(_same("had"), f"been{tail}"),
    }
    return _conjugate(plain, helped, german, joined=False, ask_past_in=PAST)
