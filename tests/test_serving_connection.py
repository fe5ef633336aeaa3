"""HTTP over one connection: what arrives late, in parts, at once, or not at all."""

import asyncio
import socket
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from aiayn.serving import connection
from aiayn.serving.connection import LONGEST_HEAD, Connection, Refused, Response

SECONDS = 20
GET = b"GET / HTTP/1.1\r\n\r\n"


class EchoHost:
    """Answers with the body of the request, when it is allowed to."""

    longest_body = 1 << 22
    is_closing = False

    def __init__(self, most=10):
        self.most, self.clients, self.cancelled = most, [], 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def admit(self, client):
        if len(self.clients) >= self.most:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "full")
        self.clients.append(client)

    def leave(self, client):
        if client in self.clients:
            self.clients.remove(client)

    async def answer(self, request):
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response(request.body, "text/plain")


@asynccontextmanager
async def listening(host):
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(host), "127.0.0.1", 0)
    async with asyncio.timeout(SECONDS):
        yield listener.sockets[0].getsockname()[1]
    listener.close()
    for client in host.clients:
        client.transport.abort()
    await until(lambda: not host.clients)


async def until(holds):
    while not holds():
        await asyncio.sleep(0.01)


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def read_body(reader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


def talk(*parts: bytes, host_of=EchoHost) -> bytes:
    """Send parts one after the other; return all that comes until the other side closes."""

    async def run():
        async with listening(host_of()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.02)
            answer = await reader.read()
            writer.close()
            return answer

    return asyncio.run(run())


def test_a_request_may_come_byte_by_byte():
    async def run():
        async with listening(EchoHost()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in post(b"hello"):
                writer.write(bytes([byte]))
                await asyncio.sleep(0.001)
            body = await read_body(reader)
            writer.close()
            return body

    assert asyncio.run(run()) == b"hello"


def test_many_requests_at_once_are_answered_in_order():
    bodies = [b"x" * size for size in (0, 1, 100_000, 5, LONGEST_HEAD, 7)]

    async def run():
        async with listening(EchoHost()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(map(post, bodies)))
            found = [await read_body(reader) for _ in bodies]
            writer.close()
            return found

    assert asyncio.run(run()) == bodies


def test_a_client_that_goes_gives_up_its_answer():
    async def run():
        host = EchoHost()
        host.may_answer.clear()
        async with listening(host) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            await until(lambda: host.clients and not host.clients[0].is_idle)
            writer.close()
            await until(lambda: host.cancelled)
            await until(lambda: not host.clients)
            return host.cancelled

    assert asyncio.run(run()) == 1


def test_a_head_that_does_not_come_ends_the_connection(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    assert talk(GET[:-1]) == b""


def test_waiting_for_an_answer_is_not_waiting_for_a_head(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)

    async def run():
        host = EchoHost()
        host.may_answer.clear()
        async with listening(host) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(b"late"))
            await asyncio.sleep(0.5)
            host.may_answer.set()
            body = await read_body(reader)
            writer.close()
            return body

    assert asyncio.run(run()) == b"late"


def test_a_body_that_does_not_come_is_told_so(monkeypatch):
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(connection, "IGNORED_SECONDS", 0.1)
    assert talk(post(b"hello")[:-1]).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([b"x" * (LONGEST_HEAD + 1)], b"431"),
        ([b"GET / HTTP/1.1\r\nA: ", b"x" * LONGEST_HEAD, b"\r\n\r\n"], b"431"),
        ([b"POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", b"x" * 100], b"413"),
        ([b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"], b"411"),
        ([b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"], b"400"),
        ([b"\r\n\r\n"], b"400"),
    ],
)
def test_what_cannot_be_read_is_refused_and_ends_the_connection(monkeypatch, sent, status):
    monkeypatch.setattr(connection, "IGNORED_SECONDS", 0.1)
    answer = talk(*sent, GET)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"Connection: close") == 1


def test_a_refused_client_may_send_only_so_much_more(monkeypatch):
    monkeypatch.setattr(connection, "IGNORED_BYTES", 10_000)

    async def run():
        host = EchoHost(most=0)
        async with listening(host) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = await reader.read()
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(b"x" * 1000)
                    await writer.drain()
                    await asyncio.sleep(0.001)
            return answer

    assert asyncio.run(run()).startswith(b"HTTP/1.1 503 ")


async def ask_and_not_read(port, host, times):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.pause_reading()
    writer.write(post(b"x" * host.longest_body) * times)
    return reader, writer


def test_a_client_that_does_not_take_its_answers_is_dropped(monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)

    async def run():
        host = EchoHost()
        async with listening(host) as port:
            _, writer = await ask_and_not_read(port, host, 4)
            await until(lambda: host.clients)
            await until(lambda: not host.clients)
            writer.transport.abort()

    asyncio.run(run())


def test_a_slow_client_gets_all_its_answers():
    async def run():
        host = EchoHost()
        async with listening(host) as port:
            reader, writer = await ask_and_not_read(port, host, 3)
            await until(lambda: host.clients and not host.clients[0].is_writable)
            writer.transport.resume_reading()
            found = [len(await read_body(reader)) for _ in range(3)]
            writer.close()
            return found == [host.longest_body] * 3

    assert asyncio.run(run())


def test_a_server_that_closes_ends_connections_with_their_answers():
    class Closing(EchoHost):
        is_closing = True

    answer = talk(GET, host_of=Closing)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"Connection: close" in answer


def ends_in_time(monkeypatch, use) -> None:
    """Check that a connection goes after what `use` does, though the client stays."""
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "ANSWER_SECONDS", "IGNORED_SECONDS"):
        monkeypatch.setattr(connection, name, 0.2)

    async def run():
        host = EchoHost()
        async with listening(host) as port:
            loop = asyncio.get_running_loop()
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setblocking(False)
                await until(lambda: host.clients)
                await use(loop, client, host)
                await until(lambda: not host.clients)

    asyncio.run(run())


def test_a_client_whose_body_does_not_come_may_not_stay(monkeypatch):
    async def use(loop, client, host):
        await loop.sock_sendall(client, post(b"hello")[:-1])

    ends_in_time(monkeypatch, use)


def test_a_client_that_does_not_take_a_small_answer_may_not_stay(monkeypatch):
    async def use(loop, client, host):
        server = host.clients[0]
        while host.clients and not server.transport.get_write_buffer_size():
            await loop.sock_sendall(client, post(b"x" * 30_000))
            await asyncio.sleep(0.005)

    ends_in_time(monkeypatch, use)


def test_closing_again_and_again_does_not_give_a_client_more_time(monkeypatch):
    async def use(loop, client, host):
        server = host.clients[0]
        sending = loop.create_task(
            loop.sock_sendall(client, post(b"x" * host.longest_body) * 2)
        )
        await until(lambda: server.transport.get_write_buffer_size())
        while host.clients:
            server.close()
            await asyncio.sleep(0.01)
        sending.cancel()

    ends_in_time(monkeypatch, use)


def test_an_answer_that_fails_ends_the_connection(monkeypatch):
    async def fail(self, request):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(EchoHost, "answer", fail)
    assert talk(GET) == b""


@pytest.mark.parametrize("reads", [True, False])
def test_a_flood_of_requests_is_read_only_as_fast_as_it_is_answered(reads):
    async def run():
        host, most = EchoHost(), 0
        async with listening(host) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if not reads:
                writer.transport.pause_reading()
            end = asyncio.get_running_loop().time() + 0.5
            while asyncio.get_running_loop().time() < end:
                if writer.transport.get_write_buffer_size() < 1 << 20:
                    writer.write(GET * 10_000)
                if reads:
                    await reader.read(1 << 20)
                await asyncio.sleep(0)
                most = max([most, *(len(client.received) for client in host.clients)])
            writer.transport.abort()
        return most

    assert 0 < asyncio.run(run()) < 600_000
