"""Split-conformal intervals: quantiles by hand, and that they hold what they promise."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from accelsim.fit.validation import ENOUGH, POOLED, coverage, factors, intervals, quantile


def test_the_quantile_is_the_next_larger_one():
    sizes = np.arange(1.0, 20.0)
    assert quantile(sizes, 0.9) == 18  # ceil(20 x 0.9) of 19
    assert quantile(sizes[:5], 0.9) == 5, "of few the largest"


def test_regimes_with_enough_rows_have_their_own():
    regime = np.array(["a"] * ENOUGH + ["b"] * (ENOUGH - 1), dtype=object)
    predicted = np.ones(len(regime))
    measured = np.where(regime == "a", exp(0.1), exp(0.4))
    found = intervals(predicted, measured, regime)
    assert set(found) == {POOLED, "a"}
    assert found["a"].factor == pytest.approx(exp(0.1)) and found[POOLED].factor == pytest.approx(exp(0.4))
    assert factors(found, np.array(["a", "b", "c"], dtype=object)).tolist() == pytest.approx(
        [exp(0.1), exp(0.4), exp(0.4)]
    )


def test_intervals_hold_nine_of_ten_rows():
    draw = np.random.default_rng(0)
    regime = draw.choice(np.array(["narrow", "wide"], dtype=object), 4000)
    spread = np.where(regime == "narrow", 0.05, 0.4)
    measured = np.exp(draw.normal(0, spread))
    found = coverage(np.ones(4000), measured, regime, draw.integers(0, 5, 4000))
    assert 0.88 <= found.share <= 0.92 and found.rows == 4000
