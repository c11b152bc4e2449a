"""Numbers of a DRAM file that must agree, and those of a memory with the DRAM that it names.

Like ``laws``: a table of functions, each from a spec to what breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from accelsim.dram.device import Geometry
from accelsim.dram.mapping import problems
from accelsim.dram.standards import STANDARDS, Standard
from accelsim.errors import nearest
from accelsim.spec.base import Model
from accelsim.spec.dram import Dram
from accelsim.spec.dram_quantity import Span, spell_bits
from accelsim.spec.laws.finding import Finding
from accelsim.time import FS_PER_S
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.memory import Memory

RATE_TOLERANCE = 0.01
"""A rate may differ this much from transfers per clock / tCK (files round tCK: 0.63 ns for DDR4-3200)."""
BANDWIDTH_TOLERANCE = 0.02
"""A memory's bandwidth may differ this much from its DRAM's (vendors round)."""

DramLaw = Callable[[Dram], Iterator[Finding]]


def _standard(dram: Dram) -> Standard:
    return STANDARDS[dram.standard]


def _clocks(dram: Dram) -> dict[str, int]:
    """The stated parameters in clocks."""
    period = round(dram.timing.tCK * FS_PER_S)
    stated = ((name, getattr(dram.timing, name, None)) for name in type(dram.timing).model_fields)
    return {name: span.clocks(period) for name, span in stated if isinstance(span, Span)}


def parameters_are_those_of_the_standard(dram: Dram) -> Iterator[Finding]:
    """A spec states all parameters that its standard requires, and no unknown ones."""
    standard, stated = _standard(dram), _stated(dram)
    for name in standard.required:
        if name not in stated:
            meaning = type(dram.timing).model_fields[name].description or ""
            yield Finding(("timing", name), f"missing, {standard.name} requires it", meaning)
    for name in stated:
        if name not in standard.known:
            what = f"{standard.name} has no such parameter"
            yield Finding(("timing", name), what, "", nearest(name, standard.known))


def _stated(dram: Dram) -> list[str]:
    """Names of parameters that are given; of an incomplete spec also those whose value is wrong."""
    spans = set(type(dram.timing).model_fields) - {"tCK", *Model.model_fields}
    return [
        name
        for name in type(dram.timing).model_fields
        if name in spans and getattr(dram.timing, name, "wrong") is not None
    ]


def groups_are_those_of_the_standard(dram: Dram) -> Iterator[Finding]:
    """A standard without bank groups has one group."""
    if not _standard(dram).groups and dram.organisation.bank_groups != 1:
        yield Finding(("organisation", "bank_groups"), f"{dram.standard} has no bank groups", "1")


def burst_is_that_of_the_standard(dram: Dram) -> Iterator[Finding]:
    """Burst length, bytes of a burst and whole clocks of a burst fit together, and rows hold whole bursts."""
    org, standard = dram.organisation, _standard(dram)
    if org.burst_length not in standard.bursts:
        choices = " or ".join(str(each) for each in standard.bursts)
        what = f"{standard.name} has no bursts of {org.burst_length}"
        yield Finding(("organisation", "burst_length"), what, choices)
    made = org.bus_width * org.burst_length // 8
    if org.access is not None and org.access != made:
        what = f"a burst of {org.burst_length} on {org.bus_width} bit is not {org.access} B"
        yield Finding(("organisation", "access"), what, f"{made} B")
    per_clock = org.transfers_per_clock or standard.transfers_per_clock
    if org.burst_length % per_clock:
        what = f"{org.burst_length} transfers are no whole clocks of {per_clock}"
        yield Finding(("organisation", "burst_length"), what)
    if org.columns % org.burst_length:
        what = f"{org.columns} columns are no whole bursts of {org.burst_length}"
        yield Finding(("organisation", "columns"), what)


def rate_is_that_of_the_clock(dram: Dram) -> Iterator[Finding]:
    """rate x tCK is the transfers per clock."""
    per_clock = dram.organisation.transfers_per_clock or _standard(dram).transfers_per_clock
    derived = per_clock / dram.timing.tCK
    if abs(dram.rate - derived) > RATE_TOLERANCE * derived:
        expected = f"{show(derived, 'T/s')} ({per_clock} transfers per clock)"
        yield Finding(("rate",), f"{show(dram.rate, 'T/s')} contradicts tCK", expected)


def devices_fill_the_bus(dram: Dram) -> Iterator[Finding]:
    """The bus is a whole number of devices wide."""
    org = dram.organisation
    if org.bus_width % org.device_width:
        what = f"devices of {org.device_width} bit do not fill {org.bus_width} bit"
        yield Finding(("organisation", "device_width"), what)


def density_is_that_of_the_banks(dram: Dram) -> Iterator[Finding]:
    """density = rows x columns x banks x device width."""
    org = dram.organisation
    made = org.rows * org.columns * org.bank_groups * org.banks_per_group * org.device_width
    if org.density != made:
        what = f"{spell_bits(org.density)} contradicts rows x columns x banks x device width"
        yield Finding(("organisation", "density"), what, spell_bits(made))


def capacity_B(dram: Dram) -> int:
    """Bytes of all channels together, from the geometry."""
    org = dram.organisation
    rank_bits = org.rows * org.columns * org.bank_groups * org.banks_per_group * org.bus_width
    return rank_bits // 8 * org.ranks * org.channels * org.pseudo_channels


GEOMETRY = ("rows", "columns", "bank_groups", "banks_per_group", "bus_width", "ranks", "channels", "pseudo_channels")
"""Fields that determine the capacity."""


def capacity_is_that_of_the_geometry(dram: Dram) -> Iterator[Finding]:
    """capacity = rows x columns x banks x bus width x ranks x channels."""
    stated, made = dram.organisation.capacity, capacity_B(dram)
    if stated is not None and stated != made:
        what = f"{show(stated, 'B', binary=True)} contradicts rows x columns x banks x bus x ranks x channels"
        expected = show(made, "B", binary=True)
        yield Finding(("organisation", "capacity"), what, expected, claim=True, beside=GEOMETRY)


def row_cycle_is_long_enough(dram: Dram) -> Iterator[Finding]:
    """tRC >= tRAS + tRP - 1: each is rounded to clocks by itself, so that the sum may be one too long."""
    t = _clocks(dram)
    if {"tRC", "tRAS", "tRP"} <= set(t) and t["tRC"] < t["tRAS"] + t["tRP"] - 1:
        what = f"{t['tRC']} clocks are less than tRAS + tRP, {t['tRAS']} + {t['tRP']}"
        yield Finding(("timing", "tRC"), what, f"{t['tRAS'] + t['tRP'] - 1} or more (1 of rounding)")


def windows_are_long_enough(dram: Dram) -> Iterator[Finding]:
    """A window of n activations is at least as long as an activation to the next, and t32AW as tFAW."""
    t = _clocks(dram)
    for name, shorter in (("tFAW", "tRRD_S"), ("t32AW", "tFAW"), ("tRFC", "tRC"), ("tREFI", "tRFC")):
        if name in t and shorter in t and t[name] < t[shorter]:
            yield Finding(("timing", name), f"{t[name]} clocks are less than {shorter}, {t[shorter]}")


def a_write_waits_for_the_bus(dram: Dram) -> Iterator[Finding]:
    """After a RD the data of a WR come no earlier than the last data of the read: tRTW >= CL + burst - CWL."""
    t, org = _clocks(dram), dram.organisation
    if not {"tRTW", "CL", "CWL"} <= set(t):
        return
    burst = org.burst_length // (org.transfers_per_clock or _standard(dram).transfers_per_clock)
    least = t["CL"] + burst - t["CWL"]
    if t["tRTW"] < least:
        what = f"{t['tRTW']} clocks: the data of a write would come before those of the read have left"
        yield Finding(("timing", "tRTW"), what, f"CL + burst - CWL, {least}, or more")


def same_group_is_no_faster(dram: Dram) -> Iterator[Finding]:
    """Commands to one bank group are at least as far apart as those to different ones."""
    t = _clocks(dram)
    for name in ("tRRD", "tCCD", "tWTR"):
        short, long = t.get(f"{name}_S"), t.get(f"{name}_L")
        if short is not None and long is not None and long < short:
            yield Finding(("timing", f"{name}_L"), f"{long} clocks are less than {name}_S, {short}")


def currents_are_ordered(dram: Dram) -> Iterator[Finding]:
    """Standby draws less with banks closed than open, and every command more than standby."""
    currents = dram.currents
    if currents is None:
        return
    for high, low in (
        ("IDD3N", "IDD2N"),
        ("IDD4R", "IDD3N"),
        ("IDD4W", "IDD3N"),
        ("IDD5B", "IDD3N"),
        ("IDD0", "IDD2N"),
    ):
        if getattr(currents, high) < getattr(currents, low):
            more, less = show(getattr(currents, low), "A"), show(getattr(currents, high), "A")
            yield Finding(("currents", high), f"{less} is less than {low}, {more}")
    t = _clocks(dram)
    if {"tRAS", "tRP"} <= set(t) and currents.IDD0 * (t["tRAS"] + t["tRP"]) < (
        currents.IDD3N * t["tRAS"] + currents.IDD2N * t["tRP"]
    ):
        least = (currents.IDD3N * t["tRAS"] + currents.IDD2N * t["tRP"]) / (t["tRAS"] + t["tRP"])
        what = f"{show(currents.IDD0, 'A')} is less than standby over tRAS and tRP, an activation would cost nothing"
        yield Finding(("currents", "IDD0"), what, f"at least {show(least, 'A')}")


def energy_is_stated_once(dram: Dram) -> Iterator[Finding]:
    """Currents, or energies, not both."""
    if dram.currents is not None and dram.energy is not None:
        yield Finding(("energy",), "energies follow from the currents", "currents: or energy:")


def watermarks_are_ordered(dram: Dram) -> Iterator[Finding]:
    """Writes are drained from the high watermark down to the low one."""
    controller = dram.controller
    if controller.low >= controller.high:
        what = f"{controller.low:g} is not below the high watermark, {controller.high:g}"
        yield Finding(("controller", "low"), what)


def refresh_is_possible(dram: Dram) -> Iterator[Finding]:
    """Refresh of single banks needs a standard that has it, and its interval and duration."""
    if dram.controller.refresh != "per_bank":
        return
    missing = [name for name in ("tREFIpb", "tRFCpb") if getattr(dram.timing, name, None) is None]
    if not _standard(dram).bank_refresh:
        yield Finding(("controller", "refresh"), f"{dram.standard} does not refresh single banks", "all_bank")
    elif missing:
        yield Finding(("controller", "refresh"), f"{' and '.join(missing)} not stated", "in timing:")


REFRESHED = {"all_bank": ("tREFI", "tRFC"), "staggered": ("tREFI", "tRFC"), "per_bank": ("tREFIpb", "tRFCpb")}
"""Kind of refresh -> its interval and how long it takes."""


def refresh_leaves_time(dram: Dram) -> Iterator[Finding]:
    """Between two refreshes of a bank a row opens, is used and closes: else nothing is ever served.

    What a command waits for is no longer than the longest parameter; single banks take turns.
    """
    t, org = _clocks(dram), dram.organisation
    interval, duration = REFRESHED.get(dram.controller.refresh, ("", ""))
    others = {name: clocks for name, clocks in t.items() if not name.startswith(("tREF", "tRFC"))}
    if not {interval, duration, "tRP"} <= set(t):
        return
    turns = org.bank_groups * org.banks_per_group if dram.controller.refresh == "per_bank" else 1
    longest = max(others, key=lambda name: (others[name], name))
    needed = t[duration] + t["tRP"] + others[longest]
    if t[interval] * turns <= needed:
        what = f"{t[interval]} clocks leave no time between refreshes: {duration}, tRP and {longest} take {needed}"
        yield Finding(("timing", interval), what, f"more than {needed // turns} clocks")


def queues_are_whole(dram: Dram) -> Iterator[Finding]:
    """Channels that share a window are so many of all channels in each group."""
    channels, shared = dram.organisation.channels * dram.organisation.pseudo_channels, dram.controller.shared
    if channels % shared:
        yield Finding(
            ("controller", "shared"), f"{channels} channels are no groups of {shared}", f"a divisor of {channels}"
        )


def mapping_is_understood(dram: Dram) -> Iterator[Finding]:
    """The address mapping has every field that the memory has several of."""
    org = dram.organisation
    if org.columns % org.burst_length:
        return
    geometry = Geometry(
        org.channels * org.pseudo_channels,
        org.ranks,
        org.bank_groups,
        org.banks_per_group,
        org.rows,
        org.columns // org.burst_length,
        org.bus_width * org.burst_length // 8,
    )
    for problem in problems(dram.controller.mapping, geometry):
        yield Finding(("controller", "mapping"), problem.what, problem.expected, problem.nearest)


DRAM_LAWS: tuple[DramLaw, ...] = (
    parameters_are_those_of_the_standard,
    groups_are_those_of_the_standard,
    burst_is_that_of_the_standard,
    rate_is_that_of_the_clock,
    devices_fill_the_bus,
    density_is_that_of_the_banks,
    capacity_is_that_of_the_geometry,
    row_cycle_is_long_enough,
    windows_are_long_enough,
    a_write_waits_for_the_bus,
    same_group_is_no_faster,
    currents_are_ordered,
    energy_is_stated_once,
    watermarks_are_ordered,
    refresh_is_possible,
    refresh_leaves_time,
    queues_are_whole,
    mapping_is_understood,
)
"""Every law of a DRAM file; a new one is a function and a line here."""


def broken(dram: Dram, complete: bool = True) -> list[Finding]:
    """Return what breaks the laws. Of an incomplete spec (fields with errors) only those that can be judged."""
    found: list[Finding] = []
    for law in DRAM_LAWS:
        try:
            found += law(dram)
        except (AttributeError, KeyError, TypeError, ZeroDivisionError):
            if complete:
                raise
    return found


LEAST_USED = 0.97
"""Share of a DRAM that a memory has at the least: the rest is spare, or a part of its stacks that is off."""


def memory_findings(memory: Memory) -> Iterator[Finding]:
    """The DRAM that a memory names is right by itself, and as wide and as large as the memory says."""
    dram = memory.dram
    if dram is None:
        return
    inner = broken(dram)
    yield from (each._replace(path=("dram", *each.path)) for each in inner)
    if inner:
        return
    org = dram.organisation
    made = org.channels * org.pseudo_channels * org.bus_width / 8 * dram.rate
    stated = memory.peak_Bps
    if abs(stated - made) > BANDWIDTH_TOLERANCE * made:
        what = f"its {show(made, 'B/s')} contradict the memory's {show(stated, 'B/s')}"
        yield _claim(what, "all channels together, within 2 %")
    if memory.channels not in (1, org.channels):
        what = f"its channels, {org.channels}, contradict the memory's {memory.channels}"
        yield _claim(what, "as many, or 1 for all of them together")
    capacity = capacity_B(dram)
    if not LEAST_USED * capacity <= memory.capacity <= capacity:
        sizes = show(capacity, "B", binary=True), show(memory.capacity, "B", binary=True)
        yield _claim(f"its {sizes[0]} contradict the memory's {sizes[1]}")


def _claim(what: str, expected: str = "") -> Finding:
    """A DRAM that does not fit its memory; it goes when only the memory's figures were changed."""
    return Finding(("dram",), what, expected, claim=True, beside=("bandwidth", "channels", "capacity"))


def drams_agree(chip: Chip) -> Iterator[Finding]:
    """The DRAM that a memory names is right, and has its bandwidth, channels and capacity."""
    for name, attached in chip.memories.items():
        for finding in memory_findings(attached.memory):
            yield finding._replace(path=("memories", name, "memory", *finding.path))
    for finding in memory_findings(chip.host.memory) if chip.host else ():
        yield finding._replace(path=("host", "memory", *finding.path))
