"""`aiayn import`: models of other toolkits as model files of ours."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from aiayn import console
from aiayn.data.atomic import require_place
from aiayn.errors import UsageError

EXAMPLES = (
    "aiayn import opus-mt-en-de --from huggingface -o en-de.pt",
    "aiayn import ~/models/opus-mt-en-ROMANCE --from huggingface -o en-romance.pt",
)


def import_model(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of a MarianMTModel: config.json, model.safetensors or"
            " pytorch_model.bin, source.spm, target.spm, vocab.json.",
        ),
    ],
    origin: Annotated[
        Literal["huggingface"],
        typer.Option("--from", help="huggingface: translation models that transformers loads."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that stands there.")
    ] = False,
) -> None:
    """Make a model file of a model from elsewhere, for generate, score, attend and train.

    Needs `pip install 'aiayn\\[export]'`, but no network: the folder is to be there. It
    translates as it did where it comes from. A line may open with the language to translate to,
    as in `>>fra<<`, if the model knows several.
    """
    try:
        from aiayn.export.from_huggingface import read
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"{missing.name} is not installed, and --from {origin} needs it",
            fix="pip install 'aiayn[export]'",
        ) from None
    from aiayn.checkpoint import save_model

    require_place(output)
    if output.exists() and not force:
        raise UsageError(
            f"{output} is there already", fix="choose another name with -o, or add --force"
        )
    file = read(folder)
    save_model(output, file)
    c = file.config.model
    console.say(
        f"wrote {output}: {c.layers} layers, d_model {c.d_model}, {c.heads} heads,"
        f" {len(file.codec.source):,} and {len(file.codec.target):,} subwords"
    )
