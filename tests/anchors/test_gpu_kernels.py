"""Measured kernels of GPUs against predictions of fits that had not seen them: as far off as is claimed.

The measurements (Vidur, NeuSight, DeepBench, LLMCompass) are not part of the project: they are read where they lie beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.fit.validation import residuals
from accelsim.kernels.calibrate import calibrate
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import read_table
from accelsim.spec.yaml.load import load_chip
from tests.validation.gpu import CONV, GEMM, TENSOR, VECTOR, Rows, covered, outcomes, plain_chip, selected
from tests.validation.measured import ABSENT, folder

FOLDER = folder() or Path()
pytestmark = pytest.mark.skipif(folder() is None, reason=ABSENT)
QUICK = [
    each for each in (*GEMM, *CONV)
    if (each.precision in (TENSOR, "fp32") and "gemm" in each.file) or (each.chip == "t4" and "neusight" in each.file)
]  # fmt: skip
"""Sets whose fits take a few seconds; ``accelsim validate`` has them all."""


@pytest.mark.parametrize("rows", QUICK, ids=lambda each: each.name)
def test_products_and_convolutions_are_as_far_off_as_is_claimed(rows: Rows) -> None:
    found = calibrate(selected(FOLDER, rows), plain_chip(rows.chip), rows.name, "2026-11")
    left = residuals(found.left_out, found.table.measured)
    assert left.mean <= rows.claimed and len(found.values) <= 9, (
        "eight constants, of which one is of two fields"
    )
    assert covered(found)


def test_functions_are_as_far_off_as_is_claimed_and_better_than_a_roofline() -> None:
    for each in outcomes(FOLDER, VECTOR):
        left = residuals(each.found.left_out, each.found.table.measured)
        assert left.mean <= each.rows.claimed < each.roofline, each.rows.name
        assert 0.88 <= each.found.coverage.share <= 0.92, each.rows.name
        assert each.shared is not None, each.rows.name
        assert each.shared.mean < 0.15 and each.shared.covered >= 0.85, each.rows.name


def test_another_a100_runs_large_products_faster_than_the_one_of_the_fit() -> None:
    """LLMCompass's A100 is held back less by its power, and its host takes 27 us: two numbers of a site."""
    table = read_table(FOLDER / "llmcompass" / "matmul_A100.csv", timed=True)
    chip = load_chip("a100-80-sxm")
    ratio = Kernels(table, chip).predicted(chip).seconds / table.measured
    large = ratio[table.measured > 500e-6]
    assert large.min() > 1.1 and large.max() < 1.3
    assert np.max(ratio[table.measured < 50e-6]) < 0.7
