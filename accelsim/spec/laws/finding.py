"""A violated law of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from accelsim.spec.names import FUNCTIONS
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.engine import EngineSpec


class Finding(NamedTuple):
    """One law broken: where, what, what was expected, nearest name.

    ``claim``: a mere claim about the rest (a stated peak), which is dropped from a chip whose user has overridden what
    it rests on. ``beside``: keys of the same block that the claim rests on; it is dropped, too, where one of them is
    stated in another file than the claim, which was then inherited (``use``) by a block that has changed what it rests
    on.
    """

    path: PathTo
    what: str
    expected: str = ""
    near: str = ""
    claim: bool = False
    beside: tuple[str, ...] = ()


def only_one(unit: EngineSpec, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """A law for the types of which a chip has one engine at the most."""
    alike = [name for name, each in chip.engines.items() if each.type == unit.type]
    if path[-1] in alike[1:]:
        what = f"a second engine of type {unit.type}, beside {alike[0]!r}"
        yield Finding(path, what, f"one of type {unit.type} at the most")


class _Computes(Protocol):
    @property
    def functions(self) -> Mapping[str, object]:
        """Operator -> clocks per element and lane."""


def functions_are_known(unit: _Computes, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """The functions are names of operators."""
    known = FUNCTIONS.operators
    for name in unit.functions:
        if name not in known:
            what, near = FUNCTIONS.unknown(name)
            yield Finding((*path, "functions", name), what, "", near)
