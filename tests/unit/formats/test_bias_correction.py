"""The corrected bias makes the mean output what it was; checked against products and convolutions in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import integer
from accelsim.formats.bias_correction import output_shift
from accelsim.workload import ops
from accelsim.workload.graph import Array, Node


def rounded(w: Array, axis: int = 0) -> Array:
    scale = integer.absmax_scale(w, "int4", axis=axis)
    return integer.dequantise(integer.quantise(w, scale, "int4", axis=axis), scale, axis=axis)


def conv(x: Array, w: Array, group: int) -> Array:
    kernel = list(w.shape[2:])
    attrs = {"pads": [0] * 2 * len(kernel), "strides": [1] * len(kernel), "dilations": [1] * len(kernel),
             "group": group, "kernel_shape": kernel}  # fmt: skip
    found: Array = ops.get("Conv").kernel(Node("conv", "Conv", [], ["y"], attrs), [x, w])[0]
    return found


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4]))
def test_pointwise_convolution_is_exact(seed: int, group: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 8, 5, 4)).astype(np.float32) + 2
    w = rng.standard_normal((12, 8 // group, 1, 1)).astype(np.float32)
    means = x.mean(axis=(0, 2, 3))
    shift = (conv(x, rounded(w), group) - conv(x, w, group)).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(output_shift(w, rounded(w), means, group), shift, atol=2e-5)


@pytest.mark.parametrize(("shape", "group"), [((6, 4, 3, 3), 1), ((8, 1, 3, 3), 8), ((6, 2, 5), 2)])
def test_constant_channels_are_exact_for_every_kernel(shape: tuple[int, ...], group: int) -> None:
    rng = np.random.default_rng(5)
    w = rng.standard_normal(shape).astype(np.float32)
    means = rng.standard_normal(shape[1] * group)
    x = np.ones((1, len(means), *[9] * (len(shape) - 2)), np.float32)
    x *= means.reshape(1, -1, *[1] * (len(shape) - 2)).astype(np.float32)
    shift = (conv(x, rounded(w), group) - conv(x, w, group)).mean(axis=(0, *range(2, len(shape))))
    np.testing.assert_allclose(output_shift(w, rounded(w), means, group), shift, atol=2e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_matrices_and_their_bias(axis: int) -> None:
    rng = np.random.default_rng(9)
    x, bias = rng.normal(2, 1, (500, 16)).astype(np.float32), rng.standard_normal(6).astype(np.float32)
    w = rng.standard_normal((6, 16) if axis == 0 else (16, 6)).astype(np.float32)
    new = bias - output_shift(w, rounded(w, axis), x.mean(axis=0), axis=axis)
    columns = (w.T, rounded(w, axis).T) if axis == 0 else (w, rounded(w, axis))
    exact, before, after = x @ columns[0] + bias, x @ columns[1] + bias, x @ columns[1] + new
    np.testing.assert_allclose(after.mean(axis=0), exact.mean(axis=0), atol=1e-5)
    assert np.mean((after - exact) ** 2) < 0.6 * np.mean((before - exact) ** 2)


def test_nothing_quantised_shifts_nothing() -> None:
    w = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(output_shift(w, w, np.ones(2)), np.zeros(3))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((np.ones((3, 2)), np.ones((3, 3)), np.ones(2)), "expected the same shape"),
        ((np.ones((3, 2)), np.ones((3, 2)), np.ones(3)), r"means of shape \[3\]; expected \[2\]"),
        ((np.ones((3, 2, 1)), np.ones((3, 2, 1)), np.ones(4), 2), "3 outputs in 2 groups"),
        ((np.ones((3, 2, 1)), np.ones((3, 2, 1)), np.ones(2), 1, 1), "outputs along axis 1"),
        ((np.ones(3), np.ones(3), np.ones(3)), r"weights \[3\]"),
    ],
)
def test_shapes_that_do_not_fit(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        output_shift(*arguments)
