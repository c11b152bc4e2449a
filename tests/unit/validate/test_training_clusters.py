"""Measured training steps beside simulated ones: sets that need no measured rows, and some rows of the others."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Recompute
from accelsim.workload.zoo.amoebanet import stages
from tests.validation.horovod import efficiencies
from tests.validation.measured import ABSENT, folder
from tests.validation.public_training import megatron, published
from tests.validation.torchgpipe import EXPERIMENTS, CellCost, rate
from tests.validation.training_clusters import FOUR_CARDS, HOST_S, SETS, gpipe, predicted, table_5, vtrain


def test_gpipe_is_near_its_published_throughput() -> None:
    rows = list(gpipe(Path()))
    assert max(abs(row.error) for row in rows) < SETS["GPipe, 32 microbatches"].claimed


@pytest.mark.parametrize("index", [0, 1])
def test_175_billion_parameters_on_64_gpus(index: int) -> None:
    rows = table_5(Path())
    row = [next(rows), next(rows)][index]
    assert row.name.startswith("175B") and abs(row.error) < 0.04


@pytest.mark.parametrize(
    ("file", "recompute", "changes", "host_s", "rows", "bound"),
    [
        ("vtrain_multi_a100.csv", "full", FOUR_CARDS, 0.0, slice(7, 9), 0.08),
        ("vtrain_single_a100.csv", "none", (), HOST_S, slice(1, 200, 8), 0.08),
    ],
)
def test_some_rows_of_vtrain(
    file: str, recompute: Recompute, changes: tuple[str, ...], host_s: float, rows: slice, bound: float
) -> None:
    data = folder()
    if data is None or not (data / "training" / file).is_file():
        pytest.skip(ABSENT)
    cases = list(vtrain(data / "training" / file, recompute))[rows]
    errors = [abs(predicted(case, changes, host_s).error) for case in cases]
    assert np.median(errors) < bound


def test_horovods_efficiencies_are_within_three_points() -> None:
    rows = list(efficiencies())
    assert len(rows) == 5 and max(abs(row.predicted - row.measured) for row in rows) < 0.03


def test_pipelines_of_torchgpipe_by_hand() -> None:
    """Two stages of 7 and 17 equal cells that send next to nothing: all microbatches but the last are computed again."""
    alike = [CellCost(Fraction(0), Fraction(10**9), 1)] * 24
    once, often = (rate(each, alike) for each in EXPERIMENTS[:2])
    assert once == pytest.approx(1e6 / (24 * 4), rel=1e-3)  # always again: forward, forward, twice backward
    forward, backward = 9 + 4 * 15, 2 * 15 + 3 * 3 * 15 + 3 * 9
    assert often == pytest.approx(256 / (64e-6 * (forward + backward)), rel=1e-3)


def test_cells_of_torchgpipe_are_those_of_the_network() -> None:
    assert {sum(each.cells) for each in EXPERIMENTS} == {len(stages(18)) + 2}


def test_published_steps_with_attention_in_one_kernel() -> None:
    """One row of each table; what told constants is not compared."""
    rows = list(published())
    common = [row for row in rows if row.common]
    assert len(rows) == 113 and [row.fitted for row in common] == [index % 2 == 0 for index in range(len(common))]
    mpt = next(row for row in common if not row.fitted and row.row["model"] == "7b").compared()
    assert mpt.name.startswith("h100-80: 7b model, 4096 tokens, 8 gpus") and abs(mpt.error) < 0.08
    assert [abs(row.error) < 0.15 for row in islice(megatron(), 1, 3)] == [True, True]
