"""The `aiayn` program: its commands, and the one place where errors become exit codes."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import click
import typer
from typer.core import TyperGroup

from aiayn import __version__, console
from aiayn.console import NO_SPACE
from aiayn.data.atomic import TEMPORARY
from aiayn.errors import AiaynError, Stopped, UsageError, did_you_mean
from aiayn.signals import remember_start

# The commands in the order of the pipeline, with the first line of their help.
SUMMARIES = {
    "sample": "Make an English-German corpus by rule, of any size, to try and test with.",
    "preprocess": "Turn text into subword ids: the data folder that `train` reads.",
    "train": "Train a Transformer (section 5 of the paper).",
    "average": "Average checkpoints of a run into one model file (section 6.1 of the paper).",
    "generate": "Translate text, one line out for each line in (section 6.1 of the paper).",
    "score": "Score translations or parses: the number, and the signature that defines it.",
    "attend": "Show what the heads of a model attend to (figures 3 to 5 of the paper).",
    "serve": "Translate over HTTP, as LibreTranslate does, with a page to type in.",
    "export": "Write a model for another toolkit, and check that it translates the same.",
    "import": "Convert a model of another toolkit into a model file.",
    "info": "Describe a preset, data folder, run or model: settings, sizes, progress.",
}
# Names that other toolkits have for our commands.
SYNONYMS = {
    "translate": "generate",
    "decode": "generate",
    "evaluate": "score",
    "bleu": "score",
    "binarize": "preprocess",
    "tokenize": "preprocess",
    "convert": "export",
    "help": "--help",
}


class Commands(TyperGroup):
    """The commands by name; each is loaded when it runs, so that `aiayn --help` is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the pipeline."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        return load_command(cmd_name) if cmd_name in SUMMARIES else None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands and options.

        Typer's own way loads every command, and takes as long as all the rest.
        """
        console.result(
            f"Usage: {ctx.command_path} [OPTIONS] COMMAND [ARGS]...\n\n{self.help}\n"
        )
        options = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        console.result_table(["Options", ""], [record for record in options if record])
        console.result("")
        console.result_table(["Commands", ""], SUMMARIES.items())
        console.result(f"\n{self.epilog}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; suggest the nearest if none has it."""
        if args[0] not in SUMMARIES and not ctx.resilient_parsing:
            known = {**{name: name for name in SUMMARIES}, **SYNONYMS}
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


def load_command(name: str) -> click.Command:
    """Return a command; only its module is imported."""
    match name:
        case "sample":
            from aiayn.commands.sample import sample as command
        case "preprocess":
            from aiayn.commands.preprocess import preprocess as command
        case "train":
            from aiayn.commands.train import train as command
        case "average":
            from aiayn.commands.average import average as command
        case "generate":
            from aiayn.commands.generate import generate as command
        case "score":
            from aiayn.commands.score import score as command
        case "attend":
            from aiayn.commands.attend import attend as command
        case "serve":
            from aiayn.commands.serve import serve as command
        case "export":
            from aiayn.commands.export import export as command
        case "import":
            from aiayn.commands.import_ import import_ as command
        case _:
            from aiayn.commands.info import info as command
    return command


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
    full = problem.errno in NO_SPACE
    if not full and not isinstance(problem.filename, str | bytes):
        return None
    # A temporary file stands for the one that was asked for.
    name = os.fsdecode(problem.filename or "").removesuffix(TEMPORARY)
    return UsageError(
        f"{name}: {reason[:1].lower()}{reason[1:]}" if name else reason,
        fix="free some space, then run the same command again"
        if full
        else "check the path and its permissions, or choose another one",
    )


# Read by torch and its libraries when they are loaded, unless the user has set them.
ENVIRONMENT = {
    # Threads that wait for one another spin for some microseconds and then sleep: long spinning
    # is slow if other processes want the core, and sleeping at once is slow if none does.
    **({} if "OMP_WAIT_POLICY" in os.environ else {"GOMP_SPINCOUNT": "5000"}),
    # torch and oneDNN each cache the last 1,024 kernels, half a megabyte apiece, and there is
    # one for every number of rows.
    "LRU_CACHE_CAPACITY": "256",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
}

# What torchrun calls the variables that srun sets.
SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def _join_srun() -> None:
    """Let the tasks of one srun work together, if MASTER_ADDR says where they meet."""
    found = os.environ
    # A batch script itself has a rank and a number of tasks, too, but is no step of its own.
    tasks = int(found.get("SLURM_STEP_NUM_TASKS", "1"))
    if "RANK" not in found and "MASTER_ADDR" in found and tasks > 1:
        found.update({name: found[slurm] for name, slurm in SLURM.items()})
        found.setdefault("MASTER_PORT", "29500")


def _prepare() -> None:
    """Set up the environment and the streams before anything is loaded or written."""
    remember_start()
    _join_srun()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A file name may hold bytes that are not UTF-8; escaped, it is valid JSON, too.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def program() -> None:
    """Be the program `aiayn`, alone in its process."""
    try:
        main()
    except SystemExit as ended:
        if "RANK" in os.environ and "aiayn.distributed" in sys.modules:
            from aiayn.distributed import leave_at_once

            leave_at_once(int(ended.code or 0))
        raise


def main() -> None:
    """Run a command, and raise SystemExit with its exit code."""
    _prepare()
    sys.exit(_run())


def _run() -> int:
    """Run a command; an error that the user can act on is printed without a traceback."""
    try:
        if sys.stdout is None:
            raise UsageError("standard output is closed", fix="send it to a file or /dev/null")
        # Click would print its own errors in a form of its own; it returns the code of an Exit.
        return app(standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError:
        return UsageError.exit_code  # its constructor has printed the help
    except OSError as problem:
        explained = _explain(problem)
        if explained is None:
            raise
        console.fail(explained)
        if problem.errno in NO_SPACE:
            # What is still in the buffer cannot be written either.
            os._exit(UsageError.exit_code)
        return UsageError.exit_code
    except (AiaynError, click.UsageError) as problem:
        from aiayn.commands.usage_errors import explain_usage

        error = problem if isinstance(problem, AiaynError) else explain_usage(problem)
        # Processes that stop together, or that were started alike, need not all report it.
        shared = isinstance(problem, Stopped | click.UsageError)
        if not shared or os.environ.get("RANK", "0") == "0":
            console.fail(error)
        return error.exit_code
