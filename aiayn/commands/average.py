"""`aiayn average`: the mean of checkpoints."""

from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.config import TrainConfig
from aiayn.data.atomic import require_writable
from aiayn.errors import UsageError

EXAMPLES = (
    "aiayn average run -o model.pt",
    "aiayn average run -o model.pt --steps 98000,99000,100000",
)

LAST = TrainConfig().average
# How model files begin, and other archives.
MODEL_FILE = b"PK"

_which = partial(typer.Option, rich_help_panel="Which checkpoints")


@dataclass(frozen=True, kw_only=True)
class AverageOptions:
    """The options of `aiayn average`."""

    run: Annotated[Path, typer.Argument()]
    """Run folder that `aiayn train` wrote."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE")]
    """Model file to write."""
    last: Annotated[int | None, _which(min=1, show_default=str(LAST))] = None
    """Checkpoints to average, newest first. The paper: 5 for base, 20 for big."""
    best: Annotated[int | None, _which(min=1)] = None
    """Average the checkpoints that validated best instead."""
    steps: Annotated[str | None, _which(metavar="A,B,C")] = None
    """Average the checkpoints after these updates instead."""


@command(AverageOptions, EXAMPLES)
def average(options: AverageOptions) -> None:
    """Average checkpoints of a run into one model file (section 6.1 of the paper).

    Of a run with train.ema it is the mean of the weights as they were; their moving average is
    in best.pt and average.pt of the run.
    """
    from aiayn.checkpoint import save_model
    from aiayn.run_folder import CHECKPOINTS
    from aiayn.training import average as averaging

    run, output, last, best, steps = astuple(options)
    if sum(chosen is not None for chosen in (last, best, steps)) > 1:
        raise UsageError("--last, --best and --steps exclude one another", fix="give one")
    # Not over what training itself reads again.
    kept = [run / "last.pt", run / "previous.pt", run / "best.pt"]
    kept += (run / CHECKPOINTS).glob("*.pt")
    require_writable(output, reads=kept, begins=MODEL_FILE)
    if steps is not None:
        paths = averaging.named_checkpoints(run, parse_steps(steps))
    elif best is not None:
        paths = averaging.best_checkpoints(run, best)
    else:
        paths = averaging.last_checkpoints(run, last or LAST)
    averaged = averaging.average(paths)
    if averaged.config.train.ema:
        console.warn(f"the moving average of {run} (train.ema) is in its average.pt, not here")
    save_model(output, averaged)
    numbers = ", ".join(f"{step:,}" for step in averaged.history["averaged_steps"])
    console.say(f"averaged updates {numbers} into {output}")


def parse_steps(text: str) -> list[int]:
    """Read `98000,99000,100000`."""
    try:
        numbers = [int(part) for part in text.split(",")]
        if len(set(numbers)) < len(numbers):
            raise ValueError
        return numbers
    except ValueError:
        raise UsageError(
            f"--steps is {text!r}", fix="write different updates with commas: 98000,99000"
        ) from None
