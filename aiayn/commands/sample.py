"""`aiayn sample`: a corpus to try things on."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "aiayn sample text --pairs 40000 --seed 1",
    "aiayn sample big --pairs 10000000 --valid 3000 --test 3000 --workers 8",
)

_corpus = partial(typer.Option, rich_help_panel="Corpus")
_work = partial(typer.Option, rich_help_panel="Work")

INTO = "Folder for train, valid and test, each in .en and .de; made if need be."
Folder = Annotated[Path, typer.Argument(metavar="DIR", help=INTO, show_default=False)]
PAIRS = "Training pairs. A larger corpus of the same seed begins with the same ones."
Pairs = Annotated[int, _corpus(metavar="N", min=1, help=PAIRS)]
SEED = (
    "The same seed gives the same bytes on any machine. Another one gives other sentences, but"
    " none that was for training becomes one for test."
)
Seed = Annotated[int, _corpus(metavar="S", help=SEED)]
_held_out = partial(_corpus, metavar="N", min=1, show_default="1000, but not more than --pairs")
Valid = Annotated[int | None, _held_out(help="Validation pairs, none of them twice.")]
Test = Annotated[int | None, _held_out(help="Test pairs, none of them twice.")]
WORKERS = "Processes at work; they do not change the result."
Workers = Annotated[
    int | None, _work(metavar="N", min=1, help=WORKERS, show_default="all cores")
]
Force = Annotated[bool, _work("--force", help="Replace files that are there already.")]


def sample(
    folder: Folder,
    *,
    pairs: Pairs = 100_000,
    seed: Seed = 1,
    valid: Valid = None,
    test: Test = None,
    workers: Workers = None,
    force: Force = False,
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
