"""An energy table at another process node, each component by a rule of its own: arithmetic, SRAM and wires differ.

One factor for everything is wrong by 2 to 4: from 45 nm to 7 nm the arithmetic of Jouppi et al. (ISCA 2021)
shrinks by 2.1 to 4.3, an SRAM of 8 KiB by 1.3 and one of 1 MiB by 7.1, and the polynomials for logic by 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from accelsim.errors import UsageError, nearest
from accelsim.spec.arithmetic import Stated, add_energy, mac_energy
from accelsim.spec.energy import EnergyStatus, EnergyTable, SramPoint
from accelsim.spec.scaling import AREA, VDD_V, interpolate_log, scale_energy
from accelsim.spec.status import UNSTATED, Status, weakest
from accelsim.spec.yaml.parts import load_arithmetic

CACTI_nJ: dict[int, dict[int, tuple[float, float]]] = {
    2**10: {45: (0.000787104, 0.00144059), 32: (0.000374613, 0.000681581), 22: (0.000235129, 0.000440698)},
    2**12: {45: (0.00234195, 0.00234608), 32: (0.0011515, 0.00108583), 22: (0.000739841, 0.000698557)},
    2**14: {45: (0.00603378, 0.00441967), 32: (0.00252203, 0.0019595), 22: (0.00164953, 0.00127911)},
    2**16: {45: (0.013069, 0.00806272), 32: (0.00533236, 0.00377613), 22: (0.00352093, 0.00249224)},
    2**18: {45: (0.0203059, 0.0152996), 32: (0.0103048, 0.00728165), 22: (0.00698381, 0.00498079)},
    2**20: {45: (0.0417608, 0.0297391), 32: (0.0183893, 0.0153315), 22: (0.0128036, 0.0107798)},
    2**22: {45: (0.071825, 0.0619158), 32: (0.0343833, 0.0312562), 22: (0.0242787, 0.0222136)},
    2**24: {45: (0.13432, 0.124257), 32: (0.0673188, 0.0612579), 22: (0.0477409, 0.0437271)},
    2**26: {45: (0.26101, 0.250947), 32: (0.130192, 0.124131), 22: (0.0929056, 0.0888918)},
}
"""Capacity in B -> node in nm -> (read, write) of 64 bits, nJ. Runs of CACTI: low operating power cells
(itrs-lop), one read-write port, one bank, 350 K."""

JOUPPI_SRAM_pJ: dict[int, dict[int, tuple[float, float]]] = {
    2**13: {45: (10, 10), 7: (7.5, 7.5)},
    2**15: {45: (20, 20), 7: (8.5, 8.5)},
    2**20: {45: (100, 100), 7: (14, 14)},
}
"""Capacity in B -> node in nm -> (read, write) of 64 bits, pJ: Jouppi et al., ISCA 2021, Table 2, recalled;
writes are taken to cost as much as reads."""

WIRE_fJ_PER_BIT_MM = ((10.0, 115.0), (40.0, 240.0))
"""(node in nm, energy) of an on-chip wire: Keckler et al., IEEE Micro 2011, as quoted by others."""


class Rule(NamedTuple):
    """A way to scale one component between nodes of ``low_nm`` to ``high_nm``; ``status`` is that of its figures.

    ``factor(what, from_nm, to_nm, from_V, to_V)``: energy there over energy here. ``what`` is (column, format)
    of an arithmetic row and (capacity in B, 'read' or 'write') of an SRAM; a rule may ignore it.
    """

    low_nm: float
    high_nm: float
    status: Status
    source: str
    factor: Callable[[tuple[str | int, str], float, float, float, float], float]


def _polynomials(_: tuple[str | int, str], from_nm: float, to_nm: float, from_V: float, to_V: float) -> float:
    return scale_energy(1.0, from_nm, from_V, to_nm, to_V)


def _columns(what: tuple[str | int, str], from_nm: float, to_nm: float, from_V: float, to_V: float) -> float:
    """Between the 45 nm and the 7 nm column of Jouppi et al.; the voltage is that of each node."""
    column, name = what
    energy: Callable[[str, Stated], float] = mac_energy if column == "mac" else add_energy
    ends = (7.0, energy(name, _stated("jouppi-7nm"))), (45.0, energy(name, _stated("horowitz-45nm")))
    return interpolate_log(to_nm, *ends) / interpolate_log(from_nm, *ends)


@cache
def _stated(name: str) -> Stated:
    return load_arithmetic(name).stated


def _sram(points: Mapping[int, Mapping[int, tuple[float, float]]]) -> Callable[..., float]:
    def factor(what: tuple[str | int, str], from_nm: float, to_nm: float, *_: float) -> float:
        capacity, way = float(what[0]), what[1]
        return _at(points, capacity, way, to_nm) / _at(points, capacity, way, from_nm)

    return factor


def _at(points: Mapping[int, Mapping[int, tuple[float, float]]], capacity: float, way: str, nm: float) -> float:
    """Energy at a node and a capacity: straight in log-log over the nodes, then over the capacities.

    Beyond the smallest and the largest capacity: that of the nearest one.
    """
    column = 0 if way == "read" else 1
    table = [(float(size), _over_nodes(nodes, column, nm)) for size, nodes in sorted(points.items())]
    capacity = min(max(capacity, table[0][0]), table[-1][0])
    low, high = next(pair for pair in pairwise(table) if capacity <= pair[1][0])
    return interpolate_log(capacity, low, high)


def _over_nodes(nodes: Mapping[int, tuple[float, float]], column: int, nm: float) -> float:
    known = sorted((float(node), energies[column]) for node, energies in nodes.items())
    low, high = next(pair for pair in pairwise(known) if nm <= pair[1][0])
    return interpolate_log(nm, low, high)


LOGIC: dict[str, Rule] = {
    "stillmaker": Rule(
        7,
        130,
        "verified-in-tool",
        "Stillmaker and Baas, Integration 58 (2017): one polynomial of the voltage per node, for all logic",
        _polynomials,
    ),
    "jouppi": Rule(
        7,
        45,
        "recalled",
        "the 45 nm and 7 nm columns of Jouppi et al., ISCA 2021, Table 2, operation by operation",
        _columns,
    ),
}
"""Ways to scale arithmetic and registers."""

SRAM: dict[str, Rule] = {
    "cacti": Rule(22, 45, "measured", "CACTI at 45, 32 and 22 nm, low operating power cells", _sram(CACTI_nJ)),
    "jouppi": Rule(7, 45, "recalled", "the SRAM rows of Jouppi et al., ISCA 2021, Table 2", _sram(JOUPPI_SRAM_pJ)),
    "as-logic": Rule(
        7, 130, "guess", "as logic, by Stillmaker and Baas (2017): wrong by up to 8 at 7 nm", _polynomials
    ),
}
"""Ways to scale SRAM, the preferred one first; unless told otherwise the first that covers both nodes is taken."""


def wire_J_per_bit_mm(nm: float) -> float:
    """Energy of a bit over 1 mm of on-chip wire: a power law through ``WIRE_fJ_PER_BIT_MM``, J."""
    low, high = WIRE_fJ_PER_BIT_MM
    return 1e-15 * interpolate_log(nm, low, high)


def hop_factor(from_nm: float, to_nm: float) -> float:
    """Energy of a step from PE to PE there over here: the wire, times its length, the root of the area of a PE."""
    return wire_J_per_bit_mm(to_nm) / wire_J_per_bit_mm(from_nm) * sqrt(_area(to_nm) / _area(from_nm))


def _area(nm: float) -> float:
    low, high = next(pair for pair in pairwise(sorted(AREA.items())) if nm <= pair[1][0])
    return interpolate_log(nm, low, high)


def scale_table(
    table: EnergyTable,
    from_nm: float,
    to_nm: float,
    *,
    logic: str = "stillmaker",
    sram: str = "",
    from_V: float = VDD_V,
    to_V: float = VDD_V,
) -> EnergyTable:
    """``table`` of node ``from_nm``, moved to ``to_nm``: arithmetic by format, SRAM by capacity, wires by length.

    ``logic``: a key of ``LOGIC``; ``sram``: one of ``SRAM`` ('' = the first that covers both nodes). A register
    scales as an int8 addition. The status of a value is the weaker of its own and that of the rule, at best
    'derived'. Raises UsageError for an unknown rule and for nodes that it does not cover: nothing is extrapolated.
    """
    by, mem = _rule("logic", logic, LOGIC, from_nm, to_nm), _sram_rule(sram, from_nm, to_nm)
    move = (from_nm, to_nm, from_V, to_V)
    columns = {
        column: {name: J * by.factor((column, name), *move) for name, J in getattr(table, column).items()}
        for column in ("mac", "vector")
    }
    points = [
        SramPoint.model_construct(
            capacity=point.capacity,
            read=point.read * mem.factor((point.capacity, "read"), *move),
            write=point.write * mem.factor((point.capacity, "write"), *move),
        )
        for point in table.sram
    ]
    return table.model_copy(
        update=columns
        | {
            "node": f"{to_nm:g} nm",
            "register": table.register * by.factor(("vector", "int8"), *move),
            "network": None if table.network is None else table.network * hop_factor(from_nm, to_nm),
            "sram": points,
            "status": _status(table.status or EnergyStatus(default=UNSTATED), by.status, mem.status),
            "source": f"{table.node}: {table.source or 'no source stated'} Logic at {to_nm:g} nm: {by.source}. "
            f"SRAM: {mem.source}.",
        }
    )


def _rule(what: str, name: str, rules: Mapping[str, Rule], *nodes: float) -> Rule:
    if name not in rules:
        raise UsageError(f"no scaling of {what} called {name!r}", "", ", ".join(rules), nearest(name, rules))
    rule = rules[name]
    outside = [nm for nm in nodes if not rule.low_nm <= nm <= rule.high_nm]
    if outside:
        expected = f"{rule.low_nm:g} to {rule.high_nm:g} nm"
        raise UsageError(f"{name} says nothing of {what} at {outside[0]:g} nm", "", expected)
    return rule


def _sram_rule(name: str, *nodes: float) -> Rule:
    covering = [key for key, rule in SRAM.items() if all(rule.low_nm <= nm <= rule.high_nm for nm in nodes)]
    return _rule("SRAM", name or next(iter(covering), "as-logic"), SRAM, *nodes)


def _status(given: EnergyStatus, logic: Status, sram: Status) -> EnergyStatus:
    default = weakest(given.default, logic)
    return EnergyStatus(
        default=default,
        mac={name: weakest(status, logic) for name, status in given.mac.items()},
        vector={name: weakest(status, logic) for name, status in given.vector.items()},
        register=weakest(given.register or given.default, logic),
        network=None if given.network is None else weakest(given.network, "secondary"),
        sram=weakest(given.sram or given.default, sram),
    )
