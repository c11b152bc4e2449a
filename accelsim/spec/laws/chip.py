"""Numbers of a chip that must agree: a table of laws, each a function from a chip to what breaks it.

A finding that is a mere *claim* (a stated peak, a loading scheme that another dataflow has no use for) is
dropped from a chip whose user has overridden what it rests on; the others stay errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from accelsim.errors import brief, nearest
from accelsim.formats import dot
from accelsim.spec.laws.buffers import BUFFER_LAWS
from accelsim.spec.laws.dram import drams_agree
from accelsim.spec.laws.finding import Finding as Finding
from accelsim.spec.laws.link import link_rates_agree
from accelsim.spec.models import Chip, EnergyTable, MatrixUnit
from accelsim.spec.names import FUNCTIONS, VECTOR_FUNCTIONS, format_bits, nearest_format, operand_formats
from accelsim.spec.status import stray_rows
from accelsim.spec.yaml.marks import PathTo
from accelsim.units import show

PEAK_TOLERANCE = 0.01
"""A stated peak may differ this much from 2 x rows x cols x clock x cores (vendors round)."""


Law = Callable[[Chip], Iterator[Finding]]


def derived_peak(chip: Chip, matrix: MatrixUnit, number_format: str) -> float:
    """2 x rows x cols x clock x cores / cycles per row, op/s."""
    clock = matrix.clock or chip.clock
    rate = matrix.formats[number_format].cycles_per_row
    return 2 * matrix.rows * matrix.cols * clock * chip.cores / rate


def stated_peak(chip: Chip) -> Iterator[Finding]:
    """``peak`` agrees with the array, or without one with the host, within ``PEAK_TOLERANCE``."""
    matrix, host = chip.matrix, chip.host
    formats = list(matrix.formats) if matrix else list(host.peak) if host else []
    for name, stated in chip.peak.items():
        path = ("peak", name)
        if name not in formats:
            yield Finding(
                path, "the chip does not compute in this format", "", nearest(name, formats), claim=True
            )
            continue
        derived = derived_peak(chip, matrix, name) if matrix else host.peak[name] if host else 0.0
        if abs(stated - derived) > PEAK_TOLERANCE * derived:
            how = "2 x rows x cols x clock x cores / cycles_per_row" if matrix else "the host's peak"
            expected = f"{show(derived, 'op/s')} ({how})"
            yield Finding(path, f"stated {show(stated, 'op/s')} contradicts the rest", expected, claim=True)


def one_memory_per_role(chip: Chip) -> Iterator[Finding]:
    """Each kind of operand lives in exactly one memory (chips with a matrix or vector unit)."""
    for role in ("activations", "weights") if chip.matrix or chip.vector else ():
        holders = [name for name, memory in chip.memories.items() if role in memory.holds]
        if len(holders) != 1:
            what = f"{role} live in {' and '.join(holders)}" if holders else f"no memory holds {role}"
            path: PathTo = ("memories", holders[1], "holds") if holders else ("memories",)
            yield Finding(path, what, "exactly one memory")


def one_memory_for_the_host(chip: Chip) -> Iterator[Finding]:
    """The host of a chip with a matrix unit works on exactly one memory; without a host none is for it."""
    holders = [name for name, memory in chip.memories.items() if "host" in memory.holds]
    if chip.host is None and holders:
        yield Finding(("memories", holders[0], "holds"), "the chip has no host", "no 'host' here, or a host:")
    if chip.host is not None and chip.matrix is not None and len(holders) != 1:
        path: PathTo = ("memories", holders[1], "holds") if holders else ("memories",)
        what = (
            f"the host works on {' and '.join(holders)}" if holders else "no memory holds the host's operands"
        )
        yield Finding(path, what, "exactly one memory that holds 'host'")


def has_shadow_load(matrix: MatrixUnit) -> bool:
    """Whether stationary operands are loaded behind a running fold, so that ``shadow_load`` means something."""
    return matrix.dataflow != "os" and matrix.schedule == "overlapped"


def shadow_load_means_something(chip: Chip) -> Iterator[Finding]:
    """``shadow_load`` is given only where stationary operands are loaded behind a running fold."""
    matrix = chip.matrix
    if matrix is None or "shadow_load" not in matrix.model_fields_set:
        return
    if not has_shadow_load(matrix):
        what = f"has no meaning with dataflow {matrix.dataflow}, schedule {matrix.schedule}"
        yield Finding(("matrix", "shadow_load"), what, "dataflow ws or is, schedule overlapped", claim=True)


def formats_are_known(chip: Chip) -> Iterator[Finding]:
    """Names of number formats are those of ``accelsim.formats.table``, or pairs of them: int4xint8."""
    for name, mac in (chip.matrix.formats if chip.matrix else {}).items():
        for path, each in ((name,), name), ((name, "accumulate"), mac.accumulate):
            if format_bits(each) is None:
                what = f"{brief(each)} is no number format"
                yield Finding(
                    ("matrix", "formats", *path), what, "int8, fp16, int4xint8, ...", nearest_format(each)
                )


def dot_rules_fit(chip: Chip) -> Iterator[Finding]:
    """A dot-product rule is a row of the table of rules, and takes the format it is named for."""
    for name, mac in (chip.matrix.formats if chip.matrix else {}).items():
        if mac.dot is None or format_bits(name) is None:
            continue
        path = ("matrix", "formats", name, "dot")
        known = dot.rules_for(name)
        if mac.dot not in known:
            what = f"{mac.dot!r} is no rule that adds up products of {name}"
            yield Finding(path, what, "one of " + ", ".join(known), nearest(mac.dot, known))


def sparse_patterns_fit(chip: Chip) -> Iterator[Finding]:
    """N:M keeps fewer than all, and groups of M do not straddle the rows of the array."""
    matrix = chip.matrix
    for name, mac in (matrix.formats if matrix else {}).items():
        if mac.sparse is None or matrix is None:
            continue
        path = ("matrix", "formats", name, "sparse")
        if mac.sparse.n >= mac.sparse.m:
            yield Finding(path, f"{mac.sparse.n}:{mac.sparse.m} keeps every weight", "n below m")
        if matrix.rows % mac.sparse.m:
            yield Finding(
                path, f"{matrix.rows} rows are no whole groups of {mac.sparse.m}", "a divisor of the rows"
            )


RESERVED = ("matrix", "vector", "host")


def engines_are_distinct(chip: Chip) -> Iterator[Finding]:
    """An engine name is either a load or a store queue, and not that of a unit."""
    loads = {memory.load_engine for memory in chip.memories.values()}
    for name, memory in chip.memories.items():
        for key, engine in ("load_engine", memory.load_engine), ("store_engine", memory.store_engine):
            path = ("memories", name, key)
            if engine in RESERVED:
                yield Finding(path, f"{engine!r} is the name of a unit", "another name")
            elif key == "store_engine" and engine in loads:
                yield Finding(path, f"{engine!r} is a load engine too", "a name of its own")


def epilogues_have_a_vector_unit(chip: Chip) -> Iterator[Finding]:
    """Results pass the vector unit on their way out of the accumulators only where there is one."""
    if chip.matrix is not None and chip.matrix.epilogue and chip.vector is None:
        what = "missing, and results are to pass it (matrix.epilogue)"
        yield Finding(("vector",), what, "a vector unit, or matrix.epilogue: false")


def energies_are_there(chip: Chip) -> Iterator[Finding]:
    """The energy table has each format of the matrix unit, and its operands for the vector unit."""
    if chip.matrix is None:
        return
    operands = (
        [name for name in chip.matrix.formats if len(operand_formats(name) or ()) == 1] if chip.vector else []
    )
    for table, needed in ("mac", list(chip.matrix.formats)), ("vector", operands):
        for name in needed:
            if name not in getattr(chip.energy, table):
                yield Finding(("energy", table), f"no energy of format {name}")


def energies_are_of_formats(chip: Chip) -> Iterator[Finding]:
    """The energy table's rows are named by number formats."""
    for finding in table_findings(chip.energy):
        yield finding._replace(path=("energy", *finding.path))


def table_findings(table: EnergyTable) -> Iterator[Finding]:
    """The same of an energy table alone."""
    for column in ("mac", "vector"):
        for name in getattr(table, column):
            if format_bits(name) is None:
                what = f"{brief(name)} is no number format"
                yield Finding((column, name), what, "int8, fp16, int4xint8, ...", nearest_format(name))


def statuses_name_rows(chip: Chip) -> Iterator[Finding]:
    """The ``status`` of the energy table speaks of what the table has."""
    for stray in stray_rows(chip.energy):
        yield Finding(("energy", *stray.path), stray.what, stray.expected, stray.near)


def sram_points_rise(chip: Chip) -> Iterator[Finding]:
    """SRAM sizes of the energy table rise, so that they can be interpolated."""
    sizes = [point.capacity for point in chip.energy.sram]
    for index in range(1, len(sizes)):
        if sizes[index] <= sizes[index - 1]:
            yield Finding(("energy", "sram", index, "capacity"), "sizes must rise from point to point")


def functions_are_known(chip: Chip) -> Iterator[Finding]:
    """The vector unit's functions are names of operators."""
    for name in chip.vector.functions if chip.vector else ():
        if name not in VECTOR_FUNCTIONS:
            what, near = FUNCTIONS.unknown(name)
            yield Finding(("vector", "functions", name), what, "", near)


def powers_are_ordered(chip: Chip) -> Iterator[Finding]:
    """idle <= busy <= tdp."""
    if chip.power is None:
        return
    stated = [
        (key, value) for key in ("idle", "busy", "tdp") if (value := getattr(chip.power, key)) is not None
    ]
    for (low, small), (high, large) in itertools.pairwise(stated):
        if small > large:
            yield Finding(("power", high), f"{show(large, 'W')} is less than {low}, {show(small, 'W')}")


def something_computes(chip: Chip) -> Iterator[Finding]:
    """A chip without a matrix unit has a host to compute on; memories have something to feed."""
    if chip.matrix is None and chip.host is None:
        yield Finding((), "the chip has neither a matrix unit nor a host", "matrix: or host:")


LAWS: tuple[Law, ...] = (
    stated_peak,
    one_memory_per_role,
    one_memory_for_the_host,
    *BUFFER_LAWS,
    shadow_load_means_something,
    formats_are_known,
    dot_rules_fit,
    sparse_patterns_fit,
    link_rates_agree,
    drams_agree,
    engines_are_distinct,
    epilogues_have_a_vector_unit,
    energies_are_there,
    energies_are_of_formats,
    statuses_name_rows,
    sram_points_rise,
    functions_are_known,
    powers_are_ordered,
    something_computes,
)
"""Every law; a new one is a function and a line here."""


def broken(chip: Chip, complete: bool = True) -> list[Finding]:
    """What breaks the laws. Of an incomplete chip (fields with errors) only those that can be judged."""
    found: list[Finding] = []
    for law in LAWS:
        try:
            found += law(chip)
        except (AttributeError, TypeError, IndexError, KeyError):
            if complete:
                raise
    return found
