"""Check ``pcie``: bandwidths of PCI Express against the rows of the public pcie-model (Neugebauer et al., 2018)."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from accelsim.spec.link import Pcie
from tests.validation.base import Check, check, within
from tests.validation.golden import golden
from tests.validation.pcie_rates import rates

FILE = "noc/pcie_model.csv"
TOLERANCE = 1e-4
"""Relative error that a figure may have; the golden ones are rounded to four decimals of Gbit/s."""

GBITPS = 1e9 / 8
"""One Gbit/s in B/s."""


@check("pcie")
def pcie() -> Check:
    """Six figures of each golden row."""
    rows, equal, errors, details = 0, 0, [], []
    for row in golden_rows():
        found = row_errors(row)
        worst = max(found, key=lambda name: abs(found[name]))
        good = abs(found[worst]) <= TOLERANCE
        rows, equal = rows + 1, equal + good
        errors.append(found[worst])
        if not good:
            details.append(f"{row['generation']} {row['lanes']}, {row['transfer_B']} B: {worst} {found[worst]:+.1e}")
    what = f"raw, packet and payload rates of PCIe within {TOLERANCE:g}; the error of a row is its largest"
    return Check("pcie", what, rows, equal, np.array(errors), details, within([TOLERANCE]))


def golden_rows() -> Iterator[dict[str, str]]:
    """The rows of the golden file."""
    with golden(FILE).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def row_errors(row: dict[str, str]) -> dict[str, float]:
    """Relative error of each figure of a golden row, by column."""
    link = Pcie.model_validate(
        {
            "generation": row["generation"].removeprefix("gen"),
            "lanes": row["lanes"].removeprefix("x"),
            "max_payload": f"{row['max_payload_B']} B",
            "max_read_request": f"{row['max_read_request_B']} B",
            "read_completion_boundary": f"{row['read_completion_boundary_B']} B",
        }
    )
    found = rates(link, int(row["transfer_B"]))
    figures = {
        "raw_Gbps": float(link.raw_Bps),
        "tlp_layer_Gbps": float(link.tlp_Bps),
        "write_effective_Gbps": found.write_Bps,
        "read_effective_Gbps": found.read_Bps,
        "simultaneous_write_effective_Gbps": found.simultaneous_Bps,
        "simultaneous_read_effective_Gbps": found.simultaneous_Bps,
    }
    return {name: value / GBITPS / float(row[name]) - 1 for name, value in figures.items()}
