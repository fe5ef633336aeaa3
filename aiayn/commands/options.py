"""Options are declared once: those of a command are the fields of a dataclass.

A field holds the type, the flag and the default, and the string below it is the help; the
command gets the whole object. Typer wants parameters of a function, so one is made.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import click
import typer
from click.core import Context, ParameterSource
from typer.core import TyperCommand
from typer.models import ParameterInfo

from aiayn.config import documentation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def named_options(context: Context) -> set[str]:
    """Return the options that the command line itself names."""
    source = context.get_parameter_source
    return {name for name in context.params if source(name) == ParameterSource.COMMANDLINE}


def command(
    options: type[Options], examples: Sequence[str], cls: type[TyperCommand] = TyperCommand
) -> Callable[[Callable[[Options], None]], click.Command]:
    """Make a function of one options object a command that parses it, with examples."""
    hints = get_type_hints(options, include_extras=True)
    for name, text in documentation(options).items():
        for info in getattr(hints[name], "__metadata__", ()):
            if isinstance(info, ParameterInfo):
                info.help = text
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]
    # Each paragraph of an epilog is printed as one line.
    epilog = "\n\n".join(["[bold]Examples[/bold]", *examples])

    def decorate(run: Callable[[Options], None]) -> click.Command:
        def parsed(**values: Any) -> None:
            run(options(**values))

        # Each paragraph on one line: the terminal wraps it by its own width.
        paragraphs = inspect.cleandoc(run.__doc__ or "").split("\n\n")
        parsed.__doc__ = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        parsed.__annotations__ = hints
        vars(parsed)["__signature__"] = inspect.Signature(parameters)
        app = typer.Typer(
            rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False
        )
        app.command(run.__name__.rstrip("_"), cls=cls, epilog=epilog)(parsed)
        return typer.main.get_command(app)

    return decorate
