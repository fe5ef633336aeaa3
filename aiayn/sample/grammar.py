"""Noun phrases, clauses and whole sentences, drawn at random and put in words twice.

A pattern of lexicon.yaml holds both languages side by side. Its English draws what stands in
braces, `{1 clause past}`; its German names it again, with the form it takes: `{1 final}`.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from aiayn.sample import lexicon
from aiayn.sample.lexicon import MIXES, Argument, Noun, Tags, Tense, Verb
from aiayn.sample.morphology import (
    ACCUSATIVE,
    CASE_NAMES,
    CASES,
    DATIVE,
    GENITIVE,
    PLURAL,
    RELATIVE,
    Cases,
    attributive,
    determiner,
)

Item = TypeVar("Item")

# How often a phrase or a clause has what it need not have.
NEGATED, FRONTED, RELATIVE_CLAUSE = 0.1, 0.35, 0.05
PRONOUN_SUBJECT, PRONOUN_OBJECT = 0.35, 0.2
WITH_MANNER, WITH_PLACE, WITH_TIME, WITH_ADVERB = 0.25, 0.25, 0.45, 0.2
WITH_ADJECTIVE, SUPERLATIVE, WITH_OWNER = 0.4, 0.05, 0.1

EVENTS, UNTIMED, WHICH = (frozenset(MIXES[name]) for name in ("events", "untimed", "which"))
OWNERS = frozenset(["worker"])
FEWEST_WORDS, MOST_WORDS = 3, 40
SLOT = re.compile(r"\{(\d) ?([^}]*)\}")
REFLEXIVES = {"I": "mich", "we": "uns"}
AN = re.compile(r"\b([Aa]) (?=(?!uni)[aeiou])")
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum"}
CONTRACTIONS |= {"zu der": "zur", "von dem": "vom", "bei dem": "beim"}
# After a comma, it is a preposition before a relative pronoun.
APART = re.compile(rf"(?<!, )\b({'|'.join(CONTRACTIONS)})\b")

# The order of German between the finite verb and the end of a clause.
PRONOUN, TIME, RECEIVER, KNOWN, ADVERB, NEW, MANNER, PLACE, LAST = range(9)


class Piece(NamedTuple):
    """Words that have one form; in a clause, the rank is their place in German."""

    en: str
    de: str
    rank: int = 0

    def german(self, form: str) -> str:
        """Return the German words."""
        return self.de


NOTHING = Piece("", "")


class Phrase(NamedTuple):
    """A noun phrase in every German case, and what agreement with it needs to know."""

    en: str
    object_en: str
    de: Cases
    gender: str
    tags: Tags
    person: int = 1
    known: bool = True
    pronoun: bool = False

    def german(self, form: str) -> str:
        """Return the phrase in the case that is named."""
        return self.de[CASE_NAMES.index(form or "nom")]


class Clause(NamedTuple):
    """A clause that neither language has put in order yet."""

    kind: str
    subject: Phrase
    verb: Verb
    tense: Tense
    pieces: list[Piece]
    negated: bool
    front: Piece
    object: Phrase | None

    @property
    def en(self) -> str:
        """The English words, in the order of a statement, a question or an infinitive."""
        verb = self.verb.en
        after = [verb.particle, *(piece.en for piece in self.pieces if piece.rank != ADVERB)]
        if self.kind in ("base", "ing"):
            return _joined(getattr(verb, self.kind), *after)
        auxiliary, main = self._english_verb()
        if self.negated:
            auxiliary = f"{auxiliary} not".replace("can not", "cannot")
        start = [self.subject.en, auxiliary]
        if self.kind == "question":
            start.reverse()
        adverbs = [piece.en for piece in self.pieces if piece.rank == ADVERB]
        return _joined(self.front.en, *start, *adverbs, main, *after)

    def _english_verb(self) -> tuple[str, str]:
        """Return the auxiliary, if there is one, and the rest of the verb."""
        verb, tense, person = self.verb.en, self.tense, self.subject.person
        if tense.auxiliary_en:
            return _for_person(tense.auxiliary_en, person), getattr(verb, tense.form_en)
        past = tense.form_en == "past"
        if verb.base == "be":
            return verb.finite(past, person), ""
        if self.negated or self.kind == "question":
            return "did" if past else ("do", "does", "do")[person], verb.base
        return "", verb.finite(past, person)

    def german(self, form: str) -> str:
        """Return the German words: the finite verb is second, first (inverted) or final."""
        verb, subject = self.verb.de, self.subject.de[0]
        reflexive = REFLEXIVES.get(self.subject.en, "sich") if verb.reflexive else ""
        middle = [piece.de for piece in sorted(self.pieces, key=lambda piece: piece.rank)]
        if form == "zu":
            return _joined(reflexive, *middle, verb.zu)
        finite, end, final = self._german_verb()
        # The reflexive comes before a noun, but after a pronoun.
        around = [subject, reflexive] if self.subject.pronoun else [reflexive, subject]
        if form == "final":
            return _joined(self.front.de, *around, *middle, final)
        if form == "inverted" or self.front.de or self.kind == "question":
            return _joined(self.front.de, finite, *around, *middle, end)
        return _joined(subject, finite, reflexive, *middle, end)

    def _german_verb(self) -> tuple[str, str, str]:
        """Return the finite verb, what ends a main clause, and what ends a subordinate one."""
        verb, tense, person = self.verb.de, self.tense, self.subject.person
        # What happened is asked in the perfect; what was the case, in the past.
        if self.kind == "question" and tense.name == "past" and self.verb.group in EVENTS:
            tense = lexicon.TENSES["perfect"]
        if tense.auxiliary_de:
            auxiliary = tense.auxiliary_de.split(" / ")[-1 if verb.with_sein else 0]
            finite = _for_person(auxiliary, person)
            infinitive = f"{verb.prefix}{verb.infinitive}"
            end = verb.participle if tense.form_de == "participle" else infinitive
            return finite, end, f"{end} {finite}"
        finite = verb.finite(tense.form_de == "past", person)
        return finite, verb.prefix.strip(), f"{verb.prefix}{finite}"


Part = Piece | Phrase | Clause


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)


def _for_person(words: str, person: int) -> str:
    """Return one of `am, is, are`, or the only word there is."""
    persons = words.split(", ")
    return persons[person % len(persons)]


def _pronoun(english: str, german: str, agreement: str, tags: str) -> Phrase:
    (en, object_en), (person, gender) = english.split(), agreement.split()
    cases = (*german.split(), "")
    return Phrase(
        en, object_en, cases, gender, frozenset(tags.split()), int(person), pronoun=True
    )


PRONOUNS = {columns[0].split()[0]: _pronoun(*columns) for columns in lexicon.PRONOUNS}


def _refer(phrase: Phrase | None) -> Phrase | None:
    """Return the pronoun that refers to a noun phrase, if there is one without doubt."""
    if phrase is None or phrase.pronoun:
        return phrase
    name = "they" if phrase.person == 2 else {"m": "he", "f": "she", "n": "it"}[phrase.gender]
    pronoun = PRONOUNS[name]._replace(tags=phrase.tags)
    if "person" in phrase.tags:
        return None if name == "it" else pronoun
    return pronoun if name == "they" else pronoun._replace(en="it", object_en="it")


def _piece(argument: Argument, phrase: Phrase) -> Piece:
    """Return a noun phrase as an argument of a verb."""
    if argument.de:
        rank = LAST
    elif phrase.pronoun:
        rank = PRONOUN
    elif argument.case == DATIVE:
        rank = RECEIVER
    else:
        rank = KNOWN if phrase.known else NEW
    german = _joined(argument.de, phrase.de[argument.case])
    return Piece(_joined(argument.en, phrase.object_en), german, rank)


class Grammar:
    """Draws sentences; `draw` gives random numbers in [0, 1), and all else follows."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def pick(self, items: Sequence[Item]) -> Item:
        """Draw one of the items."""
        return items[int(self.draw() * len(items))]

    def sentence(self) -> tuple[str, str]:
        """Draw a sentence of 3 to 40 words in each language."""
        while True:
            drawn = self.expand("sentence")
            pair = finished(drawn.en, drawn.de)
            if all(FEWEST_WORDS <= side.count(" ") + 1 <= MOST_WORDS for side in pair):
                return pair

    def expand(self, symbol: str, subject: Phrase | None = None, rank: int = 0) -> Piece:
        """Draw a pattern and fill its slots, the German ones with what the English drew."""
        english, german = self.pick(lexicon.PATTERNS[symbol])
        slots: dict[str, Part] = {}

        def fill(match: re.Match[str]) -> str:
            slots[match[1]] = self._slot(*match[2].split(), slots=slots, subject=subject)
            return slots[match[1]].en

        english = SLOT.sub(fill, english)
        german = SLOT.sub(lambda match: slots[match[1]].german(match[2]), german)
        return Piece(english, german, rank)

    def _slot(
        self, kind: str, *words: str, slots: dict[str, Part], subject: Phrase | None
    ) -> Part:
        """Draw what a slot asks for: a clause, a noun phrase, ..., or another pattern."""
        if kind in ("clause", "question", "base", "ing"):
            options = dict(word.partition("=")[::2] for word in words[1:])
            return self.clause(kind, words[0], options, slots)
        if kind == "noun":
            return self.noun_phrase(frozenset(words[1:]), words[0])
        if kind == "at":
            return self.place("at", frozenset(words))
        if kind == "figure":
            low, high = map(int, words)
            figure = str(low + int(self.draw() * (high - low + 1)))
            return Piece(figure, figure)
        if subject and kind in ("adjective", "comparative"):
            return self._predicate(subject, compared=kind == "comparative")
        return self.expand(kind)

    def clause(
        self, kind: str, time: str, options: dict[str, str], slots: dict[str, Part]
    ) -> Clause:
        """Draw a clause for a slot whose options name its subject, its verbs or its gap."""
        subject = gap = None
        for option in ("subject", "pronoun", "it"):
            earlier = slots.get(options.get(option, ""))
            if isinstance(earlier, Clause):
                phrase = earlier.object if option == "it" else earlier.subject
                subject = phrase if option == "subject" else _refer(phrase)
        subject = PRONOUNS.get(options.get("subject", ""), subject)
        if "gap" in options:
            gap = PRONOUNS.get(options["gap"]) or self.noun_phrase(WHICH, "asked")
        time = self.pick(MIXES.get(time, (time,)))
        verb = self._verb(options.get("verb", "statement"), time, subject, gap)
        return self.say(kind, verb, time, subject, gap, bare="bare" in options)

    def say(
        self,
        kind: str,
        verb: Verb,
        time: str,
        subject: Phrase | None = None,
        gap: Phrase | None = None,
        *,
        bare: bool,
    ) -> Clause:
        """Draw a clause about a time; a gap is an argument that comes first.

        A bare clause has nothing else in front, and no relative clause inside.
        """
        negated = kind == "clause" and self.draw() < NEGATED
        plain = negated or kind != "clause"
        tense = self._tense(verb, time, plain=plain)
        subject = subject or self._subject(verb)
        if not bare:
            subject = self._with_relative(subject)
        target, pieces = None, []
        for argument in verb.arguments:
            if argument.frame in ("acc", "dat"):
                target = gap or self._object(verb, argument, subject, denied=negated)
                target = target if bare or gap else self._with_relative(target)
                pieces.append(_piece(argument, target))
            elif argument.frame in lexicon.PATTERNS:
                pieces.append(self.expand(argument.frame, subject, LAST))
            else:
                pieces.append(self.place(argument.frame, argument.tags))
        front = pieces.pop() if gap else NOTHING
        if negated and not any(piece.rank == NEW for piece in pieces):
            pieces.append(Piece("", "nicht", ADVERB))
        if not any("," in piece.de for piece in pieces):
            pieces += self._adverbials(verb, tense, plain=plain, bare=bare)
        if not bare and kind == "clause" and self.draw() < FRONTED:
            front = next((piece for piece in pieces if piece.rank in (TIME, PLACE)), NOTHING)
            pieces = [piece for piece in pieces if piece is not front]
        return Clause(kind, subject, verb, tense, pieces, negated, front, target)

    def _verb(
        self, group: str, time: str, subject: Phrase | None, gap: Phrase | None = None
    ) -> Verb:
        if gap:
            return self.pick(lexicon.verbs_taking(gap.tags, time))
        while True:
            verb = self.pick(lexicon.VERBS[self.pick(MIXES.get(group, (group,)))])
            agrees = subject is None or not verb.subjects.isdisjoint(subject.tags)
            if agrees and verb.fits(time):
                return verb

    def _tense(self, verb: Verb, time: str, *, plain: bool) -> Tense:
        tenses = lexicon.TIMES[time]
        while True:
            name = self.pick(tenses) if verb.group in MIXES["willed"] else tenses[0]
            if not (plain and name in MIXES["affirmed"]):
                return lexicon.TENSES[name]

    def _subject(self, verb: Verb) -> Phrase:
        if "weather" in verb.subjects:
            return PRONOUNS["it"]
        if "person" in verb.subjects and self.draw() < PRONOUN_SUBJECT:
            return PRONOUNS[self.pick(MIXES["subjects"])]
        return self.noun_phrase(verb.subjects, "subject")

    def _object(
        self, verb: Verb, argument: Argument, subject: Phrase, *, denied: bool
    ) -> Phrase:
        if "person" in argument.tags and self.draw() < PRONOUN_OBJECT:
            names = MIXES["others" if subject.en in ("I", "we", "you") else "objects"]
            pronoun = PRONOUNS[self.pick(names)]
            # `Gave her old books` might be about her books.
            if pronoun.en != "she" or len(verb.arguments) == 1:
                return pronoun
        denied = denied and argument.frame == "acc" and not argument.de
        return self.noun_phrase(argument.tags, "denied" if denied else "object")

    def _predicate(self, subject: Phrase, *, compared: bool) -> Piece:
        """Draw an adjective of the subject; only the weather is `cold` as an `it`."""
        weather = "weather" in subject.tags
        while True:
            word = self.pick(lexicon.adjectives_for(subject.tags))
            if subject.en == "it" and weather != ("weather" in word.tags):
                continue
            if not compared:
                return Piece(word.en, word.de)
            if word.comparative_en:
                return Piece(word.comparative_en, word.comparative_de)

    def _adverbials(self, verb: Verb, tense: Tense, *, plain: bool, bare: bool) -> list[Piece]:
        """Draw an adverb or a time, a manner and a place, in the order of English."""
        pieces = []
        if verb.manners and self.draw() < WITH_MANNER:
            pieces.append(self.expand(self.pick(verb.manners), rank=MANNER))
        if verb.places and self.draw() < WITH_PLACE:
            pieces.append(self.place("at", verb.places))
        if bare:
            return pieces
        roll = self.draw()
        if roll > 1 - WITH_ADVERB and tense.adverbs and not plain:
            pieces.append(self.expand(tense.adverbs, rank=ADVERB))
        # What does not happen every day would need another order: nicht jeden Tag.
        timed = verb.group not in UNTIMED and not (plain and tense.when == "habit")
        if roll < WITH_TIME and tense.when and timed:
            pieces.append(self.expand(tense.when, rank=TIME))
        return pieces

    def place(self, frame: str, tags: Tags) -> Piece:
        """Draw a place where something is (`at`), or where somebody goes (`to`)."""
        noun = self.pick(lexicon.nouns_with(tags))
        phrase = self._described(noun, "known")
        at_en, at_de, to_de = noun.prepositions
        if frame == "at":
            return Piece(f"{at_en} {phrase.en}", f"{at_de} {phrase.de[DATIVE]}", PLACE)
        case = DATIVE if to_de in ("zu", "nach") else ACCUSATIVE
        return Piece(f"to {phrase.en}", f"{to_de} {phrase.de[case]}", LAST)

    def noun_phrase(self, tags: Tags, role: str) -> Phrase:
        """Draw a noun phrase whose determiner has that role."""
        return self._described(self.pick(lexicon.nouns_with(tags)), role)

    def _described(self, noun: Noun, role: str) -> Phrase:
        """Draw a determiner for a noun, perhaps an adjective, perhaps an owner."""
        if "name" in noun.tags:
            return Phrase(noun.en[0], noun.en[0], noun.de[0], noun.gender, noun.tags)
        chosen, plural = self.pick(lexicon.determiners_for(noun, role))
        gender = PLURAL if plural else noun.gender
        before, adjective_en, adjective_de, owner_de = chosen.en, "", "", ""
        if self.draw() < WITH_ADJECTIVE:
            word = self.pick(lexicon.adjectives_for(noun.tags))
            adjective_en, adjective_de = word.en, word.de
            if chosen.en == "the" and word.superlative_en and self.draw() < SUPERLATIVE:
                adjective_en, adjective_de = word.superlative_en, word.superlative_de
        if chosen.en == "the" and "owned" in noun.tags and self.draw() < WITH_OWNER:
            owner = self.noun_phrase(OWNERS, "one")
            before, owner_de = f"{owner.en}'s", owner.de[GENITIVE]
        cases = tuple(
            _joined(
                determiner(chosen.de, chosen.declension, gender, case),
                adjective_de and attributive(adjective_de, chosen.declension, gender, case),
                noun.de[plural][case],
                owner_de,
            )
            for case in CASES
        )
        english = _joined(before, adjective_en, noun.en[plural])
        known = "known" in chosen.roles
        return Phrase(english, english, cases, gender, noun.tags, 1 + plural, known)

    def _with_relative(self, phrase: Phrase) -> Phrase:
        """Draw a relative clause about a noun now and then: as its subject or as its object."""
        if phrase.pronoun or self.draw() > RELATIVE_CLAUSE:
            return phrase
        names = ("who", "whom") if "person" in phrase.tags else ("which", "which")
        who = phrase._replace(
            en=names[0], object_en=names[1], de=RELATIVE[phrase.gender], pronoun=True
        )
        time = self.pick(MIXES["relative"])
        if self.draw() < 0.5 and lexicon.verbs_taking(phrase.tags, time):
            said = self.say(
                "clause", self._verb("", time, None, who), time, None, who, bare=True
            )
        else:
            said = self.say("clause", self._verb("statement", time, who), time, who, bare=True)
        english = f"{phrase.en} {said.en}"
        cases = tuple(f"{form}, {said.german('final')}," for form in phrase.de)
        return phrase._replace(en=english, object_en=english, de=cases)


def finished(english: str, german: str) -> tuple[str, str]:
    """Return a sentence with its capitals, commas, `an` and contracted prepositions."""
    german = APART.sub(lambda match: CONTRACTIONS[match[0]], german)
    # A relative clause leaves a comma behind, wherever it ends.
    german = re.sub(r",(?=[.,?])", "", german)
    english = AN.sub(r"\1n ", english)
    return english[0].upper() + english[1:], german[0].upper() + german[1:]
