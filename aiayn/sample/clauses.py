"""Clauses: a verb with all that belongs to it, in the order that each language asks for.

German order, between the verb in second place and what stands at the end of the clause:
pronouns, time, adverb, objects, manner, place. But what is denied or done before comes after
the objects that are known: `hat gestern den Hut gekauft`, `hat den Hut gestern nicht gekauft`.
"""

from functools import cache
from typing import NamedTuple

from aiayn.sample.complements import NOTHING, Complement, complement, somewhere
from aiayn.sample.conjugation import (
    CAN,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    MAY,
    MUST,
    PAST,
    PERFECT,
    PLUPERFECT,
    PRESENT,
    SHOULD,
    WANT,
    WANTED,
    WAS_ABLE,
    WAS_ALLOWED,
    WOULD_LIKE,
    Form,
)
from aiayn.sample.declension import GENITIVE, NOMINATIVE, PLURAL, RELATIVE, STRONG, Slot
from aiayn.sample.lexicon import Noun, tagged
from aiayn.sample.phrases import (
    Draw,
    Subject,
    noun_phrase,
    noun_subject,
    person_object,
    person_subject,
    pick,
    where,
)
from aiayn.sample.predicates import (
    ACCUSATIVES,
    BE,
    DATIVES,
    GIVING,
    MOTION,
    PLACING,
    PLAIN,
    POSITION,
    WITH_PREPOSITION,
    Verb,
)
from aiayn.sample.times import (
    FUTURE_TIMES,
    HABITS,
    MODAL_TIMES,
    ON_DATES,
    PAST_TIMES,
    PERFECT_TIMES,
    YEARS,
    Pair,
    Table,
)

# How often a clause has what it need not have.
NEGATED = 0.1
TIMED = 0.42
FRONTED = 0.35
PLACED = 0.2
WITH_ADVERB = 0.22
WITH_MANNER = 0.25
TWO_SUBJECTS = 0.03
RELATIVE_SUBJECT = 0.06
RELATIVE_OBJECT = 0.07

EMPTY: Pair = ("", "")

TIMES: dict[int, tuple[Table, ...]] = {
    PRESENT: HABITS,
    PAST: PAST_TIMES,
    PERFECT: PERFECT_TIMES,
    FUTURE: FUTURE_TIMES,
    **dict.fromkeys((CAN, MUST, SHOULD, MAY, WANT, HAVE_TO, WOULD_LIKE), MODAL_TIMES),
    **dict.fromkeys((HAD_TO, WANTED, WAS_ALLOWED, WAS_ABLE), PAST_TIMES),
}


class Adverb(NamedTuple):
    """An adverb before the English verb; a late one comes after the known German objects."""

    en: str
    de: str
    late: bool


OFTEN_ADVERBS = (
    Adverb(" often", " oft", False),
    Adverb(" always", " immer", False),
    Adverb(" sometimes", " manchmal", False),
    Adverb(" rarely", " selten", False),
    Adverb(" usually", " meistens", False),
    Adverb(" never", " nie", True),
)
ADVERBS: dict[int, tuple[Adverb, ...]] = {
    PRESENT: OFTEN_ADVERBS,
    PAST: OFTEN_ADVERBS,
    PERFECT: (
        Adverb(" already", " schon", True),
        Adverb(" just", " gerade", False),
        Adverb(" never", " noch nie", True),
        Adverb(" often", " oft", False),
    ),
    PLUPERFECT: (Adverb(" already", " schon", True), Adverb(" just", " gerade", False)),
}


def _by(verbs: tuple[Verb, ...], *, person: bool) -> tuple[Verb, ...]:
    return tuple(verb for verb in verbs if verb.by_person == person)


PERSON_VERBS = (
    *(_by(ACCUSATIVES, person=True),) * 9,
    *(_by(PLAIN, person=True),) * 3,
    *(WITH_PREPOSITION,) * 3,
    *(GIVING,) * 2,
    *(MOTION,) * 2,
    *(POSITION,) * 2,
    *((BE,),) * 3,
    _by(DATIVES, person=True),
    PLACING,
)
OTHER_VERBS = (
    *(_by(PLAIN, person=False),) * 3,
    _by(ACCUSATIVES, person=False),
    _by(DATIVES, person=False),
)
BY_OTHERS = 0.08
DESCRIBABLE = (*ACCUSATIVES, *DATIVES, *WITH_PREPOSITION)
FAMILY = tuple(noun for noun in tagged("family") if noun.en[0])


class Clause(NamedTuple):
    """A clause in pieces that can still be put in order; each piece starts with a space."""

    subject: Subject
    form: Form
    adverb: str = ""
    rest: str = ""
    """All that follows the English verb."""
    reflexive: str = ""
    middle: str = ""
    """All that stands between the German verb and the end of the clause."""
    tail: Pair = EMPTY
    """A relative clause about the last object: it comes after the German end."""
    front: Pair = EMPTY
    """A time or a place that comes first in a statement; without a space."""


class Extras(NamedTuple):
    """What a clause need not have: an adverb, manner, place and time."""

    adverb: Adverb | None = None
    manner: Pair = EMPTY
    place: Pair = EMPTY
    time: Pair = EMPTY
    front: Pair = EMPTY


NO_EXTRAS = Extras()


def clause(
    draw: Draw,
    about: str,
    *,
    subject: Subject | None = None,
    verb: Verb | None = None,
    told: Complement | None = None,
    asked: bool = False,
    bare: bool = False,
    alone: bool = False,
) -> Clause:
    """Draw a clause.

    Args:
        draw: The random numbers.
        about: The time it is about, one of the keys of a verb's tenses.
        subject: Its subject, if that is given; a person unless the verb is given too.
        verb: Its verb, if that is given.
        told: Its complement, if that is given; NOTHING leaves a gap for what is asked.
        asked: Whether it is to be a question.
        bare: Whether it has to stay without a relative clause, an adverb and a front.
        alone: Whether it has to stay without a negation, and all that its verb does not need.
    """
    negated = not (asked or alone) and draw() < NEGATED
    if verb is None:
        verb = _draw_verb(draw, person=subject is not None)
    if subject is None:
        subject = _draw_subject(draw, verb, negated=negated, asked=asked, bare=bare)
    tense = pick(draw, verb.tenses[about])
    parts = complement(draw, verb, subject, negated=negated) if told is None else told
    extras, tail = NO_EXTRAS, EMPTY
    if not bare and parts.head and draw() < RELATIVE_OBJECT:
        tail = relative(draw, *parts.head)
    elif not alone:
        plain = negated or asked or bare
        extras = _extras(draw, verb, tense, parts, plain=plain, negated=negated)
    forms = verb.conjugation
    if asked:
        form = forms.questions[tense][subject.person]
    else:
        form = (forms.negations if negated else forms.statements)[tense][subject.person]
    adverb, manner, place, time, front = extras
    return Clause(
        subject,
        form,
        adverb.en if adverb else "",
        f"{parts.en}{manner[0]}{place[0]}{time[0]}",
        f" {subject.reflexive}" if verb.reflexive else "",
        _middle(form, parts, extras, negated=negated),
        tail,
        front,
    )


def _middle(form: Form, parts: Complement, extras: Extras, *, negated: bool) -> str:
    """Put the middle of a German clause in order."""
    adverb, manner, place, time, _ = extras
    early, late = form.meanwhile, ""
    if negated and not parts.negates:
        late = " nicht"
    elif adverb and adverb.late:
        late = adverb.de
    elif adverb:
        early = adverb.de
    if late:
        objects = f"{parts.known}{time[1]}{early}{late}{parts.new}"
    else:
        objects = f"{time[1]}{early}{parts.known}{parts.new}"
    return f"{parts.first}{objects}{manner[1]}{place[1]}{parts.post}"


def _draw_verb(draw: Draw, *, person: bool) -> Verb:
    others = not person and draw() < BY_OTHERS
    return pick(draw, pick(draw, OTHER_VERBS if others else PERSON_VERBS))


def _draw_subject(draw: Draw, verb: Verb, *, negated: bool, asked: bool, bare: bool) -> Subject:
    if not verb.by_person or (verb.subjects and draw() < 0.4):
        subject = noun_subject(draw, pick(draw, verb.subjects), negated=negated)
    elif draw() < TWO_SUBJECTS:
        one, other = (person_object(draw, NOMINATIVE, negated=False) for _ in range(2))
        return Subject(f"{one.en} and {other.en}", f"{one.de} und {other.de}", 2)
    else:
        subject = person_subject(draw, negated=negated, asked=asked)
    if not bare and subject.noun and draw() < RELATIVE_SUBJECT:
        english, german = relative(draw, subject.noun, subject.row)
        return subject._replace(en=f"{subject.en}{english}", de=f"{subject.de}{german},")
    return subject


def _extras(
    draw: Draw, verb: Verb, tense: int, parts: Complement, *, plain: bool, negated: bool
) -> Extras:
    """Draw an adverb or a time, a manner and a place; a plain clause has no adverb or front."""
    adverb, manner, place, time, front = None, EMPTY, EMPTY, EMPTY, EMPTY
    # What does not happen every day would need another order: nicht jeden Tag.
    if verb.timed and not (negated and tense == PRESENT):
        roll = draw()
        if roll < TIMED and tense in TIMES:
            time = _time(draw, tense)
            if not plain and draw() < FRONTED:
                time, front = EMPTY, time
        elif roll > 1 - WITH_ADVERB and tense in ADVERBS and not plain and verb.by_person:
            adverb = pick(draw, ADVERBS[tense])
    if verb.manners and not parts.new and draw() < WITH_MANNER:
        manner = pick(draw, verb.manners)
    if verb.places and draw() < PLACED:
        in_city = verb.in_cities and draw() < 0.25
        place = somewhere(draw) if in_city else where(draw, pick(draw, verb.places))
        if not plain and front is EMPTY and draw() < 0.2:
            place, front = EMPTY, place
    return Extras(adverb, _spaced(manner), _spaced(place), _spaced(time), front)


def _spaced(pair: Pair) -> Pair:
    return (f" {pair[0]}", f" {pair[1]}") if pair[0] else pair


def _time(draw: Draw, tense: int) -> Pair:
    table = pick(draw, TIMES[tense])
    english, german = pick(draw, table)
    if table is ON_DATES and TIMES[tense] is PAST_TIMES and draw() < 0.5:
        year = pick(draw, YEARS)
        return f"{english} {year}", f"{german} {year}"
    return english, german


@cache
def _verbs_about(noun: Noun) -> tuple[Verb, ...]:
    """Return the verbs whose object the noun can be."""
    return tuple(verb for verb in DESCRIBABLE if not verb.object_tags.isdisjoint(noun.tags))


def relative(draw: Draw, noun: Noun, row: int) -> Pair:
    """Draw a relative clause about a noun, with the comma before the German one."""
    about = pick(draw, ("past", "past", "present", "perfect"))
    person = "person" in noun.tags
    roll = draw()
    if person and roll < 0.5:
        said = clause(draw, about, subject=_who(noun, row), bare=True)
    elif person and roll < 0.6:
        said = clause(draw, about, subject=_whose(draw, row), bare=True)
    elif roll < 0.25:
        said = clause(draw, about, subject=_who(noun, row), verb=BE, bare=True)
    else:
        return _about_object(draw, noun, row, about)
    english, german = subordinate(said)
    return f" {english}", f", {german}"


def _who(noun: Noun, row: int) -> Subject:
    english = "who" if "person" in noun.tags else "which"
    person = 2 if row == PLURAL else 1
    return Subject(english, RELATIVE[row][NOMINATIVE], person, row, pronoun=True, noun=noun)


def _whose(draw: Draw, row: int) -> Subject:
    """Draw a relation of somebody: whose old brother, dessen alter Bruder."""
    relation = pick(draw, FAMILY)
    ending = STRONG[relation.gender][NOMINATIVE]
    slot = Slot("whose ", f"{RELATIVE[row][GENITIVE]} ", ending, number=0, definite=True)
    phrase = noun_phrase(draw, relation, NOMINATIVE, slot)
    return Subject(phrase.en, phrase.de, 1, noun=relation)


def _about_object(draw: Draw, noun: Noun, row: int, about: str) -> Pair:
    """Draw a relative clause in which the noun is the object: whom she helps, dem sie hilft."""
    verb = pick(draw, _verbs_about(noun))
    english, german = subordinate(clause(draw, about, verb=verb, told=NOTHING, bare=True))
    whom = "whom" if "person" in noun.tags else "which"
    before_en = f"{verb.preposition_en} " if verb.preposition_en else ""
    before_de = f"{verb.preposition_de} " if verb.preposition_de else ""
    return (
        f" {before_en}{whom} {english}",
        f", {before_de}{RELATIVE[row][verb.case]} {german}",
    )


def _english(said: Clause) -> str:
    form = said.form
    return f"{said.subject.en}{form.aux}{said.adverb}{form.main}{said.rest}{said.tail[0]}"


def _subject_and_reflexive(said: Clause) -> str:
    """Order a German subject that is not first: sich comes before a noun, after a pronoun."""
    if said.subject.pronoun:
        return f" {said.subject.de}{said.reflexive}"
    return f"{said.reflexive} {said.subject.de}"


def statement(said: Clause) -> Pair:
    """Put a clause in the order of a statement."""
    if said.front[0]:
        return fronted(said, *said.front)
    form = said.form
    german = f"{said.subject.de} {form.left}{said.reflexive}{said.middle}{form.right}"
    return _english(said), f"{german}{said.tail[1]}"


def fronted(said: Clause, front_en: str, front_de: str) -> Pair:
    """Put something before a statement: the German verb keeps its second place."""
    form = said.form
    german = f"{form.left}{_subject_and_reflexive(said)}{said.middle}{form.right}"
    return f"{front_en} {_english(said)}", f"{front_de} {german}{said.tail[1]}"


def question(said: Clause) -> Pair:
    """Put a clause that was drawn as asked in the order of a question."""
    form = said.form
    english = f"{form.aux.strip()} {said.subject.en}{form.main}{said.rest}{said.tail[0]}"
    german = f"{form.left}{_subject_and_reflexive(said)}{said.middle}{form.right}"
    return english, f"{german}{said.tail[1]}"


def subordinate(said: Clause) -> Pair:
    """Put a clause in the order of a subordinate clause: the German verb comes last."""
    german = f"{_subject_and_reflexive(said).lstrip()}{said.middle}{said.form.final}"
    return _english(said), f"{german}{said.tail[1]}"
