"""One statement an option: a command's options are the fields of a dataclass.

A field holds the type, the flag, the help text and the default; the command gets the whole
object. Typer itself wants them as parameters of a function, so one is made.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def takes_options(
    options: type[Options],
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of one options object the command that parses it."""
    hints = get_type_hints(options, include_extras=True)

    def decorate(run: Callable[[Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            run(options(**values))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__module__, command.__annotations__ = run.__module__, hints
        vars(command)["__signature__"] = inspect.Signature(
            [_parameter(field, hints[field.name]) for field in fields(options)]
        )
        return command

    return decorate


def _parameter(field: "Field[Any]", annotation: object) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
