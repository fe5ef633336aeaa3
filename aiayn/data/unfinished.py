"""The state of an unfinished run of preprocess, from which the same command resumes.

DATA/unfinished/ holds state.json once the first pass is done, a list of dropped pairs for every
complete shard, and which pairs are duplicates.
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from aiayn.data.atomic import TEMPORARY, atomic_write, write_json
from aiayn.data.encode import DROPPED_COLUMNS
from aiayn.data.folder import SUMS_FILE, UNFINISHED_FOLDER, VOCABULARY_FOLDER
from aiayn.data.manifest import MANIFEST_FILE, Counts, InputFile, SplitName
from aiayn.data.plain_values import from_dict
from aiayn.data.settings import Settings
from aiayn.data.shards import ALIGN, Shard
from aiayn.errors import UsageError, counted

STATE_FILE = f"{UNFINISHED_FOLDER}/state.json"
DUPLICATES_FILE = f"{UNFINISHED_FOLDER}/duplicates"
# Pairs dropped from the shard of that name.
DROPPED_FILE = f"{UNFINISHED_FOLDER}/{{}}.tsv"
# Where standard input is kept during a run.
SPOOL = "stdin.partial"
# What preprocess writes into a data folder. It is deleted in this order, the manifest first: a
# folder that is only half deleted must not pass for a finished one.
OURS = (
    MANIFEST_FILE,
    SUMS_FILE,
    UNFINISHED_FOLDER,
    VOCABULARY_FOLDER,
    "*.bin",
    "*.idx",
    f"*{ALIGN}",
    "*.src",
    "*.ref",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What a run is asked for: the same job gives the same bytes."""

    settings: Settings
    inputs: dict[SplitName, list[InputFile]]

    def refuse_other(self, other: Self, output: Path) -> None:
        """Raise a UsageError if another job made or began the folder."""
        found = other.settings.differences(self.settings)
        for split in sorted(self.inputs.keys() | other.inputs.keys()):
            new, old = self.inputs.get(split, []), other.inputs.get(split, [])
            if len(new) != len(old):
                found.append(f"{split} had {counted(len(old), 'files')} and has {len(new)}")
            found += [
                f"{mine.path} is not the text that {others.path} was"
                for mine, others in zip(new, old, strict=False)
                if mine.sha256 != others.sha256
            ]
        if found:
            raise UsageError(
                f"{output} was made with other settings or text: {'; '.join(found)}",
                fix="name another folder, or add --force to replace what this one holds",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord:
    """A shard that is complete on disk, and what went into it."""

    shard: Shard
    counts: Counts
    blocks: int
    """Blocks of the input that went into it: where to resume."""
    text_sha256: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """How far a run has come after its first pass."""

    job: Job
    pairs: dict[SplitName, int]
    """Pairs of each split."""
    records: dict[SplitName, list[ShardRecord]] = field(default_factory=dict)
    """Shards of each split."""

    def save(self, output: Path) -> None:
        """Write the state into a data folder: a few kB, once a shard."""
        write_json(output / STATE_FILE, asdict(self))

    @classmethod
    def load(cls, output: Path) -> Self | None:
        """Return the state of an interrupted run, if its first pass was done.

        None, too, if it is damaged: then the run starts over.
        """
        try:
            return from_dict(cls, json.loads((output / STATE_FILE).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def write_dropped(path: Path, output: Path, shards: list[Shard]) -> None:
    """Concatenate the lists of dropped pairs."""
    with atomic_write(path) as file:
        file.write(("\t".join(DROPPED_COLUMNS) + "\n").encode())
        for shard in shards:
            with (output / DROPPED_FILE.format(shard.name)).open("rb") as part:
                shutil.copyfileobj(part, file)


def clear(output: Path) -> None:
    """Remove everything that preprocess wrote into a folder."""
    for pattern in OURS:
        for suffix in ("", TEMPORARY):
            for path in output.glob(pattern + suffix):
                # A link is removed, and what it points to stays.
                real = path.is_dir() and not path.is_symlink()
                shutil.rmtree(path) if real else path.unlink()


def refuse_foreign(output: Path) -> None:
    """Raise a UsageError if the folder holds what preprocess did not make."""
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"{output} is a file, expected a folder", fix="name another")
    names = {each.name for each in output.iterdir()} - {SPOOL}
    if names and not names & {MANIFEST_FILE, UNFINISHED_FOLDER}:
        raise UsageError(f"{output} holds other files, and no data", fix="name an empty folder")
