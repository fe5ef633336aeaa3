"""What searches for the server: lines join those that are searched, and failures stay alone."""

from dataclasses import replace
from http import HTTPStatus
from queue import SimpleQueue

import pytest
from toy import sentences

import aiayn
from aiayn.generation.search import BeamSearch
from aiayn.serving.worker import (
    LONGEST_SHOWN,
    AttentionJob,
    LineJob,
    Served,
    SharedSearch,
    Wanted,
    Worker,
)

PAIR = ("en", "de")
WANTED = Wanted(PAIR)


@pytest.fixture(scope="module")
def model(trained):
    return aiayn.load(trained, device="cpu")


@pytest.fixture(scope="module")
def served(model):
    return Served(model, model.translator(BeamSearch()))


def work(served, *jobs, beam=None):
    """Return the results of jobs, by number."""
    results, inbox = {}, SimpleQueue()
    for job in (*jobs, None):
        inbox.put(job)
    worker = Worker({PAIR: served}, beam, None, results.__setitem__)
    worker.run(inbox)
    assert not worker.searches
    return results


def test_lines_of_all_kinds_are_translated_beside_one_another(served, model):
    lines = [*sentences(20, seed=91), "", "ba " * 300]
    ways = [WANTED, Wanted(PAIR, nbest=3), Wanted(PAIR, aligns=True)]
    jobs = [LineJob(i, ways[i % 3], line) for i, line in enumerate(lines)]
    found = work(served, *jobs)
    assert [found[i].texts[0] for i in range(len(lines))] == model.translate(lines)
    assert {len(found[i].texts) for i in (1, 4, 7)} == {3}
    assert found[2].words.source == lines[2].split()
    assert found[0].words is None


def test_a_line_joins_those_that_are_searched_already(served, model):
    search = SharedSearch(served.translator)
    search.add(LineJob(1, WANTED, "ba be gu da"))
    first = search.step()
    search.add(LineJob(2, WANTED, "di du"))
    ended = [*first, *search.step()]
    assert not ended
    assert len(search.jobs) == 2
    while search.owners:
        ended += search.step()
    found = {line.job.number: search.join(line).texts for line in ended}
    assert found == {1: model.translate(["ba be gu da"]), 2: model.translate(["di du"])}


def test_a_wide_beam_of_the_server_is_used(served, model):
    (found,) = work(served, LineJob(1, Wanted(PAIR, nbest=3), "ba be"), beam=6).values()
    (wanted,) = model.translate(["ba be"], beam=6, nbest=3)
    assert found.scores == pytest.approx([output.score for output in wanted.outputs], rel=1e-5)


def test_attention_is_drawn_between_the_steps_of_a_search(served, model):
    jobs = LineJob(1, WANTED, "ba be"), AttentionJob(2, PAIR, "ba be", "ab eb")
    found = work(served, *jobs)
    assert found[1].texts == model.translate(["ba be"])
    assert found[2] == model.attention("ba be", "ab eb").html


@pytest.mark.parametrize("source", ["", "ba " * LONGEST_SHOWN])
def test_attention_that_cannot_be_shown_is_refused(served, source):
    found = work(served, AttentionJob(1, PAIR, source, None), LineJob(2, WANTED, "ba"))
    assert found[1].status == HTTPStatus.BAD_REQUEST
    assert found[2].texts


def test_a_search_that_fails_answers_its_lines_and_the_others_go_on(served, model, capsys):
    # No network: the search of these lines cannot take a step.
    broken = Served(model, replace(served.translator, models=()))
    results, inbox = {}, SimpleQueue()
    for job in (
        *(LineJob(i, Wanted(("x", "y")), "ba") for i in (1, 2)),
        LineJob(3, WANTED, "ba"),
    ):
        inbox.put(job)
    inbox.put(None)
    Worker({PAIR: served, ("x", "y"): broken}, None, None, results.__setitem__).run(inbox)
    assert results[1].status == results[2].status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert results[3].texts == model.translate(["ba"])
    assert "Traceback" in capsys.readouterr().err
