"""The state of a run of preprocess until it is finished, so that it can be resumed.

DATA/unfinished/ holds plan.json (settings and inputs), pairs.json once the first pass is done,
and a record and a list of dropped pairs for every shard that is complete on disk.
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from aiayn.data.atomic import TEMPORARY, write_json, write_whole
from aiayn.data.encode import DROPPED_COLUMNS
from aiayn.data.folder import UNFINISHED_FOLDER, VOCABULARY_FOLDER
from aiayn.data.manifest import MANIFEST_FILE, Counts, InputFile, SplitName, from_dict
from aiayn.data.settings import Settings
from aiayn.data.shards import Shard
from aiayn.errors import UsageError

SPOOL = "stdin.partial"
"""Where standard input is kept during a run."""
OURS = (MANIFEST_FILE, UNFINISHED_FOLDER, VOCABULARY_FOLDER, "*.bin", "*.idx", "*.src", "*.ref")
"""What preprocess writes into a data folder. The manifest first: without it, a folder that is
only half deleted does not pass for a finished one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What a run is asked for: the same job gives the same bytes."""

    settings: Settings
    inputs: dict[SplitName, list[InputFile]]
    """Files of each split."""

    def differences(self, other: Self) -> list[str]:
        """Return in words how another job differs from this one."""
        found = self.settings.differences(other.settings)
        for split in sorted(self.inputs.keys() | other.inputs.keys()):
            mine, others = self.inputs.get(split, []), other.inputs.get(split, [])
            if len(mine) != len(others):
                found.append(f"{split} had {len(mine)} files and has {len(others)}")
            found += [
                f"{new.path} is not the text that {old.path} was"
                for old, new in zip(mine, others, strict=False)
                if old.sha256 != new.sha256
            ]
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord:
    """A shard that is complete on disk, and what went into it."""

    shard: Shard
    counts: Counts
    blocks: int
    """Blocks of the input that went into it: where to resume."""
    text_sha256: dict[str, str] = field(default_factory=dict)


class Unfinished:
    """The folder with the state of an unfinished run."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.path = output / UNFINISHED_FOLDER
        self.duplicates = self.path / "duplicates"

    def begin(self, job: Job) -> None:
        """Store what the run is asked for, before it does anything."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "plan.json", asdict(job))

    def job(self) -> Job | None:
        """Return what an interrupted run was asked for, if its first pass is done."""
        if self.pairs() is None:
            return None
        return from_dict(Job, json.loads((self.path / "plan.json").read_bytes()))

    def store_pairs(self, pairs: dict[SplitName, int]) -> None:
        """Store how many pairs each split has: the first pass is done."""
        write_json(self.path / "pairs.json", pairs)

    def pairs(self) -> dict[SplitName, int] | None:
        """Return how many pairs each split has, if the first pass is done."""
        path = self.path / "pairs.json"
        return json.loads(path.read_bytes()) if path.is_file() else None

    def dropped(self, shard: str) -> Path:
        """Return the file that lists the pairs dropped from a shard."""
        return self.path / f"{shard}.tsv"

    def store_record(self, record: ShardRecord) -> None:
        """Store that a shard is complete on disk."""
        write_json(self.path / f"{record.shard.name}.json", asdict(record))

    def record(self, name: str) -> ShardRecord | None:
        """Return the record of a shard, if it is complete on disk."""
        path = self.path / f"{name}.json"
        needed = path, self.output / f"{name}.bin", self.output / f"{name}.idx"
        if not all(each.is_file() for each in needed):
            return None
        return from_dict(ShardRecord, json.loads(path.read_bytes()))

    def write_dropped(self, path: Path, shards: list[Shard]) -> None:
        """Concatenate the lists of dropped pairs."""
        with write_whole(path) as file:
            file.write(("\t".join(DROPPED_COLUMNS) + "\n").encode())
            for shard in shards:
                with self.dropped(shard.name).open("rb") as part:
                    shutil.copyfileobj(part, file)

    def remove(self) -> None:
        """Remove the folder: the manifest has what matters."""
        shutil.rmtree(self.path, ignore_errors=True)


def clear(output: Path) -> None:
    """Remove everything that preprocess wrote into a folder."""
    for pattern in OURS:
        for suffix in ("", TEMPORARY):
            for path in output.glob(pattern + suffix):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def refuse_foreign(output: Path) -> None:
    """Raise a UsageError if the folder holds what preprocess did not make."""
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file, and a folder is wanted", fix="name another")
    made = (output / MANIFEST_FILE).exists() or (output / UNFINISHED_FOLDER).exists()
    if output.exists() and not made and any(each.name != SPOOL for each in output.iterdir()):
        raise UsageError(
            f"{output} holds other things, and no data of aiayn", fix="name an empty folder"
        )
