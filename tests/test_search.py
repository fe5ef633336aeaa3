"""Beam search over tables of three words: penalty, limits, the true best (section 6.1)."""

import itertools
import math
from collections import deque
from typing import NamedTuple

import numpy as np
import pytest
import torch

from aiayn.config import DecodeConfig
from aiayn.device import read_together
from aiayn.generation.engine import Engine
from aiayn.generation.sampling import Sampling
from aiayn.generation.search import (
    BeamSearch,
    Hypothesis,
    Search,
    Task,
    length_penalty,
)
from aiayn.generation.segmentation import Segment
from aiayn.generation.step import Step, round_up
from aiayn.presets import preset
from aiayn.special_ids import EOS, PAD

WORDS = (2, 3, 4)
SIZE = 5


class Table(NamedTuple):
    """Random log-probabilities of the next token, given all tokens so far."""

    seed: int
    remembers: bool = True
    eos: float = 0.0
    """Added to the logit of EOS: the higher, the shorter the best output."""

    def __call__(self, prefix: tuple[int, ...]) -> torch.Tensor:
        seen = prefix if self.remembers else prefix[-1:]
        random = torch.Generator().manual_seed(hash((self.seed, seen)) % 2**40)
        logits = 2 * torch.randn(SIZE, generator=random)
        logits[EOS] += self.eos
        return logits.log_softmax(0)


class TableStep:
    """The step function of some sentences, each with a table of its own."""

    def __init__(self, tables: list[Table], size: int = SIZE) -> None:
        self.tables, self.size, self.rows, self.sizes = tables, size, [], []

    def reserve(self, places: int, source_length: int, limit: int) -> None:
        pass

    def admit(self, sources: list[list[int]]) -> None:
        """Begin the sentences whose tables the sources number."""
        self.rows += [[(self.tables[number], ())] for (number,) in sources]

    def __call__(self, tokens_BJ: np.ndarray, slots_BJ: np.ndarray) -> torch.Tensor:
        self.sizes.append(len(tokens_BJ))
        for place, row in enumerate(self.rows):
            parents = [row[min(slot, len(row) - 1)] for slot in slots_BJ[place]]
            pairs = zip(parents, tokens_BJ[place].tolist(), strict=True)
            # Padding stands before the first token.
            self.rows[place] = [
                (table, ids if token == PAD else (*ids, token)) for (table, ids), token in pairs
            ]
        logits = torch.zeros(*tokens_BJ.shape, self.size)
        for place, row in enumerate(self.rows):
            logits[place] = torch.stack([table(prefix) for table, prefix in row])
        return logits

    def move(self, origins: np.ndarray, places: np.ndarray, count: int) -> None:
        for origin, place in zip(origins, places, strict=True):
            self.rows[place] = self.rows[origin]
        del self.rows[count:]


def run(
    search: Search, step: Step, tasks: list[Task], most: int = 64
) -> list[list[Hypothesis]]:
    """Return the hypotheses of sentences that are numbered from 0."""
    work = deque((i, Segment([i], task, first=True)) for i, task in enumerate(tasks))
    steps = Engine(search.start(), step, 4096, most).steps(work)
    found = dict(each for ended in steps for each in ended)
    return [found[i] for i in range(len(tasks))]


def search(tables: list[Table], limits: list[int], **settings: float) -> list[list[Hypothesis]]:
    return run(BeamSearch(**settings), TableStep(tables), [Task(n) for n in limits])


def best(table: Table, limit: int, **settings: float) -> Hypothesis:
    return search([table], [limit], **settings)[0][0]


def all_scores(table: Table, limit: int, alpha: float) -> dict[tuple[int, ...], float]:
    """Return the score of every output that ends within the limit, by going through all."""
    found = {}
    for length in range(limit):
        for words in itertools.product(WORDS, repeat=length):
            tokens = (*words, EOS)
            log_p = sum(table(tokens[:i])[token].item() for i, token in enumerate(tokens))
            found[words] = log_p / length_penalty(len(tokens), alpha)
    return found


def patient_search(table: Table, limit: int, beam: int, alpha: float) -> list[Hypothesis]:
    """Beam search in plain Python that always searches up to the limit."""
    live, done = [(0.0, ())], []
    for length in range(1, limit + 1):
        grown = [
            (log_p + table(prefix)[token].item(), (*prefix, token))
            for log_p, prefix in live
            for token in (EOS, *WORDS)
        ]
        grown = sorted((pair for pair in grown if pair[0] > -math.inf), reverse=True)[
            : 2 * beam
        ]
        penalty = length_penalty(length, alpha)
        done += [(log_p / penalty, ids[:-1]) for log_p, ids in grown if ids[-1] == EOS]
        done = sorted(done, reverse=True)[:beam]
        live = [(log_p, ids) for log_p, ids in grown if ids[-1] != EOS][:beam]
    if done:
        return [Hypothesis(list(ids), score, True) for score, ids in done]
    return [Hypothesis(list(ids), log_p / penalty, False) for log_p, ids in live]


def narrowing_search(table: Table, limit: int, beam: int, alpha: float) -> list[Hypothesis]:
    """Marian's search in plain Python: each end of an output makes the beam narrower."""
    live, done = [(0.0, ())], []
    for length in range(1, limit + 1):
        grown = sorted(
            (
                (log_p + table(prefix)[token].item(), (*prefix, token))
                for log_p, prefix in live
                for token in (EOS, *WORDS)
            ),
            reverse=True,
        )[: beam - len(done)]
        done += [(log_p / length**alpha, ids[:-1]) for log_p, ids in grown if ids[-1] == EOS]
        live = [(log_p, ids) for log_p, ids in grown if ids[-1] != EOS]
    return [Hypothesis(list(ids), score, True) for score, ids in sorted(done, reverse=True)]


def assert_same(found: Hypothesis, wanted: Hypothesis) -> None:
    assert (found.ids, found.finished) == (wanted.ids, wanted.finished)
    assert found.score == pytest.approx(wanted.score, rel=1e-5)


@pytest.mark.parametrize(
    ("length", "alpha", "value"),
    [
        (1, 0.6, 1.0),
        (5, 0.6, 1.3586551827),
        (10, 0.6, 1.7328621079),
        (20, 0.6, 2.3543620837),
        (50, 0.6, 3.7785647041),
        (20, 0.3, 1.5343930669),
        (20, 0.0, 1.0),
    ],
)
def test_the_length_penalty_is_that_of_gnmt(length, alpha, value):
    assert length_penalty(length, alpha) == pytest.approx(value, rel=1e-10)


def test_the_length_of_an_output_counts_its_eos():
    table = Table(seed=5, eos=-1.0)
    found = best(table, 6, beam=4, alpha=0.6)
    tokens = (*found.ids, EOS)
    log_p = sum(table(tokens[:i])[token].item() for i, token in enumerate(tokens))
    assert len(found.ids) > 0
    assert found.score == pytest.approx(log_p / ((5 + len(found.ids) + 1) / 6) ** 0.6, rel=1e-5)


def test_without_penalty_the_score_is_the_log_probability():
    table = Table(seed=1, eos=9.0)
    wanted = pytest.approx(table(())[EOS].item(), abs=1e-6)
    assert best(table, 5, alpha=0.0) == ([], wanted, True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_a_beam_as_wide_as_the_space_finds_the_true_best(seed, remembers, alpha):
    table = Table(seed, remembers, eos=-1.0)
    scores = all_scores(table, 4, alpha)
    words = max(scores, key=scores.__getitem__)
    wanted = Hypothesis(list(words), scores[words], finished=True)
    assert_same(best(table, 4, beam=81, alpha=alpha), wanted)


@pytest.mark.parametrize("beam", [2, 3, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(12))
def test_stopping_early_never_changes_the_best(seed, alpha, beam):
    table = Table(seed, eos=(seed % 3) - 1.0)
    assert_same(
        best(table, 9, beam=beam, alpha=alpha), patient_search(table, 9, beam, alpha)[0]
    )


@pytest.mark.parametrize("nbest", [2, 3, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_stopping_early_never_changes_the_n_best(seed, alpha, nbest):
    table = Table(seed, eos=(seed % 3) - 1.0)
    wanted = patient_search(table, 8, 4, alpha)[:nbest]
    (found,) = search([table], [8], beam=4, alpha=alpha, nbest=nbest)
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_by_marians_rule_what_has_ended_keeps_its_place(seed, alpha):
    table = Table(seed, eos=1.0)
    wanted = narrowing_search(table, 30, 4, alpha)
    found = search([table], [30], beam=4, alpha=alpha, nbest=2, beam_rule="marian")[0]
    assert len(wanted) == 4
    for one, other in zip(found, wanted[:2], strict=True):
        assert_same(one, other)


def test_the_two_rules_search_differently():
    tables = [Table(seed, eos=1.0) for seed in range(30)]
    by_rule = [
        [one[0].ids for one in search(tables, [30] * 30, beam=2, alpha=0, beam_rule=rule)]
        for rule in ("paper", "marian")
    ]
    assert 1 <= sum(paper != marian for paper, marian in zip(*by_rule, strict=True)) < 15


def test_a_search_stops_as_soon_as_nothing_can_improve():
    step = TableStep([Table(seed=1, eos=20.0)])
    run(BeamSearch(), step, [Task(1000)])
    assert len(step.sizes) == 1  # the first token was all


@pytest.mark.parametrize(("log_p", "stops"), [(-2.05, True), (-1.95, False)])
def test_a_search_stops_where_log_p_over_the_penalty_of_the_limit_is_no_better(log_p, stops):
    others = math.log(1 - math.exp(-1) - 3 * math.exp(log_p))  # padding, never chosen
    logits = torch.tensor([others, -1.0, log_p, log_p, log_p])
    step = TableStep([lambda prefix: logits])
    # An output of EOS alone scores -1 / 1; lp(7) = (5 + 7) / 6 = 2 bounds all longer ones.
    run(BeamSearch(alpha=1.0), step, [Task(7)])
    assert (len(step.sizes) == 1) == stops


@pytest.mark.parametrize("alpha", [0.6, 3.0])
@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy_search(seed, alpha):
    table, prefix = Table(seed, eos=seed % 3 - 1.0), ()
    while len(prefix) < 9 and prefix[-1:] != (EOS,):
        log_p = table(prefix)
        log_p[PAD] = -math.inf
        prefix = (*prefix, int(log_p.argmax()))
    found = best(table, 9, beam=1, alpha=alpha)
    assert found.finished == (prefix[-1] == EOS)
    assert found.ids == list(prefix[:-1] if found.finished else prefix)


@pytest.mark.parametrize("beam", [1, 4])
def test_sentences_of_a_batch_do_not_influence_one_another(beam):
    tables = [Table(seed, eos=seed % 4 - 2.0) for seed in range(9)]
    limits = [1 + seed % 5 * 2 for seed in range(9)]
    together = search(tables, limits, beam=beam)
    for table, limit, (found,) in zip(tables, limits, together, strict=True):
        assert_same(found, best(table, limit, beam=beam))


@pytest.mark.parametrize("nbest", [1, 3])
@pytest.mark.parametrize("most", [1, 2, 8])
def test_new_sentences_take_the_places_of_finished_ones_and_change_nothing(nbest, most):
    tables = [Table(seed, eos=20.0 if seed % 10 == 0 else -20.0) for seed in range(20)]
    limits = [6 if seed % 10 == 0 else 3 + seed // 2 for seed in range(20)]
    step, settings = TableStep(tables), {"beam": 4, "alpha": 0.6, "nbest": nbest}
    together = run(BeamSearch(**settings), step, [Task(n) for n in limits], most)
    # Until the last sentence has begun, no place is free for more than one step.
    assert max(step.sizes) == most
    assert len(step.sizes) <= sum(limits) / most + max(limits)
    for table, limit, found in zip(tables, limits, together, strict=True):
        for one, other in zip(found, search([table], [limit], **settings)[0], strict=True):
            assert_same(one, other)


def test_a_batch_has_one_of_few_sizes_that_are_at_most_a_fifth_more():
    sizes = [round_up(count) for count in range(1, 65)]
    assert sorted(set(sizes[15:])) == [16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert all(0 <= size - count < max(1, count / 4) for count, size in enumerate(sizes, 1))


def test_scores_that_are_no_numbers_give_no_hypotheses():
    broken = TableStep([lambda prefix: torch.full((SIZE,), math.nan)] * 2)
    assert run(BeamSearch(), broken, [Task(4), Task(9)]) == [[], []]


@pytest.mark.parametrize("limit", [1, 2, 7])
@pytest.mark.parametrize("beam", [1, 4])
def test_an_output_that_does_not_end_is_the_best_that_grew_to_the_limit(limit, beam):
    table = Table(seed=3, eos=-math.inf)
    found = best(table, limit, beam=beam)
    assert_same(found, patient_search(table, limit, beam, 0.6)[0])
    assert not found.finished
    assert len(found.ids) == limit


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_an_output_with_its_eos_is_never_longer_than_the_limit(limit):
    for seed in range(10):
        (found,) = search([Table(seed, eos=-2.0)], [limit], beam=4, nbest=4)
        assert all(len(hypothesis.ids) + hypothesis.finished <= limit for hypothesis in found)


def test_an_output_that_ends_comes_before_one_that_does_not():
    # At the second and last step, EOS is possible but far less likely than any word.
    found = best(Table(seed=1, eos=-12.0), 2, beam=4)
    assert found.finished


def test_padding_is_never_part_of_an_output():
    for seed in range(20):
        (found,) = search([Table(seed)], [6], beam=5, nbest=5)
        assert all(PAD not in hypothesis.ids for hypothesis in found)


def test_the_n_best_are_different_and_sorted():
    (found,) = search([Table(seed=2)], [6], beam=6, nbest=6)
    scores = [hypothesis.score for hypothesis in found]
    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 6
    assert scores == sorted(scores, reverse=True)


def test_no_sentences_give_no_hypotheses():
    assert search([], []) == []


def test_the_defaults_are_the_papers():
    assert (BeamSearch().beam, BeamSearch().alpha) == (4, 0.6)
    assert preset("base").decode == DecodeConfig(beam=4, alpha=0.6, extra_length=50)
    parsing = preset("parsing").decode
    assert (parsing.beam, parsing.alpha, parsing.extra_length) == (21, 0.3, 300)


@pytest.mark.parametrize("search", [BeamSearch(), BeamSearch(beam=1), Sampling(samples=3)])
def test_a_step_waits_for_the_device_once(monkeypatch, search):
    real, reads = torch.Tensor.cpu, []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: reads.append(1) or real(tensor))
    step = TableStep([Table(seed) for seed in range(4)])
    run(search, step, [Task(6)] * 4)
    assert len(reads) == len(step.sizes) > 3


def test_what_is_read_together_is_what_was_there():
    floats = torch.tensor([[-math.inf, 1.5, -0.0], [3e-39, math.nan, 7e30]])
    ids = torch.tensor([[0, 2**31 - 1], [5, 6]])
    found, numbers = read_together(floats, ids)
    assert found.tobytes() == floats.numpy().tobytes()
    assert numbers.dtype == np.int64
    assert numbers.tolist() == ids.tolist()
