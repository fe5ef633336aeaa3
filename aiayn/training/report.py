"""What a person sees of a run: a live line or plain ones, metrics.jsonl and train.log."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from aiayn import console
from aiayn.training.run import RunFolder
from aiayn.training.validate import Validation


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What was measured over the updates since the line before."""

    step: int
    epoch: int
    loss: float
    """Smoothed, nats a target token: what is minimised."""
    plain_loss: float
    """Without smoothing."""
    learning_rate: float
    gradient_norm: float
    tokens: int
    """Target tokens since the run began."""
    tokens_per_second: float
    seconds: float
    """Time in training since the run began."""
    memory: int
    """The most bytes in use at a time, in one process."""

    def line(self, steps: int) -> str:
        """Return the numbers for a person."""
        perplexity = math.exp(min(self.plain_loss, 700))
        return (
            f"update {self.step:,} of {steps:,}  loss {self.loss:.3f}"
            f"  perplexity {perplexity:,.2f}  lr {self.learning_rate:.2e}"
            f"  {self.tokens_per_second:,.0f} tokens/s"
            f"  gradient {self.gradient_norm:.2f}  {self.memory / 1e9:.1f} GB"
        )


Watch = Callable[[int, dict[str, float]], None]
"""Is told numbers by name after an update, beside metrics.jsonl."""


class Report:
    """Tells how a run goes; only the first process has one that speaks."""

    def __init__(
        self, run: RunFolder, steps: int, *, speaks: bool, watch: Watch | None = None
    ) -> None:
        self.steps, self.speaks, self.watch = steps, speaks, watch
        self.last_line = time.monotonic()
        self.files: list[TextIO] = []
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        if speaks:
            self.files = [
                path.open("a", encoding="utf-8", errors="backslashreplace")
                for path in (run.metrics, run.log)
            ]
        if speaks and console.stderr.is_terminal:
            columns = (BarColumn(20), TextColumn("{task.description}"), TimeRemainingColumn())
            self.bar = Progress(*columns, console=console.stderr)
            self.task = self.bar.add_task("starting", total=steps)
            self.bar.start()

    def close(self) -> None:
        """Leave the terminal and the files as they are to stay."""
        if self.bar:
            self.bar.stop()
        for file in self.files:
            file.close()

    def measured(self, numbers: Measured) -> None:
        """Take numbers down; show them on the live line, or now and then on a plain one."""
        if not self.speaks:
            return
        self._record(asdict(numbers))
        if self.watch:
            self.watch(numbers.step, {f"train/{k}": v for k, v in asdict(numbers).items()})
        line = numbers.line(self.steps)
        self._log(line)
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=numbers.step, description=line)
        elif time.monotonic() - self.last_line >= console.PLAIN_LINE_SECONDS:
            self.last_line = time.monotonic()
            console.say(line)

    def validated(self, step: int, found: Validation, *, best: bool) -> None:
        """Tell what a validation found."""
        if not self.speaks:
            return
        valid = {"loss": found.loss, "perplexity": found.perplexity}
        score = signature = ""
        if found.score is not None:
            valid |= {found.score.name: found.score.value}
            score = f"  {found.score.name} {found.score.value:.2f}"
            signature = found.score.signature
        if self.watch:
            self.watch(step, {f"valid/{name}": value for name, value in valid.items()})
        self._record({"step": step, "valid": valid, "signature": signature, "best": best})
        line = f"update {step:,}: validation perplexity {found.perplexity:,.3f}{score}"
        self.say(line + ("  (best so far)" if best else ""))

    def say(self, message: str) -> None:
        """Say something that stays on the screen and in the log."""
        if self.speaks:
            self._log(message)
            console.say(message)

    def _record(self, numbers: dict[str, Any]) -> None:
        # JSON has no infinity, and a gradient in float16 may overflow.
        finite = {k: None if v in (math.inf, -math.inf) else v for k, v in numbers.items()}
        self.files[0].write(json.dumps(finite) + "\n")
        self.files[0].flush()

    def _log(self, line: str) -> None:
        self.files[1].write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")
        self.files[1].flush()
