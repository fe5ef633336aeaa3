"""The run folder: what a run is made of, and what it has reached.

config.yaml provenance.json vocab/ metrics.jsonl train.log
checkpoints/step-00001000.pt ... last.pt previous.pt best.pt average.pt
"""

import hashlib
import json
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aiayn import __version__, console
from aiayn.checkpoint import (
    CHECKPOINTS,
    ModelFile,
    list_steps,
    load_model,
    save_model,
    step_path,
)
from aiayn.config import Config, parse_keep
from aiayn.config_file import differences, read_yaml, to_yaml
from aiayn.data.atomic import lock_folder, write_bytes, write_json
from aiayn.data.folder import DataFolder
from aiayn.errors import DataError, UsageError
from aiayn.training.state import require_whole

SECONDS_TO_LEAVE = 10
MAY_CHANGE = ("train.", "decode.", "batch.micro_tokens")
"""Settings that a run may go on with other ones of: none is part of what is learned."""
BUT_NOT = ("train.seed", "train.precision")


@dataclass(frozen=True)
class RunFolder:
    """Where a run lives on disk."""

    path: Path

    @property
    def metrics(self) -> Path:
        """One JSON object a line: what was measured after which update."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """What was said while the run went on."""
        return self.path / "train.log"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other runs out of the folder; one that was told to stop may still be saving."""
        if self.path.is_file():
            raise UsageError(f"{self.path} is a file", fix="choose another folder with -o")
        with lock_folder(self.path, patience=SECONDS_TO_LEAVE):
            yield

    def begin(self, config: Config, data: DataFolder) -> None:
        """Make the folder, or check that it holds the same run."""
        if (self.path / "config.yaml").exists():
            if self._holds_weights():
                self._check_same_run(config, fingerprint(data))
                return
            # A start that failed: there is nothing to go on from, and nothing to lose.
            shutil.rmtree(self.path / "vocab", ignore_errors=True)
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise UsageError(
                f"{self.path} is not empty and holds no run",
                fix="choose another folder with -o",
            )
        self.record(config, data)

    def record(self, config: Config, data: DataFolder) -> None:
        """Write down what this sitting does."""
        (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        data.codec.save(self.path / "vocab")
        self._write_provenance(data.path, fingerprint(data))
        write_bytes(self.path / "config.yaml", to_yaml(config).encode())

    def _holds_weights(self) -> bool:
        return any(self.path.glob("*.pt")) or bool(list_steps(self.path))

    def _check_same_run(self, config: Config, data_sha256: str) -> None:
        stored = read_yaml(self.path / "config.yaml", Config())
        changed = differences(stored, config)
        fatal = [c for c in changed if not c.startswith(MAY_CHANGE) or c.startswith(BUT_NOT)]
        if fatal:
            raise UsageError(
                f"{self.path} holds a run with other settings: {'; '.join(fatal)}",
                fix=f"give the settings it began with (--config {self.path}/config.yaml), or"
                " choose another folder with -o"
                f" (--init-from {self.path} starts from its weights)",
            )
        for change in changed:
            console.say(f"changed since the run began: {change}")
        if self._provenance().get("data_sha256", data_sha256) != data_sha256:
            raise UsageError(
                f"{self.path} was trained on other data",
                fix="give the data folder it began with, or choose another folder with -o",
            )

    def _provenance(self) -> dict[str, object]:
        try:
            found: dict[str, object] = json.loads((self.path / "provenance.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def _write_provenance(self, data: Path, data_sha256: str) -> None:
        now = {
            "command": sys.argv,
            "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "aiayn": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        sittings = self._provenance().get("sittings", [])
        assert isinstance(sittings, list)
        origin = {"data": str(data.resolve()), "data_sha256": data_sha256}
        content = {**origin, "sittings": [*sittings, now]}
        write_json(self.path / "provenance.json", content)

    def newest(self) -> ModelFile | None:
        """Return what to go on from: last.pt, or the one before it if that is damaged."""
        problems = []
        for name in ("last.pt", "previous.pt"):
            if (self.path / name).exists():
                try:
                    found = load_model(self.path / name)
                    require_whole(found, self.path / name)
                    return found
                except DataError as problem:
                    console.warn(f"{problem.message}; falling back to the checkpoint before it")
                    problems.append(problem)
        if problems:
            raise problems[0]
        return None

    def forget_after(self, step: int) -> None:
        """Remove what an interrupted sitting measured or kept beyond the point of return."""
        for number, path in list_steps(self.path).items():
            if number > step:
                path.unlink()
        if self.metrics.exists():
            lines = self.metrics.read_bytes().split(b"\n")
            kept = [line for line in lines if (row := _parsed(line)) and row["step"] <= step]
            write_bytes(self.metrics, b"".join(line + b"\n" for line in kept))

    def save_last(self, model: ModelFile) -> None:
        """Write last.pt; the one before stays as previous.pt."""
        last = self.path / "last.pt"
        fresh = self.path / "next.pt"
        save_model(fresh, model)
        if last.exists():
            last.replace(self.path / "previous.pt")
        fresh.replace(last)

    def save_step(self, model: ModelFile) -> None:
        """Write the weights after this update; remove those that are neither new nor good."""
        save_model(step_path(self.path, model.step), model)
        last, best = parse_keep(model.config.train.keep)
        steps = list_steps(self.path)
        good = self.best_steps()[:best]
        for step in list(steps)[: -max(last, model.config.train.average)]:
            if step not in good:
                steps[step].unlink()

    def best_steps(self) -> list[int]:
        """Return the updates whose checkpoints are there and were validated, best first."""
        kept = list_steps(self.path)
        return [step for step in self.validated_steps() if step in kept]

    def validated_steps(self) -> list[int]:
        """Return the updates after which the model was validated, best first."""
        found = {
            row["step"]: (-quality_of(row["valid"]), row["valid"]["loss"])
            for row in self.read_metrics()
            if "valid" in row
        }
        return sorted(found, key=found.__getitem__)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return what was measured, in order."""
        if not self.metrics.exists():
            return []
        # What follows the last line feed is nothing, or a line that a kill has cut short.
        lines = self.metrics.read_bytes().split(b"\n")[:-1]
        rows = [row for row in map(_parsed, lines) if row is not None]
        if len(rows) < len(lines):
            number = next(n for n, line in enumerate(lines, start=1) if _parsed(line) is None)
            raise DataError(
                f"{self.metrics}, line {number} is not what `aiayn train` writes there",
                fix="delete the line, or run the same aiayn train command again, which does",
            )
        return rows


def quality_of(valid: dict[str, float]) -> float:
    """Return what a validation is compared by: its score, or else the negative loss."""
    scores = [value for name, value in valid.items() if name not in ("loss", "perplexity")]
    return scores[0] if scores else -valid["loss"]


def fingerprint(data: DataFolder) -> str:
    """Return a sha256 over what is learned from: the training pairs and the vocabulary."""
    shards = [shard.bin_sha256 for shard in data.manifest.splits["train"].shards]
    return hashlib.sha256(" ".join([*shards, data.codec.fingerprint]).encode()).hexdigest()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return what a line of metrics.jsonl says; None: it is damaged."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None
