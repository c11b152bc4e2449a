"""Energy from one process node to another, and of integer multiplications of any width.

Node scaling: Stillmaker and Baas, "Scaling equations for the accurate prediction of CMOS device performance
from 180 nm to 7 nm", Integration 58 (2017): energy of a switching event E(V) = a V^2 + b V + c, one
polynomial per node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import exp, log

VDD_V = 0.9
"""Supply voltage on both sides of a scaling unless told otherwise: that of Horowitz's table."""

POLYNOMIALS: dict[int, tuple[float, float, float]] = {
    130: (7.171, -6.709, 2.904),
    90: (4.762, -4.781, 2.092),
    65: (3.755, -4.398, 1.975),
    45: (1.103, -0.362, 0.2767),
    32: (0.9559, -0.7823, 0.471),
    20: (0.373, -0.1582, 0.04104),
    16: (0.2958, -0.1241, 0.03024),
    14: (0.2363, -0.09675, 0.02239),
    10: (0.2068, -0.09311, 0.02375),
    7: (0.1776, -0.09097, 0.02447),
}
"""Node in nm -> (a, b, c), V in volts; relative units, only ratios mean something."""

AREA: dict[int, float] = {
    130: 6.4, 90: 2.8, 65: 1.5, 45: 1.0, 32: 0.46, 20: 0.21, 16: 0.19, 14: 0.17, 10: 0.1, 7: 0.059,
}  # fmt: skip
"""Node -> area of logic relative to 45 nm, Stillmaker and Baas, Integration 58 (2017), as coded in
accelergy-library-plug-in."""


def nanometres(node: str) -> float | None:
    """45.0 of '45 nm'; None where no node is stated."""
    match = re.match(r"([\d.]+) ?nm", node)
    return float(match[1]) if match else None


def relative_energy(node_nm: float, vdd_V: float) -> float:
    """Switching energy at a node (7 to 130 nm) and supply voltage, in the units of ``POLYNOMIALS``.

    Between two nodes of the table: geometric interpolation over the logarithm of the node, so that it
    always lies between its neighbours (linear interpolation over table indices, as found in another tool,
    does not: it makes 28 nm cheaper than 22 nm). ValueError outside the table.
    """
    nodes = sorted(POLYNOMIALS)
    if not nodes[0] <= node_nm <= nodes[-1]:
        raise ValueError(f"no scaling for {node_nm:g} nm; expected {nodes[0]} to {nodes[-1]} nm")
    below = max(node for node in nodes if node <= node_nm)
    above = min(node for node in nodes if node >= node_nm)
    return interpolate_log(node_nm, (below, _energy(below, vdd_V)), (above, _energy(above, vdd_V)))


def _energy(node_nm: int, vdd_V: float) -> float:
    a, b, c = POLYNOMIALS[node_nm]
    return a * vdd_V**2 + b * vdd_V + c


def interpolate_log(x: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """y at ``x`` on the straight line through two points (x, y) in log-log axes."""
    if low[0] == high[0]:
        return low[1]
    share = log(x / low[0]) / log(high[0] / low[0])
    return exp((1 - share) * log(low[1]) + share * log(high[1]))


def between(x: float, table: Mapping[int, float]) -> float:
    """Return the value of a table at ``x``: on straight lines in log-log axes, beyond its ends that of the end."""
    keys = sorted(table)
    x = min(max(x, keys[0]), keys[-1])
    low, high = max(key for key in keys if key <= x), min(key for key in keys if key >= x)
    return interpolate_log(x, (low, table[low]), (high, table[high]))


def relative_area(node_nm: float) -> float:
    """Return the area of logic at a node relative to 45 nm; beyond ``AREA`` that of its end."""
    return between(node_nm, AREA)


def scale_energy(energy_J: float, from_nm: float, from_V: float, to_nm: float, to_V: float) -> float:
    """``energy_J`` of a circuit at one node and voltage, moved to another node and voltage."""
    return energy_J * relative_energy(to_nm, to_V) / relative_energy(from_nm, from_V)


def multiply_energy(bits_a: int, bits_b: int, int8_J: float, int32_J: float) -> float:
    """Energy of an integer multiplication of ``bits_a`` x ``bits_b``, from those of 8 x 8 and 32 x 32 bit.

    A multiplier array has one cell per pair of bits. From 8 x 8 on: E = a + b x cells through the two known
    points (quadratic in the width where both are equal; Horowitz's table has no 16-bit multiplication). Below:
    proportional to the cells, since the line need not reach zero with them (it is negative at 7 nm).
    """
    cells = bits_a * bits_b
    if cells <= 8 * 8:
        return int8_J * cells / (8 * 8)
    per_cell = (int32_J - int8_J) / (32 * 32 - 8 * 8)
    return int8_J + per_cell * (cells - 8 * 8)
