"""`aiayn sample`: a corpus to try things on."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from aiayn.commands.options import command

EXAMPLES = (
    "aiayn sample text --pairs 40000 --seed 1 --alignments",
    "aiayn sample big --pairs 10000000 --valid 3000 --test 3000 --workers 8",
)

_corpus = partial(typer.Option, rich_help_panel="Corpus", metavar="N", min=1)
_work = partial(typer.Option, rich_help_panel="Work")
_held_out = partial(_corpus, show_default="1000, but not more than --pairs")


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleOptions:
    """The options of `aiayn sample`."""

    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]
    """Folder for train, valid and test, each in .en and .de; created if necessary."""
    pairs: Annotated[int, _corpus()] = 100_000
    """Training pairs. A larger corpus of the same seed begins with the same ones."""
    seed: Annotated[int, typer.Option(rich_help_panel="Corpus", metavar="S")] = 1
    """The same seed gives the same bytes on any machine. Another one gives other sentences, but
    no training sentence of one seed is a test sentence of another."""
    valid: Annotated[int | None, _held_out()] = None
    """Validation pairs, all different."""
    test: Annotated[int | None, _held_out()] = None
    """Test pairs, all different."""
    alignments: Annotated[bool, typer.Option("--alignments", rich_help_panel="Corpus")] = False
    """Write train, valid and test .align too: which word comes from which, in Pharaoh's form,
    0-0 1-2, source-target, from 0. The grammar knows."""
    workers: Annotated[int | None, _work(metavar="N", min=1, show_default="all cores")] = None
    """Processes; they do not change the result."""
    force: Annotated[bool, _work("--force")] = False
    """Replace existing files."""


@command(SampleOptions, EXAMPLES)
def sample(options: SampleOptions) -> None:
    """Make an English-German corpus by rule, of any size, to try and test with."""
    from aiayn.data.workers import count_cores
    from aiayn.sample.corpus import write_sample

    write_sample(
        options.folder,
        pairs=options.pairs,
        seed=options.seed,
        valid=options.valid,
        test=options.test,
        alignments=options.alignments,
        workers=options.workers or count_cores(),
        force=options.force,
    )
