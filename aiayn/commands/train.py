"""`aiayn train`: a data folder to a run folder."""

import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiayn import console
from aiayn.config import Config, Precision, parse_interval
from aiayn.config_file import apply_overrides, read_yaml
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

_settings = partial(typer.Option, rich_help_panel="Settings")
_running = partial(typer.Option, rich_help_panel="Running")
_keeping = partial(typer.Option, rich_help_panel="Keeping", show_default=THE_PRESETS)

Data = Annotated[
    Path, typer.Argument(help="Data folder that `aiayn preprocess` wrote.", metavar="DATA")
]
ASSIGNMENTS = (
    "Settings on top of preset and file, such as optim.warmup=8000."
    " `aiayn info --preset base --yaml` explains all."
)
Assignments = Annotated[
    list[str] | None, typer.Argument(help=ASSIGNMENTS, metavar="[SECTION.KEY=VALUE]...")
]
RUN = "Run folder; the same command goes on in it."
Output = Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help=RUN)]

PRESET = f"Settings to begin with: {', '.join(PRESETS)}."
Preset = Annotated[str, _settings(help=PRESET)]
ConfigFile = Annotated[
    Path | None, _settings(metavar="FILE.yaml", help="Settings on top of the preset.")
]
Steps = Annotated[int | None, _settings(help="Updates in all.", show_default=THE_PRESETS)]
SEED = "Seeds weights, order and dropout."
Seed = Annotated[int | None, _settings(help=SEED, show_default=THE_PRESETS)]
INIT_FROM = "Begin with the weights of this run or model file."
InitFrom = Annotated[Path | None, _settings(metavar="MODEL", help=INIT_FROM)]

Device = Annotated[str, _running(help="auto, cpu, cuda or mps.")]
PRECISION = "Type of matrix products; auto: bfloat16 on a GPU that has it, else float32."
PrecisionName = Annotated[Precision | None, _running(help=PRECISION, show_default=THE_PRESETS)]
COMPILE = "Compile the network with torch.compile."
Compile = Annotated[bool | None, _running(help=COMPILE, show_default=THE_PRESETS)]
NPROC = "Processes on this machine, started as torchrun does."
Processes = Annotated[int, _running(min=1, help=NPROC)]
TIME_LIMIT = "Stop after this time with everything saved (exit code 75)."
TimeLimit = Annotated[str | None, _running(metavar="11h30m", help=TIME_LIMIT)]
DRY_RUN = "Only print the plan: parameters, batches, memory, disk, operations."
DryRun = Annotated[bool, _running("--dry-run", help=DRY_RUN)]

SAVE_EVERY = "Time or updates between checkpoints."
SaveEvery = Annotated[str | None, _keeping(metavar="10m|1000", help=SAVE_EVERY)]
KEEP = "Checkpoints that stay on disk."
Keep = Annotated[str | None, _keeping(metavar="last=20,best=1", help=KEEP)]
AVERAGE = "Checkpoints averaged into average.pt at the end; 1: none."
Average = Annotated[int | None, _keeping(help=AVERAGE)]
VALID_EVERY = "Updates between validations; 0: only at the end."
ValidEvery = Annotated[int | None, _keeping(help=VALID_EVERY)]
PATIENCE = (
    "Stop after this many validations without a better score, or a lower loss at the same"
    " score; 0: never."
)
Patience = Annotated[int | None, _keeping(help=PATIENCE)]


def train(
    data: Data,
    settings: Assignments = None,
    *,
    output: Output,
    preset: Preset = "base",
    config: ConfigFile = None,
    steps: Steps = None,
    seed: Seed = None,
    init_from: InitFrom = None,
    device: Device = "auto",
    precision: PrecisionName = None,
    compile: Compile = None,
    nproc: Processes = 1,
    time_limit: TimeLimit = None,
    dry_run: DryRun = False,
    save_every: SaveEvery = None,
    keep: Keep = None,
    average: Average = None,
    valid_every: ValidEvery = None,
    patience: Patience = None,
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
        show_outlook(data, resolved, device, nproc, init_from)
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


def show_outlook(
    data: Path, config: Config, device: str, nproc: int, init_from: Path | None
) -> None:
    """Print what the run would be; a device that is named need not be here."""
    import torch

    from aiayn.checkpoint import find_model, load_model
    from aiayn.data.folder import DataFolder
    from aiayn.device import choose_device
    from aiayn.training.loop import check_start
    from aiayn.training.outlook import outlook

    folder = DataFolder.open(data)
    if init_from is not None:
        check_start(load_model(find_model(init_from)), folder, config)
    processes = int(os.environ.get("WORLD_SIZE", nproc))
    elsewhere = device in ("cuda", "mps")
    where = torch.device(device) if elsewhere else choose_device(device)
    found = outlook(folder, config, processes, where)
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

    console.ignore_broken_stderr()
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
    from aiayn.distributed import ProcessGroup
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translator import Translator
    from aiayn.model.transformer import Transformer
    from aiayn.scoring.bleu import score_text
    from aiayn.scoring.brackets import score_trees

    sources, references = folder.text("valid")
    decode = config.decode
    search = BeamSearch(beam=decode.beam, alpha=decode.alpha)

    parsing = folder.codec.settings.task == "parsing"

    def score(model: Transformer, group: ProcessGroup) -> "Score":
        translator = Translator(
            [model], folder.codec, search, decode.extra_length, longest=decode.longest
        )
        share = [line for _, line in group.share(sources)]
        translated = [found.text for found in translator.translate(share)]
        hypotheses = group.gather(translated, len(sources))
        if parsing:
            scores = score_trees(references, hypotheses).scores()
            return next(score for score in scores if score.name == "F1")
        return score_text(hypotheses, [references])[0]

    return score
