"""Phrases and clauses, and the order of their words in both languages.

For a word alignment, marks stand after the words: characters that no text has. Words that come
from the same place of the grammar have a mark in common.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from aiayn.sample import lexicon, morphology
from aiayn.sample.lexicon import MIXES, Tags, Tense, Verb
from aiayn.sample.morphology import Cases

# The marks of a sentence count from this character on.
FIRST_MARK = 0xF0000
MARK = f"[{chr(FIRST_MARK)}-{chr(FIRST_MARK + 0xFFFD)}]"
MARKS = re.compile(MARK)
END_OF_WORD = re.compile(r"(?<=\S)(?!\S)")

# The order of German between the finite verb and the end of a clause.
PRONOUN, TIME, RECEIVER, KNOWN, ADVERB, NEW, MANNER, PLACE, LAST = range(9)


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
    prepositions: Sequence[str] = ()

    def german(self, form: str) -> str:
        """Return the phrase in the case that is named."""
        return self.de[morphology.CASE_NAMES.index(form or "nom")]


class Piece(NamedTuple):
    """Words that have one form; in a clause, the rank is their place in German."""

    en: str
    de: str
    rank: int = 0
    phrase: Phrase | None = None

    def german(self, form: str) -> str:
        """Return the German words."""
        return self.de


NOTHING = Piece("", "")


class Clause(NamedTuple):
    """A clause that neither language has put in order yet."""

    kind: str
    subject: Phrase
    verb: Verb
    tense: Tense
    pieces: list[Piece]
    negated: bool
    front: Piece
    marks: Sequence[str] = ("", "", "")
    """Of the auxiliary, of the rest of the verb, and of the negation."""

    @property
    def en(self) -> str:
        """The English words, in the order of a statement, a question or an infinitive."""
        verb, (of_auxiliary, of_verb, of_negation) = self.verb.en, self.marks
        rest = (piece.en for piece in self.pieces if piece.rank != ADVERB)
        after = [marked(verb.particle, of_verb), *rest]
        if self.kind in ("base", "ing"):
            return joined(marked(getattr(verb, self.kind), of_verb), *after)
        auxiliary, main = map(marked, self._english_verb(), (of_auxiliary, of_verb))
        if self.negated:
            space = "" if auxiliary == f"can{of_auxiliary}" else " "
            auxiliary = f"{auxiliary}{space}not{of_negation}"
        start = [self.subject.en, auxiliary]
        if self.kind == "question":
            start.reverse()
        adverbs = [piece.en for piece in self.pieces if piece.rank == ADVERB]
        return joined(self.front.en, *start, *adverbs, main, *after)

    def _english_verb(self) -> tuple[str, str]:
        """Return the auxiliary, if there is one, and the rest of the verb."""
        verb, tense, person = self.verb.en, self.tense, self.subject.person
        if tense.name in ("present", "past"):
            finite = verb.finite(tense.name == "past", person)
            if verb.base == "be":
                return finite, ""
            if self.kind != "question" and not self.negated:
                return "", finite
        return tense.auxiliary_en.split(", ")[person], getattr(verb, tense.form_en)

    def german(self, form: str) -> str:
        """Return the German words: the finite verb is second, first (inverted) or final."""
        verb, subject, reflexive = self.verb.de, self.subject.de[0], ""
        if verb.auxiliary == "sich":
            reflexive = {"I": "mich", "we": "uns"}.get(unmarked(self.subject.en), "sich")
            reflexive = marked(reflexive, self.marks[1])
        middle = [piece.de for piece in sorted(self.pieces, key=lambda piece: piece.rank)]
        if form == "zu":
            return joined(reflexive, *middle, marked(verb.zu, self.marks[1]))
        finite, end, final = self._german_verb()
        # The reflexive comes before a noun, but after a pronoun.
        around = [subject, reflexive] if self.subject.pronoun else [reflexive, subject]
        if form == "final":
            return joined(self.front.de, *around, *middle, final)
        if form == "inverted" or self.front.de or self.kind == "question":
            return joined(self.front.de, finite, *around, *middle, end)
        return joined(subject, finite, reflexive, *middle, end)

    def _german_verb(self) -> tuple[str, str, str]:
        """Return the finite verb, what ends a main clause, and what ends a subordinate one."""
        verb, tense, person = self.verb.de, self.tense, self.subject.person
        # German asks about past events in the perfect, about past states in the past tense.
        is_event = self.verb.group in MIXES["events"]
        if is_event and self.kind == "question" and tense.name == "past":
            tense = lexicon.TENSES["perfect"]
        of_auxiliary, of_verb, _ = self.marks
        if not tense.auxiliary_de:
            # The finite verb of a passive is an auxiliary alone: its prefix is the participle.
            of_finite = of_auxiliary + ("" if self.verb.group == "passive" else of_verb)
            finite = marked(verb.finite(tense.form_de == "past", person), of_finite)
            prefix = marked(verb.prefix, of_verb)
            return finite, prefix.strip(), f"{prefix}{finite}"
        auxiliaries = tense.auxiliary_de.split(" / ")
        auxiliary = auxiliaries[-1 if verb.auxiliary == "sein" else 0].split(", ")[person]
        infinitive = f"{verb.prefix}{verb.infinitive}"
        end = verb.participle if tense.form_de == "participle" else infinitive
        finite, end = marked(auxiliary, of_auxiliary), marked(end, of_verb)
        return finite, end, f"{end} {finite}"


def joined(*words: str) -> str:
    """Return what there is of some words with spaces between them."""
    return " ".join(word for word in words if word)


def marked(words: str, mark: str) -> str:
    """Put a mark after each word."""
    return END_OF_WORD.sub(mark, words) if mark else words


def unmarked(text: str) -> str:
    """Return the text alone."""
    return MARKS.sub("", text)
