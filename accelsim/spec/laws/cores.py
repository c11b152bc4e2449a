"""Laws of the kinds of cores of a chip: a graph is placed once for all, so they differ in nothing but numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from accelsim.errors import brief
from accelsim.spec.chip import Chip
from accelsim.spec.laws.finding import Finding
from accelsim.spec.yaml.tree import PathTo

EXACT = ("sparse",)
"""Fields whose numbers decide what is computed."""


def kinds_differ_in_numbers(chip: Chip) -> Iterator[Finding]:
    """Cores of all kinds have engines and memories of the same names, which differ in sizes, widths and clocks alone:
    they are of the same types, formats and functions, for the same operands."""
    first, model = next(iter(chip.cores.items()), ("", None))
    for kind, core in list(chip.cores.items())[1:]:
        for table in ("engines", "memories"):
            path, mine, theirs = ("cores", kind, table), getattr(core, table), getattr(model, table)
            if list(mine) != list(theirs):
                told, wanted = (", ".join(each) or "none" for each in (mine, theirs))
                yield Finding(
                    path, f"{told}, where {first!r} has {wanted}", "the same names in the same order"
                )
                continue
            for name in mine:
                yield from _unlike(mine[name].model_dump(), theirs[name].model_dump(), (*path, name), first)


def _unlike(mine: Any, theirs: Any, path: PathTo, first: str) -> Iterator[Finding]:
    """Where two blocks differ in anything but numbers."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        for key in mine:
            if path[-1] in EXACT and mine[key] != theirs[key]:
                yield _finding((*path, key), mine[key], theirs[key], first)
            else:
                yield from _unlike(mine[key], theirs[key], (*path, key), first)
    elif mine != theirs and not (_is_size(mine) and _is_size(theirs)) and path[-1] not in SAID:
        yield _finding(path, mine, theirs, first)


SAID = ("source", "as_of", "note")
"""Fields of every block that nothing is computed from."""


def _is_size(value: Any) -> bool:
    """Whether a value is a number, or none where one may stand."""
    return not isinstance(value, bool | str | dict | list)


def _finding(path: PathTo, mine: Any, theirs: Any, first: str) -> Finding:
    shown, wanted = (
        brief(", ".join(map(str, each)) if isinstance(each, dict | list) else str(each))
        for each in (mine, theirs)
    )
    return Finding(
        path, f"{shown}, where {first!r} has {wanted}", "kinds of cores that differ in numbers alone"
    )


def kinds_are_no_numbers(chip: Chip) -> Iterator[Finding]:
    """A kind has not the name that a core has in a program, nor that of anything else that a path may start with."""
    for kind, core in chip.cores.items():
        if re.fullmatch(r"core\d+", kind):
            yield Finding(("cores", kind), f"{kind!r} is what a program calls a core", "another name")
        taken = {**chip.memories, **core.engines, **core.memories}
        if kind in taken:
            yield Finding(("cores", kind), f"{kind!r} is the name of an engine or a memory", "another name")
