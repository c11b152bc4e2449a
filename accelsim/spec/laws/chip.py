"""Numbers of a chip that must agree: a table of laws, each a function from a chip to what breaks it.

A finding that is a mere *claim* (a stated peak, a loading scheme that another dataflow has no use for) is
dropped from a chip whose user has overridden what it rests on; the others stay errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import wraps

from accelsim.errors import brief, nearest
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants
from accelsim.spec.energy import EnergyTable
from accelsim.spec.engine import EngineSpec, laws
from accelsim.spec.engine import Law as LawOfType
from accelsim.spec.laws.cores import BUFFER_LAWS, kinds_are_no_numbers, kinds_differ_in_numbers
from accelsim.spec.laws.dram import drams_agree
from accelsim.spec.laws.finding import Finding as Finding
from accelsim.spec.laws.levels import FED_LAWS, LEVEL_LAWS
from accelsim.spec.laws.link import link_rates_agree
from accelsim.spec.laws.resources import RESOURCE_LAWS
from accelsim.spec.names import format_bits, nearest_format, operand_formats
from accelsim.spec.yaml.tree import PathTo
from accelsim.units import show

PEAK_TOLERANCE = 0.01
"""A stated peak may differ this much from what follows from the engines (vendors round)."""


Law = Callable[[Chip], Iterator[Finding]]


def stated_peak(chip: Chip) -> Iterator[Finding]:
    """``peak`` agrees with the engines, or where none multiplies with the host, within ``PEAK_TOLERANCE``."""
    together: dict[tuple[str, str, str], float] = {}
    for core in chip.cores.values():
        for engine, unit in core.engines.items():
            for name, rate in unit.peaks(chip, core.count).items():
                key = (name, engine, unit.rate)
                together[key] = together.get(key, 0.0) + rate
    rates = sorted((rate, name, how) for (name, _, how), rate in together.items())
    derived = {name: (rate, how) for rate, name, how in rates}  # of several engines the fastest
    if not derived and chip.host is not None:
        derived = {name: (float(rate), "the host's peak") for name, rate in chip.host.peak.items()}
    for name, stated in chip.peak.items():
        path = ("peak", name)
        if name not in derived:
            what, near = "the chip does not compute in this format", nearest(name, derived)
            yield Finding(path, what, "", near, claim=True)
            continue
        rate, how = derived[name]
        if abs(stated - rate) > PEAK_TOLERANCE * rate:
            what = f"stated {show(stated, 'op/s')} contradicts the rest"
            yield Finding(path, what, f"{show(rate, 'op/s')} ({how})", claim=True)


def multiplying(chip: Chip) -> list[EngineSpec]:
    """Yield the engines that multiply."""
    return [unit for unit in chip.engines.values() if unit.rates()]


def one_memory_per_role(chip: Chip) -> Iterator[Finding]:
    """Each kind of operand lives in exactly one memory (chips with engines), beside the levels that this one feeds."""
    for role in ("activations", "weights") if chip.engines else ():
        holders = [name for name, each in chip.memories.items() if role in each.holds and not each.fed_by]
        if len(holders) != 1:
            what = f"{role} live in {' and '.join(holders)}" if holders else f"no memory holds {role}"
            path: PathTo = ("memories", holders[1], "holds") if holders else ("memories",)
            yield Finding(path, what, "exactly one memory")


def one_memory_for_the_host(chip: Chip) -> Iterator[Finding]:
    """The host of a chip that multiplies works on exactly one memory; without a host none is for it."""
    holders = [name for name, memory in chip.memories.items() if "host" in memory.holds]
    if chip.host is None and holders:
        yield Finding(("memories", holders[0], "holds"), "the chip has no host", "no 'host' here, or a host:")
    if chip.host is not None and multiplying(chip) and len(holders) != 1:
        path: PathTo = ("memories", holders[1], "holds") if holders else ("memories",)
        what = f"the host works on {' and '.join(holders)}" if holders else "no memory holds the host's operands"
        yield Finding(path, what, "exactly one memory that holds 'host'")


RESERVED = ("matrix", "vector", "host")
"""Names that queues of the units have, whatever these are called on a chip."""


def engines_are_distinct(chip: Chip) -> Iterator[Finding]:
    """A name is that of a load or of a store queue or of an engine, and an engine's not that of anything else."""
    taken = dict.fromkeys(type(chip).model_fields, "a field of the chip")
    taken |= dict.fromkeys(chip.memories, "a memory") | dict.fromkeys(chip.buffers, "a buffer")
    for name in filter(taken.get, chip.engines):
        yield Finding(chip.path_to("engines", name), f"{name!r} is the name of {taken[name]}", "another name")
    loads = {memory.load_engine for memory in chip.memories.values()}
    for name, memory in chip.memories.items():
        for key, engine in ("load_engine", memory.load_engine), ("store_engine", memory.store_engine):
            path = ("memories", name, key)
            if engine in RESERVED or engine in chip.engines:
                yield Finding(path, f"{engine!r} is the name of a unit", "another name")
            elif key == "store_engine" and engine in loads:
                yield Finding(path, f"{engine!r} is a load engine too", "a name of its own")


def energies_are_there(chip: Chip) -> Iterator[Finding]:
    """The energy table has each format that an engine multiplies in, and its operands for the vector unit."""
    formats = list(dict.fromkeys(name for unit in chip.engines.values() for name in unit.rates()))
    operands = [name for name in formats if len(operand_formats(name) or ()) == 1] if chip.vector else []
    for table, needed in ("mac", formats), ("vector", operands):
        for name in needed:
            if name not in getattr(chip.energy, table):
                yield Finding(("energy", table), f"no energy of format {name}")


def energies_are_of_formats(chip: Chip) -> Iterator[Finding]:
    """The energy table's rows are named by number formats."""
    for finding in table_findings(chip.energy):
        yield finding._replace(path=("energy", *finding.path))


def table_findings(table: EnergyTable) -> Iterator[Finding]:
    """Yield rows of an energy table that no number format names."""
    for column in ("mac", "vector"):
        for name in getattr(table, column):
            if format_bits(name) is None:
                what = f"{brief(name)} is no number format"
                yield Finding((column, name), what, "int8, fp16, int4xint8, ...", nearest_format(name))


def statuses_name_rows(chip: Chip) -> Iterator[Finding]:
    """The ``status`` of the energy table speaks of what the table has."""
    for finding in status_findings(chip.energy):
        yield finding._replace(path=("energy", *finding.path))


def status_findings(table: EnergyTable) -> Iterator[Finding]:
    """Yield keys of ``status.mac`` and ``status.vector`` without a row in the table; ``network`` without an energy."""
    status = table.status
    if status is None:
        return
    for column in ("mac", "vector"):
        rows = getattr(table, column)
        for name in getattr(status, column):
            if name not in rows:
                what = f"the table has no {column} row {name!r}"
                yield Finding(("status", column, name), what, "one of its rows", nearest(name, rows))
    if status.network is not None and table.network is None:
        yield Finding(("status", "network"), "the table has no energy of the network", "network: besides it")


def sram_points_rise(chip: Chip) -> Iterator[Finding]:
    """SRAM sizes of the energy table rise, so that they can be interpolated."""
    sizes = [point.capacity for point in chip.energy.sram]
    for index in range(1, len(sizes)):
        if sizes[index] <= sizes[index - 1]:
            yield Finding(("energy", "sram", index, "capacity"), "sizes must rise from point to point")


def powers_are_ordered(chip: Chip) -> Iterator[Finding]:
    """idle <= busy <= tdp."""
    if chip.power is None:
        return
    stated = [(key, value) for key in ("idle", "busy", "tdp") if (value := getattr(chip.power, key)) is not None]
    for (low, small), (high, large) in itertools.pairwise(stated):
        if small > large:
            yield Finding(("power", high), f"{show(large, 'W')} is less than {low}, {show(small, 'W')}")


def something_computes(chip: Chip) -> Iterator[Finding]:
    """A chip without an engine that multiplies has a host to compute on."""
    if chip.host is None and not multiplying(chip):
        yield Finding((), "the chip has neither an engine that multiplies nor a host", "engines: or host:")


def _of_type(spec: type[EngineSpec], law: LawOfType) -> Law:
    """The law of a type as one of chips."""

    @wraps(law)
    def each(chip: Chip) -> Iterator[Finding]:
        for name, unit in chip.engines.items():
            if isinstance(unit, spec):
                yield from law(unit, chip, chip.path_to("engines", name))

    return each


def calibrated_constants_are_declared(chip: Chip) -> Iterator[Finding]:
    """Values of the calibration are those of constants, within the range in which these are looked for."""
    known = constants(chip) if chip.calibration is not None else {}
    for name, text in chip.calibration.values.items() if chip.calibration is not None else ():
        path: PathTo = ("calibration", "values", name)
        constant = known.get(name)
        if constant is None:
            there = f"one of {', '.join(known)}" if known else "none: no engine of the chip declares one"
            yield Finding(path, "the chip has no constant of this name", there, nearest(name, known))
            continue
        low, high = constant.spell(constant.mark.low), constant.spell(constant.mark.high)
        try:
            fits = constant.mark.low <= constant.read(text) <= constant.mark.high
        except ValueError:
            fits = False
        if not fits:
            yield Finding(path, f"{brief(text)} is no value of this constant", f"{low} to {high}")


def residuals_are_ordered(chip: Chip) -> Iterator[Finding]:
    """The median of errors is no more than their 90th percentile."""
    left = chip.calibration.residual if chip.calibration is not None else None
    if left is not None and left.median > left.p90:
        what = f"the median {left.median:g} is above the 90th percentile {left.p90:g}"
        yield Finding(("calibration", "residual", "median"), what)


LAWS: tuple[Law, ...] = (
    stated_peak,
    one_memory_per_role,
    one_memory_for_the_host,
    kinds_differ_in_numbers,
    kinds_are_no_numbers,
    *LEVEL_LAWS,
    link_rates_agree,
    drams_agree,
    energies_are_there,
    energies_are_of_formats,
    statuses_name_rows,
    sram_points_rise,
    powers_are_ordered,
    calibrated_constants_are_declared,
    residuals_are_ordered,
    something_computes,
    *RESOURCE_LAWS,
)
"""Every law of a chip as a whole; a new one is a function and a line here."""
CORE_LAWS: tuple[Law, ...] = (*BUFFER_LAWS, *FED_LAWS, engines_are_distinct, *itertools.starmap(_of_type, laws()))
"""Every law of one kind of core, the first of a chip; of one type of engine in the ``LAWS`` beside its spec."""


def broken(chip: Chip, complete: bool = True) -> list[Finding]:
    """Return what breaks the laws. Of an incomplete chip (fields with errors) only those that can be judged."""
    found: list[Finding] = []
    views = chip.views() if hasattr(chip, "cores") else ()
    for law, seen in itertools.chain(((law, chip) for law in LAWS), itertools.product(CORE_LAWS, views)):
        try:
            found += law(seen)
        except (AttributeError, TypeError, IndexError, KeyError):
            if complete:
                raise
    return found
