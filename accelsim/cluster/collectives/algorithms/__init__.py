"""Algorithms of collectives. Each ``Collective`` in a module of this package is registered."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from accelsim.cluster.collectives.base import KINDS, Collective, Members
from accelsim.errors import UsageError, known

_modules = [import_module(f"{__name__}.{entry.name}") for entry in iter_modules(__path__)]
_found = [each for module in _modules for each in vars(module).values() if isinstance(each, Collective)]
COLLECTIVES = {each.name: each for each in sorted(_found, key=lambda each: each.name)}
"""Name -> algorithm."""


def algorithm(name: str, kind: str) -> Collective:
    """Return the algorithm of a name. Raises UsageError with the nearest name, and for a kind that it does not do."""
    known("kind of collective", kind, KINDS)
    found = COLLECTIVES[known("algorithm", name, COLLECTIVES)]
    if kind not in found.kinds:
        able = [each.name for each in COLLECTIVES.values() if kind in each.kinds]
        raise UsageError(f"{name} does no {kind}", "algorithm", f"one of {', '.join(able)}")
    return found


def able(kind: str, members: Members) -> list[Collective]:
    """Return the algorithms that can do a kind among these devices, in order of their names."""
    known("kind of collective", kind, KINDS)
    return [each for each in COLLECTIVES.values() if not each.why_not(kind, members)]
