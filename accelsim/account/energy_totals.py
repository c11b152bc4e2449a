"""Totals of a run by component and action, from which its energy follows under any energy figures: nothing of a run's
time, traffic or mapping depends on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accelsim.account.active import active
from accelsim.account.energy import (
    HOST_IDLE,
    STATIC,
    EnergyRow,
    done_share,
    host_W,
    price_list,
    static_power_W,
    total_J,
    within_design_power,
)
from accelsim.account.spans import OUTSIDE, host_busy_fs
from accelsim.machine.run import Run
from accelsim.program.actions import ACTIVE, ActionName
from accelsim.program.roles import part_of
from accelsim.spec.chip import Chip
from accelsim.time import FS


@dataclass(frozen=True)
class Totals:
    """Times of a run, fs, and (component, action, count) of all that costs energy."""

    time_fs: int
    host_fs: int
    counts: Sequence[tuple[str, str, float]]

    def as_facts(self) -> Mapping[str, object]:
        """Return the fields, as JSON can hold them."""
        return asdict(self)


def read_totals(content: Mapping[str, Any]) -> Totals:
    """Return the totals that ``as_facts`` gave."""
    return Totals(content["time_fs"], content["host_fs"], [tuple(each) for each in content["counts"]])


def totals(run: Run) -> Totals | None:
    """Return the totals of a run; None of one whose energy needs more: memories that were followed by command, and
    links to other devices."""
    if run.dram or run.program.peers:
        return None
    counts: defaultdict[tuple[str, str], float] = defaultdict(int)
    for row in run.ledger:
        share = done_share(run, row)
        counts[part_of(run.chip, row.component), row.action] += row.count if share == 1 else row.count * share
    draws = [part for part, action in price_list(run.chip) if action == ACTIVE]
    for number, fs in active(run, draws) if draws else ():
        counts[part_of(run.chip, run.program.steps[number].engine), ACTIVE] += fs
    found = [(part, str(action), count) for (part, action), count in counts.items() if count]
    return Totals(run.time_fs, sum(host_busy_fs(run).values()), found)


def joules_of(found: Totals, chip: Chip) -> float:
    """Return the energy of a run with these totals on ``chip``, J: that of ``energy.energy_table``, up to rounding."""
    prices = price_list(chip)
    rows = [
        EnergyRow(part, ActionName(action), OUTSIDE, "", count, count * prices[part, action])  # type: ignore[arg-type]
        for part, action, count in found.counts
    ]
    if any(row.action == ACTIVE and row.energy_J for row in rows):
        rows = within_design_power(chip, found.time_fs * FS, rows)
    idle = [(name, power, found.time_fs) for name, power in static_power_W(chip).items()]
    idle.append((HOST_IDLE, host_W(chip), found.host_fs))
    return total_J([*rows, *(EnergyRow(STATIC, name, OUTSIDE, "", fs, power * fs * FS) for name, power, fs in idle)])


def without_energies(chip: Chip) -> Chip:
    """Return a chip whose energy figures are left out: those of its energy table (but for its formats and its node),
    memories, links, host, and its idle power. Chips that differ in these alone are then equal."""
    table = chip.energy.model_copy(
        update={
            "mac": dict.fromkeys(chip.energy.mac, 0.0), "vector": dict.fromkeys(chip.energy.vector, 0.0),
            "register": 0.0, "network": None, "sram": [], "status": None,
            "source": None, "as_of": None, "note": None,
        }
    )  # fmt: skip
    no_energy = {"read_energy": None, "write_energy": None, "energy_status": None, "static_power": 0.0}
    memories = {
        name: each.model_copy(
            update={
                "memory": each.memory.model_copy(update=no_energy),
                "link": each.link and each.link.model_copy(update={"energy": 0.0, "energy_status": None}),
            }
        )
        for name, each in chip.memories.items()
    }
    host = chip.host and chip.host.model_copy(
        update={
            "energy_per_op": 0.0, "idle_power": 0.0, "energy_status": None,
            "memory": chip.host.memory.model_copy(update=no_energy),
        }
    )  # fmt: skip
    power = chip.power and chip.power.model_copy(update={"idle": None})
    return chip.model_copy(update={"energy": table, "memories": memories, "host": host, "power": power})
