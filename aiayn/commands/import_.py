"""`aiayn import`: models of other toolkits as model files of ours."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.data.atomic import require_writable
from aiayn.errors import UsageError

EXAMPLES = (
    "aiayn import opus-mt-en-de --from huggingface -o en-de.pt",
    "aiayn import ~/models/opus-mt-en-ROMANCE --from huggingface -o en-romance.pt",
)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The options of `aiayn import`."""

    folder: Annotated[Path, typer.Argument(metavar="DIR")]
    """Folder of a MarianMTModel: config.json, model.safetensors or pytorch_model.bin,
    source.spm, target.spm, vocab.json."""
    origin: Annotated[Literal["huggingface"], typer.Option("--from")]
    """huggingface: translation models that transformers loads."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE")]
    """Model file to write."""
    force: Annotated[bool, typer.Option("--force")] = False
    """Replace an existing file."""


@command(ImportOptions, EXAMPLES)
def import_(options: ImportOptions) -> None:
    """Convert a model of another toolkit into a model file.

    Needs `pip install 'aiayn\\[export]'`, but no network: the folder must exist. It
    translates as it did there. A line may open with the language to translate to,
    as in `>>fra<<`, if the model knows several.
    """
    try:
        from aiayn.export.from_huggingface import read
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"{missing.name} is not installed, and --from {options.origin} needs it",
            fix="pip install 'aiayn[export]'",
        ) from None
    from aiayn.checkpoint import save_model

    output = options.output
    require_writable(output)  # before the model is read and converted
    if output.exists() and not options.force:
        raise UsageError(
            f"{output} already exists", fix="choose another name with -o, or add --force"
        )
    file = read(options.folder)
    save_model(output, file)
    c = file.config.model
    console.say(
        f"wrote {output}: {c.layers} layers, d_model {c.d_model}, {c.heads} heads,"
        f" {len(file.codec.source):,} and {len(file.codec.target):,} subwords"
    )
