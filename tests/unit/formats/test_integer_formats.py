"""Integer quantisation, bit for bit against ONNX Runtime's results."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.errors import UsageError
from accelsim.formats import codec, fixed_point, integer
from accelsim.workload import ops
from accelsim.workload.graph import Array, Node

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics"


@pytest.fixture(scope="module")
def ort_ops() -> dict[str, Array]:
    return dict(np.load(GOLDEN / "int8_ops_ort.npz"))


@pytest.fixture(scope="module")
def ort_quantised() -> dict[str, Array]:
    return dict(np.load(GOLDEN / "quantize_int.npz"))


@pytest.mark.parametrize(
    ("column", "dtype", "zero_point"),
    [
        ("ort_int8", "int8", 0),
        ("ort_int8_zp3", "int8", 3),
        ("ort_uint8", "uint8", 128),
        ("ort_uint8_zp7", "uint8", 7),
        ("ort_int4", "int4", 0),
        ("ort_uint4", "uint4", 8),
        ("ort_int16", "int16", 0),
        ("ort_int2", "int2", 0),
    ],
)
def test_quantise_is_quantizelinear(ort_quantised: dict[str, Array], column: str, dtype: str, zero_point: int) -> None:
    x, scales, want = ort_quantised["x"], ort_quantised["scales"], ort_quantised[column]
    per_row = integer.quantise(x, scales, dtype, np.full(len(scales), zero_point), axis=0, source="ort")
    assert per_row.dtype == integer.CONTAINERS[dtype]
    known = ~np.isnan(x)
    assert np.count_nonzero(per_row[known] != want[known]) == 0
    one = np.stack(
        [integer.quantise(row, scale, dtype, zero_point, source="ort") for row, scale in zip(x, scales, strict=True)]
    )
    np.testing.assert_array_equal(one, per_row)


def test_multiplying_by_the_reciprocal_is_another_rule(ort_quantised: dict[str, Array]) -> None:
    x, scales = ort_quantised["x"], ort_quantised["scales"][:, None]
    other = np.clip(np.rint(x * (np.float32(1) / scales)), -128, 127)
    assert np.count_nonzero(other != ort_quantised["ort_int8"]) == 281


@pytest.mark.parametrize("case", "abcde")
def test_qlinearconv(ort_ops: dict[str, Array], case: str) -> None:
    v = {key.removeprefix(f"qlinearconv_{case}_"): value for key, value in ort_ops.items() if f"conv_{case}_" in key}
    pads, strides, dilations, group = (v["attrs"][a:b].tolist() for a, b in ((0, 4), (4, 6), (6, 8), (8, 9)))
    attrs = {"pads": pads, "strides": strides, "dilations": dilations, "group": group[0],
             "kernel_shape": list(v["w"].shape[2:]), "a_zero_point": int(v["x_zp"]),
             "b_zero_point": int(np.max(v["w_zp"]))}  # fmt: skip
    assert np.all(v["w_zp"] == attrs["b_zero_point"])
    bias = [v["bias"]] if v["bias"].size else []
    acc = ops.get("Conv").kernel(Node("conv", "Conv", [], ["y"], attrs), [v["x"], v["w"], *bias])[0]
    assert acc.dtype == np.int32
    np.testing.assert_array_equal(acc, v["acc_int32"])
    multiplier = integer.multiplier_of(v["x_scale"], v["w_scale"], v["y_scale"])
    y = integer.requantise(acc, multiplier, str(v["y"].dtype), v["y_zp"], axis=1)
    assert np.count_nonzero(y != v["y"]) == 0
    attrs = {"multiplier": multiplier, "dtype": str(v["y"].dtype), "zero_point": int(v["y_zp"]), "axis": 1}
    node = Node("requantise", "Requantize", [], ["y"], attrs)
    np.testing.assert_array_equal(ops.get("Requantize").kernel(node, [acc])[0], v["y"])


@pytest.mark.parametrize("case", "abcd")
def test_qlinearmatmul_and_matmulinteger(ort_ops: dict[str, Array], case: str) -> None:
    v = {key.removeprefix(f"qlinearmatmul_{case}_"): value for key, value in ort_ops.items()}
    assert np.all(v["b_zp"] == np.max(v["b_zp"]))
    attrs = {"a_zero_point": int(v["a_zp"]), "b_zero_point": int(np.max(v["b_zp"]))}
    acc = ops.get("MatMul").kernel(Node("matmul", "MatMul", [], ["y"], attrs), [v["a"], v["b"]])[0]
    np.testing.assert_array_equal(acc, v["acc_int32"])
    np.testing.assert_array_equal(acc, ort_ops[f"matmulinteger_{case}_y"])
    multiplier = integer.multiplier_of(v["a_scale"], v["b_scale"], v["y_scale"])
    y = integer.requantise(acc, multiplier, str(v["y"].dtype), v["y_zp"], axis=1)
    assert np.count_nonzero(y != v["y"]) == 0


SCALE = st.floats(2.0**-126, 2.0**127, width=32)


@given(SCALE, SCALE, SCALE)
@example(2.0**100, 2.0**100, 1.0)
@example(1.0, 1.0, 2.0**-120)
@example(2.0**-100, 2.0**-100, 1.0)
def test_multipliers_are_those_of_float32_where_it_has_them(a: float, b: float, y: float) -> None:
    """Beyond, every sum but 0 becomes the last code, or every sum 0; no rule of requantisation refuses a multiplier."""
    found = integer.multiplier_of(a, b, y)
    with np.errstate(over="ignore", under="ignore"):
        plain = np.float32(a) * np.float32(b) / np.float32(y)
    assert found.dtype == np.float32 and 0 < found < 2**31
    low, high = (Fraction(float(bound)) for bound in integer.MULTIPLIERS)
    ratio = min(Fraction(a) * Fraction(b), Fraction(float(np.finfo(np.float32).max))) / Fraction(y)
    codes = integer.requantise(np.array([-(2**31), -1, 0, 1, 2**31 - 1], np.int32), found, "int8", 0, None)
    if ratio > high:
        assert codes.tolist() == [-128, -128, 0, 127, 127]
    elif ratio < low:
        assert not codes.any()
    elif 2.0**-126 <= a * b < 2.0**127:
        assert found == plain
    fixed_point.from_multiplier(found)


FLOATS = hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e4, 1e4, width=32))


@given(FLOATS, st.sampled_from(["int8", "int16", "uint8", "int4"]), st.floats(0.015625, 4, width=32))
def test_error_is_at_most_half_a_step_inside_the_range(x: Array, dtype: str, scale: float) -> None:
    low, high = integer.code_range(dtype)
    inside = np.clip(x, low * scale, high * scale)
    back = integer.dequantise(integer.quantise(inside, scale, dtype), scale)
    assert np.all(np.abs(back - inside) <= scale / 2 + 1e-6 * np.abs(inside))


@given(FLOATS, st.sampled_from(["int8", "int16"]))
def test_absmax_scale_uses_the_whole_range(x: Array, dtype: str) -> None:
    codes = integer.quantise(x, integer.absmax_scale(x, dtype), dtype, narrow=True)
    high = integer.code_range(dtype)[1]
    normal = np.any(np.abs(x) / high >= np.finfo(np.float32).tiny)
    assert np.abs(codes.astype(int)).max() == (high if normal else 0)


def test_absmax_scale_per_channel() -> None:
    x = np.array([[1, -254.0], [0, 0]], np.float32)
    np.testing.assert_array_equal(integer.absmax_scale(x, axis=0), np.array([2, 1], np.float32))
    np.testing.assert_array_equal(integer.absmax_scale(x, axis=-1) * 127, np.array([1, 254], np.float32))
    assert integer.absmax_scale(x).shape == ()


@given(hnp.arrays(np.int8, st.integers(1, 30)), st.integers(-128, 127))
def test_codes_survive_the_round_trip(q: Array, zero_point: int) -> None:
    real = integer.dequantise(q, 0.5, zero_point)
    np.testing.assert_array_equal(integer.quantise(real, 0.5, "int8", zero_point), q)


def test_specials_saturate_and_nan_is_zero() -> None:
    x = np.array([np.inf, -np.inf, 1e30, np.nan], np.float32)
    np.testing.assert_array_equal(integer.quantise(x, 0.1, "int8", 5), [127, -128, 127, 5])
    assert integer.quantise(-x[:2], 0.1, "int8", narrow=True).tolist() == [-127, 127]


def test_int32_codes_are_exact_and_saturate() -> None:
    acc = np.array([2**31 - 1, -(2**31), 1 << 24], np.int64).astype(np.int32)
    np.testing.assert_array_equal(integer.requantise(acc, 1.0, "int32", 1), [2**31 - 1, -(2**31) + 1, (1 << 24) + 1])


def test_unknown_format_has_a_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'int8'"):
        integer.quantise(np.zeros(2, np.float32), 1.0, "itn8")


def test_int2_of_onnxruntime_is_wrong_only_far_outside(ort_quantised: dict[str, Array]) -> None:
    x, scales, want = ort_quantised["x"], ort_quantised["scales"], ort_quantised["ort_int2"]
    ours = integer.quantise(x, scales, "int2", axis=0)
    differ = ours != want
    assert np.count_nonzero(differ) == 12
    assert np.all(x[differ] >= 1e30)
    assert np.all(ours[differ] == 1)


@pytest.mark.parametrize(
    ("column", "dtype", "method", "zero_point"),
    [
        ("torch_qint8", "int8", "reciprocal", 0),
        ("torch_quint8", "uint8", "fma", 128),
        ("torch_qint8", "int8", "fma", 0),
    ],
)
def test_methods_of_pytorch(
    ort_quantised: dict[str, Array], column: str, dtype: str, method: str, zero_point: int
) -> None:
    x, scales, want = ort_quantised["x"], ort_quantised["scales"], ort_quantised[column]
    codes = integer.quantise(x, scales, dtype, zero_point, axis=0, method=method)
    assert np.count_nonzero(codes != want) == 0
    if column == "torch_quint8":
        inside = integer.quantise(x, scales, dtype, zero_point, axis=0, method="divide") != want
        assert np.count_nonzero(inside) == 1047


def test_fake_quantisation_of_pytorch_is_the_reciprocal(ort_quantised: dict[str, Array]) -> None:
    x, scales = ort_quantised["x"], ort_quantised["scales"]
    codes = integer.quantise(x, scales, axis=0, method="reciprocal")
    back = integer.dequantise(codes, scales, axis=0)
    np.testing.assert_array_equal(back, ort_quantised["torch_fakequant_int8"])


@given(st.floats(-1e6, 1e6, width=32), st.floats(2.0**-20, 2.0**10, width=32), st.integers(0, 255))
def test_fused_sum_is_rounded_once(x: float, scale: float, zero_point: int) -> None:
    inverse = np.float32(1) / np.float32(scale)
    exact = Fraction(float(np.float32(x))) * Fraction(float(inverse)) + zero_point
    found = integer._fused(np.array([x], np.float32), inverse, np.array(float(zero_point)))[0]
    near = {float(np.nextafter(found, np.float32(way))) for way in (-np.inf, np.inf)}
    distance = abs(Fraction(float(found)) - exact)
    assert all(distance <= abs(Fraction(other) - exact) for other in near)


@pytest.mark.parametrize("dtype", ["fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1fn", "fp16"])
@given(x=FLOATS, scale=st.floats(0.015625, 4, width=32))
def test_float_formats_are_scaled_and_saturate(dtype: str, x: Array, scale: float) -> None:
    values = integer.quantise(x, scale, dtype)
    np.testing.assert_array_equal(values, codec.cast(x / np.float32(scale), dtype, overflow="saturate"))
    np.testing.assert_array_equal(
        integer.requantise(x, scale, dtype), codec.cast(x * np.float32(scale), dtype, overflow="saturate")
    )
    assert np.isfinite(values).all()
    top = integer.quantise(np.array([np.inf, -np.inf], np.float32), scale, dtype)
    assert top.tolist() == [codec.get(dtype).max, codec.get(dtype).min]


def test_float_scale_uses_the_whole_range() -> None:
    x = np.array([-3.0, 896], np.float32)
    assert integer.absmax_scale(x, "fp8_e4m3fn") == 2
    assert integer.quantise(x, 2, "fp8_e4m3fn").tolist() == [-1.5, 448]


def test_binary_codes_are_signs() -> None:
    x = np.array([-1e-30, -0.0, 0, 3], np.float32)
    assert integer.quantise(x, 100, "int1").tolist() == [-1, 1, 1, 1]
    assert integer.requantise(np.array([-1, 0, 5], np.int32), 1e-9, "int1").tolist() == [-1, 1, 1]
    assert integer.code_range("binary") == (-1, 1)


@pytest.mark.parametrize("dtype", integer.RANGES)
def test_every_format_keeps_its_range(dtype: str) -> None:
    low, high = integer.code_range(dtype)
    x = np.array([-1e20, low, high, 1e20], np.float32)
    codes = integer.quantise(x, 1.0, dtype)
    assert codes.dtype == integer.CONTAINERS[dtype]
    assert codes[[0, 3]].tolist() == [low, high]


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["int8", "int4", "fp8_e4m3fn"]), st.integers(0, 2))
def test_blocks_are_slices_quantised_alone(size: int, dtype: str, axis: int) -> None:
    x = np.random.default_rng(size).standard_normal((8, 16, 24)).astype(np.float32)
    scales = integer.absmax_scale(x, dtype, axis, block_size=size)
    codes = integer.quantise(x, scales, dtype, axis=axis, block_size=size)
    back = integer.dequantise(codes, scales, axis=axis, block_size=size)
    for block in range(x.shape[axis] // size):
        at = (*[slice(None)] * axis, slice(block * size, block * size + size))
        one = scales[(*[slice(None)] * axis, slice(block, block + 1))]
        np.testing.assert_array_equal(back[at], integer.dequantise(codes[at], one))
        assert np.array_equal(np.max(np.abs(x[at]), axis, keepdims=True) / np.float32(codec.get(dtype).max), one)
    zeros = np.ones_like(scales, np.int32)
    if dtype == "int8":
        moved = integer.quantise(x, scales * 2, dtype, zeros, axis, block_size=size)
        plain = integer.quantise(x, scales * 2, dtype, axis=axis, block_size=size)
        np.testing.assert_array_equal(moved, plain + 1)


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, 1e-60, [1, 0], 1e39])
def test_scales_must_be_positive_and_finite(scale: float | list[float]) -> None:
    with pytest.raises(UsageError, match=r"layer 3: scale .*positive, finite"):
        integer.check_scale(scale, "layer 3")
    with pytest.raises(UsageError, match="positive, finite"):
        integer.quantise(np.zeros((2, 2), np.float32), scale, axis=0)


X = np.zeros((2, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: integer.quantise(X, 1, method="divid"), "did you mean 'divide'"),
        (lambda: integer.quantise(X, 1, source="tensorrt"), "one of onnx, ort"),
        (lambda: integer.quantise(X, 1, "int64"), "up to 32 bits"),
        (lambda: integer.quantise(X, 1, "mxfp4"), "cannot be quantised"),
        (lambda: integer.quantise(X, 1, "fp8", zero_point=3), "fp8 has no zero point"),
        (lambda: integer.quantise(X, np.ones((2, 2)), axis=1, block_size=4), "blocks of 4 do not fill the 6"),
        (lambda: integer.quantise(X, np.ones((2, 2)), axis=1, block_size=2), r"one per block: \(2, 3\)"),
        (lambda: integer.absmax_scale(X, axis=1, block_size=5), "divides 6"),
        (lambda: integer.code_range("fp8"), "not an integer format"),
        (lambda: fixed_point.from_multiplier([0.5, 0]), "0 < multiplier"),
    ],
)
def test_errors_say_what_is_expected(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call()


@given(st.floats(2.0**-31, 2.0**30), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_fixed_point_is_exact_rational_arithmetic(real: float, accs: list[int]) -> None:
    mantissa, shift = (int(part) for part in fixed_point.from_multiplier(real))
    assert 2**30 <= mantissa < 2**31
    assert abs(Fraction(mantissa) * Fraction(2) ** (shift - 31) / Fraction(real) - 1) <= Fraction(1, 2**31)
    codes = fixed_point.requantise(np.array(accs, np.int32), mantissa, shift, "int16", 3)
    for acc, code in zip(accs, codes.tolist(), strict=True):
        lifted = min(max(acc * 2 ** max(shift, 0), -(2**31)), 2**31 - 1)
        high = floor(Fraction(lifted * mantissa, 2**31) + Fraction(1, 2))
        value = Fraction(high, 2 ** max(-shift, 0))
        size = floor(abs(value) + Fraction(1, 2))
        assert code == min(max((size if value >= 0 else -size) + 3, -32768), 32767)


@given(st.floats(1e-6, 1), st.integers(-(2**24), 2**24))
def test_fixed_point_is_near_the_float_multiplication(real: float, acc: int) -> None:
    accs = np.array([acc], np.int32)
    fixed = fixed_point.requantise(accs, *fixed_point.from_multiplier(real), "int32")
    exact = Fraction(acc) * Fraction(real)
    assert abs(Fraction(int(fixed[0])) - exact) <= Fraction(3, 2) + abs(exact) / 2**30


def test_fixed_point_per_channel_and_limits() -> None:
    mantissas, shifts = fixed_point.from_multiplier([0.5, 0.25, 1 - 2.0**-40, 2.0**-40, 8])
    assert mantissas.tolist() == [2**30, 2**30, 2**30, 0, 2**30]
    assert shifts.tolist() == [0, -1, 1, 0, 4]
    acc = np.array([[100] * 5, [-101] * 5], np.int32)
    codes = fixed_point.requantise(acc, mantissas, shifts, "int8", axis=1)
    assert codes.tolist() == [[50, 25, 100, 0, 127], [-50, -25, -101, 0, -128]]
    low = np.array([-(2**31)], np.int32)
    assert fixed_point.multiply_high(low, -(2**31)).tolist() == [2**31 - 1]
    assert fixed_point.shift_right(np.array([5, -5, 6, -6], np.int32), 2).tolist() == [1, -1, 2, -2]
