"""The German of the corpus made by rule, case by case by hand."""

import pytest
from aiayn.sample.clauses import Clause, clause, fronted, question, statement, subordinate
from aiayn.sample.complements import Complement
from aiayn.sample.conjugation import (
    CAN,
    HAVE_TO,
    MUST,
    PAST,
    PERFECT,
    PLUPERFECT,
    PRESENT,
    PROGRESSIVE,
    conjugate,
    conjugate_passive,
    parse_english,
    parse_german,
)
from aiayn.sample.declension import (
    ACCUSATIVE,
    BARE,
    COUNTED,
    DATIVE,
    EVERY,
    GENITIVE,
    NOMINATIVE,
    OWNERS,
    QUANTITIES,
    THE,
    THESE,
    THIS,
    A,
)
from aiayn.sample.numbers import (
    clock_times,
    dates,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
)
from aiayn.sample.phrases import Subject, prepend
from aiayn.sample.predicates import ACCUSATIVES, DATIVES, WITH_PREPOSITION

from aiayn.sample.lexicon import ALL_ADJECTIVES, ALL_NOUNS

NOUNS = {noun.en[0]: noun for noun in ALL_NOUNS}
ADJECTIVES = {adjective.en: adjective for adjective in ALL_ADJECTIVES}
VERBS = {verb.infinitive: verb for verb in (*ACCUSATIVES, *DATIVES, *WITH_PREPOSITION)}
MY, HIS, HER, OUR, THEIR = OWNERS
MANY = QUANTITIES[0]
THREE = COUNTED[1]
SINGULAR, PLURAL = 0, 1
DOCTOR = Subject("the doctor", "der Arzt", 1)


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "one", "eins"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (76, "seventy-six", "sechsundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (305, "three hundred and five", "dreihundertfünf"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
        (1000, "one thousand", "eintausend"),
        (1001, "one thousand and one", "eintausendeins"),
        (21_000, "twenty-one thousand", "einundzwanzigtausend"),
        (
            101_212,
            "one hundred and one thousand two hundred and twelve",
            "einhunderteintausendzweihundertzwölf",
        ),
        (
            654_321,
            "six hundred and fifty-four thousand three hundred and twenty-one",
            "sechshundertvierundfünfzigtausenddreihunderteinundzwanzig",
        ),
    ],
)
def test_a_number_is_said_in_words(number, english, german):
    assert english_number(number) == english
    assert german_number(number) == german


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "first", "erst"),
        (3, "third", "dritt"),
        (7, "seventh", "siebt"),
        (8, "eighth", "acht"),
        (12, "twelfth", "zwölft"),
        (19, "nineteenth", "neunzehnt"),
        (20, "twentieth", "zwanzigst"),
        (31, "thirty-first", "einunddreißigst"),
    ],
)
def test_an_ordinal_is_said_in_words(number, english, german):
    assert english_ordinal(number) == english
    assert german_ordinal(number) == german


def test_a_date_is_said_in_words_and_in_figures():
    german = dict(dates())
    assert german["on the third of May"] == "am dritten Mai"
    assert german["on the twenty-first of March"] == "am einundzwanzigsten März"
    assert german["on 7 October"] == "am 7. Oktober"
    assert len(german) == 2 * 365


def test_a_clock_time_is_said_as_it_is_spoken():
    german = dict(clock_times())
    assert german["one o'clock"] == "ein Uhr"
    assert german["five past one"] == "fünf nach eins"
    assert german["half past seven"] == "halb acht"
    assert german["half past twelve"] == "halb eins"
    assert german["a quarter to nine"] == "Viertel vor neun"
    assert german["twenty past three"] == "zwanzig nach drei"


@pytest.mark.parametrize(
    ("determiner", "adjective", "noun", "number", "case", "german"),
    [
        (THE, "old", "man", SINGULAR, NOMINATIVE, "der alte Mann"),
        (THE, "old", "man", SINGULAR, ACCUSATIVE, "den alten Mann"),
        (THE, "old", "man", SINGULAR, DATIVE, "dem alten Mann"),
        (THE, "old", "man", SINGULAR, GENITIVE, "des alten Mannes"),
        (THE, "old", "man", PLURAL, DATIVE, "den alten Männern"),
        (THE, "black", "cat", SINGULAR, ACCUSATIVE, "die schwarze Katze"),
        (THE, "black", "cat", SINGULAR, GENITIVE, "der schwarzen Katze"),
        (A, "old", "man", SINGULAR, NOMINATIVE, "ein alter Mann"),
        (A, "old", "man", SINGULAR, GENITIVE, "eines alten Mannes"),
        (A, "small", "child", SINGULAR, ACCUSATIVE, "ein kleines Kind"),
        (A, "small", "child", SINGULAR, DATIVE, "einem kleinen Kind"),
        (A, "expensive", "lamp", SINGULAR, DATIVE, "einer teuren Lampe"),
        (OUR, "dark", "house", SINGULAR, NOMINATIVE, "unser dunkles Haus"),
        (OUR, "dark", "house", PLURAL, NOMINATIVE, "unsere dunklen Häuser"),
        (HER, "tired", "sister", SINGULAR, NOMINATIVE, "ihre müde Schwester"),
        (EVERY, "new", "book", SINGULAR, NOMINATIVE, "jedes neue Buch"),
        (THIS, "green", "tree", SINGULAR, ACCUSATIVE, "diesen grünen Baum"),
        (THESE, "green", "tree", PLURAL, GENITIVE, "dieser grünen Bäume"),
        (BARE, "cold", "water", SINGULAR, NOMINATIVE, "kaltes Wasser"),
        (BARE, "cold", "milk", SINGULAR, DATIVE, "kalter Milch"),
        (BARE, "hot", "coffee", SINGULAR, ACCUSATIVE, "heißen Kaffee"),
        (BARE, "old", "book", PLURAL, DATIVE, "alten Büchern"),
        (THREE, "old", "book", PLURAL, NOMINATIVE, "drei alte Bücher"),
        (MANY, "good", "exam", PLURAL, DATIVE, "vielen guten Prüfungen"),
        (THE, "rich", "student", SINGULAR, ACCUSATIVE, "den reichen Studenten"),
        (MY, "poor", "neighbour", SINGULAR, GENITIVE, "meines armen Nachbarn"),
        (A, "young", "lion", SINGULAR, DATIVE, "einem jungen Löwen"),
        (HIS, "new", "secret", SINGULAR, GENITIVE, "seines neuen Geheimnisses"),
        (THEIR, "old", "car", PLURAL, DATIVE, "ihren alten Autos"),
    ],
)
def test_articles_adjectives_and_nouns_agree(determiner, adjective, noun, number, case, german):
    word = NOUNS[noun]
    slot = determiner.slot(word.gender, case, number)
    said = f"{slot.de}{ADJECTIVES[adjective].de}{slot.ending} {word.de[number][case]}"
    assert said == german


@pytest.mark.parametrize(
    ("english", "singular", "dative_plural"),
    [
        ("kitchen table", "Küchentisch", "Küchentischen"),
        ("school bag", "Schultasche", "Schultaschen"),
        ("library chair", "Bibliotheksstuhl", "Bibliotheksstühlen"),
        ("birthday present", "Geburtstagsgeschenk", "Geburtstagsgeschenken"),
        ("street lamp", "Straßenlampe", "Straßenlampen"),
        ("Christmas song", "Weihnachtslied", "Weihnachtsliedern"),
        ("newspaper article", "Zeitungsartikel", "Zeitungsartikeln"),
    ],
)
def test_a_compound_is_one_german_word_with_its_linking_letters(
    english, singular, dative_plural
):
    assert NOUNS[english].de[0][NOMINATIVE] == singular
    assert NOUNS[english].de[1][DATIVE] == dative_plural


@pytest.mark.parametrize(
    ("preposition", "phrase", "german"),
    [
        ("in", "dem alten Haus", "im alten Haus"),
        ("in", "das Kino", "ins Kino"),
        ("an", "dem See", "am See"),
        ("zu", "dem Bahnhof", "zum Bahnhof"),
        ("zu", "der Schule", "zur Schule"),
        ("von", "dem Lehrer", "vom Lehrer"),
        ("in", "der Schule", "in der Schule"),
        ("an", "das Konzert", "an das Konzert"),
        ("von", "Anna", "von Anna"),
    ],
)
def test_a_preposition_runs_together_with_some_articles(preposition, phrase, german):
    assert prepend(preposition, phrase) == german


def in_order(verb: str, tense: int, *, negated: bool = False, asked: bool = False) -> Clause:
    forms = VERBS[verb].conjugation
    table = forms.negations if negated else forms.questions if asked else forms.statements
    middle = " Anna nicht" if negated else " Anna"
    return Clause(DOCTOR, table[tense][1], rest=" Anna", middle=middle)


@pytest.mark.parametrize(
    ("verb", "tense", "english", "german", "at_the_end"),
    [
        ("call", PRESENT, "calls Anna", "ruft Anna an", "Anna anruft"),
        ("call", PROGRESSIVE, "is calling Anna", "ruft Anna an", "Anna anruft"),
        ("call", PAST, "called Anna", "rief Anna an", "Anna anrief"),
        ("call", PERFECT, "has called Anna", "hat Anna angerufen", "Anna angerufen hat"),
        ("call", CAN, "can call Anna", "kann Anna anrufen", "Anna anrufen kann"),
        ("help", PAST, "helped Anna", "half Anna", "Anna half"),
        ("follow", PERFECT, "has followed Anna", "ist Anna gefolgt", "Anna gefolgt ist"),
        (
            "invite",
            PLUPERFECT,
            "had invited Anna",
            "hatte Anna eingeladen",
            "Anna eingeladen hatte",
        ),
        ("meet", HAVE_TO, "has to meet Anna", "muss Anna treffen", "Anna treffen muss"),
    ],
)
def test_the_german_verb_is_second_in_a_statement_and_last_in_a_subordinate_clause(
    verb, tense, english, german, at_the_end
):
    said = in_order(verb, tense)
    assert statement(said) == (f"the doctor {english}", f"der Arzt {german}")
    assert subordinate(said) == (f"the doctor {english}", f"der Arzt {at_the_end}")


def test_the_german_verb_comes_before_its_subject_after_a_time():
    said = in_order("call", PAST)
    assert fronted(said, "yesterday", "gestern") == (
        "yesterday the doctor called Anna",
        "gestern rief der Arzt Anna an",
    )


def test_a_question_about_the_past_is_asked_in_the_perfect():
    assert question(in_order("call", PAST, asked=True)) == (
        "did the doctor call Anna",
        "hat der Arzt Anna angerufen",
    )


def test_a_question_begins_with_the_german_verb():
    assert question(in_order("call", PRESENT, asked=True))[1] == "ruft der Arzt Anna an"


def test_must_not_is_darf_nicht():
    assert statement(in_order("call", MUST, negated=True)) == (
        "the doctor must not call Anna",
        "der Arzt darf Anna nicht anrufen",
    )


def test_sich_comes_before_a_noun_and_after_a_pronoun():
    form = VERBS["remember"].conjugation.statements[PAST][1]
    noun = Clause(DOCTOR, form, rest=" Anna", reflexive=" sich", middle=" an Anna")
    pronoun = noun._replace(subject=Subject("he", "er", 1, pronoun=True))
    assert subordinate(noun)[1] == "sich der Arzt an Anna erinnerte"
    assert subordinate(pronoun)[1] == "er sich an Anna erinnerte"
    assert statement(noun)[1] == "der Arzt erinnerte sich an Anna"


def test_zu_goes_inside_a_separable_verb():
    assert VERBS["call"].zu == "anzurufen"
    assert VERBS["visit"].zu == "zu besuchen"


def plain() -> float:
    """Draw a statement without a negation, and nothing that a clause need not have."""
    return 0.5


def denied() -> float:
    """Draw a negation."""
    return 0.01


@pytest.mark.parametrize(
    ("told", "english", "german"),
    [
        (Complement(" the hat", known=" den Hut"), "the hat", "den Hut nicht"),
        (Complement(" a hat", new=" keinen Hut", negates=True), "a hat", "keinen Hut"),
        (Complement(" him", first=" ihn"), "him", "ihn nicht"),
    ],
)
def test_nicht_follows_what_is_known_and_kein_stands_for_not_a(told, english, german):
    hide = VERBS["have"]
    said = clause(denied, "present", subject=DOCTOR, verb=hide, told=told, bare=True)
    assert statement(said) == (
        f"the doctor does not have {english}",
        f"der Arzt hat {german}",
    )


def test_the_passive_ends_in_worden_in_the_perfect():
    forms = conjugate_passive(
        parse_english("switch off"),
        parse_german("aus~schalten schaltet schaltete ausgeschaltet"),
    )
    lamp = Subject("the lamp", "die Lampe", 1)
    said = Clause(lamp, forms.statements[PERFECT][1])
    assert statement(said) == (
        "the lamp has been switched off",
        "die Lampe ist ausgeschaltet worden",
    )
    assert subordinate(said)[1] == "die Lampe ausgeschaltet worden ist"


@pytest.mark.parametrize(
    ("english", "forms"),
    [
        ("see/saw/seen", ("sees", "saw", "seen", "seeing")),
        ("try", ("tries", "tried", "tried", "trying")),
        ("wash", ("washes", "washed", "washed", "washing")),
        ("love", ("loves", "loved", "loved", "loving")),
        ("play", ("plays", "played", "played", "playing")),
        ("swim/swam/swum/swimming", ("swims", "swam", "swum", "swimming")),
    ],
)
def test_an_english_verb_has_its_five_forms(english, forms):
    verb = parse_english(english)
    assert (verb.third, verb.past, verb.participle, verb.ing) == forms


@pytest.mark.parametrize(
    ("column", "first", "past_plural"),
    [
        ("lächeln lächelt lächelte gelächelt", "lächle", "lächelten"),
        ("füttern füttert fütterte gefüttert", "füttere", "fütterten"),
        ("sehen sieht sah gesehen", "sehe", "sahen"),
        ("wissen weiß wusste gewusst", "weiß", "wussten"),
        ("ein~laden lädt lud eingeladen", "lade", "luden"),
    ],
)
def test_a_german_verb_has_its_persons(column, first, past_plural):
    forms = conjugate(parse_english("x"), parse_german(column), static=False).statements
    assert forms[PRESENT][0].left == first
    assert forms[PAST][2].left == past_plural
