"""The run folder: what a run is made of, and what it has reached.

config.yaml provenance.json vocab/ metrics.jsonl train.log
checkpoints/step-00001000.pt ... last.pt previous.pt best.pt average.pt
"""

import json
import math
import platform
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from aiayn import __version__, console
from aiayn.checkpoint import ModelFile, load_model, save_model
from aiayn.config import Config, parse_keep
from aiayn.config_file import differences, read_yaml, to_yaml
from aiayn.data.atomic import lock_folder, write_bytes, write_json
from aiayn.data.folder import DataFolder
from aiayn.data.mixture import Mixture
from aiayn.errors import DataError, UsageError
from aiayn.model_path import find_model

CHECKPOINTS = "checkpoints"
# A run that was told to stop may still be saving.
LOCK_PATIENCE_SECONDS = 10
# Settings that may differ when a run is resumed: none affects what is learned, or which
# checkpoint is the best, but for those of `MAY_NOT_CHANGE`.
MAY_CHANGE = ("train.", "decode.", "batch.micro_tokens")
MAY_NOT_CHANGE = ("train.seed", "train.precision", "train.metric", "train.ema")


@dataclass(slots=True)
class Progress:
    """How far a run is; the seeds of dropout and of the order of batches follow from it."""

    step: int = 0
    epoch: int = 0
    update: int = 0
    """The next update of the epoch."""
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    """Time spent training, over all sessions."""
    best: float | None = None
    """The best validation score so far; higher is better."""
    best_loss: float = math.inf
    """The validation loss that goes with it, which decides among equal scores."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    places: list[list[int]] = field(default_factory=list)
    """Of each corpus, where there are several: epoch, next group, target tokens so far."""

    @classmethod
    def of(cls, checkpoint: ModelFile) -> "Progress":
        """Read the progress that a checkpoint holds."""
        # Model files have called it so from the first version on.
        return cls(**checkpoint.training["place"])

    def update_best(self, valid: Mapping[str, float]) -> bool:
        """Compare a validation with the best so far, which it replaces if it is better."""
        score, negative_loss = validation_key(valid)
        best = self.best is None or (score, negative_loss) > (self.best, -self.best_loss)
        self.stale = 0 if best else self.stale + 1
        if best:
            self.best, self.best_loss, self.best_step = score, -negative_loss, self.step
        return best


@dataclass(frozen=True)
class RunFolder:
    """A run on disk."""

    path: Path

    @property
    def metrics(self) -> Path:
        """Measurements, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """The messages of the run."""
        return self.path / "train.log"

    @contextmanager
    def locked(self, *, patience: float = LOCK_PATIENCE_SECONDS) -> Iterator[None]:
        """Lock the folder against other runs."""
        if self.path.is_file():
            raise UsageError(f"{self.path} is a file", fix="choose another folder with -o")
        with lock_folder(self.path, patience=patience):
            yield

    def stored_config(self) -> Config | None:
        """Return the settings that the run began with; None: there is nothing to resume."""
        if (self.path / "config.yaml").exists() and self._holds_weights():
            return read_yaml(self.path / "config.yaml", Config())
        return None

    def _holds_weights(self) -> bool:
        return any(self.path.glob("*.pt")) or bool(list_steps(self.path))

    def refuse_other(self, config: Config, data: DataFolder) -> None:
        """Refuse a folder that holds something else than the same run, or nothing."""
        if self.stored_config():
            self._check_same_run(config, data)
        elif (self.path / "config.yaml").exists():
            return  # a start that failed: there is nothing to resume, and nothing to lose
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise UsageError(
                f"{self.path} is not empty and holds no run",
                fix="choose another folder with -o",
            )

    def create(self, config: Config, data: DataFolder) -> None:
        """Write what a run begins with, unless the folder holds one."""
        if not self.stored_config():
            shutil.rmtree(self.path / "vocab", ignore_errors=True)
            self.record(config, data)

    def record(self, config: Config, data: DataFolder) -> None:
        """Write the settings, vocabulary and provenance of this session."""
        (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        data.codec.save(self.path / "vocab")
        self._write_provenance(data)
        self.save_config(config)

    def save_config(self, config: Config) -> None:
        """Write the settings."""
        write_bytes(self.path / "config.yaml", to_yaml(config).encode())

    def _check_same_run(self, config: Config, data: DataFolder) -> None:
        stored = read_yaml(self.path / "config.yaml", Config())
        changed = differences(stored, config)
        fatal = [
            c for c in changed if not c.startswith(MAY_CHANGE) or c.startswith(MAY_NOT_CHANGE)
        ]
        if fatal:
            raise UsageError(
                f"{self.path} holds a run with other settings: {'; '.join(fatal)}",
                fix=f"give the settings it began with (--config {self.path}/config.yaml), or"
                " choose another folder with -o"
                f" (--init-from {self.path} starts from its weights)",
            )
        for change in changed:
            console.say(f"changed since the run began: {change}")
        given = data.training_sha256
        if self._provenance().get("data_sha256", given) != given:
            shares = [f"{Path(path).name}:{share:g}" for path, share in self.shares().items()]
            mixed = f", or other shares: {' '.join(shares)}" if shares else ""
            raise UsageError(
                f"{self.path} was trained on other data{mixed}",
                fix="give the data folder it began with, or choose another folder with -o",
            )

    def _provenance(self) -> dict[str, object]:
        try:
            return dict(json.loads((self.path / "provenance.json").read_bytes()))
        except (OSError, ValueError):
            return {}

    def _write_provenance(self, data: DataFolder) -> None:
        now = {
            "command": sys.argv,
            "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "aiayn": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        found = self._provenance()
        # Earlier files call them sittings.
        sessions = found.get("sessions", found.get("sittings", []))
        assert isinstance(sessions, list)
        origin: dict[str, Any] = {
            "data": str(data.path.resolve()),
            "data_sha256": data.training_sha256,
        }
        if isinstance(data, Mixture):
            origin["shares"] = data.describe_shares()
        write_json(self.path / "provenance.json", {**origin, "sessions": [*sessions, now]})

    def shares(self) -> dict[str, float]:
        """Return the share of each data folder by its path, where there are several."""
        found = self._provenance().get("shares", {})
        assert isinstance(found, dict)
        return found

    def latest(self) -> ModelFile | None:
        """Return the checkpoint to resume from: last.pt, or previous.pt if that is damaged."""
        found = self._find_latest()
        return found[1] if found else None

    def resume(self) -> ModelFile | None:
        """Return the same; if it is previous.pt, remove the damaged last.pt.

        The next save would put it in the place of previous.pt, and then, for a moment, nothing
        would be whole.
        """
        found = self._find_latest()
        if found and found[0].name != "last.pt":
            (self.path / "last.pt").unlink(missing_ok=True)
        return found[1] if found else None

    def _find_latest(self) -> tuple[Path, ModelFile] | None:
        found = [
            path for path in (self.path / "last.pt", self.path / "previous.pt") if path.exists()
        ]
        for number, path in enumerate(found, start=1):
            try:
                return path, load_resumable(path)
            except DataError as problem:
                if number == len(found):
                    raise DataError(
                        f"{problem.message}, so {self.path} cannot be resumed",
                        fix=self._begin_again(),
                    ) from None
                console.warn(f"{problem.message}; falling back to {found[number]}")
        return None

    def _begin_again(self) -> str:
        """Return what to do with a run of which nothing that resumes is whole."""
        weights = [*reversed(list_steps(self.path).values()), self.path / "best.pt"]
        whole = next((path for path in weights if zipfile.is_zipfile(path)), None)
        anew = (
            f"begin another run with the newest weights: aiayn train DATA -o NEW --init-from"
            f" {whole}"
            if whole
            else f"rm -r {self.path}, then run the same command again to begin anew"
        )
        return f"put back a whole last.pt if there is a copy, or {anew}"

    def discard_after(self, step: int) -> None:
        """Remove checkpoints and metrics beyond the step that the run resumes from."""
        for number, path in list_steps(self.path).items():
            if number > step:
                path.unlink()
        if self.metrics.exists():
            lines = self.metrics.read_bytes().split(b"\n")
            kept = [line for line in lines if (row := _parse(line)) and row["step"] <= step]
            write_bytes(self.metrics, b"".join(line + b"\n" for line in kept))

    def save(self, model: ModelFile, *, keep: bool) -> None:
        """Write last.pt, after a checkpoint to average if it is to be kept."""
        if keep:
            self.save_step(replace(model, training={}))
        self.save_last(model)

    def save_last(self, model: ModelFile) -> None:
        """Write last.pt; the one before it becomes previous.pt."""
        last = self.path / "last.pt"
        new = self.path / "next.pt"
        save_model(new, model)
        if last.exists():
            last.replace(self.path / "previous.pt")
        new.replace(last)

    def save_step(self, model: ModelFile) -> None:
        """Write the weights after this update; remove those that `train.keep` does not keep."""
        save_model(step_path(self.path, model.step), model)
        last, best = parse_keep(model.config.train.keep)
        steps = list_steps(self.path)
        best_steps = self.best_steps()[:best]
        for step in list(steps)[: -max(last, model.config.train.average)]:
            if step not in best_steps:
                steps[step].unlink()

    def best_steps(self) -> list[int]:
        """Return the validated updates whose checkpoints were kept, best first."""
        kept = list_steps(self.path)
        return [step for step in self.validated_steps() if step in kept]

    def validated_steps(self) -> list[int]:
        """Return the updates after which the model was validated, best first."""
        valid = {row["step"]: row["valid"] for row in self.read_metrics() if "valid" in row}
        return sorted(valid, key=lambda step: validation_key(valid[step]), reverse=True)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, in order."""
        if not self.metrics.exists():
            return []
        # After the last line feed comes nothing, or a line that a kill has cut short.
        lines = self.metrics.read_bytes().split(b"\n")[:-1]
        rows = []
        for number, line in enumerate(lines, start=1):
            if (row := _parse(line)) is None:
                raise DataError(
                    f"{self.metrics}, line {number} is not what `aiayn train` writes there",
                    fix="delete the line, or run the same aiayn train command again, which"
                    " does",
                )
            rows.append(row)
        return rows


def validation_key(valid: Mapping[str, float]) -> tuple[float, float]:
    """Return the key that ranks validations, higher is better: the score, then the loss.

    Early in training every BLEU is 0, and the loss alone shows that the model learns.
    """
    scores = [value for name, value in valid.items() if name not in ("loss", "perplexity")]
    return (scores[0] if scores else -valid["loss"]), -valid["loss"]


def load_resumable(path: Path) -> ModelFile:
    """Load a checkpoint; refuse one that lacks the state of training."""
    checkpoint = load_model(path)
    try:
        Progress.of(checkpoint)
        _ = checkpoint.training["optimizer"], checkpoint.training["scaler"]
        _ = checkpoint.training["ema"] if checkpoint.config.train.ema else None
        return checkpoint
    except (KeyError, TypeError):
        raise DataError(
            f"{path} holds weights, and not all that resuming a run needs"
        ) from None


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return a row of metrics.jsonl; None if the line is damaged."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def open_model(path: Path) -> ModelFile:
    """Load the model file that a path means."""
    return load_model(find_model(path))


def step_path(run: Path, step: int) -> Path:
    """Return the path of the checkpoint after an update."""
    return run / CHECKPOINTS / f"step-{step:08}.pt"


def list_steps(run: Path) -> dict[int, Path]:
    """Return the checkpoints of a run by step, in order."""
    found = (run / CHECKPOINTS).glob("step-*.pt")
    named = ((re.fullmatch(r"step-(\d+)\.pt", path.name), path) for path in found)
    return dict(sorted((int(match[1]), path) for match, path in named if match))
