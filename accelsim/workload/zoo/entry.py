"""A model of the zoo: what it is called, what can be varied, and what builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from accelsim.files.reading import is_file
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.style import Style

Params = Mapping[str, int]


@dataclass(frozen=True)
class Entry:
    """One model: ``build(batch, params)`` gives its graph, without seeded values where the model has none.

    ``params`` are the parameters with their defaults, ``batch`` the default batch, ``least`` the least value of those
    whose least is not 1. ``generates``: one graph is one call on ``seq`` tokens after ``past`` earlier ones, so a
    prompt can be followed token by token. ``follows``: parameters that have the value of another one until they are
    given themselves. ``style``: what a decoder is made like.
    """

    name: str
    kind: str
    description: str
    build: Callable[[int, Params], Graph]
    params: dict[str, int] = field(default_factory=dict)
    batch: int = 1
    least: dict[str, int] = field(default_factory=dict)
    generates: bool = False
    follows: dict[str, str] = field(default_factory=dict)
    style: Style | None = None

    def sizes(self, given: Params) -> dict[str, int]:
        """Return all parameters, those ``given`` in place of the defaults."""
        found = {**self.params, **given}
        return found | {name: found[other] for name, other in self.follows.items() if name not in given}


_ENTRIES: dict[str, Entry] = {}
FILES = ("light", "vision", "amoebanet", "digits", "encoder", "language", "published", "networks", "tpu_paper")
"""Modules of this package that register models, in the order in which these are listed."""


class Zoo(Mapping[str, Entry]):
    """Name -> model, in the order in which they are listed; a module is loaded when a name is not in those before.

    The path of a ``config.json`` is a name too, which is not listed; one with problems raises ModelError.
    """

    def __getitem__(self, name: str) -> Entry:
        for file in FILES:
            if name in _ENTRIES:
                break
            import_module(f"{__package__}.{file}")
        return _ENTRIES[name] if name in _ENTRIES else _configured(name)

    def __iter__(self) -> Iterator[str]:
        for file in FILES:
            import_module(f"{__package__}.{file}")
        return iter(_ENTRIES)

    def __len__(self) -> int:
        return len(list(iter(self)))


READERS: dict[str, Callable[[Path, int], Entry | None]] = {}
"""End of a file's name -> what reads a model from it, as it was changed last (ns); None where it describes none."""


def _configured(name: str) -> Entry:
    """The model that a file describes. Raises KeyError where a name is none of such a file."""
    path = Path(name)
    read = READERS.get(path.suffix)
    found = read(path, path.stat().st_mtime_ns) if read is not None and is_file(path) else None
    if found is None:
        raise KeyError(name)
    return found


ZOO = Zoo()


def register(entry: Entry) -> Entry:
    """Add a model; a second one of the same name is an error."""
    if entry.name in _ENTRIES:
        raise ValueError(f"model {entry.name!r} is registered twice")
    _ENTRIES[entry.name] = entry
    return entry
