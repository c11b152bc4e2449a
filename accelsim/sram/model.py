"""Energy, leakage, time and area of an SRAM of any capacity, word width, ports and banks.

One bank with one port: the sums of ``terms``, fitted to CACTI. What CACTI was not run for follows by
rules that are stated here and in the result:

* **Nodes** between 22, 32 and 45 nm: geometric interpolation over the logarithm of the node
  (:func:`accelsim.spec.scaling.interpolate_log`). Other nodes are refused: one factor for all parts of a memory
  would be wrong by 2 to 4 (Jouppi et al., ISCA 2021: 8 KB scale by 1.3 from 45 to 7 nm, 1 MB by 7.1).
* **Banks**: an access works in one bank of capacity / banks, and crosses an H-tree: the data travel from the middle
  of the square that all banks fill to the middle of one of them, side x (1 - 1/sqrt(banks)), which is the way to
  every bank where their number is a power of four. Energy per bit and mm: Keckler et al., IEEE Micro 2011 (240 fJ
  at 40 nm, 115 fJ at 10 nm, as others quote it). Time per mm: that of CACTI's own wires, the c^1/2 term of the
  access time over the side of a memory. A bank takes a new access after its own cycle time.
* **Ports** beyond one, a rule of thumb that nothing was fitted to: height and width of the cell grow by
  ``PORT_PITCH`` per port, so the area by (1 + k (p - 1))^2, wires, and with them energy and time, by 1 + k (p - 1);
  the cell has two more transistors per port to leak through, 4 + 2 p instead of 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from accelsim.errors import Problem, UsageError, nearest
from accelsim.spec.scaling import interpolate_log
from accelsim.sram.terms import CELLS, MIB, QUANTITIES, WORD_BITS, Point, design
from accelsim.types import Floats

COEFFICIENTS = Path(__file__).with_name("coefficients.yaml")

Fit = dict[str, dict[str, float]]
"""Quantity -> term -> coefficient in SI."""

PORT_PITCH = 0.42
"""Growth of either side of a cell per port beyond the first: with two more wires of 2.5 F each way, a cell of 10 F
x 14.6 F becomes 2.0 times as large (the dimensions of CACTI's cell, recalled)."""
WIRE_J_PER_BIT_M = ((10.0, 115e-12), (40.0, 240e-12))
"""(node in nm, J per bit and m) of a wire: Keckler et al., IEEE Micro 2011, quoted by others."""
SMALLEST_B, LARGEST_B = 2**10, 2**26
"""Capacities that CACTI was run for."""
LIMITS = {"capacity_B": 2**40, "word_bits": 2**16, "ports": 64, "banks": 2**20}
"""Size -> the largest that is extrapolated to; beyond it a figure would mean nothing."""
WORDS = {"itrs-hp": (32, 256), "itrs-lop": (64, 64)}
"""Cell -> narrowest and widest word, bits, that CACTI was run for."""
STATUS = ("fitted", "interpolated", "rule of thumb", "extrapolated")
"""Grounds of a figure, the best first; the weakest that applies is stated."""


@dataclass(frozen=True)
class Sram:
    """An SRAM. ``inside``: within the range of the CACTI runs; ``status`` is a word of ``STATUS``, ``note`` says why.

    Energies are per access of one word, ``access_s`` from address to data, ``cycle_s`` from access to access of a bank.
    """

    read_J: float
    write_J: float
    leakage_W: float
    access_s: float
    cycle_s: float
    area_m2: float
    inside: bool
    note: str
    status: str


FIGURES = tuple(field.name for field in fields(Sram) if field.name in QUANTITIES)
"""The fields that are figures."""


@lru_cache(maxsize=1)
def coefficients() -> dict[int, dict[str, Fit]]:
    """Node -> cell -> quantity -> term -> coefficient, as committed."""
    nodes: dict[int, dict[str, Fit]] = yaml.safe_load(COEFFICIENTS.read_text(encoding="utf-8"))["nodes"]
    return nodes


def figure(name: str, node_nm: float, cell: str, capacity_B: float, word_bits: float) -> float:
    """A quantity (of ``FIGURES``, SI) of one bank with one port; between two nodes of CACTI, interpolated."""
    return _between_nodes(node_nm, lambda node: _at(name, node, cell, capacity_B, word_bits))


def _between_nodes(node_nm: float, value: Callable[[int], float]) -> float:
    """A value at a node, interpolated between those at the nodes of CACTI below and above it."""
    below = max(node for node in coefficients() if node <= node_nm)
    above = min(node for node in coefficients() if node >= node_nm)
    return interpolate_log(node_nm, (below, value(below)), (above, value(above)))


def _at(name: str, node: int, cell: str, capacity_B: float, word_bits: float) -> float:
    terms = coefficients()[node][cell][name]
    row = design(terms, np.array([float(capacity_B)]), np.array([float(word_bits)]))
    return float(row[0] @ np.array(list(terms.values())))


def sram(
    capacity_B: float, word_bits: int = 64, ports: int = 1, banks: int = 1, node_nm: float = 45, cell: str = "itrs-lop"
) -> Sram:
    """Figures of an SRAM of ``capacity_B`` in all its ``banks``, by the rules of the module.

    Raises UsageError (all problems at once) for sizes outside of 1 to ``LIMITS``, a node outside of 22 to 45 nm, an
    unknown cell, or banks that hold less than a word each.
    """
    _check(capacity_B, word_bits, ports, banks, node_nm, cell)
    bank_B = capacity_B / banks
    one = {name: figure(name, node_nm, cell, bank_B, word_bits) for name in FIGURES}
    wide = 1 + PORT_PITCH * (ports - 1)
    area_m2 = banks * one["area_m2"] * wide**2
    distance_m = sqrt(area_m2) * (1 - 1 / sqrt(banks))
    wire_J = word_bits * wire_J_per_bit_m(node_nm) * distance_m
    inside, note, status = _standing(bank_B, word_bits, ports, banks, node_nm, cell)
    return Sram(
        read_J=one["read_J"] * wide + wire_J,
        write_J=one["write_J"] * wide + wire_J,
        leakage_W=banks * one["leakage_W"] * (4 + 2 * ports) / 6,
        access_s=one["access_s"] * wide + wire_s_per_m(node_nm, cell) * distance_m,
        cycle_s=one["cycle_s"] * wide,
        area_m2=area_m2,
        inside=inside,
        note=note,
        status=status,
    )


def wire_J_per_bit_m(node_nm: float) -> float:
    """Energy of a bit on a metre of wire, J: the power law through ``WIRE_J_PER_BIT_M``."""
    return interpolate_log(node_nm, *WIRE_J_PER_BIT_M)


def wire_s_per_m(node_nm: float, cell: str) -> float:
    """Time of a metre of CACTI's wires, s: what the c^1/2 term of the access time takes for the side of a memory."""

    def of_node(node: int) -> float:
        area_m2 = _at("area_m2", node, cell, MIB, WORD_BITS)
        return coefficients()[node][cell]["access_s"]["c^1/2"] / sqrt(area_m2)

    return _between_nodes(node_nm, of_node)


def _check(capacity_B: float, word_bits: int, ports: int, banks: int, node_nm: float, cell: str) -> None:
    given = {"capacity_B": capacity_B, "word_bits": word_bits, "ports": ports, "banks": banks}
    problems = [
        Problem(f"{value} is too {'large' if value > LIMITS[name] else 'small'}", name, f"1 to {LIMITS[name]:,}")
        for name, value in given.items()
        if not 1 <= value <= LIMITS[name]
    ]
    if not problems and capacity_B * 8 < banks * word_bits:
        what = f"{banks} banks of {capacity_B / banks:g} B do not hold a word of {word_bits} bits each"
        problems.append(Problem(what, "banks", f"at most {int(capacity_B * 8 // word_bits)}"))
    nodes = sorted(coefficients())
    if not nodes[0] <= node_nm <= nodes[-1]:
        expected = f"{nodes[0]} to {nodes[-1]} nm, where CACTI was run (energies alone: accelsim.spec.scaling)"
        problems.append(Problem(f"no SRAM model at {node_nm:g} nm", "node_nm", expected))
    if cell not in CELLS:
        problems.append(Problem(f"no cell {cell!r}", "cell", " or ".join(CELLS), nearest(cell, CELLS)))
    UsageError.raise_for(problems)


def _standing(
    bank_B: float, word_bits: int, ports: int, banks: int, node_nm: float, cell: str
) -> tuple[bool, str, str]:
    """(inside, note, status) of a memory."""
    least, most = WORDS[cell]
    outside, leaks = not SMALLEST_B <= bank_B <= LARGEST_B, cell == "itrs-lop" and node_nm < 32
    words = f"extrapolated: CACTI was run for words of {least} to {most} bits"
    if least == most:
        words = f"extrapolated: CACTI was run for {cell} at {least} bits, the word width counts as in itrs-hp cells"
    cases = (
        (node_nm not in coefficients(), 1, "between two nodes of CACTI: interpolated geometrically"),
        (banks > 1, 2, "banks: one bank and an H-tree of 240 fJ/bit/mm at 40 nm (Keckler, 2011, quoted)"),
        (ports > 1, 2, "ports: a rule of thumb for the cell, not fitted to anything"),
        (outside, 3, "extrapolated: CACTI was run for banks of 1 KiB to 64 MiB"),
        (not least <= word_bits <= most, 3, words),
        (leaks, 0, "leakage is doubtful: at 22 nm CACTI lets low-power cells leak more than hp"),
    )
    notes = [(rank, text) for true, rank, text in cases if true]
    worst = max((rank for rank, _ in notes), default=0)
    return worst < 3, "; ".join(text for _, text in notes), STATUS[worst]


class Residual(NamedTuple):
    """Relative errors (model / CACTI - 1) of one quantity over the points of one node and cell."""

    node_nm: int
    cell: str
    quantity: str
    errors: Floats

    def quantile(self, share: float) -> float:
        """Quantile of their magnitudes."""
        return float(np.quantile(np.abs(self.errors), share))


def residuals(points: Sequence[Point]) -> list[Residual]:
    """One entry per node, cell and quantity, in the order of nodes and cells."""
    kinds = sorted({(point.node_nm, point.cell) for point in points})
    found = []
    for node, cell in kinds:
        own = [p for p in points if (p.node_nm, p.cell) == (node, cell)]
        for name in FIGURES:
            errors = [figure(name, node, cell, p.capacity_B, p.word_bits) / p.values[name] - 1 for p in own]
            found.append(Residual(node, cell, name, np.array(errors)))
    return found
