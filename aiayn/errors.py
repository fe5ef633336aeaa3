"""Errors that a user can act on: what was found, what was expected, and how to fix it.

AiaynError
|-- UsageError        2  an option, a setting or a folder that does not fit
|-- DataError         3  a file whose content does not fit
|-- MemoryTooSmall    4  one sentence does not fit
|-- Diverged          5  the loss or a gradient is not finite
|-- OutsideBand       6  a score outside the band asked for
|-- ProcessLost      69  another process of the run has died
|-- Stopped          75  stopped by a signal or a time limit, everything saved
|   `-- Interrupted 130  stopped by Ctrl-C, everything saved
`-- ProcessKilled   137  a process of the run was killed

Exit code 0 is done and 1 is a bug: anything that is not an AiaynError.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import ClassVar

# How alike two names must be for one to be offered in place of the other.
SIMILARITY = 0.5


class AiaynError(Exception):
    """What is wrong, and what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class UsageError(AiaynError):
    """The command line, a configuration file or a folder does not fit."""

    exit_code = 2


class DataError(AiaynError):
    """The content of a file does not fit; the message names the file and the line."""

    exit_code = 3


class MemoryTooSmall(AiaynError):
    """Even the smallest piece of work does not fit in memory."""

    exit_code = 4


class Diverged(AiaynError):
    """Training produced a number that is not finite."""

    exit_code = 5


class OutsideBand(AiaynError):
    """A score lies outside the band that was asked for."""

    exit_code = 6


class ProcessLost(AiaynError):
    """Another process of the run has died, and this one cannot continue without it."""

    exit_code = 69


class ProcessKilled(AiaynError):
    """A process of the run was killed, as the system does when memory runs out."""

    exit_code = 137


class Stopped(AiaynError):
    """Stopped early with everything saved; the same command resumes."""

    exit_code = 75


class Interrupted(Stopped):
    """Ctrl-C with everything saved; the same command resumes."""

    exit_code = 130


def counted(number: int, unit: str) -> str:
    """Return `1 line` or `2 lines`, of a unit that is given as a plural in s."""
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one; empty if none is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, SIMILARITY)), "")


def did_you_mean(name: str, known: Mapping[str, str]) -> str:
    """Return how to fix a name: the nearest of those known, by what it stands for, or all."""
    if near := nearest(name, known):
        return f"did you mean {known[near]}?"
    return f"choose from {', '.join(dict.fromkeys(known.values()))}"
