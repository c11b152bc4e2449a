"""Integer quantisation, bit for bit against ONNX Runtime's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.errors import UsageError
from accelsim.formats import integer
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
    ],
)
def test_quantise_is_quantizelinear(
    ort_quantised: dict[str, Array], column: str, dtype: str, zero_point: int
) -> None:
    x, scales, want = ort_quantised["x"], ort_quantised["scales"], ort_quantised[column]
    per_row = integer.quantise(x, scales, dtype, np.full(len(scales), zero_point), axis=0)
    assert per_row.dtype == integer.CONTAINERS[dtype]
    known = ~np.isnan(x)
    assert np.count_nonzero(per_row[known] != want[known]) == 0
    one = np.stack(
        [integer.quantise(row, scale, dtype, zero_point) for row, scale in zip(x, scales, strict=True)]
    )
    np.testing.assert_array_equal(one, per_row)


def test_multiplying_by_the_reciprocal_is_another_rule(ort_quantised: dict[str, Array]) -> None:
    x, scales = ort_quantised["x"], ort_quantised["scales"][:, None]
    other = np.clip(np.rint(x * (np.float32(1) / scales)), -128, 127)
    assert np.count_nonzero(other != ort_quantised["ort_int8"]) == 281


@pytest.mark.parametrize("case", "abcde")
def test_qlinearconv(ort_ops: dict[str, Array], case: str) -> None:
    v = {
        key.removeprefix(f"qlinearconv_{case}_"): value
        for key, value in ort_ops.items()
        if f"conv_{case}_" in key
    }
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
    np.testing.assert_array_equal(
        integer.requantise(acc, 1.0, "int32", 1), [2**31 - 1, -(2**31) + 1, (1 << 24) + 1]
    )


def test_unknown_format_has_a_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'int8'"):
        integer.quantise(np.zeros(2, np.float32), 1.0, "itn8")
