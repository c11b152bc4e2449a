"""Whole networks on GPUs against measured times: the sets of ``gpu-models`` that take a moment."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from accelsim.validate.gpu_models import SETS, compass, gpt3_layer, neusight
from accelsim.validate.measured import ABSENT, folder


@pytest.fixture(scope="module")
def data() -> Path:
    found = folder()
    if found is None:
        pytest.skip(ABSENT)
    return found


@pytest.mark.parametrize("rows_of", [compass, gpt3_layer])
def test_kernels_of_a_lab_are_as_far_off_as_is_claimed(data: Path, rows_of: object) -> None:
    claimed = next(bound for own, bound in SETS.values() if own is rows_of)
    errors = [abs(row.error) for row in rows_of(data)]  # type: ignore[operator]
    assert 0.3 * claimed < float(np.mean(errors)) <= claimed


def test_language_models_are_as_far_off_as_their_worst(data: Path) -> None:
    rows = list(islice((row for row in neusight(data) if "eager" in row.name), 6))
    assert max(abs(row.error) for row in rows) < 0.25 and float(np.mean([row.error for row in rows])) > -0.2
