"""Trust in a run: the status of every price, what share of the energy hangs on it, and which constants
nobody has fitted.

Static power is left out: it is a measured or a missing figure of the whole chip, not the energy of an action.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import NamedTuple

from accelsim.account.energy import STATIC, EnergyRow, energy_table, engine_prices
from accelsim.account.spans import is_level, macs_by_format, unit_of
from accelsim.machine.run import Run
from accelsim.program.actions import WAYS
from accelsim.program.roles import HOST_OWN_MEMORY, bare, part_of, units
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, is_calibrated
from accelsim.spec.memory import Memory
from accelsim.spec.status import DOUBTFUL, STATUSES, UNSTATED, Status
from accelsim.workload.nodes import is_attention

WARN_ABOVE = 0.1
"""Share of the dynamic energy on doubtful figures from which a report says so."""


class FigureEnergy(NamedTuple):
    """Part of the dynamic energy that rests on one figure: ``what`` in words, its status, joules."""

    what: str
    status: Status
    energy_J: float


def status_of(chip: Chip, component: str, action: str) -> Status:
    """Status of the energy of one (component, action) of ``account.energy.price_list``.

    What belongs to no part of the spec that states one counts as a guess.
    """
    part = part_of(chip, component)
    unit = bare(chip, part)
    if unit in units(chip):
        priced = engine_prices(chip).get((part, action))
        return priced.status if priced else UNSTATED
    if unit in chip.buffers or _from_table(chip, unit, action):
        return chip.energy.status_of("sram")
    if unit in chip.memories and action not in WAYS:
        return _command_status(chip.memories[unit].memory)
    return _outside(chip).get(unit) or UNSTATED


def _from_table(chip: Chip, unit: str, action: str) -> bool:
    """Return whether a level leaves the energy of an action to the table of SRAMs."""
    return is_level(chip, unit) and getattr(chip.memories[unit].memory, f"{action}_energy") is None


def _command_status(memory: Memory) -> Status:
    """Status of the energies of a DRAM's commands: its own, else that of the memory that it is."""
    own = memory.dram.energy_status if memory.dram is not None else None
    return own or memory.energy_status or UNSTATED


def _outside(chip: Chip) -> dict[str, Status | None]:
    """Memories, links and the host, by their name in the ledger."""
    stated: dict[str, Status | None] = {}
    for name, attached in chip.memories.items():
        stated[name] = attached.memory.energy_status
        if attached.link is not None:
            stated[f"{name}.link"] = attached.link.energy_status
    if chip.host is not None:
        stated["host"] = chip.host.energy_status
        stated[HOST_OWN_MEMORY] = chip.host.memory.energy_status
    return stated


def parts(run: Run, rows: Iterable[EnergyRow] | None = None) -> list[FigureEnergy]:
    """The dynamic energy of the run by figure, largest first; they add up to it.

    ``rows``: the energy table of the run, where it is at hand already. Raises UnpricedAction.
    """
    grouped: dict[tuple[str, Status], list[float]] = {}
    looked_up: dict[tuple[str, str], tuple[str, Status]] = {}
    for row in energy_table(run) if rows is None else rows:
        if row.component == STATIC or not row.energy_J:
            continue
        key = (row.component, row.action)
        if key not in looked_up:
            looked_up[key] = in_words(run.chip, *key), status_of(run.chip, *key)
        grouped.setdefault(looked_up[key], []).append(row.energy_J)
    found = [FigureEnergy(what, status, fsum(joules)) for (what, status), joules in grouped.items()]
    return sorted(found, key=lambda part: -part.energy_J)


def in_words(chip: Chip, component: str, action: str) -> str:
    """Return what an action of a component costs energy for: 'int8 multiply-accumulates', 'on-chip SRAM', 'ddr3'."""
    unit = unit_of(component)
    if unit in units(chip):
        return engine_prices(chip)[part_of(chip, component), action].what
    if unit in chip.buffers or is_level(chip, unit):
        return "on-chip SRAM"
    if unit in chip.memories:
        return unit
    return {"host": "the host", HOST_OWN_MEMORY: "memory of the host"}.get(
        unit, f"the link to {unit.removesuffix('.link')}"
    )


def by_status(run: Run, rows: Iterable[EnergyRow] | None = None) -> dict[Status, float]:
    """Status -> share of the dynamic energy, those that occur, the best status first; they add up to 1."""
    found = parts(run, rows)
    total = fsum(part.energy_J for part in found)
    shares = {status: [part.energy_J for part in found if part.status == status] for status in STATUSES}
    return {status: fsum(joules) / total for status, joules in shares.items() if joules}


def doubtful(run: Run, rows: Iterable[EnergyRow] | None = None) -> tuple[float, list[FigureEnergy]]:
    """Share of the dynamic energy that rests on figures that nobody verified, and those figures, largest first."""
    found = parts(run, rows)
    total = fsum(part.energy_J for part in found)
    weak = [part for part in found if part.status in DOUBTFUL]
    return (fsum(part.energy_J for part in weak) / total if total else 0.0), weak


def uncalibrated(run: Run) -> list[str]:
    """Names of the constants that the run rests on and that the calibration of its chip does not give.

    Those that simulations read, of an engine that had work, of the formats that it multiplied in and the kernels that
    it ran.
    """
    chip, formats = run.chip, set().union(*macs_by_format(run).values())
    kernels = {"attention"} if any(is_attention(step.node) for step in run.program.steps) else set()
    worked = {unit_of(step.engine) for step in run.program.steps}
    return [
        name
        for name, constant in constants(chip).items()
        if constant.engine in worked
        and constant.mark.simulated
        and constant.number_format in ("", *formats)
        and constant.mark.kernels in ("", *kernels)
        and not is_calibrated(chip, constant)
    ]
