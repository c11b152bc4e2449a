"""Checks ``dram-ramulator2``, ``dram-dramsim3`` and ``dram-energy``: our DRAM models against two simulators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.dram.bank import engine
from accelsim.dram.energy import energy
from accelsim.dram.served import COUNTS, Served
from tests.validation.base import Check, check, within
from tests.validation.dram_replay import (
    DRAMSIM3,
    RAMULATOR2,
    TITLES,
    Golden,
    Replay,
    device_of,
    golden_rows,
    of_traces,
    replays,
)

SEQUENTIAL, CONFLICT, CHASE = ("seq_read", "seq_write"), "conflict", "chase"
PATTERN_TRACES = (*SEQUENTIAL, "tile3", "stream3", "rand_read", "rand_mix", CONFLICT)
"""Traces for which the pattern model claims its bound, in each run: all but ``chase``, whose requests wait for each other."""

LATENCY_CLOCKS, CONFLICT_BOUND, ACTIVATION_BOUND = 1.5, 0.003, 0.03
PATTERN_BOUND = 0.05

ENERGY_BOUND = 1e-6

WITHOUT_NUMBA = "numba (extra 'fast') is not installed: only the short traces, chase and conflict, were replayed"

ENERGY_COLUMNS = {
    "activate": "act_energy_pJ",
    "read": "read_energy_pJ",
    "write": "write_energy_pJ",
    "refresh": "refresh_energy_pJ",
    "open_standby": "active_standby_energy_pJ",
    "closed_standby": "precharge_standby_energy_pJ",
}
"""Part of the energy -> column of the golden file."""


class Bars(NamedTuple):
    """Bounds of the median and the mean error of the clocks over all compared runs."""

    median: float
    mean: float


BARS = {RAMULATOR2: Bars(0.002, 0.01), DRAMSIM3: Bars(0.001, 0.01)}
"""Simulator -> bounds."""


class Statement(NamedTuple):
    """One thing that must hold: an error (relative, or in ``unit``) is at most its bound."""

    what: str
    error: float
    bound: float
    unit: str = "%"

    @property
    def holds(self) -> bool:
        """Return whether it does."""
        return abs(self.error) <= self.bound

    def __str__(self) -> str:
        factor = 100.0 if self.unit == "%" else 1.0
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        bound = f"{factor * self.bound:.3g} {self.unit}"
        return f"{self.what}: {factor * self.error:.3g} {self.unit} ({verdict} within {bound})"


def summary(found: Sequence[Replay], bars: Bars) -> Iterator[Statement]:
    """Median and mean of the errors of the clocks; of the pattern model the largest of each of its traces."""
    errors = np.abs([each.error for each in found])
    yield Statement(f"clocks of the bank model, median of {len(errors)} runs", float(np.median(errors)), bars.median)
    yield Statement(f"clocks of the bank model, mean of {len(errors)} runs", float(np.mean(errors)), bars.mean)
    for trace in PATTERN_TRACES:
        errors = np.abs([each.pattern_error or 0.0 for each in of_traces(found, trace)])
        if errors.size:
            what = f"clocks of the pattern model, {trace}, largest of {len(errors)} runs"
            yield Statement(what, float(np.max(errors)), PATTERN_BOUND)


def single(each: Replay) -> Iterator[Statement]:
    """Return what must hold of one run."""
    name, row = f"{each.golden.config}, {each.golden.trace}", each.golden
    if row.trace == CHASE:
        yield Statement(f"{name}: mean latency", each.latency - row.latency, LATENCY_CLOCKS, "clocks")
    if row.trace == CONFLICT:
        yield Statement(f"{name}: clocks", each.error, CONFLICT_BOUND)
    if row.trace in (*SEQUENTIAL, CONFLICT):
        yield Statement(f"{name}: activations", each.act_error, ACTIVATION_BOUND)


def statements(simulator: str) -> list[Statement]:
    """Everything that is claimed about the runs of a simulator."""
    return [*_summary(simulator), *_singles(simulator)]


def _summary(simulator: str) -> list[Statement]:
    return list(summary(of_traces(replays(simulator)), BARS[simulator]))


def _singles(simulator: str) -> list[Statement]:
    return [claim for each in of_traces(replays(simulator)) for claim in single(each)]


def _against(name: str, simulator: str) -> Check:
    """The details are all sums, and what does not hold of single runs."""
    sums, singles = _summary(simulator), _singles(simulator)
    held = sum(claim.holds for claim in (*sums, *singles))
    errors = np.array([each.error for each in of_traces(replays(simulator))])
    what = f"runs of {TITLES[simulator]}, replayed on the bank and the pattern model"
    few = "" if engine() == "numba" else WITHOUT_NUMBA
    details = [*filter(None, [few]), *map(str, sums), *(str(claim) for claim in singles if not claim.holds)]
    bound = within([claim.bound for claim in (*sums, *singles) if claim.unit != "clocks"])
    return Check(name, what, len(sums) + len(singles), held, errors, details, bound, other_rows=few)


@check("dram-ramulator2")
def against_ramulator2() -> Check:
    """Clocks, activations and latencies of Ramulator 2.1's runs."""
    return _against("dram-ramulator2", RAMULATOR2)


@check("dram-dramsim3")
def against_dramsim3() -> Check:
    """Clocks, activations and latencies of DRAMsim3's runs."""
    return _against("dram-dramsim3", DRAMSIM3)


@check("dram-energy")
def energies() -> Check:
    """Energies of DRAMsim3 from its own command counts, part by part."""
    claims = [claim for row in golden_rows() if row.simulator == DRAMSIM3 for claim in energy_statements(row)]
    errors = np.array([claim.error for claim in claims])
    what = "energy of commands and standby that DRAMsim3 charges for its own counts"
    broken = [str(claim) for claim in claims if not claim.holds]
    return Check("dram-energy", what, len(claims), len(claims) - len(broken), errors, broken, within([ENERGY_BOUND]))


def energy_statements(row: Golden) -> Iterator[Statement]:
    """One per part of the energy.

    The clocks with an open bank are not in the golden file: they are taken from its open standby, so that part only
    shows that they are a whole number, and the closed standby is what is compared.
    """
    one = device_of(row.simulator, row.config)
    assert one.energy is not None
    clock_pJ = one.energy.open_W * one.clock_fs * 1e-3
    open_clocks = round(float(row.cells[ENERGY_COLUMNS["open_standby"]]) / clock_pJ)
    found = energy(Served(0, round(row.clocks), dict.fromkeys(COUNTS, 0) | row.counts, open_clocks, 0), one)
    for part, column in ENERGY_COLUMNS.items():
        stated, ours = float(row.cells[column]), found.parts_J[part] * 1e12
        error = ours / stated - 1 if stated else ours
        yield Statement(f"{row.config}, {row.trace}: {part}", error, ENERGY_BOUND)
