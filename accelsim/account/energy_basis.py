"""Basis of the joules of a run, and what keeps those of two runs from being set in one ratio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from accelsim.spec.chip import Chip
from accelsim.spec.digest import digest
from accelsim.spec.status import ESTIMATE
from accelsim.units import show

STATED, ESTIMATED, ABSENT = "stated", "an estimate", "not stated"
"""Grounds for a chip's idle power."""
FIGURES = {"node", "mac", "vector", "register", "network", "sram"}
"""Fields of an energy table that its joules follow from."""

Ground = Literal["table", "idle", "memory"]


class Caveat(NamedTuple):
    """Why energies of two runs are not alike: what of them it touches, and a sentence without its full stop.

    ``grounds``: 'table', energies on the chip; 'idle', static power; 'memory', that of the memories outside.
    """

    grounds: frozenset[Ground]
    text: str


def energy_basis(chip: Chip, by_command: Iterable[str] = ()) -> dict[str, object]:
    """Node and hash of the energy table, the idle power that is charged (W, None: none), and what it is.

    ``by_command``: memories that are charged by command and for their standby, all others are by the byte.
    """
    what = ABSENT
    if chip.power is not None:
        what = ESTIMATED if (chip.power.note or "").startswith(ESTIMATE) else STATED
    return {
        "table_node": chip.energy.node,
        "table_sha256": digest(chip.energy, FIGURES),
        "idle_power_W": chip.power.idle if chip.power is not None else None,
        "idle_power": what,
        "by_command": sorted(by_command),
    }


def caveats(
    first: Mapping[str, Any] | None, other: Mapping[str, Any] | None, names: tuple[str, str]
) -> Iterator[Caveat]:
    """Yield what differs between two records of ``energy_basis`` of runs called ``names``; None: a report without
    one."""
    if first is None or other is None:
        unsaid = [name for name, basis in zip(names, (first, other), strict=True) if basis is None]
        text = f"no energy table and idle power are recorded for {' and '.join(unsaid)}"
        yield Caveat(frozenset({"table", "idle", "memory"}), text)
        return
    if first["table_sha256"] != other["table_sha256"]:
        yield Caveat(frozenset({"table"}), _tables(first["table_node"], other["table_node"], names))
    if first["idle_power"] != other["idle_power"]:
        text = "; ".join(_idle(name, basis) for name, basis in zip(names, (first, other), strict=True))
        yield Caveat(frozenset({"idle"}), text)
    charged = [bool(basis.get("by_command")) for basis in (first, other)]
    if charged[0] != charged[1]:
        one, two = names if charged[0] else names[::-1]
        text = f"DRAM of {one} is charged by command, with standby and refresh, that of {two} by the byte"
        yield Caveat(frozenset({"idle", "memory"}), text)


def _tables(one: str, two: str, names: tuple[str, str]) -> str:
    if one == two:
        return f"{names[1]} has other energies per action than {names[0]}, both of {one}"
    return f"the energy table of {names[0]} is of {one}, that of {names[1]} of {two}"


def _idle(name: str, basis: Mapping[str, Any]) -> str:
    if basis["idle_power"] == ABSENT:
        return f"no idle power of the chip is stated for {name}, so none is counted"
    what = " (an estimate)" if basis["idle_power"] == ESTIMATED else ""
    return f"{name} is charged {show(basis['idle_power_W'], 'W', 3)} of idle power{what}"
