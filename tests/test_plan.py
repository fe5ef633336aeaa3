"""The plan of updates: every pair once, in groups of like length, by (seed, epoch) alone."""

import numpy as np
import pytest

from aiayn.config import BatchConfig
from aiayn.data import plan as plan_module
from aiayn.data.plan import batches_by_length, micro_batches, plan_epoch


def random_lengths(count=500, longest=60):
    random = np.random.default_rng(99)
    source = random.integers(2, longest, count)
    target = np.maximum(2, source + random.integers(-3, 4, count))
    return source.astype(np.int32), target.astype(np.int32)


SOURCE, TARGET = random_lengths()


def plan(source=SOURCE, target=TARGET, **changed):
    settings = {"tokens": 300, "jitter": 0.1, "seed": 1, "epoch": 0} | changed
    batch = BatchConfig(tokens=settings["tokens"], jitter=settings["jitter"])
    return plan_epoch(source, target, batch, seed=settings["seed"], epoch=settings["epoch"])


def updates(**changed):
    found = plan(**changed)
    return [found.pairs(number) for number in range(len(found))]


def same(some, others):
    return len(some) == len(others) and all(map(np.array_equal, some, others))


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.9])
def test_every_pair_is_seen_once_an_epoch(jitter):
    assert sorted(np.concatenate(updates(jitter=jitter))) == list(range(len(SOURCE)))


@pytest.mark.parametrize("tokens", [1, 59, 100, 300, 10**9])
def test_no_update_has_more_tokens_on_either_side_unless_one_pair_alone_has(tokens):
    for pairs in updates(tokens=tokens):
        most = max(SOURCE[pairs].sum(), TARGET[pairs].sum())
        assert most <= tokens or len(pairs) == 1


def test_an_update_is_full_before_the_next_one_begins():
    found = plan(jitter=0.0)
    for start, stop in zip(found.bounds[:-2], found.bounds[1:-1], strict=True):
        one_more = found.order[start : stop + 1]
        assert max(SOURCE[one_more].sum(), TARGET[one_more].sum()) > 300


def test_all_pairs_make_one_update_if_they_fit():
    (everything,) = updates(tokens=10**9)
    assert len(everything) == len(SOURCE)


def test_without_jitter_pairs_are_sorted_by_their_longer_side():
    longer = np.maximum(SOURCE, TARGET)[plan(jitter=0.0).order]
    assert (np.diff(longer) >= 0).all()


def test_with_jitter_no_pair_comes_after_much_longer_ones():
    longer = np.maximum(SOURCE, TARGET)[plan(jitter=0.1).order]
    # Each is placed by its length times 0.9 to 1.1, plus at most 1.
    assert (0.9 * np.maximum.accumulate(longer) <= 1.1 * longer + 1).all()
    assert (np.diff(longer) < 0).any()


def test_the_lengths_of_an_update_are_alike():
    source, target = random_lengths(5000)
    longer = np.maximum(source, target)
    padded = [
        len(pairs) * longer[pairs].max() for pairs in updates(source=source, target=target)
    ]
    assert sum(padded) < 1.2 * longer.sum()


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_pairs_are_grouped_anew_in_each_epoch(jitter):
    groups = [
        {frozenset(pairs.tolist()) for pairs in updates(jitter=jitter, epoch=epoch)}
        for epoch in (0, 1)
    ]
    assert len(groups[0] & groups[1]) < len(groups[0]) / 2


def test_a_plan_is_a_function_of_seed_and_epoch():
    np.random.seed(0)
    before = updates(seed=3, epoch=2)
    np.random.seed(1)
    assert same(updates(seed=3, epoch=2), before)
    assert not same(updates(seed=3, epoch=3), before)
    assert not same(updates(seed=4, epoch=2), before)


def test_seed_and_epoch_do_not_stand_in_for_each_other():
    assert not same(updates(seed=1, epoch=2), updates(seed=2, epoch=1))


def test_updates_do_not_come_in_order_of_length():
    lengths = [np.maximum(SOURCE, TARGET)[pairs].mean() for pairs in updates(jitter=0.0)]
    assert lengths != sorted(lengths)


def test_a_pair_longer_than_an_update_is_an_update_of_its_own():
    source, target = SOURCE.copy(), TARGET.copy()
    target[7] = 1000
    alone = [pairs for pairs in updates(source=source, target=target) if 7 in pairs]
    assert [pairs.tolist() for pairs in alone] == [[7]]


def test_lengths_add_up_beyond_32_bits():
    lengths = np.full(3, 2**30, dtype=np.int32)
    assert len(plan(lengths, lengths, tokens=2**31)) == 2


@pytest.mark.parametrize("limit", [1, 60, 200, 10**9])
def test_micro_batches_cover_an_update_once_within_the_limit(limit):
    for pairs in updates():
        pieces = micro_batches(pairs, SOURCE, TARGET, limit=limit)
        assert sorted(np.concatenate(pieces)) == sorted(pairs)
        for piece in pieces:
            padded = len(piece) * max(SOURCE[piece].max(), TARGET[piece].max())
            assert padded <= limit or len(piece) == 1


def test_the_longest_micro_batch_comes_first():
    pieces = micro_batches(np.arange(len(SOURCE)), SOURCE, TARGET, limit=200)
    longest = [max(SOURCE[piece].max(), TARGET[piece].max()) for piece in pieces]
    assert longest == sorted(longest, reverse=True)
    assert longest[0] == max(SOURCE.max(), TARGET.max())


def test_micro_batches_are_about_equally_large():
    lengths = np.full(21, 10, dtype=np.int32)
    pieces = micro_batches(np.arange(21), lengths, lengths, limit=200)
    assert [len(piece) for piece in pieces] == [11, 10]


def test_micro_batches_of_unlike_lengths_are_about_equally_large_too():
    random = np.random.default_rng(3)
    lengths = random.integers(18, 24, 217, dtype=np.int32)
    pieces = micro_batches(np.arange(217), lengths, lengths, limit=4096)
    sizes = [len(piece) * int(lengths[piece].max()) for piece in pieces]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= 2 * 23


def test_a_pair_beyond_the_limit_leaves_the_others_equally_large():
    lengths = np.array([1000] + [10] * 21, dtype=np.int32)
    pieces = micro_batches(np.arange(22), lengths, lengths, limit=100)
    assert [len(piece) for piece in pieces] == [1, 7, 7, 7]


def test_micro_batches_do_not_depend_on_the_order_of_an_update():
    pairs = np.arange(40)
    lengths = np.arange(40, dtype=np.int32) + 2
    one = micro_batches(pairs, lengths, lengths, limit=100)
    other = micro_batches(pairs[::-1], lengths, lengths, limit=100)
    assert same(one, other)


@pytest.mark.parametrize("block", [1, 7, 100])
def test_the_plan_is_the_same_however_many_pairs_are_looked_at_together(block, monkeypatch):
    random = np.random.default_rng(2)
    lengths = random.integers(1, 30, (2, 400), dtype=np.int32)
    wanted = plan(*lengths, tokens=60)
    monkeypatch.setattr(plan_module, "BLOCK", block)
    assert plan(*lengths, tokens=60).bounds.tolist() == wanted.bounds.tolist()


def test_batches_by_length_hold_each_sequence_once_and_the_longest_first():
    lengths = [3, 9, 4, 9, 1, 5]
    assert batches_by_length(lengths, 10) == [[1], [3], [5, 2], [0, 4]]


def test_a_sequence_beyond_the_limit_is_a_batch_of_its_own():
    assert batches_by_length([7, 30, 7], 14) == [[1], [0, 2]]


def test_the_rows_of_a_batch_are_rounded_as_asked():
    assert batches_by_length([1] * 7, 6, lambda rows: rows // 4 * 4) == [
        [0, 1, 2, 3],
        [4, 5, 6],
    ]
