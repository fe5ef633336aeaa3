"""The paper's number: multi-bleu.perl's answers, known and counted the slow way."""

import math
import random

import pytest

from aiayn.scoring.paper import moses_tokenizer, multi_bleu, score_paper, split_compounds


def of(hypothesis: str, *references: str):
    """Score one line of tokens; lines are separated by a slash."""

    def lines(text: str) -> list[bytes]:
        return [line.strip().encode() for line in text.split("/")]

    return multi_bleu(lines(hypothesis), [lines(reference) for reference in references])


@pytest.mark.parametrize(
    ("reference", "hypothesis", "value", "detail"),
    [
        (
            "a b c d e",
            "a b c d e",
            "100.00",
            "100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)",
        ),
        (
            "a b c d e",
            "a b c d",
            "77.88",
            "100.0/100.0/100.0/100.0 (BP = 0.779 ratio = 0.800 hyp_len = 4 ref_len = 5)",
        ),
        (
            "a b c d e",
            "a x c y e",
            "0.00",
            "60.0/0.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)",
        ),
        (
            "Hallo Welt , das ist ein Test . / Der rich ##AT##-##AT## text Baum .",
            "Hallo Welt , das ist Test . / Der rich ##AT##-##AT## text Baum .",
            "78.06",
            "100.0/90.9/77.8/71.4 (BP = 0.926 ratio = 0.929 hyp_len = 13 ref_len = 14)",
        ),
    ],
)
def test_known_answers_of_multi_bleu_are_met(reference, hypothesis, value, detail):
    found = of(hypothesis, reference)
    assert f"{found.score:.2f}" == value
    assert found._verbose == detail


def test_no_words_at_all_score_zero():
    assert of("", "a b c d e").score == 0
    assert of("", "")._verbose.startswith("0.0/0.0/0.0/0.0 (BP = 0.000 ratio = 0.000")


def test_a_repeated_word_counts_as_often_as_one_reference_has_it():
    assert of("a a a a", "a a b c", "a b b b").precisions[0] == 50


def test_of_two_references_as_close_the_shorter_sets_the_length():
    assert of("a b c", "a b c d", "a b").ref_len == 2


def test_case_matters():
    assert of("A b c d", "a b c d").precisions[0] == 75


def test_a_no_break_space_does_not_end_a_word():
    assert of("a\xa0b c d e", "a\xa0b c d e").sys_len == 4


def slow_bleu(hypotheses: list[list[bytes]], references: list[list[list[bytes]]]) -> float:
    """BLEU by its definition, n-gram by n-gram, sharing nothing with the code under test."""
    total = 0.0
    for n in (1, 2, 3, 4):
        matches = count = 0
        for i, words in enumerate(hypotheses):
            grams = [words[k : k + n] for k in range(len(words) - n + 1)]
            count += len(grams)
            for gram in {tuple(g) for g in grams}:
                found = sum(tuple(g) == gram for g in grams)
                best = max(
                    sum(tuple(r[i][k : k + n]) == gram for k in range(len(r[i]) - n + 1))
                    for r in references
                )
                matches += min(found, best)
        if matches == 0:
            return 0.0
        total += math.log(matches / count)
    length = sum(map(len, hypotheses))
    wanted = 0
    for i, words in enumerate(hypotheses):
        wanted += sorted((abs(len(r[i]) - len(words)), len(r[i])) for r in references)[0][1]
    return 100 * min(1.0, math.exp(1 - wanted / length)) * math.exp(total / 4)


WHITE_SPACE = b" \t\n\r\x0b\x0c"
"""What ends a word in Perl. Python's text has more: 0x1c to 0x1f, 0x85 and 0xa0."""


@pytest.mark.parametrize("seed", range(40))
def test_random_corpora_of_odd_bytes_score_as_the_definition_says(seed):
    pick = random.Random(seed)
    letters = [byte for byte in range(256) if byte not in WHITE_SPACE]
    words = [bytes(pick.choices(letters, k=pick.randint(1, 2))) for _ in range(4)]
    hypotheses, *references = [
        [pick.choices(words, k=pick.randint(0, 12)) for _ in range(8)]
        for _ in range(pick.randint(2, 4))
    ]
    joined = [[b" ".join(line) for line in side] for side in (hypotheses, *references)]
    found = multi_bleu(joined[0], joined[1:])
    assert found.score == pytest.approx(slow_bleu(hypotheses, references), rel=1e-12)
    assert found.sys_len == sum(map(len, hypotheses))


def test_a_perfect_score_is_exactly_100():
    assert of("a b c d e", "a b c d e").score == 100


def test_a_percent_on_the_edge_is_rounded_as_the_script_rounds_it():
    words = "a " * 49 + "b " * 31
    assert of(words, "a " * 49 + "c " * 31)._verbose.startswith("61.3/")


@pytest.mark.parametrize(
    ("word", "split"),
    [
        ("rich-text", "rich ##AT##-##AT## text"),
        ("E-Mail-Adresse", "E ##AT##-##AT## Mail ##AT##-##AT## Adresse"),
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("-5", "-5"),
        ("x-", "x-"),
        ("- y", "- y"),
        ("E @-@ Mail", "E @ ##AT##-##AT## @ Mail"),
        # Perl sees the two bytes of an umlaut, so both hyphens have neighbors of their own.
        ("a-\xe4-c", "a ##AT##-##AT## \xe4 ##AT##-##AT## c"),
    ],
)
def test_hyphens_are_split_as_the_papers_script_splits_them(word, split):
    assert split_compounds(word).decode() == split


def test_german_quotes_become_plain_and_are_escaped():
    tokenize = moses_tokenizer("de")
    assert tokenize("\u201eDas ist gut\u201c, sagte er.") == (
        "&quot; Das ist gut &quot; , sagte er ."
    )
    assert tokenize("\u201cJa\u201d") == "&quot; Ja &quot;"


def test_a_period_before_a_small_letter_stays_with_its_word():
    assert moses_tokenizer("de")("Am 3. Mai usw. kam er.") == "Am 3. Mai usw. kam er ."


def test_quotes_of_either_kind_score_alike():
    score = score_paper(['Er sagte "das ist gut".'], [["Er sagte \u201edas ist gut\u201c."]])
    assert score.value == pytest.approx(100)


def test_splitting_rewards_half_of_a_compound():
    hypothesis, reference = (
        ["Die Nordsee-Insel ist sehr schoen ."],
        [["Die Ostsee-Insel ist sehr schoen ."]],
    )
    split = score_paper(hypothesis, reference)
    kept = score_paper(hypothesis, reference, compound=False)
    assert split.value > kept.value
    assert "compound:split" in split.signature
    assert "compound:kept" in kept.signature


def test_only_german_compounds_are_split_unless_asked_for():
    line = ["un arc-en-ciel"]
    assert "compound:kept" in score_paper(line, [line], languages="en-fr").signature
    assert "tok:moses-fr" in score_paper(line, [line], languages="en-fr").signature
    asked = score_paper(line, [line], languages="en-fr", compound=True)
    assert "compound:split" in asked.signature


def test_pretokenized_text_is_taken_as_it_is():
    text = ["Hallo Welt , das ist Test .", "Der rich ##AT##-##AT## text Baum ."]
    reference = ["Hallo Welt , das ist ein Test .", "Der rich ##AT##-##AT## text Baum ."]
    score = score_paper(text, [reference], pretokenized=True, compound=False)
    assert f"{score.value:.2f}" == "78.06"
    assert "tok:none" in score.signature
    again = score_paper(text, [reference], compound=False)
    assert f"{again.value:.2f}" != "78.06"
