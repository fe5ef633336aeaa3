"""`aiayn train`: a data folder to a run folder."""

import os
import sys
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.config import Config, Precision, TrainConfig, parse_interval
from aiayn.config_file import apply_overrides, differences, read_yaml
from aiayn.data.named import Named
from aiayn.errors import UsageError
from aiayn.presets import preset as find_preset
from aiayn.signals import deadline_after

if TYPE_CHECKING:
    from aiayn.training.log import MetricsWriter

EXAMPLES = (
    "aiayn train data -o run --preset tiny",
    "aiayn train real:0.6 synthetic:0.4 -o run --preset tiny",
    "torchrun --nproc-per-node 8 -m aiayn train data -o run --preset big optim.warmup=8000",
)

FROM_PRESET = "the preset's"

_setting = partial(typer.Option, rich_help_panel="Settings")
_running = partial(typer.Option, rich_help_panel="Running")
_checkpoints = partial(
    typer.Option, rich_help_panel="Checkpoints and validation", show_default=FROM_PRESET
)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The options of `aiayn train`."""

    data: Annotated[str, typer.Argument(metavar="DATA[:SHARE]")]
    """Data folder that `aiayn preprocess` wrote. Several with one vocabulary are mixed: de:0.6
    synthetic:0.4 takes 6 target tokens of the first for 4 of the second; validation text is
    that of all folders that have some."""
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[DATA:SHARE]... [SECTION.KEY=VALUE]...")
    ] = None
    """Further data folders; and settings on top of preset and file, such as optim.warmup=8000.
    `aiayn info --preset base --yaml` explains all."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN")]
    """Run folder; the same command resumes it."""

    preset: Annotated[str | None, _setting(show_default="base")] = None
    """Settings to start from: tiny, base, big, big-en-fr, table3-A1 to table3-E, parsing or
    student; `aiayn info --presets` says what they are."""
    config: Annotated[Path | None, _setting(metavar="FILE.yaml")] = None
    """Settings on top of the preset."""
    steps: Annotated[int | None, _setting(show_default=FROM_PRESET)] = None
    """Total updates."""
    seed: Annotated[int | None, _setting(show_default=FROM_PRESET)] = None
    """Seeds weights, order and dropout."""
    init_from: Annotated[Path | None, _setting(metavar="MODEL")] = None
    """Initial weights: a run folder or a model file, whose architecture is taken unless
    --preset names another."""

    device: Annotated[str, _running()] = "auto"
    """auto, cpu, cuda or mps."""
    precision: Annotated[Precision | None, _running(show_default=FROM_PRESET)] = None
    """Type of matrix products; auto: bfloat16 on a GPU or a processor that
    multiplies it (AVX512_BF16, AMX), else float32."""
    compile: Annotated[bool | None, _running(show_default=FROM_PRESET)] = None
    """Compile the network with torch.compile; by default on a GPU that it is for."""
    nproc: Annotated[int, _running(min=1)] = 1
    """Processes on this machine, started as torchrun does."""
    time_limit: Annotated[str | None, _running(metavar="11h30m")] = None
    """Stop after this time, start-up included, with everything saved (exit code 75)."""
    dry_run: Annotated[bool, _running("--dry-run")] = False
    """Only estimate parameters, batches, memory, disk, operations."""

    save_every: Annotated[str | None, _checkpoints(metavar="10m|1000")] = None
    """Time or updates between checkpoints."""
    keep: Annotated[str | None, _checkpoints(metavar="last=20,best=1")] = None
    """Checkpoints that stay on disk."""
    average: Annotated[int | None, _checkpoints()] = None
    """Checkpoints averaged into average.pt at the end; 1: none."""
    valid_every: Annotated[int | None, _checkpoints()] = None
    """Updates between validations; 0: only at the end."""
    patience: Annotated[int | None, _checkpoints()] = None
    """Stop after this many validations without a better score, or a lower loss at the same
    score; 0: never."""


@command(TrainOptions, EXAMPLES)
def train(options: TrainOptions) -> None:
    """Train a Transformer (section 5 of the paper).

    Killed or stopped at any time, the same command resumes the run. Any number of processes
    trains the same model: the batch is that of all of them together.
    """
    # Many options are settings of the section `train`, under the same name.
    given = {field.name: getattr(options, field.name, None) for field in fields(TrainConfig)}
    # After the settings, so that `--steps 10` wins over `train.steps=20`.
    overrides = [f"train.{name}={value}" for name, value in given.items() if value is not None]
    folders, settings = named_folders(options)
    base, origin = starting_point(options)
    config = resolve(base, options.config, [*settings, *overrides])
    deadline = None
    if options.time_limit:
        deadline = deadline_after(parse_time(options.time_limit))
    if options.dry_run:
        if origin:
            console.say(origin)
        show_estimate(options, folders, config)
        return
    # The processes that --nproc starts run this same command line, with a rank.
    if options.nproc > 1 and "RANK" not in os.environ:
        from aiayn.data.mixture import open_data
        from aiayn.device import require_devices
        from aiayn.training.launch import launch
        from aiayn.training.start import require_work

        # What is wrong with these is reported once here, rather than by every process.
        data = open_data(folders)
        require_devices(options.device, options.nproc)
        require_work(data.corpus("train"), config.batch, options.nproc)
        raise typer.Exit(launch(options.nproc, sys.argv[1:]))
    from aiayn.data.mixture import open_data
    from aiayn.training import loop

    # A run of days must not die because the terminal that showed its progress is gone.
    console.ignore_broken_stderr()
    data = open_data(folders)
    if origin and os.environ.get("RANK", "0") == "0":
        console.say(origin)
    if not data.has("valid"):
        console.warn(f"{data.path} has no validation pairs, so no checkpoint is the best one")
    loop.train(
        data,
        options.output,
        config,
        device=options.device,
        deadline=deadline,
        init_from=options.init_from,
        metrics_writer=tensorboard(options.output) if config.train.tensorboard else None,
    )


def parse_time(text: str) -> float:
    """Read `11h30m` as seconds."""
    try:
        seconds = parse_interval(text)[1]
    except UsageError:
        seconds = 0
    if not seconds:
        raise UsageError(f"--time-limit is {text!r}", fix="write a time: 11h30m, 45m or 90s")
    return seconds


def starting_point(options: TrainOptions) -> tuple[Config, str]:
    """Return the settings that others are put on top of, and a remark about where from."""
    if options.preset is not None or options.init_from is None:
        return find_preset(options.preset or "base"), ""
    from aiayn.run_folder import RunFolder, open_model

    # A run that has begun needs the model no longer.
    stored = RunFolder(options.output).stored_config()
    found = stored or open_model(options.init_from).config
    base = find_preset("base")
    taken = replace(base, model=found.model, decode=found.decode)
    if stored:
        return taken, f"{options.output} has begun, and --init-from is not read again"
    pairs = (change.split(": ", 1) for change in differences(base, taken))
    changes = ", ".join(f"{name}={values.split(' -> ')[1]}" for name, values in pairs)
    return taken, f"the architecture is that of {options.init_from}: {changes or 'base'}"


def resolve(base: Config, file: Path | None, assignments: list[str]) -> Config:
    """Put the settings of a file and of the command line on top of others."""
    config = base if file is None else read_yaml(file, base)
    return apply_overrides(config, assignments)


def named_folders(options: TrainOptions) -> tuple[list[Named], list[str]]:
    """Return the data folders of the command line, and the settings among its words."""
    words = options.settings or []
    for word in (options.data, *words):
        if "=" not in word and Path(word).is_file():
            raise UsageError(
                f"{word} is a file, and `train` reads data folders",
                fix="make one: aiayn preprocess SRC TGT -o data",
            )
    further = [word for word in words if Named.is_one(word)]
    folders = [Named.parse(word) for word in (options.data, *further)]
    return folders, [word for word in words if word not in further]


def show_estimate(options: TrainOptions, folders: list[Named], config: Config) -> None:
    """Print the estimates of a run, even for a device elsewhere; then what forbids it."""
    import torch

    from aiayn.data.mixture import open_data
    from aiayn.device import choose_device, choose_precision
    from aiayn.run_folder import RunFolder, open_model
    from aiayn.training.disk import require_room
    from aiayn.training.estimate import estimate
    from aiayn.training.start import check_init_from, long_pairs, require_work, resolve_auto

    data, device, run = open_data(folders), options.device, RunFolder(options.output)
    processes = int(os.environ.get("WORLD_SIZE", options.nproc))
    elsewhere = device in ("cuda", "mps")
    where = torch.device(device) if elsewhere else choose_device(device)
    config = resolve_auto(config, run, where)
    dtype = choose_precision(config.train.precision, where)
    found = estimate(data, config, processes, where, dtype)
    parameters = found.pop("parameters")
    console.result_table(["plan", ""], list(found.items()))
    console.result_table(["parameters", ""], list(parameters.items()))
    if warning := long_pairs(corpus := data.corpus("train"), config.batch):
        console.warn(warning)
    require_work(corpus, config.batch, processes)
    require_room(run.path, config.train, parameters["total"])
    if run.path.exists():
        with run.locked(patience=0):
            run.refuse_other(config, data)
            last = run.latest()
        if last is not None:
            console.say(f"{run.path} would resume after update {last.step:,}")
            return
    if options.init_from is not None:
        check_init_from(open_model(options.init_from), data, config)


def tensorboard(output: Path) -> "MetricsWriter":
    """Return a function that writes metrics for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError(
            "train.tensorboard is true, and TensorBoard is not installed",
            fix="pip install 'aiayn[tensorboard]', or leave the setting out",
        ) from None
    # Opened at the first number: only then does the run folder exist.
    open_writer = cache(SummaryWriter)

    def write(step: int, numbers: dict[str, float]) -> None:
        writer = open_writer(str(output / "tensorboard"))
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write
