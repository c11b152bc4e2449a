"""Options of the command line that are fields of a request: made from what the fields say of themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import FILE, Command, Number, extents, pairs, whole
from accelsim.errors import UsageError
from accelsim.request.fields import DEFAULTS, OPTIONS, compiled
from accelsim.request.needs import check_needs
from accelsim.request.option import Kind, Option
from accelsim.request.recording import flag

if TYPE_CHECKING:
    from accelsim.errors import Gather

Callback = Callable[[click.Context, click.Parameter, Any], None]

SETTINGS: dict[Kind, dict[str, Any]] = {
    "chips": {"multiple": True, "required": True},
    "text": {},
    "texts": {"multiple": True},
    "flag": {"is_flag": True},
    "count": {"type": click.IntRange(1)},
    "whole": {"type": click.IntRange(0)},
    "percent": {"type": Number(0, 100, min_open=True)},
    "size": {},
    "file": {"type": FILE},
    "extents": {"multiple": True},
    "counts": {"multiple": True},
    "formats": {"multiple": True},
}
"""Kind of a field -> click's settings for its option."""

READ: dict[Kind, tuple[Callable[[str], Any], str]] = {
    "extents": (extents, "1,3,224,224"),
    "counts": (whole, "a whole number from 1"),
    "formats": (lambda text: text or None, "FORMAT"),
}
"""Kind of NAME=VALUE -> the function that reads a value, and the text for an invalid one."""


def run_options(command: Command) -> Command:
    """Add an option for every field of a request to a command."""
    return _with(command, lambda row: True)


def number_options(command: Command) -> Command:
    """Add those that say how numbers are represented, for every command that compiles a model."""
    return _with(command, lambda row: row.shared == "numbers")


def limit_options(command: Command) -> Command:
    """Add the limits of what is built, for every command that reads, compiles or runs one: they hold while it runs."""
    return _with(command, lambda row: bool(row.limits))


def _with(command: Command, wanted: Callable[[Option], bool]) -> Command:
    names = [name for name, row in OPTIONS.items() if row.kind in SETTINGS and wanted(row)]
    names.sort(key=lambda name: OPTIONS[name].last)
    for name in reversed(names):  # as decorators are applied
        command = _option(name, OPTIONS[name])(command)
    return command


def _option(name: str, row: Option) -> Callable[[Command], Command]:
    settings, default = dict(SETTINGS[row.kind]), DEFAULTS[name]
    if isinstance(default, str | int) and not isinstance(default, bool):
        settings |= {"default": default, "show_default": True if default != "" else None}
    if row.limits:
        settings |= {"expose_value": False, "callback": _limit(name, row)}
    return click.option(flag(name), metavar=row.metavar, help=row.help, **settings)


def _limit(name: str, row: Option) -> Callback:
    """A callback: the limit holds until the command ends."""

    def hold(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value is None or value is False:
            return
        from accelsim.workload.limits import limited

        given: Any = _size(name, value, row.unit) if row.unit else value
        ctx.with_resource(limited(**{row.limits: given}))

    return hold


def _size(name: str, text: str, unit: str) -> int:
    """A number of at least one in its unit; UsageError for a text that is none."""
    from accelsim.units import expected, parse

    try:
        size = parse(text, unit)
    except ValueError as error:
        raise UsageError(f"{flag(name)} {text!r}", expected=expected(unit)) from error
    if size < 1:
        raise UsageError(f"{flag(name)} {text!r}", expected=f"1 {unit} or more")
    return int(size)


def read(asked: Mapping[str, Any], gather: Gather) -> dict[str, Any]:
    """Return what options gave, as fields of a request: texts NAME=VALUE are mappings."""
    found = dict(asked)
    for name in asked:
        if OPTIONS[name].kind in READ:
            reader, expected = READ[OPTIONS[name].kind]
            found[name] = {}
            with gather.also():
                found[name] = pairs(flag(name), asked[name], reader, expected)
    return found


def numbers(asked: dict[str, Any], gather: Gather) -> dict[str, Any]:
    """Return what ``number_options`` gave, as fields of ``compiler.state.Options``; taken out of ``asked``."""
    mine = [name for name, row in OPTIONS.items() if row.shared == "numbers"]
    given = {name: asked.pop(name) for name in mine}
    with gather.also():
        check_needs(given)
    return compiled(read(given, gather))
