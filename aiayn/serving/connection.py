"""HTTP/1.1 over one connection: requests in, responses out, and no patience with slow clients.

The standard library serves HTTP with a thread for each connection, and slow clients would fill
them all; here a connection that waits costs nothing but memory.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from json import dumps
from typing import Protocol, cast

# Of a request line with its headers.
LONGEST_HEAD = 16_384
# Seconds for a head to arrive, also after the request before it; for a body; for an answer to
# be taken.
HEAD_SECONDS, BODY_SECONDS, ANSWER_SECONDS = 60, 30, 30
# A client that is still sending gets to see its answer only if somebody listens meanwhile.
IGNORED_BYTES, IGNORED_SECONDS = 1 << 25, 5
END_OF_HEAD = b"\r\n\r\n"

JSON = "application/json"


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: HTTPStatus, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for."""

    method: str
    path: str
    headers: dict[str, str]
    """By name in lower case."""
    keeps_alive: bool
    body: bytes = b""
    length: int = 0
    """Bytes of the body that the head announces."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    body: bytes
    content_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: object) -> "Response":
        """Return an answer in JSON."""
        return cls(encode_json(value))

    @classmethod
    def of_error(cls, refused: Refused) -> "Response":
        """Return an answer that says what is wrong."""
        body = encode_json({"error": refused.message})
        return cls(body, status=refused.status, headers=refused.headers)

    def encode(self, *, keeps_alive: bool, with_body: bool = True) -> bytes:
        """Return the bytes to send."""
        headers = {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Date": format_date(int(time.time())),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **self.headers,
            "Connection": "keep-alive" if keeps_alive else "close",
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines).encode("latin-1") + END_OF_HEAD
        return head + self.body if with_body else head


def encode_json(value: object) -> bytes:
    """Return a value in JSON; half of a character, which JSON can spell, is replaced."""
    return dumps(value, ensure_ascii=False).encode(errors="replace")


@lru_cache(maxsize=1)
def format_date(seconds: int) -> str:
    """Return a time as HTTP writes it."""
    return formatdate(seconds, usegmt=True)


class Host(Protocol):
    """What the connections of a server have in common."""

    is_closing: bool

    @property
    def longest_body(self) -> int:
        """Bytes of a body that are taken."""

    def admit(self, connection: "Connection") -> None:
        """Take a client, or raise Refused."""

    def leave(self, connection: "Connection") -> None:
        """Forget a client, whether or not it was taken."""

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request, whatever it is."""


class Connection(asyncio.Protocol):
    """One client, from its first request to its last.

    It waits for a head, then for a body, and answers before it looks at what comes after them.
    The event loop calls it with what arrives: with a task for each of these waits, they would
    take longer than all else that a request needs here.
    """

    transport: asyncio.Transport

    def __init__(self, host: Host) -> None:
        self.host, self.loop = host, asyncio.get_running_loop()
        self.received = bytearray()
        """What has arrived of the next requests."""
        self.head: Request | None = None
        """A request whose body has not arrived."""
        self.answering: asyncio.Task[None] | None = None
        self.is_writable = True
        """Whether the client takes its answers."""
        self.ignored: int | None = None
        """Once it is refused: the bytes that it has sent since."""
        self.give_up: Callable[[], None] = self.close
        """What to do when its time is over."""
        self.deadline = 0.0
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request of this client is being read or answered."""
        return self.head is None and self.answering is None and self.ignored is None

    def close(self) -> None:
        """End the connection; what is written already is still sent, if it is taken in time."""
        if not self.transport.is_closing():
            self.transport.close()
            self._wait(ANSWER_SECONDS, self.transport.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self.transport = cast(asyncio.Transport, transport)
        self._wait(HEAD_SECONDS, self.close)
        try:
            self.host.admit(self)
        except Refused as refused:
            self._refuse(refused)

    def connection_lost(self, problem: Exception | None) -> None:
        """Give up what is not answered."""
        if self.answering:
            self.answering.cancel()
        if self.timer:
            self.timer.cancel()
        self.host.leave(self)

    def data_received(self, data: bytes) -> None:
        """Take what a client sends."""
        if self.ignored is not None:
            self.ignored += len(data)
            if self.ignored > IGNORED_BYTES:
                self.close()
            return
        self.received += data
        if self.answering is None:
            self._advance()
        self._limit_reading()

    def _limit_reading(self) -> None:
        """Read no further while there is enough to do."""
        waits = self.answering is not None or not self.is_writable
        if waits and len(self.received) > LONGEST_HEAD:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer."""
        self.is_writable = False
        self._wait(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with a client that takes its answers again."""
        self.is_writable = True
        if self.answering is None and self.ignored is None:
            self._wait(HEAD_SECONDS, self.close)
            self._advance()
            self._limit_reading()

    def _wait(self, seconds: float, give_up: Callable[[], None]) -> None:
        """Give the client this time from now on, in place of what it had."""
        self.deadline, self.give_up = self.loop.time() + seconds, give_up
        # A timer that goes off too early is set anew then: most of the time, none has to be.
        if self.timer is None or self.timer.when() > self.deadline:
            self._set_timer()

    def _set_timer(self) -> None:
        if self.timer:
            self.timer.cancel()
        self.timer = self.loop.call_at(self.deadline, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self.timer = None
        if self.loop.time() < self.deadline or self.answering:
            # An answer has a limit of its own.
            self.deadline = max(self.deadline, self.loop.time() + 1)
            self._set_timer()
        else:
            self.give_up()

    def _advance(self) -> None:
        """Begin to answer the next request, if all of it is there."""
        if not self.is_writable or self.transport.is_closing():
            return
        try:
            request = self._take_request()
        except Refused as refused:
            # What follows may be the rest of that request, so the connection ends with it.
            self._refuse(refused)
            return
        if request:
            self.answering = self.loop.create_task(self._answer(request))

    def _take_request(self) -> Request | None:
        """Return the next request; None if it has not arrived yet."""
        if self.head is None:
            end = self.received.find(END_OF_HEAD)
            if (len(self.received) if end < 0 else end) > LONGEST_HEAD:
                raise Refused(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
                )
            if end < 0:
                return None
            self.head = parse_head(bytes(self.received[:end]))
            del self.received[: end + len(END_OF_HEAD)]
            self._expect_body(self.head)
        if len(self.received) < self.head.length:
            return None
        request = replace(self.head, body=bytes(self.received[: self.head.length]))
        del self.received[: request.length]
        self.head = None
        return request

    def _expect_body(self, head: Request) -> None:
        if "transfer-encoding" in head.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "a body has to come with Content-Length")
        if head.length > self.host.longest_body:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has {head.length:,} bytes, and at most"
                f" {self.host.longest_body:,} are taken",
            )
        if head.headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(self.received) < head.length:
            late = Refused(HTTPStatus.REQUEST_TIMEOUT, "the body does not arrive")
            self._wait(BODY_SECONDS, partial(self._refuse, late))

    async def _answer(self, request: Request) -> None:
        """Answer a request, and go on with the next."""
        try:
            response = await self.host.answer(request)
            keeps_alive = request.keeps_alive and not self.host.is_closing
            encoded = response.encode(
                keeps_alive=keeps_alive, with_body=request.method != "HEAD"
            )
        except BaseException:
            self.transport.abort()
            raise
        finally:
            self.answering = None
        self._wait(HEAD_SECONDS, self.close)
        self.transport.write(encoded)
        if not keeps_alive:
            self.close()
            return
        self._advance()
        self._limit_reading()

    def _refuse(self, refused: Refused) -> None:
        """Say what is wrong, and end the connection."""
        self.ignored = 0
        self.transport.write(Response.of_error(refused).encode(keeps_alive=False))
        self.transport.write_eof()
        # Closing at once would destroy the answer on its way to a client that is still sending.
        self._wait(IGNORED_SECONDS, self.close)


def parse_head(raw: bytes) -> Request:
    """Return the request of a head, without its body."""
    first, *lines = raw.decode("latin-1").lstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in UNIQUE & {*headers}:
            raise Refused(HTTPStatus.BAD_REQUEST, "a header is malformed")
        headers[name.lower()] = value.strip()
    path = words[1].partition("?")[0]
    options = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    keeps_alive = "close" not in options and (words[2] != "HTTP/1.0" or "keep-alive" in options)
    return Request(words[0], path, headers, keeps_alive, length=content_length(headers))


# Headers that decide where a request ends may not contradict one another.
UNIQUE = {"content-length", "transfer-encoding"}


def content_length(headers: dict[str, str]) -> int:
    """Return the length of the body that a head announces."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    return int(length)
