"""What an output has to or must not contain: lengths, repetitions, forced beginnings."""

import itertools
import random

import numpy as np
import pytest
import torch
from test_search import WORDS, Table, TableStep, all_scores, assert_same, run

from aiayn.config import DecodeConfig
from aiayn.generation.rules import Rules
from aiayn.generation.search import BeamSearch, Hypothesis, Task
from aiayn.special_ids import EOS, PAD, UNK

LIMIT = 4
WIDE = 81
"""As wide as the space of outputs within the limit."""


def search(table: Table, task: Task, rules: Rules, **settings: float) -> list[Hypothesis]:
    (found,) = run(BeamSearch(rules=rules, **settings), TableStep([table]), [task])
    return found


def best_of(scores: dict[tuple[int, ...], float]) -> Hypothesis:
    words = max(scores, key=scores.__getitem__)
    return Hypothesis(list(words), scores[words], finished=True)


def repeats(ids: tuple[int, ...] | list[int], n: int) -> bool:
    grams = [tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)]
    return len(set(grams)) < len(grams)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_output_of_a_minimum_length_is_found(seed, length):
    table = Table(seed, eos=2.0)
    wanted = {w: s for w, s in all_scores(table, LIMIT, 0.6).items() if len(w) >= length}
    found = search(table, Task(LIMIT), Rules(min_length=length), beam=WIDE)
    assert_same(found[0], best_of(wanted))


@pytest.mark.parametrize("seed", range(4))
def test_the_best_output_without_unknown_words_is_found(seed):
    table = Table(seed)
    wanted = {w: s for w, s in all_scores(table, LIMIT, 0.6).items() if UNK not in w}
    found = search(table, Task(LIMIT), Rules(unknown=False), beam=WIDE)
    assert_same(found[0], best_of(wanted))


@pytest.mark.parametrize(("rule", "may"), [("paper", True), ("marian", False)])
def test_marians_rule_has_no_unknown_words(rule, may):
    assert BeamSearch.of(DecodeConfig(beam_rule=rule)).rules == Rules(unknown=may)


def test_every_one_of_the_n_best_has_the_minimum_length():
    found = search(Table(1, eos=4.0), Task(8), Rules(min_length=3), beam=4, nbest=4)
    assert len(found) == 4
    assert min(len(hypothesis.ids) for hypothesis in found) == 3


def test_a_minimum_beyond_the_limit_gives_an_output_that_does_not_end():
    (found,) = search(Table(1, eos=4.0), Task(3), Rules(min_length=7), beam=2)
    assert (len(found.ids), found.finished) == (3, False)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_token_is_forbidden_exactly_if_it_would_repeat_n_tokens(n):
    draw = random.Random(n)
    for length in range(12):
        ids = np.array([[draw.choices(WORDS, k=length) for _ in range(2)] for _ in range(3)])
        logits = torch.zeros(3, 2, 5)
        Rules(no_repeat=n).apply(logits, ids.astype(np.int64).reshape(3, 2, length), [()] * 3)
        for row, slot, word in itertools.product(range(3), range(2), WORDS):
            before = ids[row, slot].tolist()
            grams = {tuple(before[i : i + n]) for i in range(length - n + 1)}
            wanted = tuple([*before, word][-n:]) in grams
            assert (logits[row, slot, word] == -torch.inf) == wanted


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_output_without_repetitions_is_found(seed, n):
    table = Table(seed, eos=-2.0)
    scores = {w: s for w, s in all_scores(table, 5, 2.0).items() if not repeats(w, n)}
    found = search(table, Task(5), Rules(no_repeat=n), beam=250, alpha=2.0)
    assert_same(found[0], best_of(scores))


@pytest.mark.parametrize("n", [2, 3])
def test_no_output_of_a_narrow_beam_repeats_anything(n):
    for seed in range(10):
        table = Table(seed, remembers=False, eos=-3.0)
        found = search(table, Task(12), Rules(no_repeat=n), beam=3, nbest=3, alpha=3.0)
        assert not any(repeats(hypothesis.ids, n) for hypothesis in found)


@pytest.mark.parametrize("prefix", [(2,), (4, 4), (3, 2, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_output_with_a_forced_beginning_is_found_with_its_own_score(seed, prefix):
    table = Table(seed)
    scores = all_scores(table, LIMIT, 0.6)
    wanted = {w: s for w, s in scores.items() if w[: len(prefix)] == prefix}
    found = search(table, Task(LIMIT, prefix), Rules(), beam=WIDE)
    assert_same(found[0], best_of(wanted))


def test_every_one_of_the_n_best_has_the_forced_beginning():
    found = search(Table(1, eos=4.0), Task(9, (3, 3)), Rules(), beam=4, nbest=4)
    assert len(found) == 4
    assert all(hypothesis.ids[:2] == [3, 3] for hypothesis in found)


def test_a_forced_beginning_may_break_the_other_rules_and_what_follows_may_not():
    found = search(Table(1), Task(6, (3, 3)), Rules(no_repeat=1), beam=WIDE, nbest=20)
    assert all(hypothesis.ids[:2] == [3, 3] for hypothesis in found)
    assert all(not repeats(hypothesis.ids[1:], 1) for hypothesis in found)
    assert max(len(hypothesis.ids) for hypothesis in found) == 4


def test_a_forced_beginning_does_not_touch_the_neighbours():
    tables = [Table(seed) for seed in range(5)]
    tasks = [Task(7, (2,) * (seed % 3)) for seed in range(5)]
    together = run(BeamSearch(), TableStep(tables), tasks)
    for table, task, (found,) in zip(tables, tasks, together, strict=True):
        assert_same(found, search(table, task, Rules())[0])


def test_padding_is_not_produced_however_probable_it_is():
    def padded(prefix):
        return torch.where(torch.arange(5) == PAD, 30.0, Table(1)(prefix))

    (found,) = run(BeamSearch(beam=3, nbest=3), TableStep([padded]), [Task(5)])
    assert len(found) == 3
    assert not any({PAD, EOS} & set(hypothesis.ids) for hypothesis in found)
