"""Fake quantisation and its gradients against PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.formats.fake_quant import fake_quantise, fake_quantise_grad, lsq_factor
from accelsim.types import Array
from tests.helpers.torch_oracle import torch_says

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics"
INT8 = (-128, 127)


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    return dict(np.load(GOLDEN / "fakequant_weights.npz"))


def test_forward_and_mask_are_those_of_pytorch() -> None:
    golden = np.load(GOLDEN / "quantize_int.npz")
    for x, scale, y, grad in zip(
        golden["x"], golden["scales"], golden["torch_fakequant_int8"], golden["torch_fakequant_int8_grad"], strict=True
    ):
        assert np.array_equal(fake_quantise(x, scale, 0, *INT8).view(np.uint32), y.view(np.uint32))
        assert np.array_equal(fake_quantise_grad(x, scale, 0, *INT8, None, np.ones_like(x))[0], grad)


def test_weights_per_channel_and_per_tensor(weights: dict[str, Array]) -> None:
    w = weights["w"]
    assert np.array_equal(fake_quantise(w, weights["scale_per_channel"], 0, *INT8, 0), weights["per_channel"])
    assert np.array_equal(fake_quantise(w, weights["scale_per_tensor"], 0, *INT8), weights["per_tensor"])


def test_learned_step_size(weights: dict[str, Array]) -> None:
    """Forward and dx to the bit; dscale to 2e-6 of itself: PyTorch sums in FP32."""
    w, scale, upstream = weights["w"], weights["scale_per_tensor"], weights["lsq_upstream_grad"]
    assert np.array_equal(fake_quantise(w, scale, 0, *INT8), weights["lsq_y"])
    dx, dscale = fake_quantise_grad(w, scale, 0, *INT8, None, upstream)
    assert np.array_equal(dx, weights["lsq_grad_x"])
    assert dscale == pytest.approx(weights["lsq_grad_scale"][0], rel=2e-6)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_random_arrays_as_pytorch(axis: int | None, bits: int) -> None:
    rng = np.random.default_rng(bits)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    x = (rng.standard_normal((5, 6, 7)) * 4).astype(np.float32)
    upstream = rng.standard_normal(x.shape).astype(np.float32)
    count = 1 if axis is None else x.shape[axis]
    scale = rng.uniform(0.05, 0.5, count).astype(np.float32)
    # PyTorch rounds a negative zero point of one tensor wrongly in its backward pass: trunc(zero_point + 0.5)
    zeros = rng.integers(0 if axis is None else low, high + 1, count)
    factor = lsq_factor(x.size // count, high)

    def theirs(torch: Any) -> list[Any]:
        leaves = [torch.tensor(value, requires_grad=True) for value in (x, scale, zeros.astype(np.float32))]
        if axis is None:
            y = torch._fake_quantize_learnable_per_tensor_affine(*leaves, low, high, factor)
        else:
            y = torch._fake_quantize_learnable_per_channel_affine(*leaves, axis % 3, low, high, factor)
        y.backward(torch.tensor(upstream))
        return [y, leaves[0].grad, leaves[1].grad]

    y, x_grad, scale_grad = torch_says(f"fake quantise {axis} {bits}", [x, upstream, scale, zeros], theirs)
    one = scale[0] if axis is None else scale
    zero = zeros[0] if axis is None else zeros
    assert np.array_equal(fake_quantise(x, one, zero, low, high, axis), y)
    dx, dscale = fake_quantise_grad(x, one, zero, low, high, axis, upstream, factor)
    assert np.array_equal(dx, x_grad)
    size = np.abs(upstream).sum() * factor * (high - low)
    assert np.abs(dscale - scale_grad).max() <= 1e-7 * size


@given(
    x=hnp.arrays(np.float32, (3, 4), elements=st.floats(-100, 100, width=32)),
    scale=st.sampled_from([0.125, 0.5, 1.0]),
    zero=st.integers(-8, 7),
)
def test_values_are_a_grid_and_gradients_end_with_it(x: Array, scale: float, zero: int) -> None:
    y = fake_quantise(x, scale, zero, -8, 7)
    assert np.isin(y / np.float32(scale) + zero, np.arange(-8, 8)).all()
    assert np.array_equal(fake_quantise(y, scale, zero, -8, 7), y)
    dx, dscale = fake_quantise_grad(x, scale, zero, -8, 7, None, np.ones_like(x))
    inside = np.isin(np.rint(x.astype(np.float64) / scale) + zero, np.arange(-8, 8))  # a tie goes to the even one
    assert np.array_equal(dx, inside)
    assert dscale == pytest.approx(np.where(inside, y - x, y).sum() / scale, rel=1e-6, abs=1e-5)


def test_gradient_of_the_scale_is_the_slope_of_the_clipped_part() -> None:
    """Far outside the grid y = qmax * scale, whose slope finite differences give exactly."""
    x, step = np.array([100.0, -100.0, 300.0], np.float32), 2.0**-6
    upstream = np.array([1.0, 2.0, -3.0], np.float32)
    rise = fake_quantise(x, 0.5 + step, 0, *INT8) - fake_quantise(x, 0.5 - step, 0, *INT8)
    slope = float((upstream * rise).sum() / (2 * step))
    assert fake_quantise_grad(x, 0.5, 0, *INT8, None, upstream)[1] == slope


def test_what_is_not_finite() -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    assert np.array_equal(fake_quantise(x, 1.0, 3, *INT8), np.array([124, -131, np.nan], np.float32), equal_nan=True)
    dx, dscale = fake_quantise_grad(x[:2], 1.0, 3, *INT8, None, np.ones(2, np.float32))
    assert dx.tolist() == [0, 0]
    assert dscale == 124 - 131


def test_factor_of_lsq() -> None:
    assert lsq_factor(100, 4) == 1 / 20
