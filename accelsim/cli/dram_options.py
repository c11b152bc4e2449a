"""Shared parts of the commands about DRAM: options that change a spec, and the spec that they make."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import Command
from accelsim.errors import Problem, SpecError, nearest

if TYPE_CHECKING:
    from accelsim.spec.dram import Dram

FOLDER = "Directory for the figures and plots."
"""The help of --out."""
CONTROLLER = ("mapping", "page_policy", "cap", "timeout", "window", "refresh")
"""Options that are fields of the controller: ``--page-policy closed`` is ``--set controller.page_policy=closed``."""


def controller_options(command: Command) -> Command:
    """Add the options that change the spec of a memory to a command."""
    options = (
        click.option("--mapping", help="Address mapping, e.g. rochrababgco or bank-group-lowest."),
        click.option("--page-policy", help="open, closed, capped or timeout."),
        click.option("--cap", help="Accesses after which a capped row gives way."),
        click.option("--timeout", help="Idle clocks after which a row is closed (page policy timeout)."),
        click.option("--window", help="Requests of one direction that are reordered; 1: in order."),
        click.option("--refresh", help="all_bank, staggered, per_bank or none."),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="PATH=VALUE",
            help="Change a field of the spec, e.g. organisation.ranks=1. Repeatable.",
        ),
        click.option("--model", default="bank", show_default=True, help="bank, pattern, bandwidth or ideal."),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N accesses of a trace."),
    )
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


def preset(name: str) -> str:
    """Return the full name of a preset, or the stem of a file. Raises SpecError where there is neither."""
    from accelsim.spec.yaml import where
    from accelsim.spec.yaml.parts import resolve_dram

    path = resolve_dram(name)
    return next((known for known, file in where.names("dram").items() if file == path), path.stem)


def spec_of(name: str, asked: dict[str, Any], commands: Sequence[str] = ()) -> Dram:
    """Load the spec of a memory with the options of the controller and of --set.

    Raises SpecError with every problem; where there is none of that name, which of ``commands`` it looks like.
    """
    from accelsim.spec.yaml.parts import load_dram

    chosen = [f"controller.{field}={asked[field]}" for field in CONTROLLER if asked[field] is not None]
    try:
        return load_dram(name, [*chosen, *asked["overrides"]])
    except SpecError as error:
        near = nearest(name, commands)
        if not near or near[0] != name[0]:
            raise
        hint = Problem(f"no command {name!r}", "", "a DRAM, or a command", near)
        raise SpecError([hint, *error.problems]) from error
