"""Data folders as a command line names them, each with its share: `real:0.6 made:0.4`."""

import math
from dataclasses import dataclass
from pathlib import Path

from aiayn.errors import UsageError


@dataclass(frozen=True)
class Named:
    """A data folder as the command line names it."""

    path: Path
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Named":
        """Read `data` or `data:0.6`."""
        name, colon, share = text.rpartition(":")
        # A folder may have a colon in its name.
        if not colon or Path(text).exists():
            return cls(Path(text))
        try:
            value = float(share)
        except ValueError:
            value = math.nan
            if not Path(name).is_dir():
                return cls(Path(text))
        if not 0 < value < math.inf:
            raise UsageError(
                f"{text}: {share!r} is not a share, which is a number above 0",
                fix=f"write {name}:0.5",
            )
        return cls(Path(name), value)

    @classmethod
    def is_one(cls, text: str) -> bool:
        """Whether a word of the command line names a folder, rather than a setting."""
        return "=" not in text and (cls.parse(text).share is not None or Path(text).is_dir())
