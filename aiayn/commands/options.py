"""One statement an option: a command's options are the fields of a dataclass.

A field holds the type, the flag and the default, and the string below it is the help; the
command gets the whole object. Typer wants parameters of a function, so one is made.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from click.core import Context, ParameterSource
from typer.models import ParameterInfo

from aiayn.config import documentation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def named_options(context: Context) -> set[str]:
    """Return the options that the command line itself names."""
    source = context.get_parameter_source
    return {name for name in context.params if source(name) == ParameterSource.COMMANDLINE}


def takes_options(
    options: type[Options],
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of one options object the command that parses it."""
    hints = get_type_hints(options, include_extras=True)
    for name, text in documentation(options).items():
        for info in getattr(hints[name], "__metadata__", ()):
            if isinstance(info, ParameterInfo):
                info.help = text

    def decorate(run: Callable[[Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            run(options(**values))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__module__, command.__annotations__ = run.__module__, hints
        parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(options)
        ]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        return command

    return decorate
