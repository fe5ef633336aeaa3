"""The log of a run: a progress bar or plain lines on stderr, metrics.jsonl and train.log."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, TextIO

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from aiayn import console
from aiayn.data.atomic import open_to_append
from aiayn.run_folder import RunFolder
from aiayn.validation import Validation

# Columns of the terminal: the bar, the line of numbers beside it, and the time that is left.
BAR, LINE, TIME_LEFT = 20, 120, 12
# Between two numbers.
GAP = "  "


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingMetrics:
    """Measurements over the updates since the last line of metrics.jsonl."""

    step: int
    epoch: int
    loss: float
    """Smoothed, nats per target token: what is minimized."""
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
    """Peak bytes in use, in one process."""
    guided_loss: float | None = None
    """Of guided attention, nats per target token; `optim.guided` times it is minimized, too."""

    def line(self, steps: int, width: float = math.inf) -> str:
        """Return the numbers for a person: those that matter most, as many as have room."""
        perplexity = math.exp(min(self.plain_loss, 700))
        numbers = {
            f"update {self.step:,} of {steps:,}": 0,
            f"loss {self.loss:.3f}": 1,
            f"perplexity {perplexity:,.2f}": 3,
            **({} if self.guided_loss is None else {f"guided {self.guided_loss:.3f}": 4}),
            f"lr {self.learning_rate:.2e}": 4,
            f"{self.tokens_per_second:,.0f} tokens/s": 2,
            f"gradient {self.gradient_norm:.2f}": 5,
            f"{self.memory / 1e9:.1f} GB": 6,
        }
        by_rank = sorted(numbers, key=lambda number: numbers[number])
        ends = accumulate(len(number) + len(GAP) for number in by_rank)
        fitting = {
            number for number, end in zip(by_rank, ends, strict=True) if end - len(GAP) <= width
        }
        return GAP.join(number for number in numbers if number in fitting)


# Called with a step and numbers by name, such as a writer for TensorBoard.
MetricsWriter = Callable[[int, dict[str, float]], None]


class TrainingLog:
    """Reports how a run goes, on the first process only."""

    def __init__(
        self, run: RunFolder, steps: int, *, enabled: bool, writer: MetricsWriter | None = None
    ) -> None:
        self.steps, self.enabled, self.writer = steps, enabled, writer
        self.last_line = time.monotonic()
        self.files: list[TextIO] = []
        self.bar: ProgressBar | None = None
        self.width = 0
        if enabled:
            self.files = [open_to_append(path) for path in (run.metrics, run.log)]
        if enabled and console.stderr.is_terminal:
            bar = BarColumn(console.bar_width(console.stderr.width - LINE - TIME_LEFT, BAR))
            columns = (bar, TextColumn("{task.description}"), TimeRemainingColumn())
            self.width = console.stderr.width - (bar.bar_width or 0) - TIME_LEFT
            self.bar = ProgressBar(*columns, console=console.stderr)
            self.bar.add_task("starting", total=steps)
            self.bar.start()

    def close(self) -> None:
        """Stop the progress bar and close the files."""
        if self.bar:
            self.bar.stop()
        for file in self.files:
            file.close()

    def training(self, metrics: TrainingMetrics) -> None:
        """Record training metrics; show them on the bar, or now and then on a plain line."""
        if not self.enabled:
            return
        numbers = {name: n for name, n in asdict(metrics).items() if n is not None}
        self._record(numbers)
        if self.writer:
            self.writer(metrics.step, {f"train/{name}": n for name, n in numbers.items()})
        line = metrics.line(self.steps)
        self._log(line)
        if self.bar:
            short = metrics.line(self.steps, self.width)
            self.bar.update(self.bar.task_ids[0], completed=metrics.step, description=short)
        elif time.monotonic() - self.last_line >= console.PLAIN_LINE_SECONDS:
            self.last_line = time.monotonic()
            console.say(line)

    def validation(self, step: int, found: Validation, *, best: bool) -> None:
        """Record and show the result of a validation."""
        if not self.enabled:
            return
        numbers, score = found.metrics, found.score
        if self.writer:
            self.writer(step, {f"valid/{name}": n for name, n in numbers.items()})
        signature = score.signature if score else ""
        self._record({"step": step, "valid": numbers, "signature": signature, "best": best})
        line = f"update {step:,}: validation perplexity {found.perplexity:,.3f}"
        line += f"  {score.name} {score.value:.2f}" if score else ""
        self.say(line + ("  (best so far)" if best else ""))

    def say(self, message: str) -> None:
        """Print a message that stays on the screen and in the log."""
        if self.enabled:
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
