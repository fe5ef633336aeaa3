"""`aiayn serve` as its users meet it: a process, sockets, and signals."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from libretranslatepy import LibreTranslateAPI
from toy import as_in_a_terminal, sentences, translation

SECONDS = 60
"""For each answer, and for the server to start and to end."""
README = Path(__file__).parent.parent / "README.md"
PAIR = {"source": "en", "target": "de"}


class Served:
    """A running server."""

    def __init__(self, *line: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aiayn", "serve", *map(str, line), "--port", "0"],
            stderr=subprocess.PIPE,
            encoding="utf-8",
            preexec_fn=as_in_a_terminal,
        )
        self.killer = threading.Timer(SECONDS * 2, self.process.kill)
        self.killer.start()
        self.talk = []
        while not (found := re.search(r"at http://127\.0\.0\.1:(\d+)/", self.read_line())):
            pass
        self.port = int(found[1])

    def read_line(self) -> str:
        self.talk.append(self.process.stderr.readline())
        assert self.talk[-1], f"it has ended: {self.talk}"
        return self.talk[-1]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def ask(self, method, path, body=None, headers=None) -> tuple[int, bytes]:
        with closing(self.connect()) as connection:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def translate(self, **fields) -> dict:
        status, body = self.ask("POST", "/translate", json.dumps({**PAIR, **fields}))
        assert status == 200, body
        return json.loads(body)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.killer.cancel()
        with self.process.stderr as rest:
            self.talk += rest
        return code


@contextmanager
def serving(*line):
    served = Served(*line)
    try:
        yield served
    finally:
        if served.process.returncode is None:
            served.end()


@pytest.fixture(scope="module")
def served(trained):
    with serving(f"en-de={trained}", "--char-limit", 5000) as served:
        yield served


def generated(aiayn, model, lines, *options):
    """Return what `aiayn generate` writes."""
    stdin = "".join(f"{line}\n" for line in lines).encode()
    return aiayn("generate", model, *options, stdin=stdin)[1].split("\n")[:-1]


def test_a_text_is_translated_as_by_generate(served, trained, aiayn):
    (wanted,) = generated(aiayn, trained, ["ba be gu"])
    assert served.translate(q="ba be gu") == {"translatedText": wanted}
    assert served.translate(q="") == {"translatedText": ""}


def test_clients_at_the_same_time_get_what_generate_writes(served, trained, aiayn):
    lines = sentences(60, seed=81)
    with ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda line: served.translate(q=line), lines))
    wanted = generated(aiayn, trained, lines)
    assert [one["translatedText"] for one in found] == wanted


def test_a_list_and_the_lines_of_a_text_are_translated_one_by_one(served, trained, aiayn):
    lines = ["ba be", "", "gu", "ba " * 300]
    wanted = generated(aiayn, trained, lines)
    assert served.translate(q=lines)["translatedText"] == wanted
    assert served.translate(q="\n".join(lines))["translatedText"] == "\n".join(wanted)
    assert served.translate(q=[]) == {"translatedText": []}


def test_alternatives_scores_and_alignments_are_those_of_generate(served, trained, aiayn):
    options = ("--nbest", 3, "--align", "--format", "jsonl")
    (wanted,) = map(json.loads, generated(aiayn, trained, ["ba be"], *options))
    found = served.translate(q="ba be", alternatives=2, scores=True, alignments=True)
    assert [found["translatedText"], *found["alternatives"]] == [
        one["text"] for one in wanted["nbest"]
    ]
    scores = [one["score"] for one in wanted["nbest"]]
    assert found["scores"] == pytest.approx(scores, rel=1e-5)
    assert found["alignments"]["pairs"] == wanted["alignment"]
    assert found["alignments"]["source"] == ["ba", "be"]
    assert found["alignments"]["target"] == found["translatedText"].split()


def test_a_text_of_two_lines_has_the_sum_of_scores_and_the_words_of_both(served):
    both = served.translate(q="ba be\ngu", scores=True, alignments=True)
    lines = served.translate(q=["ba be", "gu"], scores=True, alignments=True)
    wanted = sum(scores[0] for scores in lines["scores"])
    assert both["scores"] == pytest.approx([wanted], rel=1e-5)
    words = both["alignments"]
    assert words["source"] == ["ba", "be", "gu"]
    assert words["pairs"][-1] == [2, len(words["target"]) - 1]


def test_a_form_and_an_open_source_language_will_do(served):
    fields = {"q": "ba be", "source": "auto", "target": "de", "format": "text"}
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    status, body = served.ask("POST", "/translate", urlencode(fields), kind)
    assert status == 200
    assert json.loads(body) == {
        "translatedText": served.translate(q="ba be")["translatedText"],
        "detectedLanguage": {"confidence": 0.0, "language": "en"},
    }


def test_the_attention_page_is_that_of_attend(served, trained, aiayn, tmp_path):
    aiayn("attend", trained, "ba be", "ab eb", "--html", tmp_path / "page")
    fields = {"q": "ba be", "translation": "ab eb", **PAIR}
    status, body = served.ask("POST", "/attention", json.dumps(fields))
    assert (status, body) == (200, (tmp_path / "page").read_bytes())


def test_the_rest_of_libretranslate_is_there(served):
    assert json.loads(served.ask("GET", "/languages")[1]) == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert json.loads(served.ask("GET", "/health")[1]) == {"status": "ok"}
    settings = json.loads(served.ask("GET", "/frontend/settings")[1])
    assert (settings["charLimit"], settings["keyRequired"]) == (5000, False)


def test_the_example_of_the_readme_is_answered(served):
    (data,) = re.findall("curl localhost:5000/translate (.*)", README.read_text("utf-8"))
    fields = dict(word.split("=") for word in shlex.split(data) if "=" in word)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert served.ask("POST", "/translate", urlencode(fields), kind)[0] == 200


def test_the_page_may_not_load_anything_from_elsewhere(served):
    with closing(served.connect()) as connection:
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.read().lower().startswith(b"<!doctype html>")
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src 'self'" in policy


def test_metrics_count_requests_and_lines(served):
    def metric(name):
        text = served.ask("GET", "/metrics")[1].decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    served.translate(q="ba")
    answers = 'aiayn_requests_total{path="/translate",status="200"}'
    before = metric(answers), metric("aiayn_lines_total")
    served.translate(q="ba\nbe")
    assert (metric(answers), metric("aiayn_lines_total")) == (before[0] + 1, before[1] + 2)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "neither JSON nor a form"),
        (b"\xff\xfe", 400, "neither JSON nor a form"),
        (b"[" * 100_000, 400, "neither JSON nor a form"),
        (b"[1]", 400, "not a JSON object"),
        (json.dumps(PAIR), 400, "q is missing"),
        (json.dumps({"q": 1, **PAIR}), 400, "q is neither"),
        (json.dumps({"q": ["a", None], **PAIR}), 400, "q is neither"),
        (json.dumps({"q": {"a": "b"}, **PAIR}), 400, "q is neither"),
        (json.dumps({"q": "a", "source": "en"}), 400, "target is not the code"),
        (
            json.dumps({"q": "a", "source": "fr", "target": "de"}),
            400,
            "fr-de is not translated",
        ),
        (json.dumps({"q": "a", "format": "html", **PAIR}), 400, "format"),
        (json.dumps({"q": "a", "alternatives": -1, **PAIR}), 400, "alternatives"),
        (json.dumps({"q": "a", "alternatives": True, **PAIR}), 400, "alternatives"),
        (json.dumps({"q": "a", "scores": "perhaps", **PAIR}), 400, "scores"),
        (json.dumps({"q": "a" * 5001, **PAIR}), 413, "5,001 characters"),
        (json.dumps({"q": "\n" * 4999, **PAIR}), 413, "5,000 lines"),
        (b" " * 2_000_000, 413, "2,000,000 bytes"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_a_sentence(served, body, status, words):
    found, answer = served.ask("POST", "/translate", body)
    assert found == status
    assert words in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/translate", 405), ("POST", "/languages", 405)],
)
def test_an_address_or_a_method_that_is_not_there_is_refused(served, method, path, status):
    found, answer = served.ask(method, path)
    assert found == status
    assert json.loads(answer)["error"]


def test_half_a_character_is_replaced(served):
    assert (
        served.ask("POST", "/translate", b'{"q":"\\ud800","source":"en","target":"de"}')[0]
        == 200
    )


def test_a_form_of_another_kind_is_refused_by_name(served):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    status, answer = served.ask("POST", "/translate", b"--x--", kind)
    assert (status, b"urlencoded" in answer) == (400, True)


def test_half_a_character_in_the_name_of_a_language_is_refused(served):
    body = b'{"q":"a","source":"\\ud800","target":"de"}'
    status, answer = served.ask("POST", "/translate", body)[:2]
    assert (status, list(json.loads(answer))) == (400, ["error"])


def talk(served, sent: bytes) -> bytes:
    """Send bytes and return all that comes back before the server hangs up."""
    with closing(socket.create_connection(("127.0.0.1", served.port), SECONDS)) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"POST /translate HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /translate HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
        (b"POST /translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET / HTTP/1.1\r\nlong: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", b"200"),
    ],
    ids=lambda value: str(value[:50]),
)
def test_a_request_is_answered_and_the_connection_ends_in_order(served, sent, status):
    assert talk(served, sent).split()[1] == status


def test_requests_of_one_connection_are_answered_in_order_even_if_sent_at_once(served):
    one, last = (
        f"GET /health HTTP/1.1\r\n{more}\r\n" for more in ("", "Connection: close\r\n")
    )
    assert talk(served, (one + one + last).encode()).count(b"HTTP/1.1 200 OK") == 3


def test_a_large_body_is_announced_before_it_is_sent(served):
    with closing(socket.create_connection(("127.0.0.1", served.port), SECONDS)) as client:
        body = json.dumps({"q": "ba", **PAIR}).encode()
        head = f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(f"POST /translate HTTP/1.1\r\n{head}".encode())
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_slow_and_lost_clients_do_not_keep_others_waiting(served):
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(30)]
    for client in slow:
        client.sendall(b"POST /translate HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    begin = time.monotonic()
    assert served.translate(q="ba be")
    assert time.monotonic() - begin < 30
    for client in slow:
        client.close()
    assert served.translate(q="ba be")


def test_a_real_client_of_libretranslate_translates(served):
    client = LibreTranslateAPI(f"http://127.0.0.1:{served.port}/")
    assert client.translate("ba be", "en", "de") == translation("ba be")
    assert client.languages()[0]["code"] == "en"


def test_an_api_key_is_asked_for_where_there_are_some(trained, tmp_path):
    (tmp_path / "keys").write_text("one\n\ntwo\n")
    with serving(trained, "--api-key-file", tmp_path / "keys") as served:
        fields = {"q": "ba", "source": "src", "target": "tgt"}
        for path, key, status in (
            ("/translate", {}, 403),
            ("/translate", {"api_key": "three"}, 403),
            ("/translate", {"api_key": 1}, 403),
            ("/translate", {"api_key": "two"}, 200),
            ("/attention", {}, 403),
            ("/attention", {"api_key": "one"}, 200),
        ):
            assert served.ask("POST", path, json.dumps({**fields, **key}))[0] == status
        bearer = {"Authorization": "Bearer one"}
        assert served.ask("POST", "/translate", json.dumps(fields), bearer)[0] == 200
        assert "does not say which languages" in "".join(served.talk)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_what_was_taken_and_ends_with_0(trained, number):
    with serving(f"en-de={trained}") as served, closing(served.connect()) as client:
        fields = {"q": "\n".join(sentences(300, seed=82)), **PAIR}
        client.request("POST", "/translate", json.dumps(fields))
        while b"aiayn_lines_waiting 0\n" in served.ask("GET", "/metrics")[1]:
            pass
        # As the end of a service does: every process gets the signal.
        children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
        for child in children.read_text().split():
            os.kill(int(child), number)
        served.process.send_signal(number)
        answer = json.loads(client.getresponse().read())
        assert answer["translatedText"].count("\n") == 299
        assert served.end(0) == 0


def test_a_worker_that_is_killed_ends_the_server_in_order(trained):
    with serving(f"en-de={trained}", "--threads", 1) as served:
        (child,) = (
            Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
            .read_text()
            .split()
        )
        os.kill(int(child), signal.SIGKILL)
        assert served.end(0) == 137
        assert "was killed" in "".join(served.talk)


def test_no_answer_names_a_path_of_the_machine(served, trained):
    bodies = [b"{", json.dumps({"q": "ba", "source": "x", "target": "y"}).encode()]
    for path in ("/translate", "/attention", "/languages", "/health", "/metrics", "/nothing"):
        for body in bodies:
            for method in ("GET", "POST"):
                _, answer = served.ask(method, path, body)
                assert str(trained).encode() not in answer
                assert b"Traceback" not in answer


def test_mistakes_of_the_command_line_are_named(trained, aiayn, tmp_path):
    (tmp_path / "empty").touch()
    code, _, err = aiayn("serve", trained, "--api-key-file", tmp_path / "empty")
    assert (code, "holds no API key" in err) == (3, True)
    code, _, err = aiayn("serve", trained, trained)
    assert (code, "two models translate src-tgt" in err) == (2, True)
    code, _, err = aiayn("serve", trained, "--alpha", 99)
    assert (code, "not a length penalty" in err) == (2, True)
    code, _, err = aiayn("serve", tmp_path / "nowhere")
    assert (code, "does not exist" in err) == (2, True)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, _, err = aiayn("serve", trained, "--port", port)
    assert (code, f"port {port} cannot be served" in err) == (2, True)


@pytest.mark.parametrize("option", [("--engine", "ctranslate2"), ("--compile",)], ids=" ".join)
def test_another_engine_behind_the_server_translates_as_it_does_for_generate(
    trained, aiayn, cache, option
):
    if option == ("--compile",) and shutil.which("g++") is None:
        pytest.skip("there is no g++")
    lines = sentences(12, seed=83)
    wanted = generated(aiayn, trained, lines, *option)
    with serving(f"en-de={trained}", *option) as served:
        assert served.translate(q=lines)["translatedText"] == wanted
        assert served.end() == 0


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of its own for converted models, and for compiled code."""
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
