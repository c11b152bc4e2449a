"""Convolutions and pools of any geometry against ONNX Runtime; integer products against int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.workload import ops
from accelsim.workload.graph import Array
from accelsim.workload.ops.product import product
from tests.helpers.geometry import convolutions, geometry
from tests.helpers.ort_oracle import Case, check, outs, own


@settings(max_examples=150)
@given(convolutions())
def test_conv(case: Case) -> None:
    check(case)


@settings(max_examples=60)
@given(convolutions(dtype=np.int8), st.integers(-9, 9), st.integers(-9, 9))
def test_integer_conv_is_the_float64_conv(case: Case, a_zero: int, b_zero: int) -> None:
    case.attrs.update(a_zero_point=a_zero, b_zero_point=b_zero)
    zeros = (a_zero, b_zero)
    wide = [value.astype(np.float64) - zero for value, zero in zip(case.inputs, zeros, strict=True)]
    exact = ops.get("Conv").kernel(Case("Conv", wide, {**case.attrs, "a_zero_point": 0, "b_zero_point": 0}).node, wide)
    np.testing.assert_array_equal(own(case)[0], exact[0])


@settings(max_examples=150)
@given(geometry(), st.sampled_from(["MaxPool", "AveragePool"]), st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_pool(shape: tuple[list[int], dict[str, Any]], op: str, ceil: bool, include: bool, seed: int) -> None:
    spatial, attrs = shape
    x = np.random.default_rng(seed).normal(size=(2, 3, *spatial)).astype(np.float32)
    attrs = {**attrs, "ceil_mode": int(ceil)}
    if op == "AveragePool":
        attrs["count_include_pad"] = int(include)
    check(Case(op, [x], attrs, opset=22))


@given(convolutions())
@settings(max_examples=50)
def test_macs_of_the_gemm_view_are_those_of_the_op(case: Case) -> None:
    op = ops.get("Conv")
    assert op.gemm is not None
    gemm = op.gemm(case.node, case.tensors, outs(case))
    assert gemm is not None
    assert gemm.macs == op.work(case.node, case.tensors, outs(case)).macs


@pytest.mark.parametrize("depth", [1, 513, 514, 1030, 5000])
@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int16", "int8")]
)
def test_integer_products_are_exact_at_the_extremes(depth: int, left: str, right: str) -> None:
    rng = np.random.default_rng(depth)
    a = np.full((3, depth), np.iinfo(left).min if left[0] == "i" else 255).astype(left)
    b = np.full((depth, 4), np.iinfo(right).min if right[0] == "i" else 255).astype(right)
    a[1:], b[:, 2:] = _random(rng, left, (2, depth)), _random(rng, right, (depth, 2))
    want = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(product(a, b), want.astype(np.int32))


def test_accumulators_wrap_as_32_bit_ones() -> None:
    a = np.full((1, 5), 32767, np.int16)
    exact = 5 * 32767**2
    assert product(a, a.T)[0, 0] == (exact + 2**31) % 2**32 - 2**31


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, size=shape, endpoint=True).astype(dtype)
