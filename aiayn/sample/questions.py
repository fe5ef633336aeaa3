"""Questions and requests."""

from collections.abc import Callable

from aiayn.sample.clauses import clause, question, statement
from aiayn.sample.complements import NOTHING, complement
from aiayn.sample.declension import ACCUSATIVE, DATIVE, PLURAL, STRONG, WHICH, Slot
from aiayn.sample.phrases import Draw, Subject, noun_phrase, pick
from aiayn.sample.predicates import (
    ACCUSATIVES,
    DATIVES,
    GIVING,
    MOTION,
    PLACING,
    PLAIN,
    POSITION,
    WITH_PREPOSITION,
    Verb,
)
from aiayn.sample.times import Pair

ABOUT = ("present",) * 5 + ("past",) * 4 + ("perfect",) * 2 + ("future",) * 2
ABOUT_EVENTS = ("event",) * 4 + ("past event",) * 4 + ("perfect",) * 2 + ("future",) * 2
"""Whoever asks when something happens does not ask about what is going on."""

WHO = Subject("who", "wer", 1, pronoun=True)
POLITE = Subject("", "Sie", 2, pronoun=True)


def _personal(*tables: tuple[Verb, ...]) -> tuple[Verb, ...]:
    return tuple(verb for table in tables for verb in table if verb.by_person)


DOING = _personal(ACCUSATIVES, PLAIN, WITH_PREPOSITION, GIVING)
TIMED = tuple(verb for verb in DOING if verb.timed)
PLACED = tuple(verb for verb in DOING if verb.in_cities)
TO_THINGS = tuple(verb for verb in ACCUSATIVES if verb.by_person and verb.objects)
TO_PERSONS = tuple(verb for verb in _personal(ACCUSATIVES, DATIVES) if verb.to_person)
WITH_PERSONS = tuple(
    verb for verb in WITH_PREPOSITION if verb.to_person and verb.preposition_en
)
REQUESTED = tuple(
    verb
    for verb in _personal(ACCUSATIVES, DATIVES, GIVING, WITH_PREPOSITION, PLACING, MOTION)
    if verb.commanded
)
ADVERBIAL = (
    (("why", "warum"), DOING),
    (("when", "wann"), TIMED),
    (("how often", "wie oft"), TIMED),
    (("where", "wo"), PLACED),
)
HOW_MANY = Slot("how many ", "wie viele ", STRONG[PLURAL][ACCUSATIVE], 1, False)


def _after(words: Pair, asked: Pair) -> Pair:
    return f"{words[0]} {asked[0]}", f"{words[1]} {asked[1]}"


def whether(draw: Draw) -> Pair:
    """Does the doctor help the child?"""
    return question(clause(draw, pick(draw, ABOUT), asked=True))


def adverbial(draw: Draw) -> Pair:
    """When did she buy the hat?"""
    words, verbs = pick(draw, ADVERBIAL)
    about = pick(draw, ABOUT_EVENTS)
    asked = clause(draw, about, verb=pick(draw, verbs), asked=True, bare=True, alone=True)
    return _after(words, question(asked))


def place(draw: Draw) -> Pair:
    """Where does she live?"""
    whither = draw() < 0.5
    verb = pick(draw, MOTION if whither else POSITION)
    asked = clause(draw, pick(draw, ABOUT), verb=verb, told=NOTHING, asked=True, bare=True)
    return _after(("where", "wohin" if whither else "wo"), question(asked))


def subject(draw: Draw) -> Pair:
    """Who bought the hat?"""
    return statement(clause(draw, pick(draw, ABOUT), subject=WHO, bare=True))


def direct_object(draw: Draw) -> Pair:
    """What did she buy? Whom does she help?"""
    if draw() < 0.5:
        verb, words = pick(draw, TO_THINGS), ("what", "was")
    else:
        verb = pick(draw, TO_PERSONS)
        words = ("whom", "wem" if verb.case == DATIVE else "wen")
    asked = clause(draw, pick(draw, ABOUT), verb=verb, told=NOTHING, asked=True, bare=True)
    return _after(words, question(asked))


def object_of_preposition(draw: Draw) -> Pair:
    """For whom is she waiting?"""
    verb = pick(draw, WITH_PERSONS)
    whom = "wem" if verb.case == DATIVE else "wen"
    asked = clause(draw, pick(draw, ABOUT), verb=verb, told=NOTHING, asked=True, bare=True)
    words = (f"{verb.preposition_en} whom", f"{verb.preposition_de} {whom}")
    return _after(words, question(asked))


def which(draw: Draw) -> Pair:
    """Which hat did she buy? How many books has she read?"""
    verb = pick(draw, TO_THINGS)
    noun = pick(draw, verb.objects)
    countable = noun.de[1][0] != ""
    if countable and draw() < 0.4:
        slot = HOW_MANY
    else:
        slot = WHICH.slot(noun.gender, ACCUSATIVE, int(countable and draw() < 0.3))
    phrase = noun_phrase(draw, noun, ACCUSATIVE, slot)
    asked = clause(draw, pick(draw, ABOUT), verb=verb, told=NOTHING, asked=True, bare=True)
    return _after((phrase.en, phrase.de), question(asked))


def request(draw: Draw) -> Pair:
    """Please do not open the window."""
    negated = draw() < 0.15
    verb = pick(draw, REQUESTED)
    parts = complement(draw, verb, POLITE, negated=negated)
    late = " nicht" if negated and not parts.negates else ""
    left, prefix = verb.imperative
    reflexive = " sich" if verb.reflexive else ""
    middle = f"{parts.first}{parts.known}{late}{parts.new}{parts.post}"
    end = f" {prefix}" if prefix else ""
    please = "please do not" if negated else "please"
    return f"{please} {verb.infinitive}{parts.en}", f"bitte {left} Sie{reflexive}{middle}{end}"


QUESTIONS: tuple[Callable[[Draw], Pair], ...] = (
    *(whether,) * 5,
    *(adverbial, subject, direct_object, which) * 2,
    *(object_of_preposition, place),
)
