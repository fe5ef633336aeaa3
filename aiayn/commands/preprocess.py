"""`aiayn preprocess`: text to a data folder."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import click
import typer
from click.core import ParameterSource
from typer.core import TyperCommand

from aiayn import console
from aiayn.data.atomic import require_place
from aiayn.data.pretokenize import Pretokenize
from aiayn.data.settings import Settings, Subword, Task
from aiayn.data.text import STDIN
from aiayn.errors import UsageError

if TYPE_CHECKING:
    from aiayn.data.codec import Codec
    from aiayn.data.inputs import Input
    from aiayn.data.manifest import SplitName

EXAMPLES = (
    "aiayn preprocess train.en train.de --valid valid.en valid.de --vocab-size 8000 -o data",
    "paste big.en big.de | aiayn preprocess - --pretokenize moses --languages en-de -o data",
)

DEFAULT = Settings()
PARSING_VOCABULARY = 16_000
"""Subwords of the paper's parser that saw the Wall Street Journal alone."""
# SentencePiece needs 3 kB of memory for each line that it learns a unigram model from.
SAMPLE_LINES = dict.fromkeys(get_args(Subword), DEFAULT.sample_lines) | {"unigram": 300_000}
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}

_file = partial(typer.Option, metavar="SRC TGT")
_text = partial(typer.Option, rich_help_panel="Text")
_vocabulary = partial(typer.Option, rich_help_panel="Vocabulary")
_filter = partial(typer.Option, rich_help_panel="Filters")
_work = partial(typer.Option, rich_help_panel="Work")

FILES = (
    "Training text, one sentence a line, in one or several pairs of files; plain, .gz, .bz2 or"
    " .xz. [bold]-[/bold] in place of a pair is standard input with a tab between source and"
    " target. With --task parsing: .mrg files."
)
Files = Annotated[list[Path], typer.Argument(metavar="SRC TGT ...", help=FILES)]
DATA = "Data folder; the same command goes on in it."
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DATA", help=DATA)]
VALID = "Validation text (parsing: one .mrg file); no filter applies, and the text is kept."
Valid = Annotated[tuple[Path, Path] | None, _file(help=VALID)]
TEST = "Test text, treated like validation text."
Test = Annotated[tuple[Path, Path] | None, _file(help=TEST)]

TASK = "parsing reads Penn Treebank files: words are the source, trees the target."
TaskName = Annotated[Task, _text(help=TASK)]
PRETOKENIZE = (
    "moses parts words and punctuation first, as in the paper's English-German data; generate"
    " undoes it."
)
PretokenizeBy = Annotated[Pretokenize, _text(help=PRETOKENIZE)]
LANGUAGES = (
    "Languages of the two sides, such as en-de. Moses needs them, and treats one that it has no"
    " rules for like English."
)
Languages = Annotated[str, _text(metavar="SRC-TGT", help=LANGUAGES, show_default=False)]
Lowercase = Annotated[bool, _text("--lowercase", help="Put both sides in lower case.")]

SUBWORD = (
    "Kind of units. All but word spell what they do not know in bytes, so that nothing is lost."
)
SubwordKind = Annotated[Subword, _vocabulary(help=SUBWORD)]
VOCAB_SIZE = "Units of each vocabulary; of char and word, at most."
VocabSize = Annotated[
    int | None,
    _vocabulary(
        metavar="N",
        min=4,
        help=VOCAB_SIZE,
        show_default=f"{DEFAULT.vocab_size}; parsing: {PARSING_VOCABULARY}",
    ),
]
SHARED = "One vocabulary for both sides, whose embedding they can share, or one each."
Shared = Annotated[
    bool,
    _vocabulary("--shared/--separate", help=SHARED, show_default="shared; parsing: separate"),
]
VOCAB_FROM = (
    "Use the vocabulary and the text settings of this data folder, run or model file again."
)
VocabFrom = Annotated[Path | None, _vocabulary(metavar="DATA", help=VOCAB_FROM)]
SAMPLE = "Lines to learn the vocabulary from, drawn at random, half from each side."
SampleLines = Annotated[
    int | None,
    _vocabulary(
        metavar="N",
        min=2,
        help=SAMPLE,
        show_default=f"{DEFAULT.sample_lines}; unigram: {SAMPLE_LINES['unigram']}",
    ),
]
Seed = Annotated[int, _vocabulary(metavar="N", help="Seeds that draw.")]

MAX_LENGTH = (
    "Drop a pair with more subwords than this on a side, its end mark included; 0: never."
)
MaxLength = Annotated[int, _filter(metavar="N", min=0, help=MAX_LENGTH)]
MAX_RATIO = (
    "Drop a pair whose longer side has more than this many times the subwords of the other; 0:"
    " never."
)
MaxRatio = Annotated[float, _filter(metavar="X", min=0, help=MAX_RATIO)]
Dedup = Annotated[bool, _filter("--dedup", help="Drop a pair that stands earlier too.")]
DROPPED = "List each dropped pair: file, number of the line or tree, reason."
Dropped = Annotated[Path | None, _filter(metavar="FILE.tsv", help=DROPPED)]

WORKERS = "Processes that encode; auto: one a core. The result is the same."
Workers = Annotated[str, _work(metavar="N", help=WORKERS)]
SHARD_SIZE = "Token ids in a shard, as 64M; an interrupted run loses at most one."
ShardSize = Annotated[str, _work(metavar="BYTES", help=SHARD_SIZE)]
FORCE = "Replace what the folder holds, if it was made from other text or settings."
Force = Annotated[bool, _work("--force", help=FORCE)]


class PreprocessCommand(TyperCommand):
    """One file after --valid and --test is enough where it holds trees."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the file of trees twice, since an option takes a fixed number of values."""
        if "--task=parsing" in args or ("--task", "parsing") in pairwise(args):
            for i in reversed(range(len(args))):
                option, joined, value = args[i].partition("=")
                if option in ("--valid", "--test"):
                    args[i + 1 : i + 1] = [value] if joined else args[i + 1 : i + 2]
        return super().parse_args(ctx, args)


def preprocess(
    context: typer.Context,
    files: Files,
    *,
    output: Output,
    valid: Valid = None,
    test: Test = None,
    task: TaskName = DEFAULT.task,
    pretokenize: PretokenizeBy = DEFAULT.pretokenize,
    languages: Languages = DEFAULT.languages,
    lowercase: Lowercase = DEFAULT.lowercase,
    subword: SubwordKind = DEFAULT.subword,
    vocab_size: VocabSize = None,
    shared: Shared = DEFAULT.shared,
    vocab_from: VocabFrom = None,
    sample_lines: SampleLines = None,
    seed: Seed = DEFAULT.seed,
    max_length: MaxLength = DEFAULT.max_length,
    max_ratio: MaxRatio = DEFAULT.max_ratio,
    dedup: Dedup = DEFAULT.dedup,
    dropped: Dropped = None,
    workers: Workers = "auto",
    shard_size: ShardSize = "64M",
    force: Force = False,
) -> None:
    """Turn text into subword ids: the data folder that [bold]train[/bold] reads.

    Memory does not grow with the text, and the folder is the same for any number of workers.
    Run the same command again after an interruption and it goes on where it was.
    """
    from aiayn.data.preprocess import preprocess as make_folder

    parsing = task == "parsing"
    settings = Settings(
        task=task,
        subword=subword,
        vocab_size=vocab_size or (PARSING_VOCABULARY if parsing else DEFAULT.vocab_size),
        shared=shared and not parsing,
        sample_lines=sample_lines or SAMPLE_LINES[subword],
        seed=seed,
        pretokenize=pretokenize,
        languages=languages,
        lowercase=lowercase,
        max_length=max_length,
        max_ratio=max_ratio,
        dedup=dedup,
        shard_size=_parse_size(shard_size),
    )
    if dropped:
        require_place(dropped, reads=[*files, *(valid or ()), *(test or ())])
    if both := set(files) & {*(valid or ()), *(test or ())}:
        console.warn(f"{min(both)} is training text and validation or test text, too")
    codec = None
    if vocab_from:
        codec, settings = _reuse(vocab_from, settings, _given(context))
    folder = make_folder(
        _splits(files, valid, test, task),
        output,
        settings=settings,
        codec=codec,
        dropped=dropped,
        workers=_parse_workers(workers),
        force=force,
    )
    console.say_table(*folder.counts_table())
    for warning in folder.warnings():
        console.warn(warning)


def _splits(
    files: list[Path],
    valid: tuple[Path, Path] | None,
    test: tuple[Path, Path] | None,
    task: Task,
) -> "dict[SplitName, list[Input]]":
    """Return what each part of the folder is made from."""
    splits: dict[SplitName, list[Input]] = {"train": _inputs(files, task)}
    sides = 1 if task == "parsing" else 2
    if valid:
        splits["valid"] = _inputs(valid[:sides], task)
    if test:
        splits["test"] = _inputs(test[:sides], task)
    return splits


def _inputs(files: Sequence[Path], task: Task) -> "list[Input]":
    """Return what the files on the command line stand for."""
    from aiayn.data.inputs import ParallelText, TabbedText, Treebank

    if task == "parsing":
        return [Treebank(path) for path in files]
    inputs: list[Input] = []
    waiting = iter(files)
    for path in waiting:
        if path == STDIN:
            inputs.append(TabbedText(STDIN, name="standard input"))
            continue
        target = next(waiting, None)
        if target is None or target == STDIN:
            raise UsageError(
                f"{path} has no translation beside it: files come in pairs, SRC TGT",
                fix="name the target file right after it",
            )
        inputs.append(ParallelText(path, target))
    return inputs


def _reuse(folder: Path, settings: Settings, given: list[str]) -> "tuple[Codec, Settings]":
    """Return the codec of a folder, and settings that fit it."""
    from aiayn.data.codec import Codec
    from aiayn.data.folder import VOCABULARY_FOLDER

    if folder.is_file():
        from aiayn.checkpoint import load_model

        codec = load_model(folder).codec
    elif (folder / VOCABULARY_FOLDER).is_dir():
        codec = Codec.load(folder / VOCABULARY_FOLDER)
    else:
        raise UsageError(
            f"{folder} holds no vocabulary", fix="name a data folder, a run or a model file"
        )
    of = codec.settings
    reused = replace(
        settings,
        subword=of.subword,
        vocab_size=len(codec.source),
        shared=codec.shared,
        vocab_from=codec.fingerprint,
        sample_lines=0,
        seed=0,
        pretokenize=of.pretokenize,
        languages="-".join(filter(None, (of.source_language, of.target_language))),
        lowercase=of.lowercase,
    )
    if of.task != settings.task:
        raise UsageError(f"{folder} is for {of.task}", fix=f"add --task {of.task}")
    for name in given:
        if getattr(settings, name) != getattr(reused, name):
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be given with --vocab-from: {folder} has"
                f" {getattr(reused, name) or 'none'}",
                fix="leave it out; the vocabulary brings it along",
            )
    return codec, reused


def _given(context: typer.Context) -> list[str]:
    """Return the settings that stand on the command line."""
    return [
        field.name
        for field in fields(Settings)
        if context.get_parameter_source(field.name) == ParameterSource.COMMANDLINE
        and field.name != "vocab_from"
    ]


def _parse_size(text: str) -> int:
    """Return 64,000,000 for 64M."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    size = int(found[1]) * UNITS[found[2]] if found else 0
    if not size:
        raise UsageError(f"--shard-size {text} is no size", fix="write bytes as 64M or 1G")
    return size


def _parse_workers(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or not int(text):
        raise UsageError(f"--workers {text} is no number of processes", fix="pass auto or 2")
    return int(text)
