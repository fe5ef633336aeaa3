"""manifest.json: what a data folder was made from, how, and what is in it."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, Self

from aiayn.data.atomic import to_json
from aiayn.data.plain_values import from_dict
from aiayn.data.settings import Settings
from aiayn.data.shards import REPAIR, Shard, require_plain_name
from aiayn.errors import DataError, UsageError

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"

SplitName = Literal["train", "valid", "test"]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file that was read, as it was."""

    path: str
    sha256: str
    bytes: int


@dataclass(kw_only=True, slots=True)
class SideCounts:
    """Totals over one side of the kept pairs."""

    tokens: int = 0
    """Subwords, with one EOS a sentence."""
    words: int = 0
    """What white space separates in the text."""
    unknown: int = 0
    """Subwords that are unknown."""
    spelled: int = 0
    """Subwords that are single bytes of a character outside the vocabulary."""

    def share(self, part: int) -> str:
        """Return what share of the tokens some of them are."""
        return f"{100 * part / max(1, self.tokens):.3f}%"

    def add(self, other: Self) -> None:
        """Add the counts of further pairs."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(kw_only=True, slots=True)
class Counts:
    """How many pairs were read, how many were dropped and why, and totals of the kept."""

    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    source: SideCounts = field(default_factory=SideCounts)
    target: SideCounts = field(default_factory=SideCounts)

    @property
    def kept(self) -> int:
        """Pairs that are in the shards."""
        return self.read - sum(self.dropped.values())

    def add(self, other: Self) -> None:
        """Add the counts of further pairs."""
        self.read += other.read
        for reason, count in other.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.source.add(other.source)
        self.target.add(other.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Training, validation or test pairs."""

    inputs: list[InputFile]
    counts: Counts
    shards: list[Shard]
    text_sha256: dict[str, str] = field(default_factory=dict)
    """Text that is kept beside the ids, by file name."""

    def __post_init__(self) -> None:
        for name in self.text_sha256:
            require_plain_name(name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that is known about a data folder."""

    format_version: int = FORMAT_VERSION
    settings: Settings
    vocabulary_sha256: str
    """Fingerprint of the codec."""
    source_vocabulary: int
    target_vocabulary: int
    bytes_per_id: int
    splits: dict[SplitName, Split]

    def __post_init__(self) -> None:
        if self.bytes_per_id not in (2, 4) or "train" not in self.splits:
            raise ValueError("it has no training pairs with ids of 2 or 4 bytes")
        for name, split in self.splits.items():
            if sum(shard.pairs for shard in split.shards) != max(1, split.counts.kept):
                raise ValueError(f"{name} has {split.counts.kept:,} pairs, and its shards not")

    @property
    def content(self) -> bytes:
        """What the file of a manifest holds."""
        return to_json(asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest of a finished folder."""
        path = folder / MANIFEST_FILE
        try:
            value = json.loads(path.read_bytes())
            version = value["format_version"]
            # In another version, any field may mean something else, so nothing more is read.
            if version == FORMAT_VERSION:
                return from_dict(cls, value)
        # A RecursionError: thousands of brackets, one in the other.
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            UsageError,
        ) as problem:
            raise DataError(f"{path} is not a manifest: {problem!r}", fix=REPAIR) from None
        raise UsageError(
            f"{folder} has data format {version}, and this aiayn reads {FORMAT_VERSION}",
            fix="make the folder again with aiayn preprocess --force",
        )
