"""Work shared among processes, and samples of a stream."""

import os
from collections import Counter
from contextlib import closing

import pytest

from aiayn.data.reservoir import Reservoir
from aiayn.data.workers import AHEAD, Workers, count_cores, map_in_order
from aiayn.errors import Stopped


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_work(workers):
    numbers = range(3 * AHEAD * workers)
    assert list(map_in_order(str, numbers, workers=workers)) == list(map(str, numbers))


def test_forked_workers_need_no_copy_of_what_they_do_and_work_on():
    held = {"number": 1}
    numbers = range(3 * AHEAD)
    with closing(Workers(lambda number: number + held["number"], 2, start="fork")) as workers:
        for _ in range(2):
            assert list(workers.map(numbers)) == [number + 1 for number in numbers]


def test_an_error_in_a_worker_is_raised_here():
    with pytest.raises(ValueError, match="none"):
        list(map_in_order(int, ["1", "none"], workers=2))


def test_a_killed_worker_stops_the_run_with_a_way_out():
    with pytest.raises(Stopped) as caught:
        list(map_in_order(os._exit, [9], workers=2))
    assert "again" in caught.value.fix


def sample(items, *, size, seed, block):
    reservoir = Reservoir(size, seed=seed)
    for start in range(0, len(items), block):
        part = items[start : start + block]
        reservoir.offer(len(part), lambda part=part: part)
    return reservoir.taken


def test_a_short_stream_is_taken_whole():
    assert sample("abc", size=5, seed=1, block=2) == ["a", "b", "c"]


def test_the_sample_does_not_depend_on_the_blocks():
    samples = [sample(range(100), size=7, seed=3, block=block) for block in (1, 5, 7, 100)]
    assert all(each == samples[0] for each in samples)


def test_another_seed_gives_another_sample():
    assert sample(range(100), size=7, seed=1, block=9) != sample(
        range(100), size=7, seed=2, block=9
    )


def test_every_item_is_as_likely_as_any_other():
    samples = (sample(range(12), size=3, seed=seed, block=5) for seed in range(4000))
    counts = Counter(item for taken in samples for item in taken)
    # 4000 * 3 / 12 each; the standard deviation is 27.
    assert all(abs(counts[item] - 1000) < 140 for item in range(12))
    assert counts.total() == 12_000


def test_there_is_a_core_to_work_on():
    assert count_cores() >= 1
