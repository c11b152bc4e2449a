"""The shape of the SRAM model: which terms make up each quantity, and the CACTI points that they are fitted to.

A quantity is a sum of terms with coefficients that are not negative. Every term rises with the capacity or is
constant, and rises with the word width or is constant, so every sum does. The capacity c is in MiB and the word
width w in 64 bits: a coefficient is the share of that term at 1 MiB and 64 bits (but for terms that saturate).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.errors import UsageError
from accelsim.types import Floats

CACTI = Path(__file__).with_name("cacti_sram.csv")
"""204 runs of CACTI to which the model is fitted: 1 KiB to 64 MiB; 45, 32 and 22 nm; itrs-hp at 32, 64 and 256 bits,
itrs-lop at 64 bits; one port, one bank, 350 K. Columns: energies, leakage, times, area."""
MIB, WORD_BITS = 2**20, 64
"""Units of capacity (bytes) and word width (bits) in the terms."""
MAT = 1 / 32
"""Capacity, MiB, at which CACTI begins to join mats instead of lengthening the bitlines of one (32 KiB)."""


class Term(NamedTuple):
    """One term: what it stands for, and its value at capacity c and word width w."""

    meaning: str
    value: Callable[[Floats, Floats], Floats]


TERMS: dict[str, Term] = {
    "one": Term("fixed part", lambda c, w: np.ones_like(c * w)),
    "w": Term("output drivers and sense amplifiers of a word", lambda c, w: w * np.ones_like(c)),
    "mat": Term("bitlines of the mat that is read", lambda c, w: c / (c + MAT) * np.ones_like(w)),
    "tree": Term("H-tree of the data beyond one mat", lambda c, w: w * c / np.sqrt(c + MAT * w)),
    "c^1/4": Term("wordline and bitline of a mat", lambda c, w: c**0.25 * np.ones_like(w)),
    "c^1/2": Term("wires along the side of the memory", lambda c, w: c**0.5 * np.ones_like(w)),
    "w c^1/2": Term("H-tree of the data", lambda c, w: w * c**0.5),
    "c": Term("cells", lambda c, w: c * np.ones_like(w)),
}
"""Name of a term -> what it is."""


class Quantity(NamedTuple):
    """A quantity of the model: columns of the CACTI table that add up to it, their unit in SI, its terms.

    ``groups`` are terms that keep the ratio which they have in the cells that were run at several word widths, where a
    cell was run at one width only: nothing could tell them apart.
    """

    columns: tuple[str, ...]
    unit: float
    terms: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()


QUANTITIES: dict[str, Quantity] = {
    "read_J": Quantity(("read_nJ",), 1e-9, ("w", "mat", "tree", "c^1/2"), (("w",), ("mat",), ("tree", "c^1/2"))),
    "write_J": Quantity(("write_nJ",), 1e-9, ("one", "w", "c^1/2", "w c^1/2"), (("one", "w"), ("c^1/2", "w c^1/2"))),
    "leakage_W": Quantity(("leak_mW", "gate_leak_mW"), 1e-3, ("c^1/2", "c")),
    "access_s": Quantity(("access_ns",), 1e-9, ("one", "c^1/4", "c^1/2")),
    "cycle_s": Quantity(("cycle_ns",), 1e-9, ("one", "c^1/4")),
    "area_m2": Quantity(("area_mm2",), 1e-6, ("w", "c^1/2", "c"), (("w",), ("c^1/2",), ("c",))),
}
"""Field of ``Sram`` -> what it is made of. Leakage is that of the channels plus that of the gates."""

CELLS = ("itrs-lop", "itrs-hp")
"""Device types of CACTI: low operating power (the default: hp leaks far more at 45 nm), high performance."""


@dataclass(frozen=True)
class Point:
    """One run of CACTI: node, cell, capacity, word width, and quantity -> value in SI."""

    node_nm: int
    cell: str
    capacity_B: int
    word_bits: int
    values: dict[str, float]


def read_points(path: Path) -> list[Point]:
    """The rows of a CACTI table (the golden ``sram/cacti_sram.csv``). UsageError when columns are missing."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    needed = ["node_nm", "cell", "size_bytes", "word_bits"]
    needed += [column for quantity in QUANTITIES.values() for column in quantity.columns]
    missing = [column for column in needed if not rows or column not in rows[0]]
    if missing:
        raise UsageError(f"no column {', '.join(missing)}", str(path), "a table of CACTI runs")
    return [
        Point(int(row["node_nm"]), row["cell"], int(row["size_bytes"]), int(row["word_bits"]), {
            name: quantity.unit * sum(float(row[column]) for column in quantity.columns)
            for name, quantity in QUANTITIES.items()
        })
        for row in rows
    ]  # fmt: skip


def design(names: Iterable[str], capacity_B: Floats, word_bits: Floats) -> Floats:
    """Values of the terms ``names``, one column each, for arrays of capacities and word widths of one length."""
    c, w = np.asarray(capacity_B) / MIB, np.asarray(word_bits) / WORD_BITS
    return np.stack([TERMS[name].value(c, w) for name in names], axis=-1)
