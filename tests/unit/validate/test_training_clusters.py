"""Measured training steps beside simulated ones: sets that need no measured rows, and some rows of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.validate.measured import ABSENT, folder
from accelsim.validate.training_clusters import FOUR_CARDS, HOST_S, SETS, gpipe, predicted, table_5, vtrain


def test_gpipe_is_near_its_published_throughput() -> None:
    rows = list(gpipe(Path()))
    assert max(abs(row.error) for row in rows) < SETS["GPipe, 32 microbatches"].claimed


@pytest.mark.parametrize("index", [0, 1])
def test_175_billion_parameters_on_64_gpus(index: int) -> None:
    rows = table_5(Path())
    row = [next(rows), next(rows)][index]
    assert row.name.startswith("175B") and abs(row.error) < 0.03


@pytest.mark.parametrize(
    ("file", "changes", "host_s", "rows", "bound"),
    [
        ("vtrain_multi_a100.csv", FOUR_CARDS, 0.0, slice(7, 9), 0.08),
        ("vtrain_single_a100.csv", (), HOST_S, slice(1, 200, 40), 0.15),
    ],
)
def test_some_rows_of_vtrain(
    file: str, changes: tuple[str, ...], host_s: float, rows: slice, bound: float
) -> None:
    data = folder()
    if data is None or not (data / "training" / file).is_file():
        pytest.skip(ABSENT)
    cases = list(vtrain(data / "training" / file))[rows]
    errors = [abs(predicted(case, changes, host_s).error) for case in cases]
    assert np.median(errors) < bound
