"""Dataclasses from the plain values of a JSON document, each of the type that is declared."""

from dataclasses import is_dataclass
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


def from_dict(kind: type[Made], value: Any) -> Made:
    """Return what `asdict` turned into plain values, by the types that its fields declare."""
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        value = kind(**{name: from_dict(kinds[name], each) for name, each in value.items()})
    elif get_origin(kind) is list:
        value = [from_dict(get_args(kind)[0], each) for each in value]
    elif get_origin(kind) is tuple:
        value = tuple(from_dict(get_args(kind)[0], each) for each in value)
    elif get_origin(kind) is dict:
        of_key, of_value = get_args(kind)
        value = {from_dict(of_key, key): from_dict(of_value, x) for key, x in value.items()}
    elif not _fits(kind, value):
        raise ValueError(f"{value!r} is not {kind}")
    return cast(Made, value)


def _fits(kind: Any, value: Any) -> bool:
    """Return whether a plain value is of a type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    # A whole number is also a fraction, and for Python a truth value is a number.
    wanted = (int, float) if kind is float else kind
    return isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)
