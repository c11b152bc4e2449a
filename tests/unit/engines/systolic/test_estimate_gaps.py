"""The closed form of a mapping comes as near to the machine as it did: no path of it is looser, none above."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.helpers.estimate_cases import Gap, gap
from tests.helpers.estimates import ROUNDING

pytestmark = pytest.mark.shipped_search  # mappings are pinned in part

TABLE = Path(__file__).parents[3] / "golden" / "estimates" / "gaps.csv"
GAPS = [
    Gap(int(row["number"]), row["binds"], float(row["clocks"]))
    for row in csv.DictReader(TABLE.read_text().splitlines())
]


@pytest.mark.parametrize("was", GAPS, ids=lambda was: f"{was.binds} {was.number}")
def test_it_is_no_looser_than_it_was(was: Gap) -> None:
    """A bound that comes nearer is an improvement: write the table anew."""
    found = gap(was.number)
    assert -ROUNDING <= found.clocks <= was.clocks + ROUNDING
    assert found.binds == was.binds or found.clocks < was.clocks


def test_every_path_binds_somewhere() -> None:
    """What is named after a memory for one memory at least."""
    bound = {was.binds for was in GAPS}
    named = (
        "latency of results to ", "latency of ", "results to ", "traffic of ", "activations from ", "weight fetch from ",
    )  # fmt: skip
    assert {"compute", "vector unit", "accumulators"} <= bound
    assert all(any(path.startswith(name) for path in bound) for name in named)
