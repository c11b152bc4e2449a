"""The pipeline schedules, by name: whatever module of this package has a ``SCHEDULE``, in the order of their rank."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from accelsim.cluster import schedules
from accelsim.cluster.schedules.base import Schedule
from accelsim.errors import known


def _found() -> dict[str, Schedule]:
    names = [entry.name for entry in iter_modules(schedules.__path__) if entry.name != "registry"]
    modules = [import_module(f"{schedules.__name__}.{name}") for name in sorted(names)]
    found = [module.SCHEDULE for module in modules if hasattr(module, "SCHEDULE")]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: (entry.rank, entry.name))}


SCHEDULES: dict[str, Schedule] = _found()
"""Name -> schedule."""


def schedule(name: str) -> Schedule:
    """The schedule of a name; UsageError with the nearest one."""
    return SCHEDULES[known("schedule", name, SCHEDULES)]
