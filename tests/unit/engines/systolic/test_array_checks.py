"""The checks that a user can run: all golden rows equal, and a wrong figure is found."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tests.validation import systolic as module
from tests.validation.base import CHECKS, Check, check
from tests.validation.golden import golden


def test_every_golden_row_of_scalesim_is_equal():
    outcome = module.scalesim()
    assert outcome.details == []
    assert (outcome.rows, outcome.equal) == (529, 529)
    assert outcome.median == outcome.p90 == outcome.max == 0


def test_a_wrong_figure_is_found():
    with golden("systolic/scalesim3_calc.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert module.scalesim_differences(row) == []
    for name in ("total_cycles", "sram_ofmap_writes", "overall_util_pct"):
        wrong = row | {name: str(float(row[name]) + 1) if "pct" in name else str(int(row[name]) + 1)}
        assert any(text.startswith(name) for text in module.scalesim_differences(wrong))


def test_systolic_check_runs_every_machine():
    outcome = module.systolic(cases=8)
    assert outcome.rows == outcome.equal == 8 * len(module.combinations())
    assert len(outcome.details) == len(module.combinations())


def test_systolic_check_sees_a_wrong_closed_form(monkeypatch):
    monkeypatch.setattr(module, "cycles", lambda *sizes, **options: sizes[5] * 0)
    equal, details = module.prove("ws", "overlapped", "column", 8, np.random.default_rng(0))
    assert equal == 0
    assert all("cycles" in text and "psum" not in text for text in details)


def test_registry():
    assert CHECKS["systolic"] is module.systolic
    assert CHECKS["scalesim"] is module.scalesim
    with pytest.raises(ValueError, match="twice"):
        check("scalesim")(module.scalesim)


def test_quantiles_are_of_absolute_errors():
    outcome = Check("x", "y", 3, 1, np.array([-0.5, 0.0, 0.1]))
    assert (outcome.median, outcome.max) == (0.1, 0.5)
