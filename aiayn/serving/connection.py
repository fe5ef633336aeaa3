"""HTTP/1.1 over one connection: requests in, responses out, and no patience with slow clients.

The standard library serves HTTP with a thread for each connection, and slow clients would fill
them all; here a connection that waits costs nothing but memory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from json import dumps

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
        return cls(dumps(value, ensure_ascii=False).encode())

    @classmethod
    def of_error(cls, refused: Refused) -> "Response":
        """Return an answer that says what is wrong."""
        body = dumps({"error": refused.message}, ensure_ascii=False).encode()
        return cls(body, status=refused.status, headers=refused.headers)

    def encode(self, *, keeps_alive: bool, with_body: bool = True) -> bytes:
        """Return the bytes to send."""
        headers = {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Date": formatdate(usegmt=True),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **self.headers,
            "Connection": "keep-alive" if keeps_alive else "close",
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines).encode("latin-1") + END_OF_HEAD
        return head + self.body if with_body else head


Answer = Callable[[Request], Awaitable[Response]]


class Connection:
    """One client, from its first request to its last."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, longest_body: int
    ) -> None:
        self.reader, self.writer, self.longest_body = reader, writer, longest_body
        self.is_idle = True
        """Whether no request of this client is being read or answered."""

    async def serve(self, answer: Answer, is_closing: Callable[[], bool]) -> None:
        """Answer one request after the other, until either side has enough."""
        head = self._begin_head()
        try:
            while (request := await self._read_request(head)) is not None:
                head = self._begin_head()
                response = await self._unless_gone(answer(request), head)
                keeps_alive = request.keeps_alive and not is_closing()
                await self._send(response, request.method != "HEAD", keeps_alive=keeps_alive)
                if not keeps_alive:
                    return
                self.is_idle = True
        except Refused as refused:
            # What follows may be the rest of that request, so the connection ends with it.
            head.cancel()
            await self.refuse(refused)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client has gone, or does not take its answer
        finally:
            head.cancel()
            self.close()

    async def refuse(self, refused: Refused) -> None:
        """Say what is wrong, and end the connection."""
        with suppress(ConnectionError, TimeoutError):
            await self._send(Response.of_error(refused), keeps_alive=False)
            await self._ignore_rest()
        self.close()

    def close(self) -> None:
        """End the connection at once; what is written already is still sent."""
        self.writer.close()

    def _begin_head(self) -> "asyncio.Task[bytes]":
        """Begin to wait for the next request, which tells whether the client is still there."""
        head = asyncio.ensure_future(self.reader.readuntil(END_OF_HEAD))
        # Nobody may be left to look at how it ends.
        head.add_done_callback(lambda head: head.cancelled() or head.exception())
        return head

    async def _unless_gone(
        self, answer: Awaitable[Response], head: "asyncio.Task[bytes]"
    ) -> Response:
        """Return an answer; if the client goes meanwhile, give it up."""
        answering = asyncio.ensure_future(answer)
        await asyncio.wait((answering, head), return_when=asyncio.FIRST_COMPLETED)
        if head.done() and isinstance(head.exception(), EOFError | ConnectionError):
            answering.cancel()
            raise ConnectionResetError
        return await answering

    async def _read_request(self, head: "asyncio.Task[bytes]") -> Request | None:
        """Return a request; None if there is none."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                raw = await head
        except asyncio.LimitOverrunError:
            raise Refused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
            ) from None
        except asyncio.IncompleteReadError as problem:
            if problem.partial.strip():
                raise
            return None
        except TimeoutError:
            return None
        self.is_idle = False
        request = parse_head(raw)
        return await self._with_body(request)

    async def _with_body(self, request: Request) -> Request:
        if "transfer-encoding" in request.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "a body has to come with Content-Length")
        length = content_length(request.headers)
        if length > self.longest_body:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has {length:,} bytes, and at most {self.longest_body:,} are taken",
            )
        if request.headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self.reader.readexactly(length)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the body does not arrive") from None
        return Request(request.method, request.path, request.headers, request.keeps_alive, body)

    async def _send(
        self, response: Response, with_body: bool = True, *, keeps_alive: bool
    ) -> None:
        self.writer.write(response.encode(keeps_alive=keeps_alive, with_body=with_body))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.writer.drain()
        except TimeoutError:
            self.writer.transport.abort()
            raise

    async def _ignore_rest(self) -> None:
        """Read on for a while: closing at once would destroy the answer on its way."""
        left = IGNORED_BYTES
        with suppress(TimeoutError, OSError):
            self.writer.write_eof()
            async with asyncio.timeout(IGNORED_SECONDS):
                while left > 0 and (read := await self.reader.read(LONGEST_HEAD)):
                    left -= len(read)


def parse_head(raw: bytes) -> Request:
    """Return the request of a head, without its body."""
    first, *lines = raw.decode("latin-1").lstrip("\r\n").removesuffix("\r\n\r\n").split("\r\n")
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
    return Request(words[0], path, headers, keeps_alive)


# Headers that decide where a request ends may not contradict one another.
UNIQUE = {"content-length", "transfer-encoding"}


def content_length(headers: dict[str, str]) -> int:
    """Return the length of the body that a head announces."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    return int(length)
