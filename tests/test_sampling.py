"""Samples follow the model's probabilities, and are batch-invariant."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from test_search import WORDS, Table, TableStep, run

from aiayn.generation.rules import Rules
from aiayn.generation.sampling import Sampling, exponential, random_key
from aiayn.generation.search import Hypothesis, Task, length_penalty
from aiayn.special_ids import EOS, PAD

TABLE = Table(seed=4)
MANY = 4000


def draw(table: Table, task: Task, **settings: object) -> list[Hypothesis]:
    (found,) = run(Sampling(**settings), TableStep([table]), [task])
    return found


def first_tokens(**settings: object) -> Counter[int]:
    """Count the first tokens of many samples."""
    found = draw(TABLE, Task(1), samples=MANY, **settings)
    return Counter(hypothesis.ids[0] if hypothesis.ids else EOS for hypothesis in found)


def probabilities(temperature: float = 1.0) -> dict[int, float]:
    """Return those of the first token; padding is never drawn."""
    logits = TABLE(()) / temperature
    logits[PAD] = -math.inf
    return dict(enumerate(logits.softmax(0).tolist()))


def chi_square(found: Counter, wanted: dict) -> float:
    total = sum(wanted.values())
    expected = {key: p / total * found.total() for key, p in wanted.items() if p}
    assert set(found) <= set(expected)
    return sum((found[key] - mean) ** 2 / mean for key, mean in expected.items())


def by_probability() -> list[int]:
    p = probabilities()
    return sorted(p, key=p.__getitem__, reverse=True)


# With 3 degrees of freedom, one in a thousand exceeds 16.3; with 12, 32.9.


def test_tokens_are_drawn_as_often_as_they_are_probable():
    assert chi_square(first_tokens(), probabilities()) < 16.3


def test_whole_outputs_are_drawn_as_often_as_they_are_probable():
    first = probabilities()
    wanted = {(): first[EOS]}
    for word in WORDS:
        following = TABLE((word,))
        following[PAD] = -math.inf
        for token, p in enumerate(following.softmax(0).tolist()):
            if token != PAD:
                wanted[(word, token) if token != EOS else (word,)] = first[word] * p
    found = draw(TABLE, Task(2), samples=MANY)
    assert chi_square(Counter(tuple(sample.ids) for sample in found), wanted) < 32.9


@pytest.mark.parametrize("temperature", [0.4, 3.0])
def test_the_temperature_divides_the_logits(temperature):
    found = first_tokens(temperature=temperature)
    assert chi_square(found, probabilities(temperature)) < 16.3


def test_a_temperature_near_0_takes_the_most_probable():
    assert set(first_tokens(temperature=0.001)) == {by_probability()[0]}


@pytest.mark.parametrize("k", [1, 2, 3, 99])
def test_top_k_draws_among_the_k_most_probable(k):
    kept = {token: probabilities()[token] for token in by_probability()[:k]}
    assert chi_square(first_tokens(top_k=k), kept) < 16.3
    assert set(first_tokens(top_k=k)) == {token for token, p in kept.items() if p}


def test_top_p_draws_among_the_fewest_that_have_this_probability():
    p = probabilities()
    first, second, *_ = by_probability()
    assert p[first] < 0.9
    assert set(first_tokens(top_p=p[first] * 0.99)) == {first}
    assert set(first_tokens(top_p=p[first] * 1.01)) == {first, second}
    assert chi_square(
        first_tokens(top_p=p[first] * 1.01), {token: p[token] for token in (first, second)}
    ) < (10.8)
    assert set(first_tokens(top_p=1e-9)) == {first}


def test_times_are_exponential_and_never_zero():
    keys = torch.tensor([[random_key(n) for n in range(100)]])
    times = exponential(keys, 2000)[0]
    assert float(times.min()) > 0
    for way in (0, 1):  # of tokens, and of keys
        assert times.mean(way).tolist() == pytest.approx([1] * times.size(1 - way), abs=0.6)
        pairs = torch.corrcoef(times.T[:100] if way else times).abs().triu(1)
        assert float(pairs.max()) < (0.6 if way else 0.12)
    assert float(times.mean()) == pytest.approx(1, abs=0.01)
    # A fifth of each: the quantiles of the exponential distribution.
    bounds = torch.tensor([-math.log(1 - part / 5) for part in range(1, 5)])
    parts = torch.histc(torch.bucketize(times, bounds).float(), 5, 0, 4) / times.numel()
    assert parts.tolist() == pytest.approx([0.2] * 5, abs=0.004)


@pytest.mark.parametrize("settings", [{"prefix": (391,)}, {"top_k": 1}, {"temperature": 0.01}])
def test_a_token_without_a_rival_is_drawn_whatever_its_random_number(settings):
    # The hash of this sentence, position and token is the largest there is.
    logits = torch.zeros(32_000)
    logits[391] = 9.0
    task = Task(1, settings.pop("prefix", ()), seed=2210)
    sampling = Sampling(seed=1, **settings)
    (found,) = run(sampling, TableStep([lambda _: logits], 32_000), [task])
    assert [sample.ids for sample in found] == [[391]]


def test_a_sentence_has_the_same_samples_in_any_company():
    tables = [Table(seed, eos=seed % 4 - 2.0) for seed in range(12)]
    tasks = [Task(3 + seed % 4 * 3, seed=100 + seed) for seed in range(12)]
    sampling = Sampling(samples=3)
    alone = [
        run(sampling, TableStep([table]), [task])[0]
        for table, task in zip(tables, tasks, strict=True)
    ]
    assert run(sampling, TableStep(tables), tasks) == alone
    assert run(sampling, TableStep(tables[::-1]), tasks[::-1]) == alone[::-1]


def test_a_sample_is_the_same_however_many_are_drawn():
    three = draw(TABLE, Task(9, seed=5), samples=3)
    assert three == draw(TABLE, Task(9, seed=5), samples=7)[:3]
    assert len({tuple(sample.ids) for sample in three}) > 1


def test_rounding_does_not_change_what_is_drawn():
    # Of 5,000 tokens, a sum of probabilities passes some wherever rounding shifts it.
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 5000, generator=random).expand(500, 5000)
    shifted = logits + 1e-4 * torch.randn(500, 5000, generator=random)
    tasks = [Task(1, seed=seed) for seed in range(500)]
    found, other = (
        run(Sampling(), TableStep([lambda _, row=row: row for row in of], 5000), tasks)
        for of in (logits, shifted)
    )
    assert len({tuple(sample.ids) for (sample,) in found}) > 400
    assert [sample.ids for (sample,) in found] == [sample.ids for (sample,) in other]


@pytest.mark.parametrize("change", [{"seed": 2}, {}])
def test_samples_depend_on_the_seed_and_on_the_sentence(change):
    tasks = [Task(9, seed=seed) for seed in range(20)]
    sampling = Sampling()
    found = run(sampling, TableStep([TABLE] * 20), tasks)
    again = run(replace(sampling, **change), TableStep([TABLE] * 20), tasks)
    assert (found == again) == (not change)
    assert len({tuple(sample.ids) for (sample,) in found}) > 5


@pytest.mark.parametrize("samples", [1, 2, 9])
def test_as_many_samples_come_as_were_asked_for(samples):
    tasks = [Task(6, seed=seed) for seed in range(3)]
    found = run(Sampling(samples=samples), TableStep([Table(s) for s in range(3)]), tasks)
    assert [len(of_sentence) for of_sentence in found] == [samples] * 3


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"temperature": 2.0, "alpha": 0.0}])
def test_the_score_is_the_models_own_log_probability_with_the_length_penalty(settings):
    alpha = settings.get("alpha", 0.6)
    for sample in draw(TABLE, Task(5), samples=20, **settings):
        tokens = [*sample.ids, *([EOS] if sample.finished else [])]
        log_p = sum(TABLE(tuple(tokens[:i]))[t].item() for i, t in enumerate(tokens))
        assert sample.score == pytest.approx(log_p / length_penalty(len(tokens), alpha), 1e-5)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_sample_with_its_eos_is_never_longer_than_the_limit(limit):
    found = draw(Table(2, eos=-1.0), Task(limit), samples=200)
    assert {sample.finished for sample in found} == {True, False}
    for sample in found:
        assert len(sample.ids) + sample.finished <= limit
        assert sample.finished or len(sample.ids) == limit


def test_samples_keep_the_rules():
    rules = Rules(min_length=4, no_repeat=2)
    for sample in draw(Table(1, eos=3.0), Task(9, (3, 3)), samples=50, rules=rules):
        pairs = list(zip(sample.ids, sample.ids[1:], strict=False))
        assert sample.ids[:2] == [3, 3]
        assert len(sample.ids) >= 4
        assert len(set(pairs)) == len(pairs)
        assert PAD not in sample.ids


def test_probabilities_that_are_no_numbers_give_no_samples():
    broken = TableStep([lambda prefix: torch.full((5,), torch.nan)])
    assert run(Sampling(samples=2), broken, [Task(3)]) == [[]]
