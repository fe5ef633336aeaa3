"""The queue between clients and workers: bounded, fair, and honest about what goes wrong."""

import asyncio
from http import HTTPStatus

import pytest

from aiayn.errors import UsageError
from aiayn.serving.connection import Connection, Refused, Request
from aiayn.serving.pool import LINES_AHEAD, Pool, WorkerThread
from aiayn.serving.server import Limits, Server
from aiayn.serving.worker import Failure, TranslatedLine, Wanted, explain

PAIR = ("en", "de")
WANTED = Wanted(PAIR)


def translated(text):
    return TranslatedLine([text.upper()], [0.0], None)


def shout(inbox, reply):
    """A worker that needs no model."""
    while (job := inbox.get()) is not None:
        reply(job.number, translated(job.text))


class PatientLink:
    """A worker that answers when the test says so."""

    def __init__(self):
        self.jobs = []

    def listen(self, reply, lost):
        self.reply, self.lost = reply, lost

    def send(self, job):
        self.jobs.append(job)

    def answer(self, count=1):
        for _ in range(count):
            job = self.jobs.pop(0)
            self.reply(job.number, translated(job.text))

    def close(self):
        pass


async def begin(pool, *lines):
    """Begin a request, and let it get as far as it can."""
    task = asyncio.ensure_future(pool.translate(WANTED, lines))
    await asyncio.sleep(0)
    return task


def texts(task):
    return [line.texts[0] for line in task.result()]


def test_lines_come_back_in_order_from_any_number_of_workers():
    async def run():
        pool = Pool([WorkerThread(shout), WorkerThread(shout)])
        found = await pool.translate(WANTED, [f"line {n}" for n in range(500)])
        pool.close()
        return [line.texts[0] for line in found]

    assert asyncio.run(run()) == [f"LINE {n}" for n in range(500)]


def test_a_short_request_does_not_wait_for_a_long_one():
    async def run():
        link = PatientLink()
        pool = Pool([link])
        long = await begin(pool, *["long"] * 1000)
        short = await begin(pool, "short")
        link.answer(LINES_AHEAD + 2)
        await asyncio.sleep(0)
        return short.done(), long.done()

    assert asyncio.run(run()) == (True, False)


def test_jobs_go_to_the_worker_that_has_the_fewest():
    async def run():
        links = [PatientLink(), PatientLink()]
        await begin(Pool(links), "a", "b", "c", "d")
        return [[job.text for job in link.jobs] for link in links]

    assert asyncio.run(run()) == [["a", "c"], ["b", "d"]]


def test_more_than_the_queue_holds_is_told_to_come_again():
    async def run():
        link = PatientLink()
        pool = Pool([link], most_lines=3)
        first = await begin(pool, "a", "b")
        second = await begin(pool, "c", "d")
        link.answer(2)
        third = await begin(pool, "e", "f", "g")
        link.answer(3)
        await asyncio.sleep(0)
        return texts(first), second.exception(), texts(third)

    first, refused, third = asyncio.run(run())
    assert (first, third) == (["A", "B"], ["E", "F", "G"])
    assert refused.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert refused.headers == {"Retry-After": "1"}


def test_what_a_client_gives_up_is_not_translated():
    async def run():
        link = PatientLink()
        pool = Pool([link])
        task = await begin(pool, *["a"] * 1000)
        task.cancel()
        await asyncio.sleep(0)
        left = pool.taken
        link.answer(LINES_AHEAD)
        return left, pool.taken, link.jobs

    assert asyncio.run(run()) == (LINES_AHEAD, 0, [])


def test_a_lost_worker_is_told_to_all_that_wait_for_it():
    async def run():
        links = [PatientLink(), PatientLink()]
        pool = Pool(links)
        tasks = [await begin(pool, text) for text in "ab"]
        links[0].lost()
        links[1].answer()
        await asyncio.sleep(0)
        return pool.lost.done(), tasks[0].exception().status, texts(tasks[1])

    assert asyncio.run(run()) == (True, HTTPStatus.SERVICE_UNAVAILABLE, ["B"])


def test_a_translation_that_takes_too_long_is_answered_in_time():
    async def run():
        pool = Pool([PatientLink()])
        server = Server(pool=pool, pairs=[PAIR], keys=[], limits=Limits(seconds=0.01))
        body = b'{"q": "a", "source": "en", "target": "de"}'
        response = await server.answer(Request("POST", "/translate", {}, True, body))
        return response.status, response.body

    assert asyncio.run(run()) == (
        HTTPStatus.GATEWAY_TIMEOUT,
        b'{"error": "the translation takes too long"}',
    )


def test_more_clients_than_there_is_room_for_are_told_so():
    async def run():
        limits = Limits(connections=0)
        server = Server(pool=Pool([PatientLink()]), pairs=[PAIR], keys=[], limits=limits)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = await reader.readuntil(b"\r\n")
        writer.close()
        await writer.wait_closed()
        listener.close()
        return answer

    assert asyncio.run(run()) == b"HTTP/1.1 503 Service Unavailable\r\n"


@pytest.mark.parametrize(
    ("problem", "status", "words"),
    [
        (UsageError("the source is empty"), HTTPStatus.BAD_REQUEST, "the source is empty"),
        (MemoryError(), HTTPStatus.SERVICE_UNAVAILABLE, "not enough memory"),
        (KeyError("/home/me"), HTTPStatus.INTERNAL_SERVER_ERROR, "wrong in the server"),
    ],
)
def test_a_problem_is_told_without_its_secrets(problem, status, words):
    failure = explain(problem)
    assert isinstance(failure, Failure)
    assert failure.status == status
    assert words in failure.message
    assert "/home" not in failure.message


def test_a_failure_is_the_answer_to_the_request():
    async def run():
        link = PatientLink()
        task = await begin(Pool([link]), "a", "b")
        link.reply(link.jobs[0].number, Failure(HTTPStatus.BAD_REQUEST, "no"))
        await asyncio.sleep(0)
        return task.exception()

    refused = asyncio.run(run())
    assert isinstance(refused, Refused)
    assert (refused.status, refused.message) == (HTTPStatus.BAD_REQUEST, "no")
