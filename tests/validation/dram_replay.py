"""Golden runs of DRAM simulators, and the same traces through the DRAM models of this package.

Every row of ``dram/dram_golden.csv`` (in ``tests/validation/data``) is one named trace on one configuration of
DRAMsim3 or Ramulator 2.1: requests are offered in order, as many per clock as there are channels, and a refused one is
offered again.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from accelsim.dram import bank
from accelsim.dram.device import Device
from accelsim.dram.energy import energy
from accelsim.dram.pattern import Pattern
from accelsim.dram.served import Served
from accelsim.dram.traces import NAMED, made
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor, golden

RAMULATOR2, DRAMSIM3 = "Ramulator2", "DRAMsim3"
TITLES = {RAMULATOR2: "Ramulator 2.1", DRAMSIM3: "DRAMsim3"}
"""Simulator in the golden file -> its name in texts."""

COMPARED = ("aligned", "shipped")
"""Groups of rows whose errors are summed up; 'variant' rows change the mapping or the page policy of a shipped one."""

INCONSISTENT = ((DRAMSIM3, "GDDR6_8Gb_x16"),)
"""Configurations that no bound holds: bursts of 1 clock beside tCCD_S = 3 in one file."""


SPECS = {
    (DRAMSIM3, "DDR3_8Gb_x8_1600"): "dramsim3-ddr3-1600",
    (DRAMSIM3, "DDR3_aligned"): "dramsim3-ddr3-aligned",
    (DRAMSIM3, "DDR4_8Gb_x8_2400"): "dramsim3-ddr4-2400",
    (DRAMSIM3, "DDR4_8Gb_x8_3200"): "dramsim3-ddr4-3200",
    (DRAMSIM3, "DDR4_8Gb_x8_3200@CLOSE"): "dramsim3-ddr4-3200-closed",
    (DRAMSIM3, "DDR4_8Gb_x8_3200@rorabachcobg"): "dramsim3-ddr4-3200-rorabachcobg",
    (DRAMSIM3, "DDR4_8Gb_x8_3200@rorabacochbg"): "dramsim3-ddr4-3200-rorabacochbg",
    (DRAMSIM3, "DDR4_3200_aligned"): "dramsim3-ddr4-3200-aligned",
    (DRAMSIM3, "GDDR5_8Gb_x32"): "dramsim3-gddr5",
    (DRAMSIM3, "GDDR6_8Gb_x16"): "dramsim3-gddr6",
    (DRAMSIM3, "HBM2_8Gb_x128"): "dramsim3-hbm2",
    (RAMULATOR2, "DDR3_1600K_8Gb_x8"): "ramulator2-ddr3-1600",
    (RAMULATOR2, "DDR3_aligned"): "ramulator2-ddr3-aligned",
    (RAMULATOR2, "DDR4_2400U_8Gb_x8"): "ramulator2-ddr4-2400",
    (RAMULATOR2, "DDR4_3200AA_8Gb_x8"): "ramulator2-ddr4-3200",
    (RAMULATOR2, "DDR4_3200AA_8Gb_x8@MOP4CLXOR"): "ramulator2-ddr4-3200-mop4clxor",
    (RAMULATOR2, "DDR4_3200_aligned"): "ramulator2-ddr4-3200-aligned",
    (RAMULATOR2, "GDDR6_14000_8Gb_x16"): "ramulator2-gddr6-14000",
    (RAMULATOR2, "HBM1_1000_4Gb_8ch"): "ramulator2-hbm1-1000",
    (RAMULATOR2, "HBM2_2000_8Gb_8ch"): "ramulator2-hbm2-2000",
    (RAMULATOR2, "HBM3_8ch"): "ramulator2-hbm3-6400",
}
"""(simulator, configuration) -> our spec of it, an ``anchor``."""


@dataclass(frozen=True)
class Golden:
    """One golden run: ``clocks`` in all, counts of all channels, ``latency`` the mean clocks of a read."""

    simulator: str
    config: str
    group: str
    trace: str
    access_B: int
    row_lsb: int
    clocks: float
    latency: float
    hits: int
    counts: dict[str, int]
    cells: dict[str, str]

    @property
    def compared(self) -> bool:
        """Return whether its errors belong into the sums."""
        return self.group in COMPARED and (self.simulator, self.config) not in INCONSISTENT


@cache
def golden_rows() -> tuple[Golden, ...]:
    """Every row of the golden file."""
    with golden("dram/dram_golden.csv").open(newline="", encoding="utf-8") as file:
        return tuple(_golden(row) for row in csv.DictReader(file))


def _golden(cells: dict[str, str]) -> Golden:
    return Golden(
        simulator=cells["simulator"],
        config=cells["config"],
        group=cells["group"],
        trace=cells["trace"],
        access_B=int(cells["access_bytes"]),
        row_lsb=int(cells["row_field_lsb_bit"] or 0),
        clocks=int(cells["cycles"]),
        latency=float(cells["read_lat_avg_cycles"]),
        hits=int(cells["row_hits"]),
        counts={name: int(cells[f"num_{name}"]) for name in ("act", "pre", "ref", "rd", "wr")},
        cells=cells,
    )


@cache
def device_of(simulator: str, config: str) -> Device:
    """Our device for a configuration."""
    return device(load_dram(anchor(SPECS[simulator, config])))


@dataclass(frozen=True)
class Replay:
    """A golden run and what our models make of its trace; errors are relative, ours / golden - 1.

    ``latency``: mean clocks of a read from acceptance to its last data, 0 without reads. ``joules``: energy of the
    dies that the bank model's counts give, None where the memory states no currents. ``pattern_clocks``: None for a
    trace whose accesses wait for each other, which a model of bandwidth cannot time.
    """

    golden: Golden
    clocks: int
    counts: dict[str, int]
    latency: float
    joules: float | None
    pattern_clocks: int | None

    @property
    def error(self) -> float:
        """Error of the clocks of the bank model."""
        return self.clocks / self.golden.clocks - 1

    @property
    def pattern_error(self) -> float | None:
        """Error of the clocks of the pattern model, None where it has none."""
        return None if self.pattern_clocks is None else self.pattern_clocks / self.golden.clocks - 1

    @property
    def act_error(self) -> float:
        """Error of the activations of the bank model."""
        return self.counts["act"] / self.golden.counts["act"] - 1

    @property
    def energy_error(self) -> float | None:
        """Error of the energy of the dies, None where one side has none."""
        stated = self.golden.cells["total_energy_pJ"]
        return self.joules * 1e12 / float(stated) - 1 if stated and self.joules is not None else None


def replay(row: Golden) -> Replay:
    """One golden run through both models."""
    one = device_of(row.simulator, row.config)
    trace = made(row.trace, row.access_B, row.row_lsb)
    outstanding = NAMED[row.trace].outstanding
    found = bank.serve(
        one, trace.addresses, trace.writes, injection=one.geometry.channels, outstanding=outstanding, record=True
    )
    closed = None if outstanding else Pattern(one).serve(trace.addresses, trace.writes).elapsed
    return Replay(
        golden=row,
        clocks=found.elapsed,
        counts=found.counts,
        latency=_latency(found, trace.writes),
        joules=energy(found, one).die_J if one.energy else None,
        pattern_clocks=closed,
    )


def _latency(served: Served, writes: np.ndarray[Any, Any]) -> float:
    if served.arrived is None or served.done is None or writes.all():
        return 0.0
    return float(np.mean((served.done - served.arrived)[~writes]))


SHORT = 10_000
"""Accesses of a trace that is replayed even without numba, by a loop that is some 20 times slower."""


@cache
def replays(simulator: str) -> tuple[Replay, ...]:
    """Every golden run of a simulator, replayed once; without numba only the short ones."""
    rows = [row for row in golden_rows() if row.simulator == simulator]
    if bank.engine() != "numba":
        rows = [row for row in rows if int(row.cells["n_access"]) <= SHORT]
    return tuple(replay(row) for row in rows)


def of_traces(found: Sequence[Replay], *names: str) -> list[Replay]:
    """Those whose errors belong into the sums, of some traces only."""
    return [each for each in found if each.golden.compared and (not names or each.golden.trace in names)]


def disagreements() -> list[tuple[Replay, Replay]]:
    """(Ramulator 2, DRAMsim3) runs of one trace on one configuration with aligned parameters."""
    other = {(each.golden.config, each.golden.trace): each for each in replays(DRAMSIM3)}
    return [
        (each, other[key])
        for each in replays(RAMULATOR2)
        if each.golden.group == "aligned" and (key := (each.golden.config, each.golden.trace)) in other
    ]
