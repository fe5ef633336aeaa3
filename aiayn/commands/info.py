"""`aiayn info`: describe a preset, a data folder, a run or a model."""

import re
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.config_file import differences, to_yaml
from aiayn.data.atomic import require_writable, write_bytes
from aiayn.data.settings import Settings
from aiayn.data.text import is_text
from aiayn.errors import DataError, UsageError
from aiayn.presets import PRESETS
from aiayn.presets import preset as find_preset

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile

EXAMPLES = (
    "aiayn info --presets",
    "aiayn info --preset table3-B1 --vocab-size 37000 --json",
    "aiayn info run data",
)

# What there is to describe; a run has a model, and goes by its own name.
KINDS = ("data", "run", "model", "preset")

_preset = partial(typer.Option, rich_help_panel="A preset of the paper")


@dataclass(frozen=True, kw_only=True)
class InfoOptions:
    """The options of `aiayn info`."""

    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...")] = None
    """Data folders, run folders and model files; several are compared in tables."""
    preset: Annotated[str | None, _preset()] = None
    """Name of a preset: tiny, base, big, table3-A1 and so on."""
    presets: Annotated[bool, _preset("--presets")] = False
    """List the presets, and in what each differs from base."""
    vocab_size: Annotated[str, _preset(metavar="N[,M]")] = str(Settings.vocab_size)
    """Entries of the shared vocabulary, or of the source's and the target's."""
    yaml: Annotated[bool, _preset("--yaml")] = False
    """Only the settings, each with its meaning, as a file for --config; of a run or a model,
    too."""
    verify: Annotated[bool, typer.Option("--verify")] = False
    """Check every checksum of a data folder."""
    svg: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Draw the loss, score and learning rate of a run into FILE; -: stdout."""
    as_json: Annotated[bool, typer.Option("--json")] = False
    """Print JSON for machines."""


@command(InfoOptions, EXAMPLES)
def info(options: InfoOptions) -> None:
    """Describe a preset, data folder, run or model: settings, sizes, progress."""
    preset, paths, svg = options.preset, options.paths or [], options.svg
    if options.presets:
        list_presets(as_json=options.as_json)
        return
    if preset is None and not paths:
        raise UsageError(
            "there is nothing to describe",
            fix="give a folder, a model file, --preset NAME, or --presets for their names",
        )
    # Alone, so that standard output is a valid file for --config.
    if options.yaml:
        print_yaml(preset, paths)
        return
    # Before any description: a run without metrics is an error, and `-` wants the figure alone.
    if svg is not None:
        write_curves(svg, draw(paths))
        if str(svg) == "-":
            return
    found = [describe_preset(preset, options.vocab_size)] if preset is not None else []
    found += [describe_path(path, verify=options.verify) for path in paths]
    print_all(found, as_json=options.as_json)


def print_all(found: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print one description in full, or several in tables that compare them."""
    if as_json:
        described = [with_plain_keys(description) for description in found]
        console.result_json(described[0] if len(described) == 1 else described)
    elif len(found) == 1:
        show(found[0])
    else:
        compare(found)


def with_plain_keys(value: Any) -> Any:
    """Add each value whose name is not a word under a name that is: `target_tokens`."""
    if not isinstance(value, dict):
        return value
    nested = {key: with_plain_keys(each) for key, each in value.items()}
    words = {re.sub(r"[^\w.]+", "_", key): each for key, each in nested.items() if " " in key}
    return {**nested, **words}


def compare(found: list[dict[str, Any]]) -> None:
    """Print a row for each thing, a table for each kind, and how their settings differ."""
    for kind in KINDS:
        alike = [one for one in found if kind in one and kind_of(one) == kind]
        if not alike:
            continue
        rows = [{kind: one[kind], **headline(one)} for one in alike]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        console.result_table(columns, [[row.get(name, "") for name in columns] for row in rows])
        settings = [dict(flatten(one["settings"])) for one in alike]
        names = dict.fromkeys(name for each in settings for name in each)
        differing = [name for name in names if len({str(s.get(name)) for s in settings}) > 1]
        if differing:
            console.result("")
            console.result_table(
                ["differ in", *(str(one[kind]) for one in alike)],
                [[name, *(each.get(name, "") for each in settings)] for name in differing],
            )
        console.result("")
    console.say("aiayn info with one of them tells all")


def kind_of(description: dict[str, Any]) -> str:
    """Return what is described; a run has a model, too."""
    return next(kind for kind in KINDS if kind in description)


def headline(description: dict[str, Any]) -> dict[str, object]:
    """Return the numbers by which things of a kind are compared."""
    of = description
    if "data" in of:
        pairs = {f"{name} pairs": split["kept"] for name, split in of["splits"].items()}
        sizes = {f"{side} vocabulary": of["vocabulary"][side] for side in ("source", "target")}
        return {**pairs, **sizes}
    steps: dict[str, object] = {n: of[n] for n in ("updates", "hours", "step") if n in of}
    best = {f"best {name}": value for name, value in of.get("best", {}).items()}
    return {**steps, **best, "parameters": of["parameters"]["total"]}


def list_presets(*, as_json: bool) -> None:
    """Print the name of each preset, and its settings that base does not have."""
    base = PRESETS["base"]
    found = {
        name: dict(change.split(": ", 1) for change in differences(base, config))
        for name, config in PRESETS.items()
    }
    if as_json:
        console.result_json(found)
        return
    rows = [
        (name, ", ".join(f"{key}={change.split(' -> ')[1]}" for key, change in changed.items()))
        for name, changed in found.items()
    ]
    console.result_table(["preset", "differs from base in"], rows)


def print_yaml(preset: str | None, paths: list[Path]) -> None:
    """Print the settings of a preset, or of a run or model, as a file for --config."""
    if (preset is None) == (len(paths) != 1):
        raise UsageError("--yaml is for one preset, run or model", fix="name one of them")
    if preset is not None:
        config = find_preset(preset)
    else:
        from aiayn.run_folder import open_model

        config = open_model(paths[0]).config
    console.result(to_yaml(config, documented=True).rstrip())


def describe_preset(name: str, vocab_size: str) -> dict[str, Any]:
    """Return the settings of a preset and the parameters of its model."""
    from aiayn.training.cost import parameters_of

    config = find_preset(name)
    source, target = parse_sizes(vocab_size)
    parameters = parameters_of(config.model, source, target)
    return {"preset": name, "parameters": parameters, "settings": asdict(config)}


def parse_sizes(text: str) -> tuple[int, int | None]:
    """Read `37000` or `16384,512`."""
    parts = text.split(",")
    # Padding, end and unknown take three entries of every vocabulary.
    if len(parts) > 2 or not all(part.isdigit() and int(part) > 3 for part in parts):
        raise UsageError(
            f"--vocab-size is {text!r}", fix="write one number, or source and target: 16384,512"
        )
    return int(parts[0]), int(parts[1]) if len(parts) == 2 else None


def describe_path(path: Path, *, verify: bool) -> dict[str, Any]:
    """Describe a data folder, a run folder or a model file."""
    from aiayn.data.folder import UNFINISHED_FOLDER, DataFolder
    from aiayn.data.manifest import MANIFEST_FILE

    if not path.exists():
        known = str(path) in PRESETS
        fix = f"write --preset {path}" if known else "check the path"
        raise UsageError(f"{path} does not exist", fix=fix)
    # Opening an unfinished data folder says that it is one; as a run it would hold no model.
    if (path / MANIFEST_FILE).exists() or (path / UNFINISHED_FOLDER).exists():
        folder = DataFolder.open(path)
        if verify:
            checked = len(list(folder.verify()))
            console.say(f"{path}: {checked} checksums are right")
        return {"data": str(path), **folder.describe()}
    if path.is_file() and is_text(path):
        raise UsageError(
            f"{path} is text, and not a data folder, run or model",
            fix="aiayn preprocess makes a data folder of text; aiayn info describes that",
        )
    if verify:
        raise UsageError(f"{path} is not a data folder", fix="--verify checks data folders")
    return describe_model(path)


def describe_model(path: Path) -> dict[str, Any]:
    """Describe a model file, or the progress of a run and its model file."""
    from aiayn.checkpoint import load_model
    from aiayn.model_path import find_model
    from aiayn.training.cost import count_parameters
    from aiayn.training.summary import summarize

    file_path = find_model(path)
    file = load_model(file_path)
    last = progress_of(path) if path.is_dir() else None
    return {
        **(summarize(path, last) if last else {}),
        "model": str(file_path),
        "step": file.step,
        **file.history,
        "parameters": count_parameters(file.build()),
        "vocabulary": {"source": len(file.codec.source), "target": len(file.codec.target)},
        "differs from base": dict(
            change.split(": ", 1) for change in differences(PRESETS["base"], file.config)
        ),
        "settings": asdict(file.config),
    }


def progress_of(run: Path) -> "ModelFile | None":
    """Return the checkpoint that tells how far a run is; None if none is whole."""
    from aiayn.run_folder import RunFolder

    try:
        return RunFolder(run).latest()
    except DataError as problem:
        console.warn(f"{problem.message}: {problem.fix}")
        return None


def draw(paths: list[Path]) -> str:
    """Return the training curves of the one run that was named."""
    from aiayn.figures.curves import draw_curves
    from aiayn.run_folder import RunFolder

    metrics = RunFolder(paths[0]).read_metrics() if len(paths) == 1 else []
    if not metrics:
        raise UsageError(
            "--svg draws one run that has measured something",
            fix="give the folder of one run: aiayn info run --svg curves.svg",
        )
    return draw_curves(metrics)


def write_curves(svg: Path, curves: str) -> None:
    """Write the figure to a file, or for `-` to standard output."""
    if str(svg) == "-":
        console.result(curves)
        return
    require_writable(svg, begins=b"<")
    write_bytes(svg, curves.encode())
    console.say(f"drew {svg}")


def show(description: dict[str, Any]) -> None:
    """Print a description for a person: plain values, then a table for each group."""
    groups = {key: value for key, value in description.items() if isinstance(value, dict)}
    plain = [(key, value) for key, value in description.items() if key not in groups]
    console.result_table(["", ""], plain)
    for name, group in groups.items():
        if group:
            console.result("")
            console.result_table([name, ""], flatten(group))


def flatten(group: dict[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Return nested values as rows `section.key`, value."""
    rows: list[tuple[str, object]] = []
    for key, value in group.items():
        name = f"{before}{key}"
        rows += flatten(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return rows
