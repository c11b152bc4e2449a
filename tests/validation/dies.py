"""Check ``area``: dies and blocks of published area against their designs, of which the fit has seen TPU v1 alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from accelsim.account.area import designed
from accelsim.spec.yaml.load import load_chip
from tests.validation.base import Check, check, within
from tests.validation.golden import golden

FILE = "published/dies.csv"
TOLERANCE = 0.75
"""Relative error that a die may have."""


@check("area")
def area() -> Check:
    """The area of each row."""
    errors, details = [], []
    for row in rows():
        found_mm2 = designed_mm2(row)
        errors.append(found_mm2 / float(row["mm2"]) - 1)
        details.append(
            f"{row['name']}, {row['parts']}: {found_mm2:,.{2 if found_mm2 < 100 else 0}f} mm2, published {row['mm2']} ({row['trust']}; "
            f"{row['source']}): {errors[-1]:+.0%}"
        )
    what = (
        "areas of dies and blocks by their designs against published ones; TPU v1, which is fitted, is not among them"
    )
    equal = sum(abs(error) <= TOLERANCE for error in errors)
    return Check("area", what, len(errors), equal, np.array(errors), details, within([TOLERANCE]))


def rows() -> Iterator[dict[str, str]]:
    """The rows of the file."""
    with golden(FILE).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def designed_mm2(row: dict[str, str]) -> float:
    """Return the area by the design: of the whole die, or of the parts that the publication counts."""
    found = designed(load_chip(row["chip"], [each.strip() for each in row["changes"].split(";") if each.strip()]))
    assert found is not None, row["name"]
    parts = found._fields if row["parts"] == "die" else [f"{part}_m2" for part in row["parts"].split()]
    return sum(float(getattr(found, part)) for part in parts) * 1e6
