"""Description of a request's field beside its name, type and default: see ``Option``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, NamedTuple, ParamSpec

P = ParamSpec("P")

Kind = Literal[
    "argument", "chips", "text", "texts", "flag", "count", "whole", "percent", "size", "file",
    "extents", "counts", "formats", "none",
]  # fmt: skip
"""Forms of a field on the command line.

'argument': the word without an option. 'chips': at least one, each a run of its own. 'text', and 'texts': repeatable.
'flag': there or not. 'count': a whole number from 1; 'whole': from 0. 'percent': a share. 'size': text with a unit.
'file': a path. 'extents', 'counts', 'formats': NAME=VALUE, repeatable, see ``BY_NAME``. 'none': not at all.
"""
BY_NAME: frozenset[Kind] = frozenset({"extents", "counts", "formats"})
"""Kinds that are a mapping: NAME=1,3,224,224; NAME=COUNT; NAME=FORMAT."""

RUNS, FORMATS = "What runs, and where", "Number formats"
MAPPED, COMPUTED = "Mapping and timing", "What is computed and checked"
"""Titles of the help under which the options of a run stand."""

KEY = "option"
"""Key in the metadata of a field that holds its ``Option``."""


class Choices(NamedTuple):
    """Valid names of a text option: its name in errors, and the table of names."""

    what: str
    table: str
    """``MODULE:NAME``; the module is imported when somebody asks for the names."""

    def names(self) -> Iterable[str]:
        """Return the valid names."""
        module, _, name = self.table.partition(":")
        names: Iterable[str] = getattr(import_module(module), name)
        return names


@dataclass(frozen=True)
class Option:
    """A row of the declaration of a run: all that is known of a field but its name, its type and its default.

    ``help``: a sentence, as ``accelsim run --help`` prints it; ``python``: what Python says instead ('': the same).
    ``kind`` and ``metavar``: how the command line gives it; ``why_not``: why it does not. ``group``: the title of the
    help; ``last``: it stands behind the others there.

    ``choices``: the names that it may be. ``unit``: of the number, which is a text with that unit on the command
    line. ``file``: it may name a file, which is recorded with its hash. ``shared``: a part of the options that other
    commands have too. ``compiled``: the field of ``compiler.state.Options`` that takes it as it is; 'not X': X takes
    its negation. ``former``: its name in command lines and records of old, which are still read. ``limits``: the
    argument of ``workload.limits.limited`` that it is; such a field changes no figure.
    """

    help: str
    group: str = ""
    kind: Kind = "text"
    metavar: str | None = None
    python: str = ""
    choices: Choices | None = None
    unit: str = ""
    file: bool = False
    last: bool = False
    shared: Literal["", "numbers"] = ""
    compiled: str = ""
    limits: str = ""
    why_not: str = ""
    former: str = ""

    @property
    def text(self) -> str:
        """Return the meaning of the field for users of the Python API."""
        return self.python or self.help

    @property
    def negated(self) -> bool:
        """Return whether the compiler's option means the opposite."""
        return self.compiled.startswith("not ")

    @property
    def compiled_name(self) -> str:
        """Name of the field in ``compiler.state.Options``."""
        return self.compiled.removeprefix("not ")


def _metadata(made: Callable[P, Option]) -> Callable[P, dict[str, Option]]:
    def metadata(*args: P.args, **kwargs: P.kwargs) -> dict[str, Option]:
        return {KEY: made(*args, **kwargs)}

    return metadata


option = _metadata(Option)
"""The metadata of a field; the arguments are those of ``Option``."""
