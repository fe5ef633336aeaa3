"""The server under load on this machine: its rate against a file's, its latency, its patience.

    python recipes/bench/serve.py MODEL TEXT [--sentences 1000] [--clients 8] [--repeats 3]
    python recipes/bench/serve.py MODEL TEXT --soak 10

Clients send one sentence a request, each over one connection, the next when the last is
answered. The file is translated by the engine of `aiayn generate` without its start, and each
answer has to be what it wrote. Rounds of the two take turns. CTranslate2 stands behind the same
server with `--engine ctranslate2`. The soak mixes good and bad requests for some minutes: every
good one has to be answered as the file was, every bad one has to be refused, and memory has to
stay where it was. All traffic is on 127.0.0.1.
"""

import argparse
import asyncio
import json
import os
import random
import re
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

from aiayn.cli import ENVIRONMENT

CORES = len(os.sched_getaffinity(0))
os.environ.update(ENVIRONMENT | os.environ)  # before torch is loaded
GOAL = 0.8
PAIR = {"source": "en", "target": "de"}


class Server:
    """A process of `aiayn serve`."""

    def __init__(self, model: Path, *options: str) -> None:
        command = [sys.executable, "-m", "aiayn", "serve", f"en-de={model}", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, text=True, bufsize=1
        )
        for line in self.process.stderr:
            if found := re.search(r"at http://127\.0\.0\.1:(\d+)/", line):
                break
        self.port = int(found[1])

    def memory(self, kind: str = "Pss") -> int:
        """Return the bytes that it uses; what its processes share counts once.

        Pss_Anon leaves out the pages of files, which count for more when other programs end.
        """
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in [own, *children]]
        return sum(
            int(line.split()[1]) * 1024
            for rollup in rollups
            for line in rollup.splitlines()
            if line.startswith(f"{kind}:")
        )

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        self.process.stderr.close()
        return code


def encode(fields: object) -> bytes:
    """Return a request of one sentence."""
    body = json.dumps(fields).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


class Client:
    """A connection over which requests go one after the other.

    Plain sockets: clients share the machine with the server, and should take little of it.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number, self.begin, self.received = -1, 0.0, b""

    def ask(self, number: int, request: bytes) -> None:
        self.number, self.begin, self.received = number, time.perf_counter(), b""
        self.socket.sendall(request)

    def read(self) -> bytes | None:
        """Return the answer; None if it has not arrived yet."""
        data = self.socket.recv(1 << 16)
        assert data, "the server has closed the connection"
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]):
            return None
        assert head.startswith(b"HTTP/1.1 200 "), self.received
        return body


def load(port: int, texts: list[str], clients: int) -> tuple[list[str], list[float], float]:
    """Return the translations, the seconds that each took, and those of all."""
    requests = [encode({"q": text, **PAIR}) for text in texts]
    answers, seconds = [b""] * len(texts), [0.0] * len(texts)
    left = iter(enumerate(requests))
    with selectors.DefaultSelector() as selector:
        begin = time.perf_counter()
        for number, request in islice(left, clients):
            client = Client(port)
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.ask(number, request)
        while selector.get_map():
            for key, _ in selector.select():
                client = key.data
                if (body := client.read()) is None:
                    continue
                answers[client.number] = body
                seconds[client.number] = time.perf_counter() - client.begin
                if following := next(left, None):
                    client.ask(*following)
                else:
                    selector.unregister(client.socket)
                    client.socket.close()
        total = time.perf_counter() - begin
    return [json.loads(answer)["translatedText"] for answer in answers], seconds, total


def percentile(seconds: list[float], part: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(part * len(seconds)))]


def open_file_engine(model: Path, a: argparse.Namespace):
    """Return what translates a file as `aiayn generate` does, in this process and its forks."""
    from aiayn.commands.engines import join_processes, open_translator
    from aiayn.commands.generate import GenerateOptions
    from aiayn.generation.streaming import Line

    options = GenerateOptions(models=[model], precision=a.precision, compile=a.compile)
    with join_processes(options) as group:
        translator = open_translator(options, [model], group)

    def translate(texts: list[str]) -> list[str]:
        return [one.text for one in translator.translate_window([Line(t) for t in texts])]

    return translate


def race(model: Path, texts: list[str], a: argparse.Namespace) -> None:
    """Let the file and the servers take turns."""
    translate_file = open_file_engine(model, a)
    wanted = translate_file(texts)  # warms up, and forks before there are threads
    options = ("--precision", a.precision)
    servers = {"serve": Server(model, *options, *compiled(a))}
    if a.ctranslate2:
        servers["serve, CTranslate2"] = Server(model, *options, "--engine", "ctranslate2")
    for server in servers.values():
        load(server.port, texts[:200], a.clients)
    rates: dict[str, list[float]] = {"file": [], **{name: [] for name in servers}}
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(a.repeats):
        begin = time.perf_counter()
        assert translate_file(texts) == wanted
        rates["file"].append(len(texts) / (time.perf_counter() - begin))
        for name, server in servers.items():
            found, each, total = load(server.port, texts, a.clients)
            rates[name].append(len(texts) / total)
            seconds[name] += each
            # CTranslate2 has a search of its own.
            assert found == wanted or name != "serve", "the answers are not those of the file"
    print(f"\n{len(texts)} sentences, {a.precision}, {a.clients} clients, {a.repeats} rounds")
    for name, of_rounds in rates.items():
        line = f"  {name:<20} {statistics.median(of_rounds):8.1f} sentences/s"
        line += f" ({min(of_rounds):.1f} to {max(of_rounds):.1f})"
        print(line + (describe(seconds[name], servers[name]) if name in servers else ""))
    for name, server in servers.items():
        ratios = [x / y for x, y in zip(rates[name], rates["file"], strict=True)]
        print(f"  {name} / file: {statistics.median(ratios):.2f}  (goal {GOAL})")
        assert server.end() == 0


def compiled(a: argparse.Namespace) -> list[str]:
    return ["--compile"] if a.compile else []


def describe(seconds: list[float], server: Server) -> str:
    """Return the latency and the memory of a server."""
    p50, p95 = (percentile(seconds, part) * 1e3 for part in (0.5, 0.95))
    return f"  p50 {p50:.0f} ms  p95 {p95:.0f} ms  {server.memory() / 1e6:.0f} MB"


class Soak:
    """Good and bad requests, and what came of them."""

    def __init__(self, port: int, texts: list[str], wanted: list[str]) -> None:
        self.port, self.known = port, list(zip(texts, wanted, strict=True))
        self.good = self.bad = 0
        self.wrong: list[str] = []

    async def run(self, seconds: float, clients: int) -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(self.client(number, end) for number in range(clients)))

    async def client(self, number: int, end: float) -> None:
        draw = random.Random(number)
        kinds = [self.ask] * 12 + [self.ask_many, self.refused, self.huge, self.slow, self.drop]
        while time.monotonic() < end:
            kind = draw.choice(kinds)
            try:
                async with asyncio.timeout(120):
                    await kind(draw)
            except (OSError, EOFError, TimeoutError, AttributeError, ValueError) as problem:
                self.wrong.append(f"{kind.__name__}: {problem!r}")

    async def exchange(self, sent: bytes, pause: float = 0) -> tuple[int, dict]:
        """Send bytes, perhaps with a pause in the middle, and return the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            if pause:
                writer.write(sent[: len(sent) // 2])
                await asyncio.sleep(pause)
                sent = sent[len(sent) // 2 :]
            writer.write(sent)
            return await read_answer(reader)
        finally:
            writer.close()

    def check(self, what: str, found: object, wanted: object) -> None:
        self.good += 1
        if found != wanted:
            self.wrong.append(f"{what}: {found!r} is not {wanted!r}"[:300])

    async def ask(self, draw: random.Random, pause: float = 0) -> None:
        text, wanted = draw.choice(self.known)
        status, answer = await self.exchange(encode({"q": text, **PAIR}), pause)
        self.check("one", (status, answer.get("translatedText")), (200, wanted))

    async def slow(self, draw: random.Random) -> None:
        await self.ask(draw, pause=draw.uniform(0.5, 5))

    async def ask_many(self, draw: random.Random) -> None:
        chosen = draw.choices(self.known, k=draw.randint(1, 20))
        fields = {"q": [text for text, _ in chosen], **PAIR, "scores": True}
        if draw.random() < 0.3:
            fields |= {"alternatives": draw.randint(0, 3), "alignments": True}
        status, answer = await self.exchange(encode(fields))
        self.check("many", (status, answer["translatedText"]), (200, [y for _, y in chosen]))

    async def refused(self, draw: random.Random) -> None:
        body, wanted = draw.choice(
            [
                (b"{", 400),
                (b"\xff", 400),
                (b"[" * 50_000, 400),
                (b"null", 400),
                (json.dumps({"q": 5, **PAIR}).encode(), 400),
                (json.dumps({"q": "a", "source": "xx", "target": "de"}).encode(), 400),
                (json.dumps({"q": "a", "alternatives": 1e9, **PAIR}).encode(), 400),
                (json.dumps({"q": "a" * 60_000, **PAIR}).encode(), 413),
            ]
        )
        head = f"POST /translate HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        raw = [
            (head + body, wanted),
            (b"\0\1\2\r\n\r\n", 400),
            (b"GET /x HTTP/1.1\r\n\r\n", 404),
        ]
        sent, wanted = draw.choices(raw, [6, 1, 1])[0]
        status, answer = await self.exchange(sent)
        self.bad += 1
        if status != wanted or list(answer) != ["error"]:
            self.wrong.append(f"{sent[:60]!r}: {status} {answer}"[:300])

    async def huge(self, draw: random.Random) -> None:
        body = b"x" * 10_000_000
        head = f"POST /translate HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        status, _ = await self.exchange(head + body)
        self.bad += 1
        if status != 413:
            self.wrong.append(f"10 MB: {status}")

    async def drop(self, draw: random.Random) -> None:
        """Go before the answer comes, in order or not."""
        sent = encode({"q": [text for text, _ in draw.choices(self.known, k=10)], **PAIR})
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent[: draw.randint(1, len(sent))])
        await asyncio.sleep(draw.uniform(0, 0.2))
        if draw.random() < 0.5:
            writer.transport.abort()
        writer.close()
        self.bad += 1


def soak(model: Path, texts: list[str], a: argparse.Namespace) -> None:
    """Mix good and bad requests for some minutes, and look at the memory meanwhile."""
    # Some are long enough to be cut into segments.
    texts = [*texts, "", *(" ".join(texts[n : n + 25]) for n in range(0, len(texts), 50))]
    wanted = open_file_engine(model, a)(texts)
    server = Server(model, "--precision", a.precision, *compiled(a))
    load_of = Soak(server.port, texts, wanted)
    memory = []
    for minute in range(a.soak):
        asyncio.run(load_of.run(60, 2 * a.clients))
        memory.append(server.memory("Pss_Anon") / 1e6)
        print(
            f"minute {minute + 1}: {load_of.good:,} good, {load_of.bad:,} bad,"
            f" {len(load_of.wrong)} wrong, {memory[-1]:.0f} MB",
            flush=True,
        )
    print(*load_of.wrong[:10], sep="\n")
    code = server.end()
    print(f"exit {code}; memory {memory[0]:.0f} MB at first, {memory[-1]:.0f} MB at last")
    sys.exit(bool(load_of.wrong or code))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="float32", choices=["float32", "int8"])
    parser.add_argument("--compile", action="store_true", help="the server and the file")
    parser.add_argument("--ctranslate2", action="store_true", help="race it, too")
    parser.add_argument("--soak", type=int, default=0, metavar="MINUTES")
    a = parser.parse_args()
    with a.text.open() as file:
        texts = [line.strip() for line in islice(file, a.sentences)]
    (soak if a.soak else race)(a.model, texts, a)


if __name__ == "__main__":
    main()
