"""Noun phrases, clauses and whole sentences, drawn at random and written in both languages.

A pattern of lexicon.yaml holds both languages side by side. Its English draws what stands in
braces, `{1 clause past}`; its German names it again, with the form it takes: `{1 final}`.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from aiayn.sample import lexicon, morphology
from aiayn.sample.clause import (
    ADVERB,
    FIRST_MARK,
    KNOWN,
    LAST,
    MANNER,
    MARK,
    MARKS,
    NEW,
    NOTHING,
    PLACE,
    PRONOUN,
    RECEIVER,
    TIME,
    Clause,
    Phrase,
    Piece,
    joined,
    marked,
    unmarked,
)
from aiayn.sample.lexicon import MIXES, Argument, Tags, Tense, Verb
from aiayn.sample.morphology import ACCUSATIVE, DATIVE, GENITIVE, PLURAL

Item = TypeVar("Item")
PhraseOrNone = TypeVar("PhraseOrNone", Phrase, Phrase | None)

# Probabilities of the optional parts of a phrase or a clause.
NEGATED, FRONTED, RELATIVE_CLAUSE = 0.1, 0.35, 0.05
WITH_MANNER, WITH_PLACE, WITH_TIME, WITH_ADVERB = 0.25, 0.25, 0.45, 0.2
WITH_PRONOUN, WITH_ADJECTIVE, WITH_OWNER = 0.3, 0.4, 0.1

FEWEST_WORDS, MOST_WORDS = 3, 40
SLOT = re.compile(r"\{(\d) ?([^}]*)\}")
AN = re.compile(rf"\b([Aa])({MARK}*) (?=(?!uni)[aeiou])")
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum"}
CONTRACTIONS |= {"zu der": "zur", "von dem": "vom", "bei dem": "beim"}
# Not after a comma, where a relative pronoun follows the preposition: `, in dem`.
APART = re.compile(rf"(?<!, )\b({'|'.join(CONTRACTIONS).replace(' ', f'{MARK}* ')})\b")


def _pronoun(
    en: str, object_en: str, german: str, person: str, gender: str, tags: str
) -> Phrase:
    cases, all_tags = (*german.split(), ""), frozenset(tags.split())
    return Phrase(en, object_en, cases, gender, all_tags, int(person), pronoun=True)


Phrases = dict[str, Phrase | None]
PRONOUNS = {columns[0]: _pronoun(*columns) for columns in lexicon.PRONOUNS}


def _refer(phrase: Phrase) -> Phrase | None:
    """Return the pronoun that refers to a noun phrase, if there is one without doubt."""
    if phrase.pronoun:
        return phrase
    name = {"m": "he", "f": "she", "n": "it", PLURAL: "they"}[phrase.gender]
    pronoun = PRONOUNS[name]._replace(tags=phrase.tags)
    if "person" in phrase.tags:
        return None if name == "it" else pronoun
    return pronoun if name == "they" else pronoun._replace(en="it", object_en="it")


def _piece(argument: Argument, phrase: Phrase, mark: str) -> Piece:
    """Return a noun phrase as an argument of a verb; the mark is that of its preposition."""
    rank = KNOWN if phrase.known else NEW
    if argument.de:
        rank = LAST
    elif phrase.pronoun:
        rank = PRONOUN
    elif argument.case == DATIVE:
        rank = RECEIVER
    german = joined(marked(argument.de, mark), phrase.de[argument.case])
    return Piece(joined(marked(argument.en, mark), phrase.object_en), german, rank, phrase)


class Grammar:
    """Draws sentences; `draw` gives random numbers in [0, 1), and all else follows."""

    def __init__(self, draw: Callable[[], float], *, marks: bool = False) -> None:
        self.draw = draw
        self.marks = marks
        """Whether words are marked, so that they can be aligned."""
        self.next_mark = FIRST_MARK
        self.patterns = lexicon.MARKED_PATTERNS if marks else lexicon.PATTERNS

    def pick(self, items: Sequence[Item]) -> Item:
        """Draw one of the items."""
        return items[int(self.draw() * len(items))]

    def _mark(self) -> str:
        """Return a mark that the sentence does not have yet; nothing, if none are wanted."""
        self.next_mark += 1
        return chr(self.next_mark) if self.marks else ""

    def _mark_anew(self, phrase: PhraseOrNone) -> PhraseOrNone:
        """Mark a pronoun, which may stand elsewhere in the sentence, too."""
        if not (self.marks and phrase and phrase.pronoun):
            return phrase
        mark = self._mark()
        forms = (phrase.en, phrase.object_en, *phrase.de)
        en, object_en, *de = (marked(unmarked(form), mark) for form in forms)
        return phrase._replace(en=en, object_en=object_en, de=tuple(de))

    def _mixed(self, name: str) -> str:
        return self.pick(MIXES.get(name) or [name])

    def sentence(self) -> tuple[str, str]:
        """Draw a sentence of 3 to 40 words in each language."""
        while True:
            self.next_mark = FIRST_MARK
            drawn = self.expand("sentence")
            pair = finished(drawn.en, drawn.de)
            if all(FEWEST_WORDS <= side.count(" ") + 1 <= MOST_WORDS for side in pair):
                return pair

    def expand(self, symbol: str, rank: int = 0, **given: Phrase) -> Piece:
        """Draw a pattern and fill its slots, the German ones with what the English drew."""
        english, german = self.pick(self.patterns[symbol])
        phrases: Phrases = {**PRONOUNS, **given}
        slots: dict[str, Phrase | Piece | Clause] = {}

        def fill(match: re.Match[str]) -> str:
            label = match[1]
            slots[label] = drawn = self._slot(match[2].split(), phrases)
            if isinstance(drawn, Clause):
                objects = [piece.phrase for piece in drawn.pieces if piece.phrase]
                phrases[f"{label}.subject"] = drawn.subject
                phrases[f"{label}.pronoun"] = _refer(drawn.subject)
                phrases[f"{label}.it"] = _refer(objects[0]) if objects else None
            return drawn.en

        english = SLOT.sub(fill, english)
        german = SLOT.sub(lambda match: slots[match[1]].german(match[2]), german)
        if self.marks:
            # Those of the pattern itself become marks of this sentence.
            own = {lexicon.OWN_MARKS + number: self._mark() for number in range(1, 10)}
            english, german = english.translate(own), german.translate(own)
        return Piece(english, german, rank)

    def _slot(self, words: list[str], phrases: Phrases) -> Phrase | Piece | Clause:
        """Draw what a slot asks for: a clause, a noun phrase, an adjective, or a pattern."""
        kind, *rest = words
        if kind in ("clause", "question", "base", "ing"):
            return self.clause(kind, self._mixed(rest[0]), rest[1:], phrases)
        if kind == "noun":
            return self.noun_phrase(frozenset(rest[1:]), rest[0])
        if kind in ("predicate", "comparative") and (subject := phrases["subject"]):
            en, de = self.pick(lexicon.adjectives_for(subject.tags, kind))
            mark = self._mark()
            return Piece(marked(en, mark), marked(de, mark))
        return self.expand(kind)

    def clause(self, kind: str, time: str, words: list[str], phrases: Phrases) -> Clause:
        """Draw a clause about a time; of its kinds, `base` and `ing` are infinitives.

        Words name its group of verbs (`verb=`), its subject, or an argument that comes first
        (`gap=`). A `bare` clause has nothing else in front, and no relative clause inside.
        """
        options = dict(word.partition("=")[::2] for word in words)
        bare, negated = "bare" in options, kind == "clause" and self.draw() < NEGATED
        plain = negated or kind != "clause"
        subject, gap = (phrases.get(options.get(name, "")) for name in ("subject", "gap"))
        if options.get("gap") == "which":
            gap = self.noun_phrase(frozenset(MIXES["which"]), "asked")
        subject, gap = map(self._mark_anew, (subject, gap))
        verb = self._verb(options.get("verb", "statement"), time, subject, gap)
        tense = self._tense(verb, time, plain)
        subject = subject or self._somebody(verb.subjects, "subject", "subjects")
        subject = subject if bare else self._with_relative(subject)
        front = _piece(verb.arguments[0], gap, self._mark()) if gap else NOTHING
        marks = [self._mark() for _ in range(3)]
        denial = marks[2] if negated else None
        pieces = [] if gap else self._arguments(verb, subject, bare, denial)
        if negated and not any(piece.rank == NEW for piece in pieces):
            pieces.append(Piece("", f"nicht{denial}", ADVERB))
        if not any("," in piece.de for piece in pieces):
            pieces += self._adverbials(verb, tense, plain, bare)
        if not bare and kind == "clause" and self.draw() < FRONTED:
            front = next((piece for piece in pieces if piece.rank in (TIME, PLACE)), NOTHING)
            pieces = [piece for piece in pieces if piece is not front]
        return Clause(kind, subject, verb, tense, pieces, negated, front, marks)

    def _verb(self, group: str, time: str, subject: Phrase | None, gap: Phrase | None) -> Verb:
        while True:
            verb = self.pick(lexicon.VERBS[self._mixed("taking" if gap else group)])
            if verb.fits(time, subject.tags if subject else None, gap.tags if gap else None):
                return verb

    def _tense(self, verb: Verb, time: str, plain: bool) -> Tense:
        """Draw a tense; a plain one has a question and a negation in both languages."""
        names = lexicon.TIMES[time][: None if verb.group in MIXES["willed"] else 1]
        names = [name for name in names if not (plain and name in MIXES["affirmed"])]
        return lexicon.TENSES[self.pick(names)]

    def _somebody(self, tags: Tags, role: str, pronouns: str, denial: str = "") -> Phrase:
        """Draw a noun phrase or, for a person, one of some pronouns."""
        if "person" in tags and self.draw() < WITH_PRONOUN:
            return self._mark_anew(PRONOUNS[self._mixed(pronouns)])
        return self.noun_phrase(tags, role, denial)

    def _arguments(
        self, verb: Verb, subject: Phrase, bare: bool, denial: str | None
    ) -> list[Piece]:
        """Draw what the verb needs, in the order of English; `denial` is the mark of `not`."""
        pieces = []
        first = unmarked(subject.en) in ("I", "we", "you")
        pronouns = "others" if first else "objects"
        # Not `her` before a second object: `gave her old books` would be ambiguous.
        pronouns = pronouns if len(verb.arguments) == 1 else "receivers"
        for argument in verb.arguments:
            if argument.frame in lexicon.PATTERNS:
                pieces.append(self.expand(argument.frame, LAST, subject=subject))
            elif argument.frame in ("at", "to"):
                pieces.append(self._place(argument.frame, argument.tags))
            else:
                kein = denial is not None and argument.frame == "acc" and not argument.de
                role = "denied" if kein else "object"
                phrase = self._somebody(argument.tags, role, pronouns, denial or "")
                phrase = phrase if bare else self._with_relative(phrase)
                pieces.append(_piece(argument, phrase, self._mark()))
        return pieces

    def _adverbials(self, verb: Verb, tense: Tense, plain: bool, bare: bool) -> list[Piece]:
        """Draw a manner, a place, and a time or an adverb, in the order of English."""
        pieces = []
        if verb.manners and self.draw() < WITH_MANNER:
            pieces.append(self.expand(self.pick(verb.manners), MANNER))
        if verb.places and self.draw() < WITH_PLACE:
            pieces.append(self._place("at", verb.places))
        roll = self.draw()
        # A negated habit would need another word order: nicht jeden Tag.
        timeless = bare or verb.group in MIXES["untimed"] or (plain and tense.when == "habit")
        if roll < WITH_TIME and tense.when and not timeless:
            pieces.append(self.expand(tense.when, TIME))
        elif roll > 1 - WITH_ADVERB and tense.adverbs and not (bare or plain):
            pieces.append(self.expand(tense.adverbs, ADVERB))
        return pieces

    def _place(self, frame: str, tags: Tags) -> Piece:
        """Draw a place where something is (`at`), or where somebody goes (`to`)."""
        phrase = self.noun_phrase(tags, "known")
        at_en, at_de, to_de = phrase.prepositions
        case, mark = DATIVE if to_de in ("zu", "nach") else ACCUSATIVE, self._mark()
        if frame == "at":
            at = f"{marked(at_en, mark)} {phrase.en}", f"{at_de}{mark} {phrase.de[DATIVE]}"
            return Piece(*at, PLACE)
        return Piece(f"to{mark} {phrase.en}", f"{to_de}{mark} {phrase.de[case]}", LAST)

    def noun_phrase(self, tags: Tags, role: str, denial: str = "") -> Phrase:
        """Draw a noun with a determiner of that role, perhaps an adjective and an owner.

        `denial` is the mark of a `not` that may be in its `kein`.
        """
        noun = self.pick(lexicon.nouns_with(tags))
        chosen, plural = self.pick(lexicon.determiners_for(noun, role))
        gender, declension = PLURAL if plural else noun.gender, chosen.declension
        of_determiner, of_adjective, of_noun = (self._mark() for _ in range(3))
        before = marked(chosen.en, of_determiner)
        of_determiner += denial if chosen.de == "kein" else ""
        adjective_en, adjective_de, owner_de = "", "", ""
        if "name" not in noun.tags and self.draw() < WITH_ADJECTIVE:
            adjectives = lexicon.adjectives_for(noun.tags, "attribute")
            adjective_en, adjective_de = self.pick(adjectives)
        if chosen.en == "the" and "owned" in noun.tags and self.draw() < WITH_OWNER:
            owner = self.noun_phrase(frozenset(["worker"]), "one")
            before, owner_de = f"{owner.en}'s", owner.de[GENITIVE]
        cases = tuple(
            joined(
                marked(
                    morphology.determiner(chosen.de, declension, gender, case), of_determiner
                ),
                adjective_de
                and morphology.attributive(adjective_de, declension, gender, case)
                + of_adjective,
                marked(noun.de[plural][case], of_noun),
                owner_de,
            )
            for case in morphology.CASES
        )
        english = marked(adjective_en, of_adjective), marked(noun.en[plural], of_noun)
        en, known = joined(before, *english), "known" in chosen.roles
        tags, places = noun.tags, noun.prepositions
        return Phrase(en, en, cases, gender, tags, 1 + plural, known, prepositions=places)

    def _with_relative(self, phrase: Phrase) -> Phrase:
        """Give a noun a relative clause now and then, as its subject or as its object."""
        if phrase.pronoun or self.draw() > RELATIVE_CLAUSE:
            return phrase
        en, object_en = ("who", "whom") if "person" in phrase.tags else ("which", "which")
        german = morphology.RELATIVE[phrase.gender]
        who = phrase._replace(en=en, object_en=object_en, de=german, pronoun=True)
        said = self.expand("relative", who=who)
        english = f"{phrase.en} {said.en}"
        cases = tuple(f"{form}, {said.de}," for form in phrase.de)
        return phrase._replace(en=english, object_en=english, de=cases)


def finished(english: str, german: str) -> tuple[str, str]:
    """Return a sentence with its capitals, commas, `an` and contracted prepositions."""
    german = APART.sub(_contract, german)
    # A relative clause leaves a comma behind, wherever it ends.
    german = re.sub(r",(?=[.,?])", "", german)
    english = AN.sub(r"\1n\2 ", english)
    return english[0].upper() + english[1:], german[0].upper() + german[1:]


def _contract(apart: re.Match[str]) -> str:
    return CONTRACTIONS[unmarked(apart[0])] + "".join(MARKS.findall(apart[0]))
