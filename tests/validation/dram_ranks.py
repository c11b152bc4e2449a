"""Check ``dram-ranks``: random mixes of reads and writes on one and on two ranks, by the rules of DRAMsim3.

Two ranks keep the data bus busy, so it decides what each change of direction and of rank costs, and with it which
command a controller sends next. A row of ``tests/validation/data/dram/dram_ranks.csv`` is a mix on a configuration of
``dram_golden.csv``; its README says where the figures are from.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from accelsim.dram import bank
from accelsim.dram.device import SCHEDULERS, Device
from accelsim.dram.traces import RANDOM_ACCESSES, RANDOM_B, Trace, lcg
from tests.validation.base import Check, check, within
from tests.validation.dram import Statement
from tests.validation.dram_replay import DRAMSIM3, device_of
from tests.validation.golden import golden

MEDIAN, LARGEST, ACTIVATIONS = 0.001, 0.002, 0.002
"""Bounds of the errors: of the clocks over all mixes, of those of each, and of the activations of each."""

WITHOUT_NUMBA = "numba (extra 'fast') is not installed: nothing was replayed, which would take minutes"

SPARE = 16
"""For so many accesses of a mix one more is drawn, as some places are drawn twice."""


@dataclass(frozen=True)
class Mixed:
    """A row: ``share`` of the accesses are writes; ``clocks`` in all, ``acts`` activations."""

    config: str
    ranks: int
    share: int
    clocks: int
    acts: int

    @property
    def name(self) -> str:
        """For texts."""
        return f"{self.config}, {self.share} % writes"


@cache
def rows() -> tuple[Mixed, ...]:
    """Every row of the golden file."""
    with golden("dram/dram_ranks.csv").open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    names = ("ranks", "write_percent", "cycles", "num_act")
    return tuple(Mixed(each["config"], *(int(each[name]) for name in names)) for each in cells)


def mix(share: int, access_B: int, count: int = RANDOM_ACCESSES) -> Trace:
    """The accesses of a row: the places of ``rand_read``, each once, and a second draw of which are writes, in percent.

    DRAMsim3 serves reads of one place together, and can wait for ever with a read and a write of one place.
    """
    draws = lcg(count + count // SPARE) % np.uint64(RANDOM_B // access_B)
    firsts = np.sort(np.unique(draws, return_index=True)[1])[:count]
    return Trace(draws[firsts].astype(np.int64) * access_B, lcg(count, seed=2) % np.uint64(100) < share)


def with_scheduler(device: Device, scheduler: str) -> Device:
    """The device of a configuration, whose scheduler is 'queues', with another one on as large a window."""
    if scheduler == "queues":
        return device
    c = device.controller
    whole = c.window + c.depth  # a row that others wait for gives way when its requests in its queue are served
    share = c.window / whole
    one = replace(c, scheduler=scheduler, window=whole, cap=c.depth, high=c.high * share, low=c.low * share)
    return replace(device, controller=one)


@dataclass(frozen=True)
class Found:
    """What a scheduler makes of a row; errors are relative, ours / golden - 1."""

    row: Mixed
    error: float
    act_error: float


@cache
def replays(scheduler: str = "queues") -> tuple[Found, ...]:
    """Every row through the bank model; with numba only, the plain loop would take minutes."""
    return tuple(replay(row, scheduler) for row in rows()) if bank.engine() == "numba" else ()


def replay(row: Mixed, scheduler: str = "queues") -> Found:
    """One row through the bank model."""
    device = with_scheduler(device_of(DRAMSIM3, row.config), scheduler)
    trace = mix(row.share, device.geometry.access_B)
    found = bank.serve(device, trace.addresses, trace.writes)
    return Found(row, found.elapsed / row.clocks - 1, found.counts["act"] / row.acts - 1)


def statements(found: tuple[Found, ...]) -> Iterator[Statement]:
    """Return what is claimed."""
    if found:
        median = float(np.median([abs(each.error) for each in found]))
        yield Statement(f"clocks of the bank model, median of {len(found)} mixes", median, MEDIAN)
    for each in found:
        yield Statement(f"{each.row.name}: clocks", each.error, LARGEST)
        yield Statement(f"{each.row.name}: activations", each.act_error, ACTIVATIONS)


@check("dram-ranks")
def mixes() -> Check:
    """Random mixes of reads and writes on one and on two ranks."""
    found = replays()
    claims = list(statements(found))
    held = sum(claim.holds for claim in claims)
    few = [] if found else [WITHOUT_NUMBA]
    others = [spread(name) for name in SCHEDULERS if name != "queues" and found]
    details = [*few, *map(str, claims[:1]), *(str(each) for each in claims[1:] if not each.holds), *others]
    what = "random mixes by DRAMsim3's rules, replayed on the bank model with its scheduler 'queues'"
    errors: np.ndarray[Any, Any] = np.array([each.error for each in found])
    return Check("dram-ranks", what, len(claims), held, errors, details, within([MEDIAN, LARGEST, ACTIVATIONS]))


def spread(scheduler: str) -> str:
    """Return how far another scheduler is from the rows of two ranks: the sizes, and both signs."""
    errors = np.array([each.error for each in replays(scheduler) if each.row.ranks > 1])
    size, last = np.abs(errors), np.quantile(np.abs(errors), 0.9)
    return (
        f"not claimed: scheduler '{scheduler}' on two ranks, {len(errors)} mixes: sizes {np.median(size):.1%} in the "
        f"median, {last:.1%} at the 90th percentile; from {errors.min():+.1%} to {errors.max():+.1%}"
    )
