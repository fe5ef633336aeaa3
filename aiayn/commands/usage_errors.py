"""What click finds wrong with a command line, in the words of our own errors."""

import click
from click.types import FloatParamType, IntParamType

from aiayn.commands.foreign_options import FOREIGN_OPTIONS
from aiayn.config_file import meaning_of, setting_of
from aiayn.errors import UsageError, did_you_mean


def explain_usage(problem: click.UsageError) -> UsageError:
    """Return our error for one of click's: what was found, what was expected, how to fix it."""
    line = " ".join(problem.ctx.get_usage().split()[1:]) if problem.ctx else "in --help"
    match problem:
        case click.MissingParameter(param=click.Option() as option, ctx=click.Context() as ctx):
            add = f"add {_name(option)} {option.make_metavar(ctx)}"
            return UsageError(f"{_name(option)} is missing", fix=add)
        case click.MissingParameter(param=click.Parameter() as parameter):
            return UsageError(f"{_name(parameter)} is missing", fix=f"write {line}")
        case click.BadParameter(param=click.Parameter() as parameter):
            return _wrong_value(problem.message, parameter)
        case click.NoSuchOption(option_name=name, ctx=click.Context() as ctx):
            return UsageError(f"there is no option {name}", fix=_replacement(name, ctx))
        case click.BadOptionUsage(option_name=name):
            if "does not take" in problem.message:
                return UsageError(f"{name} takes no value", fix=f"write {name} alone")
            fix = f"write all that belongs to it; --help shows what {name} takes"
            return UsageError(f"a value is missing after {name}", fix=fix)
        case _:
            # Click has no class for a word too many, and names it in parentheses.
            words = problem.message.partition("(")[2].rstrip(")") or problem.message
            fix = f"put quotes around a value with spaces; the command is {line}"
            return UsageError(f"the command line has too many words: {words}", fix=fix)


def _replacement(option: str, ctx: click.Context) -> str:
    """Return what to write in place of an option that the command does not have."""
    # Without the dashes, which make any two options look alike.
    name = option.lstrip("-").replace("_", "-")
    options = ctx.command.get_params(ctx)
    flags = [flag for one in options for flag in (*one.opts, *one.secondary_opts)]
    known = {flag.lstrip("-"): flag for flag in flags if flag.startswith("--")}
    if name in known:  # it was written with underscores
        return f"write {known[name]}"
    command = ctx.command.name or ""
    if text := FOREIGN_OPTIONS.get(command, {}).get(name):
        return text
    if command == "train" and (setting := setting_of(name)):
        return f"it is a setting, without dashes: {setting}=VALUE ({meaning_of(setting)})"
    return did_you_mean(name, known)


def _name(parameter: click.Parameter) -> str:
    named = isinstance(parameter, click.Option)
    return max(parameter.opts, key=len) if named else parameter.human_readable_name


def _wrong_value(message: str, parameter: click.Parameter) -> UsageError:
    name, kind = _name(parameter), parameter.type
    # The exception holds the value only in its message: 'abc' is not a valid integer.
    found = message.partition(" is not ")[0]
    if isinstance(kind, click.Choice):
        choices = [str(getattr(choice, "value", choice)) for choice in kind.choices]
        parts = found.strip("'").split(",")
        fix = did_you_mean(parts[0], {choice: choice for choice in choices})
        if parameter.multiple and {*parts} <= {*choices}:
            short = min(parameter.opts, key=len)
            fix = f"write {' '.join(f'{short} {part}' for part in parts)}"
        return UsageError(f"{name} is {found}, expected one of {', '.join(choices)}", fix=fix)
    numbers = {IntParamType: "a whole number", FloatParamType: "a number"}
    what = next((words for one, words in numbers.items() if isinstance(kind, one)), kind.name)
    if isinstance(kind, click.IntRange | click.FloatRange):
        ends = {"at least": kind.min, "at most": kind.max}
        what += " of " + " and ".join(f"{k} {v}" for k, v in ends.items() if v is not None)
    return UsageError(f"{name} is {found}, expected {what}", fix=f"give {name} {what}")
