"""Measured kernels of GPUs against what `accelsim kernel` says with the constants that ship: as far off as is claimed.

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
from tests.validation.gpu import CONV, GEMM, VECTOR, Rows, covered, in_its_lab, shipped
from tests.validation.measured import ABSENT, folder
from tests.validation.shipped import plain_chip, selected, split

FOLDER = folder() or Path()
pytestmark = pytest.mark.skipif(folder() is None, reason=ABSENT)
REFITS = [each for each in GEMM if "deepbench" in each.source.file]
"""Sets whose own fits take a few seconds."""


@pytest.mark.parametrize("rows", [*GEMM, *CONV, *VECTOR], ids=lambda each: f"{each.source.file} {each.name}")
def test_what_ships_is_as_far_off_as_is_claimed_on_rows_that_no_fit_saw(rows: Rows) -> None:
    chip = load_chip(rows.chip)
    table = selected(FOLDER, chip, rows.source)
    fitted, left = split(table)
    assert 0.2 < len(left.ops) / (len(left.ops) + len(fitted.ops)) < 0.45
    unseen = table if chip.calibration is None else left
    found = shipped(unseen, in_its_lab(rows))
    assert found.residuals.mean <= rows.claimed
    assert covered(found)


@pytest.mark.parametrize("rows", REFITS, ids=lambda each: each.name)
def test_a_fit_to_a_set_alone_is_no_worse_than_half_more_than_what_ships(rows: Rows) -> None:
    table = selected(FOLDER, load_chip(rows.chip), rows.source)
    found = calibrate(table, plain_chip(rows.chip), rows.name, "2026-11")
    assert residuals(found.left_out, table.measured).mean <= 1.5 * rows.claimed
    assert len(found.values) <= 9, "eight constants, of which one is of two fields"


def test_another_a100_runs_large_products_faster_than_the_one_of_the_fit() -> None:
    """LLMCompass's A100 is held back less by its power, and its host takes 27 us: two numbers of a site."""
    table = read_table(FOLDER / "llmcompass" / "matmul_A100.csv", timed=True)
    chip = load_chip("a100-80-sxm")
    ratio = Kernels(table, chip).predicted(chip).seconds / table.measured
    large = ratio[table.measured > 500e-6]
    assert large.min() > 1.1 and large.max() < 1.45
    assert np.max(ratio[table.measured < 50e-6]) < 0.7
