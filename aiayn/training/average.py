"""Checkpoint averaging: section 6.1. Base averages the last 5 checkpoints, big the last 20."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aiayn import console
from aiayn.checkpoint import ModelFile, load_model
from aiayn.errors import DataError, UsageError, counted
from aiayn.run_folder import RunFolder, list_steps


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the newest checkpoints of a run."""
    steps = _steps_of(run)
    if len(steps) < count:
        raise UsageError(
            f"{run} holds {counted(len(steps), 'checkpoints')}, expected {count}",
            fix=f"train for longer, or pass --last {len(steps)}",
        )
    return list(steps.values())[-count:]


def best_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the checkpoints of a run that validated best."""
    steps = _steps_of(run)
    folder = RunFolder(run)
    best = folder.best_steps()[:count]
    if len(best) < count:
        raise UsageError(
            f"{run} holds {counted(len(best), 'validated checkpoints')}, expected {count}",
            fix="train with --save-every and --valid-every the same number of updates",
        )
    better = [step for step in folder.validated_steps()[:count] if step not in steps]
    if better:
        console.warn(
            f"no checkpoint was kept of update {', '.join(map(str, sorted(better)))}, which"
            f" validated better than update {best[-1]}"
        )
    return [steps[step] for step in sorted(best)]


def named_checkpoints(run: Path, wanted: Sequence[int]) -> list[Path]:
    """Return the checkpoints of a run after these updates."""
    steps = _steps_of(run)
    missing = [step for step in wanted if step not in steps]
    if missing:
        raise UsageError(
            f"{run} holds no checkpoint of update {missing[0]}",
            fix=f"there are {', '.join(map(str, steps))}",
        )
    return [steps[step] for step in wanted]


def _steps_of(run: Path) -> dict[int, Path]:
    steps = list_steps(run)
    if not steps:
        problem = "holds no checkpoints" if run.is_dir() else "is not a folder"
        raise UsageError(f"{run} {problem}", fix="give the folder that `aiayn train -o` wrote")
    return steps


def average(paths: Sequence[Path]) -> ModelFile:
    """Return the arithmetic mean of the weights of some checkpoints of one run."""
    first = load_model(paths[0])
    steps, fingerprint = [first.step], first.codec.fingerprint
    totals = {name: weight.double() for name, weight in first.weights.items()}
    for path in paths[1:]:
        other = load_model(path)
        steps.append(other.step)
        if (other.config.model, other.codec.fingerprint) != (first.config.model, fingerprint):
            raise DataError(
                f"{path} and {paths[0]} are not checkpoints of one model",
                fix="average checkpoints of a single run",
            )
        for name, weight in other.weights.items():
            totals[name] += weight
    model = first.build()
    model.load_state_dict({name: total / len(paths) for name, total in totals.items()})
    return replace(
        first,
        weights=model.state_dict(),
        step=max(steps),
        history={"averaged_steps": steps},
        training={},
    )
