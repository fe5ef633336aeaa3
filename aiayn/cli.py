"""The `aiayn` program: its commands, and the one place where errors become exit codes."""

import errno
import os
import sys
from io import TextIOWrapper
from typing import Annotated

import click
import typer
from typer.core import TyperGroup

from aiayn import __version__, console
from aiayn.commands import (
    attend,
    average,
    export,
    generate,
    import_,
    info,
    preprocess,
    sample,
    score,
    train,
)
from aiayn.config_file import did_you_mean
from aiayn.errors import AiaynError, Stopped, UsageError

SYNONYMS = {
    "translate": "generate",
    "decode": "generate",
    "evaluate": "score",
    "bleu": "score",
    "binarize": "preprocess",
    "tokenize": "preprocess",
    "convert": "export",
}
"""Names that other toolkits have for our commands."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Commands(TyperGroup):
    """The commands by name; an unknown name is answered with the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            known = {**{name: name for name in self.commands}, **SYNONYMS}
            fix = did_you_mean(args[0].lower(), known)
            raise UsageError(f"there is no command {args[0]!r}", fix=fix)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="aiayn",
    cls=Commands,
    help="The Transformer of 'Attention Is All You Need', as commands for shell pipelines.",
    epilog="The pipeline: sample -> preprocess -> train -> average -> generate -> score",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(lines: tuple[str, ...]) -> str:
    """Return the epilog of a command's help; each paragraph is printed as one line."""
    return "\n\n".join(["[bold]Examples[/bold]", *lines])


app.command(epilog=_examples(sample.EXAMPLES))(sample.sample)
app.command(cls=preprocess.PreprocessCommand, epilog=_examples(preprocess.EXAMPLES))(
    preprocess.preprocess
)
app.command(epilog=_examples(train.EXAMPLES))(train.train)
app.command(epilog=_examples(average.EXAMPLES))(average.average)
app.command(epilog=_examples(generate.EXAMPLES))(generate.generate)
app.command(epilog=_examples(score.EXAMPLES))(score.score)
app.command(epilog=_examples(attend.EXAMPLES))(attend.attend)
app.command(epilog=_examples(export.EXAMPLES))(export.export)
app.command(name="import", epilog=_examples(import_.EXAMPLES))(import_.import_model)
app.command(epilog=_examples(info.EXAMPLES))(info.info)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.result(f"aiayn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Accept the options that come before a command; --version acts in its callback."""


def _explain(problem: OSError) -> UsageError | None:
    """Return the error to show for one of the system; None if it names no path: a bug."""
    reason = problem.strerror or ""
    if problem.errno in NO_SPACE:
        return UsageError(reason, fix="free some space, then run the same command again")
    if not isinstance(problem.filename, str | bytes):
        return None
    return UsageError(
        f"{os.fsdecode(problem.filename)}: {reason[:1].lower()}{reason[1:]}",
        fix="check the path and its permissions, or choose another one",
    )


ENVIRONMENT = {
    # Threads that wait for one another spin for some microseconds and then sleep: long spinning
    # is slow if other processes want the core, and sleeping at once is slow if none does.
    **({} if "OMP_WAIT_POLICY" in os.environ else {"GOMP_SPINCOUNT": "5000"}),
    # torch and oneDNN each cache the last 1,024 kernels, half a megabyte apiece, and there is
    # one for every number of rows.
    "LRU_CACHE_CAPACITY": "256",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
}
"""Read by torch and its libraries when they are loaded, unless the user has set them."""


def _prepare() -> None:
    """Set up the environment and the streams before anything is loaded or written."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A file name may hold bytes that are not UTF-8; escaped, it is valid JSON, too.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def main() -> None:
    """Run a command; an error that the user can act on is printed without a traceback."""
    _prepare()
    try:
        if sys.stdout is None:
            raise UsageError("standard output is closed", fix="send it to a file or /dev/null")
        app()
    except OSError as problem:
        explained = _explain(problem)
        if explained is None:
            raise
        console.fail(explained)
        if problem.errno in NO_SPACE:
            # What is still in the buffer cannot be written either.
            os._exit(UsageError.exit_code)
        sys.exit(UsageError.exit_code)
    except AiaynError as error:
        # Of processes that stop together, the first one reports it.
        if not isinstance(error, Stopped) or os.environ.get("RANK", "0") == "0":
            console.fail(error)
        sys.exit(error.exit_code)
