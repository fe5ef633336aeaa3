"""Sentences of every kind: statements, clauses within clauses, questions and figures."""

from collections.abc import Callable

from aiayn.sample.clauses import (
    EMPTY,
    Clause,
    clause,
    fronted,
    statement,
    subordinate,
)
from aiayn.sample.complements import NOTHING, Complement, complement, somewhere
from aiayn.sample.conjugation import PRESENT
from aiayn.sample.declension import ACCUSATIVE, DATIVE, GENITIVE
from aiayn.sample.figures import FIGURES
from aiayn.sample.lexicon import tagged
from aiayn.sample.phrases import (
    Draw,
    Subject,
    noun_phrase,
    person_object,
    person_subject,
    pick,
    place_slot,
    prepend,
)
from aiayn.sample.predicates import (
    ASKING,
    BE,
    INTENDING,
    PASSIVES,
    PLAIN,
    POSITION,
    REPORTING,
    WEATHER,
    WITH_PREPOSITION,
    Verb,
)
from aiayn.sample.questions import QUESTIONS, REQUESTED, TIMED, request
from aiayn.sample.times import COUNTS, Pair
from aiayn.sample.words import FRONTED

FEWEST_WORDS, MOST_WORDS = 3, 40

ABOUT = ("present",) * 8 + ("past",) * 8 + ("perfect",) * 3 + ("future",) * 3 + ("before",)
TWICE = ("past event", "past event", "perfect")
TWICE_BY_ONE = (*TWICE, "event", "event")
AFTER = {
    "present": ("present", "past", "perfect", "future"),
    "past": ("past", "before"),
    "perfect": ("past", "present"),
    "future": ("present", "past"),
    "before": ("past",),
}
"""What somebody may say, hope or ask about, by the time of saying it."""

IT = Subject("it", "es", 1, pronoun=True)
WEATHERS = (("cold", "kalt"), ("warm", "warm"), ("hot", "heiß"), ("dark", "dunkel"))

CONJUNCTIONS = (
    ("because", "weil", "past", "past"),
    ("because", "weil", "present", "present"),
    ("because", "weil", "past", "before"),
    ("although", "obwohl", "past", "past"),
    ("although", "obwohl", "present", "perfect"),
    ("although", "obwohl", "perfect", "present"),
    ("when", "als", "past", "past"),
    ("while", "während", "past", "past event"),
    ("before", "bevor", "past event", "past event"),
    ("after", "nachdem", "past event", "before"),
    ("if", "wenn", "future", "event"),
    ("if", "wenn", "event", "event"),
    ("as soon as", "sobald", "future", "event"),
)
"""English and German, and the times that the main clause and the other one are about."""

IN_SEQUENCE = ("bevor", "nachdem", "sobald")
"""Join what happens, not what is or does not happen."""

COORDINATIONS = (*(("and", "und"),) * 3, *(("but", "aber"),) * 2, ("or", "oder"))
ASKED = (("whether", "ob"), ("whether", "ob"), ("why", "warum"), ("when", "wann"))
PURPOSES = (("in order to", "um"), ("without", "ohne"), ("instead of", "statt"))
PERIODS = (
    ("minutes", "Minuten"),
    ("hours", "Stunden"),
    ("days", "Tagen"),
    ("weeks", "Wochen"),
    ("months", "Monaten"),
    ("years", "Jahren"),
)
CAUSES = (("because of", "wegen"), ("despite", "trotz"))
CAUSING = tagged("event", "discussed")
LIVE = POSITION[0]
WORK = next(verb for verb in PLAIN if verb.infinitive == "work")
WAIT = WITH_PREPOSITION[0]


def simple(draw: Draw) -> Pair:
    """One clause, sometimes after a word like perhaps or a reason."""
    said = clause(draw, pick(draw, ABOUT))
    roll = draw()
    if said.front[0] or roll > 0.12:
        return statement(said)
    return fronted(said, *(pick(draw, FRONTED) if roll < 0.07 else _cause(draw)))


def _cause(draw: Draw) -> Pair:
    """Because of the difficult exam, wegen der schwierigen Prüfung."""
    english, german = pick(draw, CAUSES)
    noun = pick(draw, CAUSING)
    phrase = noun_phrase(draw, noun, GENITIVE, place_slot(draw, noun, GENITIVE))
    return f"{english} {phrase.en}", f"{german} {phrase.de}"


def passive(draw: Draw) -> Pair:
    """The car was repaired by the engineer."""
    agent = NOTHING
    if draw() < 0.5:
        by = person_object(draw, DATIVE, negated=False)
        agent = Complement(f" by {by.en}", new=f" {prepend('von', by.de)}")
    return statement(clause(draw, pick(draw, ABOUT), verb=pick(draw, PASSIVES), told=agent))


def _weather(draw: Draw, about: str, *, alone: bool) -> Clause:
    verb, told = pick(draw, WEATHER), NOTHING
    if draw() < 0.4:
        english, german = pick(draw, WEATHERS)
        verb, told = BE, Complement(f" {english}", post=f" {german}")
    return clause(draw, about, subject=IT, verb=verb, told=told, bare=True, alone=alone)


def weather(draw: Draw) -> Pair:
    """It will snow tomorrow in Vienna."""
    return statement(_weather(draw, pick(draw, ABOUT), alone=False))


def within(draw: Draw) -> Pair:
    """A clause with a conjunction, after the main clause or before it."""
    word_en, word_de, about, about_other = pick(draw, CONJUNCTIONS)
    first = draw() < 0.35
    if draw() < 0.2:
        other = _weather(draw, about_other, alone=True)
    elif word_de in IN_SEQUENCE:
        other = clause(draw, about_other, verb=pick(draw, TIMED), bare=True, alone=True)
    else:
        other = clause(draw, about_other, bare=True)
    other_en, other_de = subordinate(other)
    main = clause(draw, about, bare=first)
    if first:
        return fronted(main, f"{word_en} {other_en},", f"{word_de} {other_de},")
    english, german = statement(main)
    return f"{english} {word_en} {other_en}", f"{german}, {word_de} {other_de}"


def reported(draw: Draw) -> Pair:
    """She says that the doctor is ill."""
    about = pick(draw, ABOUT)
    said = clause(draw, about, verb=pick(draw, REPORTING), told=NOTHING, bare=True)
    what = pick(draw, AFTER[about])
    english, german = subordinate(clause(draw, what, bare=draw() < 0.7))
    return statement(said._replace(tail=(f" that {english}", f", dass {german}")))


def asked(draw: Draw) -> Pair:
    """She asks the doctor whether he sleeps well."""
    about = pick(draw, ABOUT)
    verb, told = pick(draw, ASKING), NOTHING
    if not verb.reflexive and draw() < 0.6:
        whom = person_object(draw, ACCUSATIVE, negated=False)
        told = Complement(f" {whom.en}", known=f" {whom.de}")
    said = clause(draw, about, verb=verb, told=told, bare=True)
    word_en, word_de = pick(draw, ASKED)
    what = pick(draw, AFTER[about])
    if word_de == "ob":
        other = clause(draw, what, bare=True)
    else:
        what = {"present": "event", "past": "past event"}.get(what, what)
        other = clause(draw, what, verb=pick(draw, TIMED), bare=True, alone=True)
    english, german = subordinate(other)
    tail = (f" {word_en} {english}", f", {word_de} {german}")
    return statement(said._replace(tail=tail))


def _infinitive(draw: Draw, subject: Subject) -> tuple[Verb, str, str]:
    """Draw what somebody means to do: the verb, its English rest and its German middle."""
    verb = pick(draw, REQUESTED)
    parts = complement(draw, verb, subject, negated=False)
    reflexive = f" {subject.reflexive}" if verb.reflexive else ""
    return verb, parts.en, f"{reflexive}{parts.first}{parts.known}{parts.new}{parts.post}"


def intended(draw: Draw) -> Pair:
    """She tries to repair the car."""
    subject = person_subject(draw, negated=True)
    verb = pick(draw, INTENDING)
    said = clause(
        draw, pick(draw, ABOUT), subject=subject, verb=verb, told=NOTHING, bare=True, alone=True
    )
    action, english, german = _infinitive(draw, subject)
    tail = (f" to {action.infinitive}{english}", f",{german} {action.zu}")
    return statement(said._replace(tail=tail))


def purpose(draw: Draw) -> Pair:
    """She goes to the city in order to buy a hat."""
    subject = person_subject(draw, negated=True)
    main = clause(draw, pick(draw, ABOUT), subject=subject, verb=pick(draw, TIMED), bare=True)
    main_en, main_de = statement(main)
    word_en, word_de = pick(draw, PURPOSES)
    action, english, german = _infinitive(draw, subject)
    verb = action.infinitive if word_de == "um" else action.ing
    return f"{main_en} {word_en} {verb}{english}", f"{main_de}, {word_de}{german} {action.zu}"


def coordinated(draw: Draw) -> Pair:
    """Two statements, or one subject that does two things."""
    if draw() < 0.5:
        word_en, word_de = pick(draw, COORDINATIONS)
        about = pick(draw, ABOUT)
        first = clause(draw, about)
        first_en, first_de = statement(first)
        second_en, second_de = statement(clause(draw, about))
        comma = "," if word_de == "aber" or first.tail is not EMPTY else ""
        return f"{first_en}, {word_en} {second_en}", f"{first_de}{comma} {word_de} {second_de}"
    subject = person_subject(draw, negated=True)
    # `They must call and eat` would leave open whether they must do both.
    about = pick(draw, TWICE_BY_ONE if subject.person == 1 else TWICE)
    first_en, first_de = statement(clause(draw, about, subject=subject, bare=True))
    gap = Subject("", "", subject.person, reflexive=subject.reflexive)
    second_en, second_de = statement(clause(draw, about, subject=gap, bare=True))
    return f"{first_en} and{second_en}", f"{first_de} und{second_de}"


def lasting(draw: Draw) -> Pair:
    """She has been living in Rome for three years."""
    subject = person_subject(draw, negated=True)
    verb = pick(draw, (LIVE, WORK, WAIT))
    if verb is WORK:
        english, german = somewhere(draw)
        parts = Complement(f" {english}", post=f" {german}")
    else:
        parts = complement(draw, verb, subject, negated=False)
    number_en, number_de = pick(draw, COUNTS)
    period_en, period_de = pick(draw, PERIODS[:3] if verb is WAIT else PERIODS[2:])
    present = verb.conjugation.statements[PRESENT][subject.person].left
    has = "has" if subject.person == 1 else "have"
    return (
        f"{subject.en} {has} been {verb.ing}{parts.en} for {number_en} {period_en}",
        f"{subject.de} {present} seit {number_de} {period_de}{parts.post}",
    )


def figures(draw: Draw) -> Pair:
    """A sentence about a number, a date or a time."""
    return pick(draw, FIGURES)(draw)


def asking(draw: Draw) -> Pair:
    """A question."""
    return pick(draw, QUESTIONS)(draw)


KINDS: tuple[tuple[Callable[[Draw], Pair], int], ...] = (
    (simple, 42),
    (asking, 13),
    (within, 11),
    (figures, 8),
    (coordinated, 6),
    (reported, 5),
    (passive, 4),
    (asked, 2),
    (intended, 3),
    (purpose, 2),
    (request, 2),
    (lasting, 1),
    (weather, 1),
)
"""The kinds of sentences, and how many of a hundred are to be of each."""

TABLE = tuple(kind for kind, share in KINDS for _ in range(share))


def sentence(draw: Draw) -> Pair:
    """Draw a sentence of 3 to 40 words in each language."""
    while True:
        kind = pick(draw, TABLE)
        english, german = kind(draw)
        words = (english.count(" ") + 1, german.count(" ") + 1)
        if min(words) >= FEWEST_WORDS and max(words) <= MOST_WORDS:
            return _finished(english, german, "?" if kind is asking else ".")


def _finished(english: str, german: str, mark: str) -> Pair:
    """Begin with a capital and end with a mark; a relative clause may leave a comma there."""
    german = f"{german}{mark}".replace(",,", ",").replace(f",{mark}", mark)
    return f"{english[0].upper()}{english[1:]}{mark}", german[0].upper() + german[1:]
