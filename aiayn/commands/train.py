"""`aiayn train`: a data folder to a run folder."""

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiayn import console
from aiayn.config import Config, Precision, apply_overrides, parse_interval, read_yaml
from aiayn.errors import UsageError
from aiayn.presets import PRESETS
from aiayn.presets import preset as find_preset

if TYPE_CHECKING:
    from aiayn.data.folder import DataFolder
    from aiayn.scoring.score import Score
    from aiayn.training.loop import ScoreText
    from aiayn.training.report import Watch

EXAMPLES = (
    "aiayn train data -o run --preset tiny",
    "torchrun --nproc-per-node 8 -m aiayn train data -o run --preset big optim.warmup=8000",
)

THE_PRESETS = "the preset's"
SETTINGS, RUNNING, KEEPING = "Settings", "Running", "Keeping"


def train(
    data: Annotated[
        Path, typer.Argument(help="Data folder that `aiayn preprocess` wrote.", metavar="DATA")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings on top of preset and file, such as optim.warmup=8000."
            " `aiayn info --preset base` lists all.",
            metavar="[SECTION.KEY=VALUE]...",
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="RUN", help="Run folder; the same command goes on in it."
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(
            help=f"Settings to begin with: {', '.join(PRESETS)}.", rich_help_panel=SETTINGS
        ),
    ] = "base",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml", help="Settings on top of the preset.", rich_help_panel=SETTINGS
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Updates in all.", rich_help_panel=SETTINGS, show_default=THE_PRESETS
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seeds weights, order and dropout.",
            rich_help_panel=SETTINGS,
            show_default=THE_PRESETS,
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Begin with the weights of this run or model file.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=RUNNING)
    ] = "auto",
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Type of matrix products; auto: bfloat16 on a GPU that has it, else float32.",
            rich_help_panel=RUNNING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    compile: Annotated[
        bool | None,
        typer.Option(
            help="Compile the network with torch.compile.",
            rich_help_panel=RUNNING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    nproc: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes on this machine, started as torchrun does.",
            rich_help_panel=RUNNING,
        ),
    ] = 1,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="11h30m",
            help="Stop after this time with everything saved (exit code 75).",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only print the plan: parameters, batches, memory, disk, operations.",
            rich_help_panel=RUNNING,
        ),
    ] = False,
    save_every: Annotated[
        str | None,
        typer.Option(
            metavar="10m|1000",
            help="Time or updates between checkpoints.",
            rich_help_panel=KEEPING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="last=20,best=1",
            help="Checkpoints that stay on disk.",
            rich_help_panel=KEEPING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    average: Annotated[
        int | None,
        typer.Option(
            help="Checkpoints averaged into average.pt at the end; 1: none.",
            rich_help_panel=KEEPING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    valid_every: Annotated[
        int | None,
        typer.Option(
            help="Updates between validations; 0: only at the end.",
            rich_help_panel=KEEPING,
            show_default=THE_PRESETS,
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many validations without a better one; 0: never.",
            rich_help_panel=KEEPING,
            show_default=THE_PRESETS,
        ),
    ] = None,
) -> None:
    """Train a Transformer (section 5 of the paper).

    Killed or stopped at any time, the same command goes on where the run was. Any number of
    processes trains the same model: the batch is that of all of them together.
    """
    given = {
        "steps": steps,
        "seed": seed,
        "precision": precision,
        "compile": compile,
        "save_every": save_every,
        "keep": keep,
        "average": average,
        "valid_every": valid_every,
        "patience": patience,
    }
    options = [f"train.{key}={value}" for key, value in given.items() if value is not None]
    resolved = resolve(preset, config, [*(settings or []), *options])
    seconds = parse_time(time_limit) if time_limit else None
    if dry_run:
        show_outlook(data, resolved, nproc)
        return
    if nproc > 1 and "RANK" not in os.environ:
        start_processes(nproc, data)
    run_training(data, output, resolved, device, seconds, init_from)


def parse_time(text: str) -> float:
    """Read `11h30m` as seconds."""
    try:
        seconds = parse_interval(text)[1]
    except UsageError:
        seconds = 0
    if not seconds:
        raise UsageError(f"--time-limit is {text!r}", fix="write a time: 11h30m, 45m or 90s")
    return seconds


def resolve(preset: str, file: Path | None, assignments: list[str]) -> Config:
    """Put the settings of a file and of the command line on top of a preset."""
    config = find_preset(preset)
    if file is not None:
        config = read_yaml(file, config)
    return apply_overrides(config, assignments)


def show_outlook(data: Path, config: Config, nproc: int) -> None:
    """Print what the run would be."""
    from aiayn.data.folder import DataFolder
    from aiayn.training.outlook import outlook

    processes = int(os.environ.get("WORLD_SIZE", nproc))
    found = outlook(DataFolder.open(data), config, processes)
    parameters = found.pop("parameters")
    console.result_table(["plan", ""], list(found.items()))
    console.result_table(["parameters", ""], list(parameters.items()))


def start_processes(count: int, data: Path) -> None:
    """Run this very command in several processes, and end as they do."""
    from aiayn.data.folder import DataFolder
    from aiayn.training.launch import launch

    DataFolder.open(data)  # what is wrong with it is said once, not by every process
    raise typer.Exit(launch(count, sys.argv[1:]))


def run_training(
    data: Path,
    output: Path,
    config: Config,
    device: str,
    seconds: float | None,
    init_from: Path | None,
) -> None:
    """Open what is needed and train."""
    from aiayn.checkpoint import find_model, load_model
    from aiayn.data.folder import DataFolder
    from aiayn.training.loop import train

    folder = DataFolder.open(data)
    if not folder.has("valid"):
        console.warn(f"{data} has no validation pairs, so no checkpoint is the best one")
    train(
        folder,
        output,
        config,
        device=device,
        seconds=seconds,
        init_from=load_model(find_model(init_from)) if init_from else None,
        score_text=validation_score(folder, config) if folder.has("valid") else None,
        watch=tensorboard(output) if config.train.tensorboard else None,
    )


def tensorboard(output: Path) -> "Watch":
    """Return what writes numbers where TensorBoard finds them."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError(
            "train.tensorboard is true, and TensorBoard is not installed",
            fix="pip install 'aiayn[tensorboard]', or leave the setting out",
        ) from None
    # Opened at the first number: only then is the folder that of a run.
    open_writer = cache(SummaryWriter)

    def watch(step: int, numbers: dict[str, float]) -> None:
        writer = open_writer(str(output / "tensorboard"))
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return watch


def validation_score(folder: "DataFolder", config: Config) -> "ScoreText":
    """Return what validation calls: `generate` and `score` on the validation text."""
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translate import Translator
    from aiayn.model.transformer import Transformer
    from aiayn.scoring.bleu import score_text
    from aiayn.scoring.brackets import score_trees
    from aiayn.training.ranks import Ranks

    sources, references = folder.text("valid")
    decode = config.decode
    search = BeamSearch(beam=decode.beam, alpha=decode.alpha)

    parsing = folder.codec.settings.task == "parsing"

    def score(model: Transformer, ranks: Ranks) -> "Score":
        translator = Translator([model], folder.codec, search, decode.extra_length)
        share = [line for _, line in ranks.share(sources)]
        translated = [found.text for found in translator.translate(share)]
        hypotheses = ranks.gather(translated, len(sources))
        if parsing:
            scores = score_trees(references, hypotheses).scores()
            return next(score for score in scores if score.name == "F1")
        return score_text(hypotheses, [references])[0]

    return score
