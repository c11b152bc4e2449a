"""Fits the SRAM model to CACTI points: ``python -m tests.validation.sram_fit CSV`` writes ``coefficients.yaml`` again.

Relative errors are made small by iteratively reweighted non-negative least squares: the weights turn the squares into
magnitudes, so that the leaps which CACTI makes where it changes its organisation do not bend the curve.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accelsim.files import text as as_text
from accelsim.files import write_file
from accelsim.sram.model import COEFFICIENTS, Fit
from accelsim.sram.terms import QUANTITIES, Point, design
from accelsim.types import Floats
from tests.validation.least_squares import robust

DIGITS = 6


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
        found[name] = {term: float(f"{value:.{DIGITS}g}") for term, value in zip(quantity.terms, x, strict=True)}
    return found


def _mix(name: str, wide: Fit) -> Floats:
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
        "# Made by: python -m tests.validation.sram_fit CSV (accelsim/sram/terms.py says what the terms are).\n"
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
