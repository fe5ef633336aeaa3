"""`aiayn preprocess`: text to a data folder."""

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import click
import typer
from typer.core import TyperCommand

from aiayn import console
from aiayn.commands.options import command, named_options
from aiayn.data.atomic import require_writable
from aiayn.data.settings import Pretokenize, Settings, Subword, Task
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

# Subwords of the paper's parser that saw the Wall Street Journal alone.
PARSING_VOCABULARY = 16_000
# SentencePiece needs 3 kB of memory for each line that it learns a unigram model from.
UNIGRAM_LINES = 300_000
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}

# Defaults as the help shows them.
VOCAB_SIZE = f"{Settings.vocab_size}; parsing: {PARSING_VOCABULARY}"
SHARED = "shared; parsing: separate"
SAMPLE_LINES = f"{Settings.sample_lines}; unigram: {UNIGRAM_LINES}"
SHARD_SIZE = f"{Settings.shard_size // UNITS['M']}M"

_file = partial(typer.Option, metavar="SRC TGT")
_text = partial(typer.Option, rich_help_panel="Text")
_vocabulary = partial(typer.Option, rich_help_panel="Vocabulary")
_filter = partial(typer.Option, rich_help_panel="Filters")
_work = partial(typer.Option, rich_help_panel="Work")


def _parse_size(value: str | int) -> int:
    """Return 64,000,000 for 64M."""
    found = re.fullmatch(r"(\d+)([KMG]?)", str(value).upper())
    size = int(found[1]) * UNITS[found[2]] if found else 0
    if not size:
        raise UsageError(f"--shard-size {value} is not a size", fix="write bytes as 64M or 1G")
    return size


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions(Settings):
    """The options of `aiayn preprocess`; what has no default here has that of Settings."""

    context: typer.Context
    files: Annotated[list[Path], typer.Argument(metavar="SRC TGT ...")]
    """Training text, one sentence a line, in one or several pairs of files; plain, .gz, .bz2,
    .xz or .zst. [bold]-[/bold] in place of a pair is standard input with a tab between source
    and target. With --task parsing: .mrg files."""
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DATA")]
    """Data folder; the same command resumes it."""
    valid: Annotated[tuple[Path, Path] | None, _file()] = None
    """Validation text (parsing: one .mrg file); no filter applies, and the text is kept."""
    test: Annotated[tuple[Path, Path] | None, _file()] = None
    """Test text, treated like validation text."""
    alignments: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Word alignments of the training pairs, a line each over all files, in Pharaoh's form: 0-0
    1-2, source-target, from 0. `train optim.guided=0.1` learns from them; words are what spaces
    separate, after --pretokenize."""

    task: Annotated[Task, _text()]
    """parsing reads Penn Treebank files: words are the source, trees the target."""
    pretokenize: Annotated[Pretokenize, _text()]
    """moses separates words and punctuation first, as in the paper's English-German data, and
    moses-a hyphens too; generate undoes it."""
    languages: Annotated[str, _text(metavar="SRC-TGT", show_default=False)]
    """Languages of the two sides, such as en-de. Moses needs them, and treats one that it has
    no rules for like English."""
    lowercase: Annotated[bool, _text("--lowercase")]
    """Put both sides in lower case."""
    case_markup: Annotated[bool, _text("--case-markup")]
    """Give words in capitals the pieces of their ordinary spelling and a mark, so that shouted
    text is understood; a model learns it with `train batch.noise=0.05`. Not for lower case or
    whole words."""
    tag: Annotated[str, _text(metavar="'>>deu<<'", show_default=False)]
    """The language to translate to: stands before each source line, as one piece of the
    vocabulary, for a model that translates into several (`generate --to deu`). Where each pair
    of files has a tag of its own, give one for each, in their order; validation and test text
    has the first. Other folders take the vocabulary over: --vocab-from."""

    subword: Annotated[Subword, _vocabulary()]
    """Kind of units. All but word spell what they do not know in bytes, so that nothing is
    lost."""
    vocab_size: Annotated[int, _vocabulary(metavar="N", min=4, show_default=VOCAB_SIZE)]
    """Units of each vocabulary; of char and word, at most."""
    shared: Annotated[bool, _vocabulary("--shared/--separate", show_default=SHARED)]
    """One vocabulary for both sides, whose embedding they can share, or one each."""
    vocab_from: Annotated[
        str, _vocabulary(metavar="DATA", click_type=click.Path(), show_default=False)
    ]
    """Use the vocabulary and the text settings of this data folder, run or model file again, or
    the vocabulary of a SentencePiece model or of BPE codes (subword-nmt, fastBPE)."""
    sample_lines: Annotated[int, _vocabulary(metavar="N", min=2, show_default=SAMPLE_LINES)]
    """Lines to learn the vocabulary from, drawn at random, half from each side."""
    seed: Annotated[int, _vocabulary(metavar="N")]
    """Seeds the choice of these lines."""

    max_length: Annotated[int, _filter(metavar="N", min=0)]
    """Drop a pair with more subwords than this on a side, its end mark included; 0: never."""
    max_ratio: Annotated[float, _filter(metavar="X", min=0)]
    """Drop a pair whose longer side has more than this many times the subwords of the other; 0:
    never."""
    dedup: Annotated[bool, _filter("--dedup")]
    """Drop a pair that repeats an earlier one."""
    dropped: Annotated[Path | None, _filter(metavar="FILE.tsv")] = None
    """List each dropped pair: file, number of the line or tree, reason."""

    workers: Annotated[str, _work(metavar="N")] = "auto"
    """Processes that encode; auto: one a core. The result is the same."""
    shard_size: Annotated[
        int, _work(metavar="BYTES", parser=_parse_size, show_default=SHARD_SIZE)
    ]
    """Token ids in a shard, as 64M; an interrupted run loses at most one."""
    force: Annotated[bool, _work("--force")] = False
    """Replace what the folder holds, if it was made from other text or settings."""

    @property
    def held_out(self) -> list[Path]:
        """Files of validation and test text."""
        return [*(self.valid or ()), *(self.test or ())]

    def settings(self) -> Settings:
        """Return the settings alone, with the defaults that depend on the task or the units."""
        given = named_options(self.context)
        chosen = {each.name: getattr(self, each.name) for each in fields(Settings)}
        # The codec that `_reuse` loads is known by its fingerprint and not by its path.
        chosen["vocab_from"] = ""
        if self.subword == "unigram" and "sample_lines" not in given:
            chosen["sample_lines"] = UNIGRAM_LINES
        if self.task == "parsing":
            # The symbols of a tree have no subwords in common with its words.
            chosen["shared"] = False
            if "vocab_size" not in given:
                chosen["vocab_size"] = PARSING_VOCABULARY
        return Settings(**chosen)


class Command(TyperCommand):
    """A command whose --valid and --test take one file, of trees, if the task is parsing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the file of trees twice, since an option takes a fixed number of values."""
        if "--task=parsing" in args or ("--task", "parsing") in pairwise(args):
            for i in reversed(range(len(args))):
                option, joined, value = args[i].partition("=")
                if option in ("--valid", "--test"):
                    args[i + 1 : i + 1] = [value] if joined else args[i + 1 : i + 2]
        for option, _, second in zip(args, args[1:], args[2:], strict=False):
            if option in ("--valid", "--test") and second.startswith("-"):
                raise UsageError(f"{option} is followed by one file", fix="name two: SRC TGT")
        if sum(argument.partition("=")[0] == "--alignments" for argument in args) > 1:
            raise UsageError(
                "--alignments is given twice",
                fix="put the alignments of all pairs into one file, in the order of the text",
            )
        _join_tags(args)
        return super().parse_args(ctx, args)


def _join_tags(args: list[str]) -> None:
    """Make one --tag of several: it is one setting, with a tag for each pair of files."""
    tags = []
    for i in reversed(range(len(args))):
        option, joined, value = args[i].partition("=")
        if option == "--tag" and (joined or i + 1 < len(args)):
            tags.append(value if joined else args[i + 1])
            del args[i : i + (1 if joined else 2)]
    if tags:
        args[:0] = ["--tag", " ".join(reversed(tags))]


@command(PreprocessOptions, EXAMPLES, Command)
def preprocess(options: PreprocessOptions) -> None:
    """Turn text into subword ids: the data folder that `train` reads.

    Memory does not grow with the text, and the folder is the same for any number of workers.
    Run the same command again after an interruption and it resumes where it was.
    """
    from aiayn.data.preprocess import preprocess as make_folder

    settings = options.settings()
    if options.alignments and options.task == "parsing":
        raise UsageError(
            "--alignments are between words, and trees have symbols", fix="leave one out"
        )
    # Hours of work would be lost if the list turned out not to be writable at the end.
    if options.dropped:
        require_writable(options.dropped, reads=[*options.files, *options.held_out])
    if both := set(options.files) & set(options.held_out):
        console.warn(f"{min(both)} is training text and validation or test text, too")
    codec = None
    if options.vocab_from:
        given = named_options(options.context) & vars(settings).keys()
        codec, settings = _reuse(Path(options.vocab_from), settings, given)
    splits: dict[SplitName, list[Input]] = {"train": _inputs(options.files, settings)}
    sides = 1 if options.task == "parsing" else 2
    # Held-out text is one pair of files, and has the first tag.
    held_out = replace(settings, tag=" ".join(settings.tags[:1]))
    if options.valid:
        splits["valid"] = _inputs(options.valid[:sides], held_out)
    if options.test:
        splits["test"] = _inputs(options.test[:sides], held_out)
    folder = make_folder(
        splits,
        options.output,
        settings=settings,
        codec=codec,
        alignments=options.alignments,
        dropped=options.dropped,
        workers=_parse_workers(options.workers),
        force=options.force,
    )
    console.say_table(*folder.counts_table())
    for warning in folder.warnings():
        console.warn(warning)


def _inputs(files: Sequence[Path], settings: Settings) -> "list[Input]":
    """Return what the files on the command line stand for."""
    from aiayn.data.inputs import ParallelText, TabbedText, Treebank

    if settings.task == "parsing":
        return [Treebank(path) for path in files]
    if settings.task != "translation":
        assert_never(settings.task)
    inputs: list[Input] = []
    waiting = iter(files)
    for path in waiting:
        if path == STDIN:
            inputs.append(TabbedText(STDIN, name="standard input"))
            continue
        inputs.append(ParallelText(path, _translation_of(path, next(waiting, None))))
    tags = settings.tag.split()
    if len(tags) > 1 and len(tags) != len(inputs):
        raise UsageError(
            f"--tag has {len(tags)} tags, and there are {len(inputs)} pairs of files",
            fix="name one tag for all, or one for each pair in their order",
        )
    for each, tag in zip(inputs, tags * len(inputs), strict=False):
        each.tag = tag
    return inputs


def _translation_of(path: Path, following: Path | None) -> Path:
    """Return the file that follows another on the command line: its target side."""
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, and text comes in pairs of files",
            fix=f"name them: {path}/train.en {path}/train.de",
        )
    if following is None or following == STDIN:
        raise UsageError(
            f"{path} has no translation beside it: files come in pairs, SRC TGT",
            fix="name the target file right after it",
        )
    return following


def _reuse(folder: Path, settings: Settings, given: set[str]) -> "tuple[Codec, Settings]":
    """Return the codec of a folder, and settings that fit it."""
    from aiayn.data.language_tags import require_tags

    codec = _load_codec(folder, settings)
    require_tags(settings.tags, codec, origin=str(folder))
    if (tags := codec.source.tags()) and not settings.tags:
        console.warn(
            f"the vocabulary of {folder} has language tags ({' '.join(tags)}), and no --tag is"
            " given: lines have only those that are in the text"
        )
    of = codec.settings
    if of.task != settings.task:
        raise UsageError(f"{folder} is for {of.task}", fix=f"add --task {of.task}")
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
        case_markup=of.case_markup,
    )
    for name in sorted(given - {"vocab_from"}):
        if getattr(settings, name) != getattr(reused, name):
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be given with --vocab-from: {folder} has"
                f" {getattr(reused, name) or 'none'}",
                fix="leave it out; the vocabulary brings it along",
            )
    return codec, reused


def _load_codec(folder: Path, settings: Settings) -> "Codec":
    """Return the vocabulary of what --vocab-from names."""
    from aiayn.data.case_markup import MARK
    from aiayn.data.codec import Codec, read_vocabulary
    from aiayn.data.folder import VOCABULARY_FOLDER

    if folder.is_file() and zipfile.is_zipfile(folder):
        from aiayn.checkpoint import load_model

        return load_model(folder).codec
    if folder.is_file():
        if settings.task == "parsing":
            raise UsageError(
                f"{folder} is the vocabulary of a text, and trees have symbols",
                fix="leave --vocab-from out, or name a data folder, run or model of parsing",
            )
        vocabulary = read_vocabulary(folder)
        # It brings nothing along about the text, so this may be chosen.
        chosen = replace(settings.codec_settings(), subword=vocabulary.kind)
        if chosen.case_markup and not vocabulary.knows(MARK):
            raise UsageError(
                f"{folder} has no piece {MARK} for --case-markup",
                fix="leave --case-markup out, or leave --vocab-from out and learn a vocabulary",
            )
        return Codec(vocabulary, vocabulary, chosen)
    if (folder / VOCABULARY_FOLDER).is_dir():
        return Codec.load(folder / VOCABULARY_FOLDER)
    raise UsageError(
        f"{folder} holds no vocabulary" if folder.exists() else f"{folder} does not exist",
        fix="name a data folder, a run, a model file, a SentencePiece model or BPE codes",
    )


def _parse_workers(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or not int(text):
        raise UsageError(f"--workers {text} is not a number of processes", fix="pass auto or 2")
    return int(text)
