"""`aiayn sample`: a corpus to try things on."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "aiayn sample text --pairs 40000 --seed 1",
    "aiayn sample big --pairs 10000000 --valid 3000 --test 3000 --workers 8",
)

CORPUS, WORK = "Corpus", "Work"


def sample(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder for train, valid and test, each in .en and .de; made if need be.",
            show_default=False,
        ),
    ],
    *,
    pairs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Training pairs. A larger corpus of the same seed begins with the same ones.",
            rich_help_panel=CORPUS,
        ),
    ] = 100_000,
    seed: Annotated[
        int,
        typer.Option(
            metavar="S",
            help="The same seed gives the same bytes on any machine. Another one gives other"
            " sentences, but none that was for training becomes one for test.",
            rich_help_panel=CORPUS,
        ),
    ] = 1,
    valid: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Validation pairs, none of them twice.",
            show_default="1000, but not more than --pairs",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    test: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Test pairs, none of them twice.",
            show_default="1000, but not more than --pairs",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Processes at work; they do not change the result.",
            show_default="all cores",
            rich_help_panel=WORK,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace files that are there already.", rich_help_panel=WORK
        ),
    ] = False,
) -> None:
    """Make an English-German corpus by rule, of any size, for trying, testing and measuring."""
    from aiayn.data.workers import count_cores
    from aiayn.sample.corpus import write_sample

    write_sample(
        folder,
        pairs=pairs,
        seed=seed,
        valid=valid,
        test=test,
        workers=workers or count_cores(),
        force=force,
    )
