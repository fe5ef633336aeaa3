"""What the checkpoints of a run take on disk."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from aiayn import console
from aiayn.config import TrainConfig, parse_interval, parse_keep
from aiayn.errors import UsageError

# Bytes of a weight, and of each of Adam's two moments.
FLOAT32 = 4
# last.pt, previous.pt, and the one that is being written.
RESUMABLE_FILES = 3


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes that a run takes, when it has as many checkpoints as it keeps."""

    weights: int
    """Model files: checkpoints, best.pt and average.pt."""
    resumable: int
    """What the run resumes from."""
    least: int
    """Of both together, what any run of these settings takes in the end."""

    @property
    def most(self) -> int:
        """Of both together, what it takes if it lasts long enough."""
        return self.weights + self.resumable


def disk_space(train: TrainConfig, parameters: int) -> DiskSpace:
    """Return what a run with so many parameters takes."""
    model = FLOAT32 * parameters
    # Weights, two moments, and the moving average if there is one.
    resumable = (4 if train.ema else 3) * model
    last, best = parse_keep(train.keep)
    updates, _ = parse_interval(train.save_every)
    # How many checkpoints a stretch of time will make is known only afterwards; one is sure.
    certain = -(-train.steps // updates) if updates else 1
    kept = max(last, train.average) + best
    possible = min(kept, certain) if updates else kept
    files = RESUMABLE_FILES * resumable
    average = int(train.average > 1 or train.ema > 0)
    return DiskSpace(
        weights=(possible + 1 + average) * model,
        resumable=files,
        least=min(kept, certain) * model + min(RESUMABLE_FILES, certain) * resumable,
    )


def require_room(run: Path, train: TrainConfig, parameters: int) -> None:
    """Refuse a disk on which a run cannot end; warn if it may not hold all that is kept."""
    there = next(folder for folder in (run, *run.absolute().parents) if folder.is_dir())
    own = sum(file.stat().st_size for file in run.rglob("*.pt"))
    room, needed = shutil.disk_usage(there).free + own, disk_space(train, parameters)
    found = f"the disk of {run} has room for {gigabytes(room)}"
    fewer = "--keep last=N with a smaller N takes less"
    if needed.least > room:
        raise UsageError(
            f"{found}, and the checkpoints of this run take {gigabytes(needed.least)}",
            fix=f"free some space, or name a folder on another disk; {fewer}",
        )
    if needed.most > room:
        console.warn(
            f"{found}, and its checkpoints may come to take {gigabytes(needed.most)}; {fewer}"
        )


def gigabytes(count: float) -> str:
    """Return `1.2 GB`, or `120 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
