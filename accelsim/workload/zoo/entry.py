"""A model of the zoo: what it is called, what can be varied, and what builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from accelsim.workload.graph import Graph

Params = Mapping[str, int]


@dataclass(frozen=True)
class Entry:
    """One model: ``build(batch, params)`` gives its graph, without seeded values where the model has none.

    ``params`` are the parameters with their defaults, ``batch`` the default batch, ``least`` the least value of those
    whose least is not 1. ``generates``: one graph is one call on ``seq`` tokens behind ``past`` earlier ones, so a
    prompt can be followed token by token. ``follows``: parameters that have the value of another one until they are
    given themselves.
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

    def sizes(self, given: Params) -> dict[str, int]:
        """Return all parameters, those ``given`` in place of the defaults."""
        found = {**self.params, **given}
        return found | {name: found[other] for name, other in self.follows.items() if name not in given}


ZOO: dict[str, Entry] = {}
"""Name -> model, in the order in which they are listed."""


def register(entry: Entry) -> Entry:
    """Add a model; a second one of the same name is an error."""
    if entry.name in ZOO:
        raise ValueError(f"model {entry.name!r} is registered twice")
    ZOO[entry.name] = entry
    return entry
