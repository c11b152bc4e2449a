"""Measured kernels of LLM serving against the constants that are shipped: as far off as is claimed, intervals included.

The measurements (aiconfigurator) are not part of the project: they are read where they lie beside it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.validation.gpu_serving import CLAIMED, LEAST, name_of, predicted
from tests.validation.measured import ABSENT
from tests.validation.serving_rows import SYSTEMS, rows, tables

pytestmark = pytest.mark.skipif(tables() is None, reason=ABSENT)


@pytest.mark.parametrize("chip", SYSTEMS.values())
def test_rows_that_no_fit_saw_are_as_far_off_as_is_claimed(chip: str) -> None:
    data = tables()
    assert data is not None
    unseen = [each for each in rows(data) if each.chip == chip and not each.seen]
    found = predicted(chip, unseen)
    measured = np.array([float(each.cells["time_ms"]) * 1e-3 for each in unseen])
    errors, names = np.abs(found.seconds / measured - 1), np.array([name_of(each) for each in unseen])
    for name in sorted(set(names)):
        here = names == name
        assert errors[here].mean() <= CLAIMED[name][chip], name
        assert found.inside[here].mean() >= LEAST, name
