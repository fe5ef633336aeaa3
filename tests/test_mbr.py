"""Minimum Bayes risk decoding: `generate --mbr`, by chrF of all pairs of candidates."""

import json
import random

import pytest
from sacrebleu.metrics.chrf import CHRF

from aiayn.generation.translator import Output, Translation, rank
from aiayn.scoring.chrf import chrf_of_pairs, expected_chrf

WORDS = ["a", "the", "cat", "dog", "sat", "on", "Überraschung", "12", ",", ".", "x"]
draw = random.Random(1)
TEXTS = ["", "a", " a  b", *(" ".join(draw.choices(WORDS, k=k % 14)) for k in range(28))]


def test_chrf_of_each_pair_is_that_of_sacrebleu_to_the_bit():
    metric, found = CHRF(), chrf_of_pairs(TEXTS)
    for i, hypothesis in enumerate(TEXTS):
        wanted = [metric.sentence_score(hypothesis, [reference]).score for reference in TEXTS]
        assert found[i].tolist() == wanted


def test_the_expected_chrf_counts_a_text_as_often_as_it_comes():
    texts = ["a cat", "a dog", "a cat", "x"]
    scores = chrf_of_pairs(texts)
    assert expected_chrf(texts) == pytest.approx(scores.mean(axis=1).tolist())


def outputs(*texts: str) -> Translation:
    return Translation([Output(text, -1.0, True, []) for text in texts], 1, {})


def test_outputs_are_ranked_by_worth_each_text_once_and_equals_in_their_order():
    worth = {"a": 1.0, "b": 2.0, "c": 2.0}
    found = rank(outputs("a", "b", "c", "b"), lambda texts: [worth[t] for t in texts], None)
    assert [(each.text, each.score) for each in found.outputs] == [("b", 2), ("c", 2), ("a", 1)]
    first = rank(outputs("a", "c", "b"), lambda texts: [worth[t] for t in texts], 1)
    assert [each.text for each in first.outputs] == ["c"]


@pytest.mark.parametrize("how", [["--sample", "--seed", "3"], []], ids=["samples", "n-best"])
def test_the_choice_is_the_candidate_with_the_highest_mean(trained, data, aiayn, how):
    text = ("generate", trained, "-i", data.path / "valid.src", "--format", "jsonl", *how)
    _, out, _ = aiayn(*text, "--nbest", 6)
    lists = [[each["text"] for each in json.loads(x)["nbest"]] for x in out.splitlines()]
    code, out, _ = aiayn(*text, "--mbr", 6)
    for candidates, line in zip(lists, map(json.loads, out.splitlines()), strict=True):
        means = expected_chrf(candidates)
        assert (line["text"], line["score"]) == (
            candidates[means.index(max(means))],
            max(means),
        )
    assert code == 0


def test_the_choice_does_not_depend_on_company(trained, data, aiayn):
    lines = (data.path / "valid.src").read_text().splitlines()
    options = ("generate", trained, "--mbr", 5, "--sample", "--scores", "--align")
    _, together, _ = aiayn(*options, stdin="\n".join([*lines, "", ""]).encode())
    _, reverse, _ = aiayn(*options, "--batch-tokens", 20, stdin="\n".join(lines[::-1]).encode())
    assert together.splitlines()[: len(lines)] == reverse.splitlines()[::-1]
    assert together.splitlines()[-1].split("\t")[0] == ""


def test_formats_have_the_mean_for_a_score(trained, aiayn):
    line = ("generate", trained, "--mbr", 4, "--nbest", 2)
    _, out, _ = aiayn(*line, "--format", "moses", stdin=b"ba be\n")
    _, text, features, score = out.splitlines()[0].split(" ||| ")
    assert features == f"chrF= {score}"
    _, out, _ = aiayn(*line, "--format", "tsv", stdin=b"ba be\n")
    assert out.splitlines()[0].split("\t") == ["1", "1", score, text]
    assert 0 <= float(score) <= 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mbr", "8", "--beam", "4"], "--mbr 8 is more than a beam of 4 holds"),
        (["--mbr", "4", "--nbest", "5"], "--nbest 5 is more than --mbr 4 has"),
        (["--mbr", "4", "--greedy"], "--mbr 4 is more than a beam of 1 holds"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(trained, aiayn, options, message):
    code, _, err = aiayn("generate", trained, *options)
    assert (code, message in err) == (2, True)
