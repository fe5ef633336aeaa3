"""Signals as requests and as exceptions, and what was set before set again."""

import os
import signal
import time

import pytest

from aiayn.errors import Interrupted, Stopped
from aiayn.signals import (
    CONTINUE,
    INTERRUPTED,
    STARTED,
    TERMINATED,
    TIME_LIMIT,
    deadline_after,
    raise_on_signals,
    remember_start,
    request_on_signals,
    signals_ignored,
    stopped,
)

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def defaults():
    """The dispositions of a program started from a terminal, whatever pytest inherited."""
    wanted = (signal.SIG_DFL, signal.default_int_handler, signal.SIG_DFL)
    before = [signal.signal(*pair) for pair in zip(NUMBERS, wanted, strict=True)]
    yield
    assert tuple(map(signal.getsignal, NUMBERS)) == wanted
    for pair in zip(NUMBERS, before, strict=True):
        signal.signal(*pair)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
        (signal.SIGINT, INTERRUPTED),
    ],
)
def test_a_signal_becomes_a_request(number, reason):
    with request_on_signals(None) as request:
        assert request.reason == CONTINUE
        send(number)
        assert request.reason == reason
    assert stopped(reason, 3).exit_code == (130 if number == signal.SIGINT else 75)


def test_a_second_ctrl_c_stops_at_once():
    with pytest.raises(Interrupted, match="at once"), request_on_signals(None):
        send(signal.SIGINT)
        send(signal.SIGINT)


def test_a_second_ctrl_c_while_everything_is_saved_changes_nothing():
    with request_on_signals(None) as request:
        send(signal.SIGINT)
        request.saving = True
        send(signal.SIGINT)
        send(signal.SIGINT)
        assert request.reason == INTERRUPTED


def test_a_deadline_counts_from_the_start_of_the_program_or_of_its_launcher(monkeypatch):
    monkeypatch.delenv(STARTED, raising=False)
    monkeypatch.delenv("RANK", raising=False)
    remember_start()
    first = deadline_after(60)
    assert first - time.monotonic() == pytest.approx(60, abs=5)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv(STARTED, "7.5")
    remember_start()
    assert deadline_after(60) == 67.5


def test_a_time_limit_becomes_a_request():
    with request_on_signals(0.0) as request:
        assert request.reason == TIME_LIMIT


@pytest.mark.parametrize(
    ("number", "kind"),
    [(signal.SIGTERM, Stopped), (signal.SIGHUP, Stopped), (signal.SIGINT, Interrupted)],
)
def test_a_signal_becomes_an_exception(number, kind):
    with pytest.raises(kind) as caught, raise_on_signals():
        send(number)
    assert type(caught.value) is kind
    assert "to resume" in caught.value.fix


def test_a_signal_does_not_interrupt_saving():
    with raise_on_signals(), signals_ignored():
        send(signal.SIGTERM)
        send(signal.SIGHUP)
        send(signal.SIGINT)


def test_under_nohup_a_closed_terminal_is_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with request_on_signals(None) as request, raise_on_signals():
        send(signal.SIGHUP)
        assert request.reason == CONTINUE
    assert signal.signal(signal.SIGHUP, signal.SIG_DFL) == signal.SIG_IGN
