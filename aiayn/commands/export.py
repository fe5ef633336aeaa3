"""`aiayn export`: our models in the formats of other toolkits."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, assert_never

import typer
from click.core import ParameterSource

from aiayn import console
from aiayn.errors import AiaynError, UsageError

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile
    from aiayn.data.codec import Codec
    from aiayn.export.verify import Engine, Greedy

    Write = Callable[[ModelFile, Path], None]

EXAMPLES = (
    "aiayn export run --to ctranslate2 -o served --int8",
    "aiayn export run/average.pt --to huggingface -o marian --verify-text test.en",
)

Format = Literal["ctranslate2", "huggingface"]
UNKNOWN = "the model's data is not known"

_comparison = partial(typer.Option, rich_help_panel="Comparison")

MODEL = "Run folder (its average, else its best model) or model file."
Model = Annotated[Path, typer.Argument(help=MODEL)]
TO = "ctranslate2: a fast engine for serving; huggingface: a MarianMTModel of transformers."
To = Annotated[Format, typer.Option("--to", help=TO)]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")]
INT8 = "Round the weights to 8 bits: a quarter of the size, and faster; ctranslate2 only."
Int8 = Annotated[bool, typer.Option("--int8", help=INT8)]
FORCE = "Replace an export that stands there."
Force = Annotated[bool, typer.Option("--force", help=FORCE)]
VERIFY = (
    "Translate N lines on both sides, greedily, and compare; exit with 6 if they differ by more"
    " than rounding, except with --int8. 0: do not."
)
Verify = Annotated[int, _comparison(metavar="N", min=0, help=VERIFY)]
VerifyText = Annotated[
    Path | None,
    _comparison(
        metavar="FILE", help="Lines to compare on.", show_default="the run's validation text"
    ),
]


def export(
    context: typer.Context,
    model: Model,
    to: To,
    output: Output,
    int8: Int8 = False,
    force: Force = False,
    verify: Verify = 20,
    verify_text: VerifyText = None,
) -> None:
    """Write a model as a folder for another toolkit, and check that it translates alike.

    Needs `pip install 'aiayn\\[export]'`. The folder holds the vocabulary too, and a README
    with the Python that translates with it.
    """
    if int8 and to == "huggingface":
        raise UsageError("--int8 is for ctranslate2 only", fix="leave it out")
    write, engine = _toolkit(to, int8=int8)
    from aiayn.checkpoint import load_model
    from aiayn.data.atomic import write_folder
    from aiayn.run_folder import find_model

    stands = (output / "config.json").is_file()
    if stands and not force:
        raise UsageError(
            f"{output} holds an export", fix="choose another folder with -o, or add --force"
        )
    path = find_model(model)
    file = load_model(path)
    lines = _lines_to_compare(path, file, verify_text)[:verify]
    ours = _translate(file, lines) if lines else []
    if verify and not ours and _asked(context):
        found = f"{verify_text} has no fitting line" if verify_text else UNKNOWN
        raise UsageError(
            f"there is nothing to verify on: {found}",
            fix="name other text with --verify-text FILE, or pass --verify 0",
        )
    with write_folder(output, replace=stands) as folder:
        write(file, folder)
        if ours:
            _compare(file, ours, engine(folder, file.codec), strict=not int8)
    console.say(f"wrote {output}")
    if verify and not ours:
        console.warn(f"not verified: {UNKNOWN}; add --verify-text FILE")


def _toolkit(name: Format, *, int8: bool) -> "tuple[Write, Callable[[Path, Codec], Engine]]":
    """Return what writes a format and what reads it again, if that toolkit is installed."""
    # Nothing is to be fetched, so nobody may be asked for it.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        match name:
            case "ctranslate2":
                from aiayn.export import ctranslate2

                return partial(ctranslate2.write, int8=int8), ctranslate2.Engine
            case "huggingface":
                from aiayn.export import huggingface

                return huggingface.write, huggingface.Engine
            case _:
                assert_never(name)
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"{missing.name} is not installed, and --to {name} needs it",
            fix="pip install 'aiayn[export]'",
        ) from None


def _asked(context: typer.Context) -> bool:
    """Tell whether the command line itself asks for the comparison."""
    return any(
        context.get_parameter_source(name) == ParameterSource.COMMANDLINE
        for name in ("verify", "verify_text")
    )


def _lines_to_compare(model: Path, file: "ModelFile", text: Path | None) -> list[str]:
    """Return lines to translate on both sides: those named, or the run's validation text."""
    from aiayn.data.folder import DataFolder
    from aiayn.data.text import read_lines

    if text is not None:
        return [line for line in read_lines(text) if line.strip()]
    try:
        provenance = json.loads((model.parent / "provenance.json").read_bytes())
        data = DataFolder.open(Path(provenance["data"]))
        same = data.manifest.vocabulary_sha256 == file.codec.fingerprint
        return data.text("valid")[0] if same else []
    except (OSError, ValueError, KeyError, AiaynError):
        return []


def _compare(
    file: "ModelFile", ours: "list[Greedy]", engine: "Engine", *, strict: bool
) -> None:
    """Say how alike both sides translate; if `strict`, end with 6 if they do not."""
    from aiayn.export.verify import verify

    found = verify(file, ours, engine)
    console.say(str(found))
    if strict:
        found.check()


def _translate(file: "ModelFile", lines: list[str]) -> "list[Greedy]":
    """Translate with our own search; a line that is cut into pieces is no measure."""
    from aiayn.data.vocabulary import EOS
    from aiayn.export.verify import Greedy
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translate import Translator

    model, extra = file.build(), file.config.decode.extra_length
    # Of a parser, too, the symbols are compared, and not what is made of them.
    plain = replace(file.codec, settings=replace(file.codec.settings, task="translation"))
    lines = [line.strip() for line in lines]
    found = Translator([model], plain, BeamSearch(beam=1, alpha=0), extra).translate(lines)
    ours = []
    for line, one in zip(lines, found, strict=True):
        limit = len(plain.encode_source(line)) - 1 + extra
        limit = min(limit, model.longest or limit)
        if one.pieces == 1:
            ids = file.codec.encode_target(one.text)[: limit - 1]
            ours.append(Greedy(line, one.text, [i for i in ids if i != EOS], limit))
    return ours
