"""The German of the corpus made by rule: forms, agreement, word order, and whole sentences."""

import random
import re

import pytest
from toy import sample_pairs

from aiayn.sample import lexicon
from aiayn.sample.grammar import (
    ADVERB,
    KNOWN,
    NOTHING,
    TIME,
    Clause,
    Grammar,
    Phrase,
    Piece,
    finished,
)
from aiayn.sample.morphology import attributive, determiner

NOUNS = {noun.en[0]: noun for noun in lexicon.NOUNS}
VERBS = {
    f"{verb.en.base} {verb.en.particle}".strip(): verb
    for verbs in lexicon.VERBS.values()
    for verb in verbs
}
STEMS = {
    "the": ("d", "der"),
    "this": ("dies", "dies"),
    "a": ("ein", "ein"),
    "my": ("mein", "ein"),
}
STEMS |= {"our": ("unser", "ein"), "many": ("viel", "viel"), "three": ("drei", "zwei")}
STEMS |= {"every": ("jed", "dies"), "": ("", "zwei")}
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(sample_pairs(30_000, seed=5))


def matching(pairs: list[tuple[str, str]], english: str) -> list[tuple[re.Match[str], str]]:
    found = [(re.search(english, en), de) for en, de in pairs]
    return [(match, de) for match, de in found if match]


@pytest.mark.parametrize(
    ("word", "adjective", "noun", "plural", "case", "german"),
    [
        ("the", "alt", "man", 0, NOMINATIVE, "der alte Mann"),
        ("the", "alt", "man", 0, ACCUSATIVE, "den alten Mann"),
        ("the", "alt", "man", 0, DATIVE, "dem alten Mann"),
        ("the", "alt", "man", 0, GENITIVE, "des alten Mannes"),
        ("the", "alt", "man", 1, DATIVE, "den alten Männern"),
        ("the", "schwarz", "cat", 0, ACCUSATIVE, "die schwarze Katze"),
        ("the", "schwarz", "cat", 0, GENITIVE, "der schwarzen Katze"),
        ("a", "alt", "man", 0, NOMINATIVE, "ein alter Mann"),
        ("a", "klein", "child", 0, ACCUSATIVE, "ein kleines Kind"),
        ("a", "klein", "child", 0, DATIVE, "einem kleinen Kind"),
        ("a", "teuer", "lamp", 0, DATIVE, "einer teuren Lampe"),
        ("our", "dunkel", "house", 0, NOMINATIVE, "unser dunkles Haus"),
        ("our", "dunkel", "house", 1, NOMINATIVE, "unsere dunklen Häuser"),
        ("my", "müde", "sister", 0, NOMINATIVE, "meine müde Schwester"),
        ("every", "neu", "book", 0, NOMINATIVE, "jedes neue Buch"),
        ("this", "grün", "tree", 0, ACCUSATIVE, "diesen grünen Baum"),
        ("this", "grün", "tree", 1, GENITIVE, "dieser grünen Bäume"),
        ("", "kalt", "water", 0, NOMINATIVE, "kaltes Wasser"),
        ("", "kalt", "milk", 0, DATIVE, "kalter Milch"),
        ("", "heiß", "coffee", 0, GENITIVE, "heißen Kaffees"),
        ("three", "alt", "book", 1, NOMINATIVE, "drei alte Bücher"),
        ("many", "gut", "exam", 1, DATIVE, "vielen guten Prüfungen"),
        ("the", "reich", "student", 0, ACCUSATIVE, "den reichen Studenten"),
        ("my", "arm", "neighbor", 0, GENITIVE, "meines armen Nachbarn"),
    ],
)
def test_determiner_adjective_and_noun_agree(word, adjective, noun, plural, case, german):
    stem, declension = STEMS[word]
    gender = "p" if plural else NOUNS[noun].gender
    said = (
        determiner(stem, declension, gender, case),
        attributive(adjective, declension, gender, case),
        NOUNS[noun].de[plural][case],
    )
    assert " ".join(said).strip() == german


@pytest.mark.parametrize(
    ("verb", "present", "past"),
    [
        ("see", ["sehe", "sieht", "sehen"], ["sah", "sah", "sahen"]),
        ("smile", ["lächle", "lächelt", "lächeln"], ["lächelte", "lächelte", "lächelten"]),
        ("be", ["bin", "ist", "sind"], ["war", "war", "waren"]),
        ("invite", ["lade", "lädt", "laden"], ["lud", "lud", "luden"]),
    ],
)
def test_a_german_verb_agrees_with_its_person(verb, present, past):
    german = VERBS[verb].de
    assert [german.finite(False, person) for person in range(3)] == present
    assert [german.finite(True, person) for person in range(3)] == past


def test_zu_goes_inside_a_separable_verb():
    assert VERBS["call"].de.zu == "anzurufen"
    assert VERBS["visit"].de.zu == "zu besuchen"


DOCTOR = Phrase("the doctor", "the doctor", ("der Arzt",) * 4, "m", frozenset(["person"]))
ANNA = Piece("Anna", "Anna", KNOWN)


def clause(verb: str, tense: str, *pieces: Piece, **changes: object) -> Clause:
    group = VERBS[verb]
    said = Clause("clause", DOCTOR, group, lexicon.TENSES[tense], [*pieces], False, NOTHING)
    return said._replace(**changes)


@pytest.mark.parametrize(
    ("verb", "tense", "english", "second", "final"),
    [
        ("call", "present", "calls Anna", "ruft Anna an", "Anna anruft"),
        ("call", "progressive", "is calling Anna", "ruft Anna an", "Anna anruft"),
        ("call", "past", "called Anna", "rief Anna an", "Anna anrief"),
        ("call", "perfect", "has called Anna", "hat Anna angerufen", "Anna angerufen hat"),
        ("call", "future", "will call Anna", "wird Anna anrufen", "Anna anrufen wird"),
        ("call", "can", "can call Anna", "kann Anna anrufen", "Anna anrufen kann"),
        ("follow", "perfect", "has followed Anna", "ist Anna gefolgt", "Anna gefolgt ist"),
        ("meet", "have-to", "has to meet Anna", "muss Anna treffen", "Anna treffen muss"),
    ],
)
def test_the_finite_verb_is_second_or_final(verb, tense, english, second, final):
    said = clause(verb, tense, ANNA)
    assert said.en == f"the doctor {english}"
    assert said.german("") == f"der Arzt {second}"
    assert said.german("final") == f"der Arzt {final}"


def test_the_finite_verb_comes_before_its_subject_after_a_time():
    said = clause("call", "past", ANNA, front=Piece("yesterday", "gestern", TIME))
    assert said.en == "yesterday the doctor called Anna"
    assert said.german("") == "gestern rief der Arzt Anna an"


def test_a_question_about_an_event_of_the_past_is_in_the_perfect():
    said = clause("call", "past", ANNA, kind="question")
    assert said.en == "did the doctor call Anna"
    assert said.german("") == "hat der Arzt Anna angerufen"


def test_nicht_follows_what_is_known():
    said = clause("call", "can", Piece("", "nicht", ADVERB), ANNA, negated=True)
    assert said.en == "the doctor cannot call Anna"
    assert said.german("") == "der Arzt kann Anna nicht anrufen"


def test_sich_comes_before_a_noun_and_after_a_pronoun():
    said = clause("hurry", "past")
    assert said.german("final") == "sich der Arzt beeilte"
    he = DOCTOR._replace(en="he", de=("er", "ihn", "ihm", ""), pronoun=True)
    assert said._replace(subject=he).german("final") == "er sich beeilte"


def test_the_passive_ends_in_worden_in_the_perfect():
    passive = {verb.en.particle: verb for verb in lexicon.VERBS["passive"]}["switched off"]
    lamp = DOCTOR._replace(en="the lamp", de=("die Lampe",) * 4)
    said = clause("be", "perfect")._replace(verb=passive, subject=lamp)
    assert said.en == "the lamp has been switched off"
    assert said.german("") == "die Lampe ist ausgeschaltet worden"
    assert said.german("final") == "die Lampe ausgeschaltet worden ist"


def test_a_sentence_is_finished_in_both_languages():
    english, german = finished("a old man is at a university.", "er ist in dem Haus, das, das.")
    assert english == "An old man is at a university."
    assert german == "Er ist im Haus, das, das."
    assert finished("x.", "das Haus, in dem er ist,.")[1] == "Das Haus, in dem er ist."


def drawn(symbol: str) -> dict[str, str]:
    grammar = Grammar(random.Random(1).random)
    return {words.en: words.de for words in (grammar.expand(symbol) for _ in range(4000))}


def test_numbers_are_said_in_words():
    assert drawn("number")["twenty-one"] == "einundzwanzig"
    assert drawn("number")["seventy-six"] == "sechsundsiebzig"
    assert drawn("hundreds")["three hundred and five"] == "dreihundertfünf"
    assert drawn("ordinal")["third"] == "dritt"


def test_a_clock_time_is_said_as_it_is_spoken():
    times = drawn("clock")
    assert times["half past seven"] == "halb acht"
    assert times["half past twelve"] == "halb eins"
    assert times["a quarter to nine"] == "Viertel vor neun"
    assert times["five past two"] == "fünf nach zwei"


@pytest.mark.parametrize(
    ("noun", "pronoun"), [("coat", "er"), ("bag", "sie"), ("book", "es"), ("shoes", "sie")]
)
def test_a_pronoun_agrees_with_the_object_that_it_refers_to(pairs, noun, pronoun):
    weather = "cold|warm|hot|dark|rain|snow"
    found = matching(pairs, rf"[^ ]+ {noun} because (it|they) (?!.*({weather}))")
    assert found
    assert all(f", weil {pronoun} " in german for _, german in found)


def test_the_weather_is_es(pairs):
    found = matching(pairs, r"because it (was cold|rained|snowed)\.")
    assert found
    assert all(re.search(r", weil es (kalt war|regnete|schneite)\.", de) for _, de in found)


def test_the_verb_ends_a_clause_with_dass(pairs):
    found = matching(pairs, r"that (\w+) (arrived|came back|got up)\.")
    assert found
    assert all(re.search(r"(ankam|kamen|kam|stand|standen)\.", german) for _, german in found)


def test_a_negated_indefinite_object_has_kein(pairs):
    found = matching(pairs, r"^\w+ (did|does|do|will|has|had) not \w+ an? \w+\.")
    assert found
    assert all(re.search(r" keine?n? ", german) for _, german in found)
    assert not any("nicht" in german for _, german in found)


def test_a_genitive_stands_for_an_owner(pairs):
    found = matching(pairs, r"\bthe (?:\w+ )?teacher's")
    assert found
    assert all("Lehrers" in german for _, german in found)


def test_every_noun_has_determiners_and_adjectives():
    for noun in lexicon.NOUNS:
        assert lexicon.determiners_for(noun, "subject"), noun.en
        assert "name" in noun.tags or lexicon.adjectives_for(noun.tags, "attribute"), noun.en


def test_every_verb_has_subjects_objects_and_places():
    for verb in VERBS.values():
        assert verb.subjects <= {"weather"} or lexicon.nouns_with(verb.subjects)
        for argument in verb.arguments:
            assert argument.frame in lexicon.PATTERNS or lexicon.nouns_with(argument.tags)
        assert all(manner in lexicon.PATTERNS for manner in verb.manners)
        assert all(noun.prepositions for noun in lexicon.nouns_with(verb.places))


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            "My sister bought a blue coat because it was cold.",
            "Meine Schwester kaufte einen blauen Mantel, weil es kalt war.",
        ),
        ("The old man sees the small dog.", "Der alte Mann sieht den kleinen Hund."),
    ],
)
def test_the_words_of_the_readme_are_words_of_the_corpus(pairs, english, german):
    for side, sentence in enumerate((english, german)):
        known = {word for pair in pairs for word in re.findall(r"\w+", pair[side].lower())}
        assert {*re.findall(r"\w+", sentence.lower())} <= known
