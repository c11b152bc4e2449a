"""Fits the SRAM model to CACTI points: ``python -m accelsim.sram.fit CSV`` writes ``coefficients.yaml`` again.

Relative errors are made small by iteratively reweighted non-negative least squares: the weights turn the squares into
magnitudes, so that the leaps which CACTI makes where it changes its organisation do not bend the curve.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelsim.files import text as as_text
from accelsim.files import write_file
from accelsim.sram.terms import QUANTITIES, Point, design

COEFFICIENTS = Path(__file__).with_name("coefficients.yaml")
ROUNDS = 60
"""Rounds of reweighting; the coefficients move by less than their printed digits long before."""
FLOOR = 0.02
"""Relative error below which all points weigh the same."""
DIGITS = 6

Fit = dict[str, dict[str, float]]
"""Quantity -> term -> coefficient in SI."""
Array = NDArray[np.float64]


def nnls(matrix: Array, target: Array) -> Array:
    """x >= 0 that makes |matrix x - target| least (Lawson and Hanson, 1974: active set).

    ``matrix`` is n x k, ``target`` has n entries, the result k.
    """
    count = matrix.shape[1]
    x, free = np.zeros(count), np.zeros(count, dtype=bool)
    tolerance = 1e-10 * float(np.abs(matrix.T @ target).max())
    for _ in range(10 * count):
        gradient = np.where(free, -np.inf, matrix.T @ (target - matrix @ x))
        if free.all() or gradient.max() <= tolerance:
            break
        free[int(np.argmax(gradient))] = True
        x = _inside(matrix, target, x, free)
    return x


def _inside(matrix: Array, target: Array, x: Array, free: NDArray[np.bool_]) -> Array:
    """Least squares over the free entries; those that would turn negative are fixed at 0 again."""
    while True:
        solution = np.zeros_like(x)
        solution[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
        if not free.any() or solution[free].min() > 0:
            return solution
        falling = free & (solution <= 0)
        step = float(np.min(x[falling] / (x[falling] - solution[falling])))
        x = x + step * (solution - x)
        free &= x > 1e-12 * max(float(x.max()), 1e-300)


def robust(matrix: Array, target: Array) -> Array:
    """x >= 0 with small relative errors of ``matrix x`` against ``target`` > 0; see the module."""
    relative, ones = matrix / target[:, None], np.ones(len(target))
    x = nnls(relative, ones)
    for _ in range(ROUNDS):
        weight = 1 / np.sqrt(np.maximum(np.abs(relative @ x - 1), FLOOR))
        x = nnls(relative * weight[:, None], weight)
    return x


def fit_cell(points: Sequence[Point], wide: Fit | None = None) -> Fit:
    """Coefficients for the points of one node and cell; ``wide``: those of a cell run at several widths.

    Where all points have one word width, terms of a group of ``Quantity.groups`` keep their ratio in ``wide``.
    """
    capacity = np.array([float(point.capacity_B) for point in points])
    word = np.array([float(point.word_bits) for point in points])
    found: Fit = {}
    for name, quantity in QUANTITIES.items():
        target = np.array([point.values[name] for point in points])
        columns = design(quantity.terms, capacity, word)
        mix = _mix(name, wide) if wide is not None and len(set(word)) == 1 else np.eye(len(quantity.terms))
        x = mix @ robust(columns @ mix, target)
        found[name] = {
            term: float(f"{value:.{DIGITS}g}") for term, value in zip(quantity.terms, x, strict=True)
        }
    return found


def _mix(name: str, wide: Fit) -> Array:
    """Terms x groups: the share of each term in its group, as ``wide`` has it; a term of 0 there alone is free."""
    quantity = QUANTITIES[name]
    groups = quantity.groups or tuple((term,) for term in quantity.terms)
    mix = np.zeros((len(quantity.terms), len(groups)))
    for column, group in enumerate(groups):
        total = sum(wide[name][term] for term in group)
        for term in group:
            share = wide[name][term] / total if total and len(group) > 1 else 1.0
            mix[quantity.terms.index(term), column] = share
    return mix


def fit(points: Sequence[Point]) -> dict[int, dict[str, Fit]]:
    """Node -> cell -> coefficients; cells that were run at several word widths first."""
    result: dict[int, dict[str, Fit]] = {}
    for node in sorted({point.node_nm for point in points}):
        here = [point for point in points if point.node_nm == node]
        cells = {cell: [point for point in here if point.cell == cell] for cell in {p.cell for p in here}}
        order = sorted(cells, key=lambda cell: (-len({p.word_bits for p in cells[cell]}), cell))
        result[node] = {}
        for cell in order:
            wide = result[node].get(order[0])
            result[node][cell] = fit_cell(cells[cell], wide)
    return result


def text(coefficients: dict[int, dict[str, Fit]], source: str) -> str:
    """The file of coefficients."""
    import yaml

    head = (
        "# Made by: python -m accelsim.sram.fit CSV (accelsim/sram/terms.py says what the terms are).\n"
        "# node in nm -> cell -> quantity (SI) -> term -> coefficient, capacity in MiB, word width in 64 bits.\n"
    )
    return head + yaml.safe_dump({"source": source, "nodes": coefficients}, sort_keys=False, width=110)


SOURCE = (
    "CACTI, RAM without ECC, one read-write port, one bank, 350 K, energy-delay-squared objective: 204 runs, "
    "1 KiB to 64 MiB, words of 32, 64 and 256 bits (itrs-lop: 64 bits)."
)


def main(arguments: Sequence[str]) -> None:
    """Write the file of coefficients from the table that is named on the command line."""
    from accelsim.sram.terms import read_points

    (table,) = arguments
    write_file(COEFFICIENTS, as_text(text(fit(read_points(Path(table))), SOURCE)))


if __name__ == "__main__":
    main(sys.argv[1:])
