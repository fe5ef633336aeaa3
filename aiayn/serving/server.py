"""The addresses of the server, and its life from the first request to the last."""

import asyncio
import signal
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files

from aiayn import console
from aiayn.errors import ProcessKilled, UsageError
from aiayn.serving.answers import describe_translations, split_lines
from aiayn.serving.connection import (
    ANSWER_SECONDS,
    Connection,
    Refused,
    Request,
    Response,
)
from aiayn.serving.languages import LanguagePair, describe, name_of
from aiayn.serving.metrics import CONTENT_TYPE, Metrics
from aiayn.serving.pool import MOST_LINES, RETRY_SECONDS, Pool, WorkerLink
from aiayn.serving.queries import (
    Fields,
    check_key,
    read_attention_query,
    read_fields,
    read_translate_query,
)
from aiayn.serving.worker import Wanted
from aiayn.signals import termination_signals

HTML = "text/html; charset=utf-8"
# A page has its script and style in itself, and asks this server only.
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
        " img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the server takes."""

    body_bytes: int = 1 << 20
    characters: int = 50_000
    """Of the texts of a request."""
    seconds: float = 60
    """For the answer to a request."""
    lines: int = MOST_LINES
    """Lines of all clients that are taken and not answered."""
    connections: int = 512


@dataclass(kw_only=True)
class Server:
    """Answers requests with the models of a pool."""

    pool: Pool
    pairs: Sequence[LanguagePair]
    keys: Sequence[str]
    limits: Limits
    metrics: Metrics = field(default_factory=Metrics)
    connections: set[Connection] = field(default_factory=set)
    is_closing: bool = False

    def __post_init__(self) -> None:
        page = files("aiayn.serving").joinpath("page.html").read_bytes()
        self.page = Response(page, HTML, headers=PAGE_HEADERS)
        self.handlers: dict[str, tuple[str, Handler]] = {
            "/": ("GET", self._show_page),
            "/languages": ("GET", self._list_languages),
            "/health": ("GET", self._tell_health),
            "/metrics": ("GET", self._write_metrics),
            "/frontend/settings": ("GET", self._tell_settings),
            "/translate": ("POST", self._translate),
            "/attention": ("POST", self._draw_attention),
        }

    @property
    def longest_body(self) -> int:
        """Bytes of a body that are taken."""
        return self.limits.body_bytes

    def admit(self, connection: Connection) -> None:
        """Take a client, or refuse it if there are too many."""
        if len(self.connections) >= self.limits.connections:
            raise _busy("too many clients are connected")
        self.connections.add(connection)

    def leave(self, connection: Connection) -> None:
        """Forget a client, whether or not it was taken."""
        self.connections.discard(connection)

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request, whatever it is."""
        begin = time.monotonic()
        method, handler = self.handlers.get(request.path, ("", self._show_page))
        try:
            if not method:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
            if request.method not in (method, "HEAD" if method == "GET" else method):
                raise Refused(
                    HTTPStatus.METHOD_NOT_ALLOWED, f"this address takes {method}", Allow=method
                )
            async with asyncio.timeout(self.limits.seconds):
                response = await handler(request)
        except Refused as refused:
            response = Response.of_error(refused)
        except TimeoutError:
            late = Refused(HTTPStatus.GATEWAY_TIMEOUT, "the translation takes too long")
            response = Response.of_error(late)
        except Exception as problem:
            console.warn("".join(traceback.format_exception(problem)).rstrip())
            message = "something is wrong in the server"
            bug = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, message)
            response = Response.of_error(bug)
        path = request.path if method else "other"
        self.metrics.count_request(path, response.status, time.monotonic() - begin)
        return response

    async def close(self) -> None:
        """Answer what was taken, and nothing else."""
        self.is_closing = True
        end = time.monotonic() + self.limits.seconds + ANSWER_SECONDS
        while self.connections and time.monotonic() < end:
            for connection in list(self.connections):
                if connection.is_idle:
                    connection.close()
            await asyncio.sleep(0.02)
        self.pool.close()

    async def _show_page(self, request: Request) -> Response:
        return self.page

    async def _list_languages(self, request: Request) -> Response:
        return Response.of_json(describe(self.pairs))

    async def _tell_health(self, request: Request) -> Response:
        return Response.of_json({"status": "ok"})

    async def _write_metrics(self, request: Request) -> Response:
        now = {
            "aiayn_lines_waiting": self.pool.taken,
            "aiayn_connections": len(self.connections),
        }
        return Response(self.metrics.write(now).encode(), CONTENT_TYPE)

    async def _tell_settings(self, request: Request) -> Response:
        first = dict(zip(("source", "target"), self.pairs[0], strict=True))
        return Response.of_json(
            {
                "apiKeys": bool(self.keys),
                "keyRequired": bool(self.keys),
                "charLimit": self.limits.characters,
                "frontendTimeout": 500,
                "suggestions": False,
                "supportedFilesFormat": [],
                "language": {
                    side: {"code": code, "name": name_of(code)} for side, code in first.items()
                },
            }
        )

    async def _translate(self, request: Request) -> Response:
        query = read_translate_query(self._fields(request), self.pairs, self.limits.characters)
        wanted = Wanted(query.pair, 1 + query.alternatives, query.alignments)
        texts = split_lines(query.texts)
        found = await self.pool.translate(wanted, [line for text in texts for line in text])
        self.metrics.count_text(len(found), sum(map(len, query.texts)))
        return Response.of_json(describe_translations(query, texts, found))

    async def _draw_attention(self, request: Request) -> Response:
        query = read_attention_query(self._fields(request), self.pairs, self.limits.characters)
        page = await self.pool.draw_attention(query.pair, query.text, query.translation)
        return Response(page.encode(), HTML, headers=PAGE_HEADERS)

    def _fields(self, request: Request) -> Fields:
        fields = read_fields(request)
        check_key(fields, request, self.keys)
        return fields


def _busy(message: str) -> Refused:
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, message, Retry_After=RETRY_SECONDS)


async def serve(
    links: Sequence[WorkerLink],
    pairs: Sequence[LanguagePair],
    address: tuple[str, int],
    *,
    keys: Sequence[str],
    limits: Limits,
    announce: Callable[[int], None],
) -> None:
    """Serve until a signal comes; `announce` is called with the port once clients may come."""
    server = Server(pool=Pool(links, limits.lines), pairs=pairs, keys=keys, limits=limits)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    try:
        listener = await loop.create_server(lambda: Connection(server), *address)
    except OSError as problem:
        server.pool.close()
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(
            f"{address[0]} port {address[1]} cannot be served: {reason}",
            fix="pass another --port, or --host",
        ) from None
    for number in (signal.SIGINT, *termination_signals()):
        loop.add_signal_handler(number, stop.set)
    announce(listener.sockets[0].getsockname()[1])
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((stopping, server.pool.lost), return_when=asyncio.FIRST_COMPLETED)
    listener.close()
    await server.close()
    if server.pool.lost.done():
        raise ProcessKilled(
            "a process that translates was killed, perhaps because memory ran out",
            fix="start the server again, with fewer --threads if memory is short",
        )
    stopping.cancel()
    with suppress(asyncio.CancelledError):
        await stopping
