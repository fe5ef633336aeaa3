"""`aiayn export`: our models in the formats of other toolkits."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, assert_never

import typer

from aiayn import console
from aiayn.commands.options import command, named_options
from aiayn.errors import AiaynError, UsageError

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile
    from aiayn.data.codec import Codec
    from aiayn.export.verify import ExportedModel, Greedy

    Write = Callable[[ModelFile, Path], None]

EXAMPLES = (
    "aiayn export run --to ctranslate2 -o served --int8",
    "aiayn export run/average.pt --to huggingface -o marian --verify-text test.en",
)

Format = Literal["ctranslate2", "huggingface", "marian", "argos", "onnx"]
# One of these files is in every folder that was exported.
MARKS = ("config.json", "decoder.yml", "model.argosmodel", "encoder.onnx")
# The extra that a format's toolkit is in, where that is not `export`.
EXTRAS = {"marian": "marian", "argos": "argos", "onnx": "onnx"}
ONLY_TO_VERIFY = ("marian", "argos")
TEXT = "the run's validation text"
UNKNOWN = "the model's data is not known"

_comparison = partial(typer.Option, rich_help_panel="Comparison")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `aiayn export`."""

    context: typer.Context
    model: Annotated[Path, typer.Argument()]
    """Run folder (its average, else its best model) or model file."""
    to: Annotated[Format, typer.Option()]
    """ctranslate2: a fast engine for serving; huggingface: a MarianMTModel of transformers;
    marian: a .npz for marian-decoder and pymarian; argos: an .argosmodel; onnx: an encoder
    and a decoder for onnxruntime."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR")]
    """Folder to write."""
    int8: Annotated[bool, typer.Option("--int8")] = False
    """Round the weights to 8 bits: a quarter of the size, and faster; ctranslate2 only."""
    languages: Annotated[str, typer.Option(metavar="SRC-TGT", show_default="the model's")] = ""
    """Languages that a package of argos is for, such as en-de."""
    force: Annotated[bool, typer.Option("--force")] = False
    """Replace an existing export."""
    verify: Annotated[int, _comparison(metavar="N", min=0)] = 20
    """Translate N lines with both, greedily, and compare; exit with 6 if they differ by more
    than rounding, except with --int8. 0: do not."""
    verify_text: Annotated[Path | None, _comparison(metavar="FILE", show_default=TEXT)] = None
    """Lines to compare on."""


@command(ExportOptions, EXAMPLES)
def export(options: ExportOptions) -> None:
    """Write a model for another toolkit, and check that it translates the same.

    Needs `pip install 'aiayn\\[export]'`, or `\\[marian]`, `\\[argos]`, `\\[onnx]`. The folder
    holds the vocabulary too, and a README with the Python that translates with it.
    """
    output = options.output
    if options.int8 and options.to != "ctranslate2":
        raise UsageError("--int8 is for ctranslate2 only", fix="leave it out")
    write, load = _toolkit(options)
    from aiayn.checkpoint import load_model
    from aiayn.data.atomic import write_folder
    from aiayn.export.verify import verify
    from aiayn.model_path import find_model

    exists = any((output / name).is_file() for name in MARKS)
    if exists and not options.force:
        raise UsageError(
            f"{output} holds an export", fix="choose another folder with -o, or add --force"
        )
    path = find_model(options.model)
    file = load_model(path)
    lines = _lines_to_compare(path, file, options.verify_text)[: options.verify]
    ours = _translate(file, lines) if lines else []
    asked = named_options(options.context) & {"verify", "verify_text"}
    if options.verify and asked and not ours:
        text = options.verify_text
        reason = f"{text} has no fitting line" if text else UNKNOWN
        raise UsageError(
            f"there is nothing to verify on: {reason}",
            fix="name other text with --verify-text FILE, or pass --verify 0",
        )
    with write_folder(output, replace=exists) as folder:
        write(file, folder)
        if ours:
            found = verify(file, ours, load(folder, file.codec))
            console.say(str(found))
            if not options.int8:
                found.check()
    console.say(f"wrote {output}")
    if options.verify and not ours:
        console.warn(f"not verified: {UNKNOWN}; add --verify-text FILE")


def _toolkit(
    options: ExportOptions,
) -> "tuple[Write, Callable[[Path, Codec], ExportedModel]]":
    """Return the functions that write and load a format, if its toolkit is installed."""
    name = options.to
    # Nothing is downloaded; without this, transformers asks its hub.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        match name:
            case "ctranslate2":
                from aiayn.export import ctranslate2

                return partial(
                    ctranslate2.write, int8=options.int8
                ), ctranslate2.CTranslate2Model
            case "huggingface":
                from aiayn.export import huggingface

                return huggingface.write, huggingface.MarianModel
            case "marian":
                from aiayn.export import marian, pymarian

                _require(pymarian.PACKAGE, options)
                return marian.write, pymarian.PyMarian
            case "argos":
                from aiayn.export import argos

                _require("argostranslate", options)
                return partial(argos.write, languages=options.languages), argos.ArgosModel
            case "onnx":
                from aiayn.export import onnx

                return onnx.write, onnx.OnnxModel
            case _:
                assert_never(name)
    except ModuleNotFoundError as missing:
        without = ", or pass --verify 0" if name in ONLY_TO_VERIFY else ""
        raise UsageError(
            f"{missing.name} is not installed, and --to {name} needs it",
            fix=f"pip install 'aiayn[{EXTRAS.get(name, 'export')}]'{without}",
        ) from None


def _require(package: str, options: ExportOptions) -> None:
    """Refuse to verify without the toolkit to verify with."""
    if options.verify and find_spec(package) is None:
        raise ModuleNotFoundError(name=package)


def _lines_to_compare(model: Path, file: "ModelFile", text: Path | None) -> list[str]:
    """Return lines to compare on: those named, or the run's validation text."""
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


def _translate(file: "ModelFile", lines: list[str]) -> "list[Greedy]":
    """Translate with our own search; lines that were cut into pieces are left out."""
    from aiayn.export.verify import Greedy
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translator import Translator
    from aiayn.special_ids import EOS

    model, extra = file.build(), file.config.decode.extra_length
    # Of a parser the symbols are compared, and not the trees that are repaired from them.
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
