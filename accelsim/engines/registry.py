"""The engine types, by name: whatever folder of this package has an ``engine`` module with an ``ENGINE``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from accelsim import engines
from accelsim.engines.base import EngineType


def _found() -> dict[str, EngineType]:
    folders = sorted(entry.name for entry in iter_modules(engines.__path__) if entry.ispkg)
    found = [import_module(f"{engines.__name__}.{name}.engine").ENGINE for name in folders]
    return {entry.type: entry for entry in found}


ENGINES: dict[str, EngineType] = _found()
"""Name of the type, as in specs and in ``Program.engines`` -> the type."""
