"""The engine types, by name: whatever folder of this package has an ``engine`` module with an ``ENGINE``.

They stand in the order of their ``rank``: arithmetic first, then functions, hosts, transfers, messages.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from accelsim import engines
from accelsim.engines.base import EngineType


def _found() -> dict[str, EngineType]:
    names = [f"{engines.__name__}.{entry.name}.engine" for entry in iter_modules(engines.__path__) if entry.ispkg]
    found = [import_module(name).ENGINE for name in sorted(names) if find_spec(name)]
    return {entry.type: entry for entry in sorted(found, key=lambda entry: (entry.rank, entry.type))}


ENGINES: dict[str, EngineType] = _found()
"""Name of the type, as in specs and in ``Program.engines`` -> the type."""

SEQUENTIAL = frozenset(name for name, entry in ENGINES.items() if not entry.moves)
"""Types on whose engines a command has completed before the next begins to touch memory."""
