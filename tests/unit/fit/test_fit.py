"""Fitting: known constants come back, values stay in their ranges, errors are those of rows left out."""

from __future__ import annotations

from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.fit.search import Knob, Values, fit
from accelsim.fit.validation import cross_validated, residuals
from accelsim.types import Floats, Ints

RNG = np.random.default_rng(7)
FLOP = 10 ** RNG.uniform(6, 13, 120)
BYTES = 10 ** RNG.uniform(4, 9, 120)
KNOBS = [Knob(("launch",), 0.0, 50.0, 0.0), Knob(("share",), 0.2, 1.0, 1.0), Knob(("memory",), 0.3, 1.0, 1.0)]
TRUE = {"launch": 4.2, "share": 0.71, "memory": 0.83}


def kernel_us(values: Values, rows: Ints | slice = slice(None)) -> Floats:
    """A launch, then what takes longer of 300 TFLOPS and 2 TB/s."""
    compute, move = FLOP[rows] / (3e8 * values["share"]), BYTES[rows] / (2e6 * values["memory"])
    return values["launch"] + np.maximum(compute, move)


def test_known_constants_come_back() -> None:
    found = fit(kernel_us, kernel_us(TRUE), KNOBS)
    assert found == pytest.approx(TRUE, rel=0.01)


def test_noise_moves_them_little_and_is_what_is_left() -> None:
    noise = np.exp(np.random.default_rng(3).normal(0, 0.05, len(FLOP)))
    measured = kernel_us(TRUE) * noise
    found = fit(kernel_us, measured, KNOBS)
    assert found == pytest.approx(TRUE, rel=0.05)
    left = cross_validated(kernel_us, measured, KNOBS)
    assert left.rows == len(FLOP)
    assert 0.02 < left.median < 0.05 and 0.06 < left.p90 < 0.11 and left.median < left.mean < left.p90
    assert left.median >= 0.9 * residuals(kernel_us(found), measured).median


def test_errors_are_of_rows_that_were_left_out() -> None:
    """A model with a knob for each row says nothing of rows that it has not seen."""
    names = [f"row{index}" for index in range(6)]
    knobs = [Knob((name,), 0.1, 10.0, 1.0) for name in names]

    def model(values: Values, rows: Ints) -> Floats:
        return np.array([values[names[row]] for row in rows])

    measured = np.array([0.2, 0.4, 0.8, 2.0, 4.0, 8.0])
    assert fit(lambda values: model(values, np.arange(6)), measured, knobs) == pytest.approx(
        dict(zip(names, measured, strict=True)), rel=0.01
    )
    with pytest.raises(UsageError, match="5 rows for 6 knobs"):
        cross_validated(model, measured, knobs, parts=6)


@settings(max_examples=15)
@given(st.floats(0.1, 100), st.floats(1, 10), st.integers(0, 3), st.booleans())
def test_values_stay_in_their_ranges(truth: float, width: float, seed: int, whole: bool) -> None:
    low, high = 5.0, 5.0 + width
    rows = np.linspace(1, 3, 8)
    found = fit(lambda values: values["x"] * rows, truth * rows, [Knob(("x",), low, high, low, whole)], seed)
    assert low <= found["x"] <= high
    most = floor(high) if whole else high
    assert found["x"] == pytest.approx(min(max(truth, low), most), abs=0.51 if whole else 0.02 * high)


def test_constants_of_one_knob_share_a_value_and_whole_ones_are_whole() -> None:
    rows = np.arange(1.0, 20.0)
    knobs = [Knob(("before", "after"), 0, 20_000, 0, whole=True)]
    found = fit(lambda v: rows + v["before"] + v["after"], rows + 3000.4, knobs)
    assert found["before"] == found["after"] == 1500


def test_the_same_seed_gives_the_same_fit() -> None:
    noisy = kernel_us(TRUE) * np.exp(np.random.default_rng(11).normal(0, 0.2, len(FLOP)))
    assert fit(kernel_us, noisy, KNOBS, seed=5) == fit(kernel_us, noisy, KNOBS, seed=5)


def test_residuals_are_quantiles_of_sizes() -> None:
    left = residuals(np.array([1.1, 0.9, 1.0, 1.5]), np.ones(4))
    assert left == pytest.approx((4, 0.175, 0.1, 0.38))


@pytest.mark.parametrize(
    ("measured", "said"),
    [([], "no measurements"), ([1.0, 2.0], "2 rows for 3 knobs"), ([1.0, -2.0, 1.0], "row 1 is -2"),
     ([1.0, float("nan"), 1.0], "row 1 is nan")],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused(measured: list[float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fit(kernel_us, np.array(measured), KNOBS)


def test_an_empty_range_and_too_many_parts_are_refused() -> None:
    with pytest.raises(UsageError, match="x: no range from 2 to 2"):
        fit(lambda values: np.ones(3), np.ones(3), [Knob(("x",), 2, 2, 2)])
    for parts in (1, 4):
        with pytest.raises(UsageError, match=f"{parts} parts for cross-validation.*2 to 3"):
            cross_validated(lambda values, rows: np.ones(len(rows)), np.ones(3), KNOBS[:1], parts)
