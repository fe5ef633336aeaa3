"""`aiayn import`: models of other toolkits as model files of ours."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, assert_never

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.data.atomic import require_writable
from aiayn.data.settings import Pretokenize
from aiayn.errors import UsageError

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile

EXAMPLES = (
    "aiayn import opus-mt-en-de --from huggingface -o en-de.pt",
    "aiayn import marian/model.npz --from marian -o en-de.pt",
    "aiayn import wmt14.en-fr.joined-dict.transformer --from fairseq -o en-fr.pt",
)

Origin = Literal["huggingface", "marian", "fairseq"]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The options of `aiayn import`."""

    folder: Annotated[Path, typer.Argument(metavar="DIR")]
    """huggingface: config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm,
    vocab.json. marian: a .npz, its vocabularies (.spm), and decoder.yml where they are two.
    fairseq: model.pt, dict.*.txt, bpecodes. Also the .npz or .pt file in its folder."""
    origin: Annotated[Origin, typer.Option("--from")]
    """huggingface: a MarianMTModel of transformers; marian: a transformer of Marian itself;
    fairseq: a transformer with its norms after the sub-layers."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE")]
    """Model file to write."""
    force: Annotated[bool, typer.Option("--force")] = False
    """Replace an existing file."""
    pretokenize: Annotated[Pretokenize, typer.Option()] = "moses-a"
    """fairseq only, whose checkpoints do not tell: what was done to text before BPE."""


@command(ImportOptions, EXAMPLES)
def import_(options: ImportOptions) -> None:
    """Convert a model of another toolkit into a model file.

    Needs no network: the folder must exist; --from huggingface needs `pip install
    'aiayn\\[export]'`. It translates as it did there, and nothing in its files is run. A line
    may open with the language to translate to, as in `>>fra<<`, if the model knows several.
    """
    from aiayn.checkpoint import save_model

    output = options.output
    require_writable(output)  # before the model is read and converted
    if output.exists() and not options.force:
        raise UsageError(
            f"{output} already exists", fix="choose another name with -o, or add --force"
        )
    file = _read(options)
    save_model(output, file)
    c = file.config.model
    console.say(
        f"wrote {output}: {c.layers} + {c.decoder_depth} layers, d_model {c.d_model},"
        f" {c.heads} heads, {len(file.codec.source):,} and {len(file.codec.target):,} subwords"
    )


def _read(options: ImportOptions) -> "ModelFile":
    """Return the model of a folder."""
    folder, origin = options.folder, options.origin
    match origin:
        case "huggingface":
            try:
                from aiayn.export import from_huggingface
            except ModuleNotFoundError as missing:
                raise UsageError(
                    f"{missing.name} is not installed, and --from {origin} needs it",
                    fix="pip install 'aiayn[export]'",
                ) from None
            return from_huggingface.read(folder)
        case "marian":
            from aiayn.export import from_marian

            return from_marian.read(folder)
        case "fairseq":
            from aiayn.export import from_fairseq

            return from_fairseq.read(folder, options.pretokenize)
        case _:
            assert_never(origin)
