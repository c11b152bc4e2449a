"""Sums that ONNX Runtime cuts off on some processors are those of exact arithmetic once the weights are unsigned."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from accelsim.workload.graph import Array
from accelsim.workload.onnx import reference
from accelsim.workload.onnx.reference import _onnxruntime, unsigned_weights

LONG = 64
SCALE = np.float32(1)


def model(op: str, a: Array, constants: dict[str, Any], order: list[str], out: type, domain: str = "", **attrs: Any
          ) -> onnx.ModelProto:  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(op, order, ["y"], domain=domain, **attrs)], "g",
        [helper.make_tensor_value_info("a", kind(a.dtype), a.shape)],
        [helper.make_tensor_value_info("y", kind(np.dtype(out)), None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 13), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def large(dtype: str, *shape: int) -> Array:
    """Codes near the largest, so that two products leave 16 bits."""
    most = np.iinfo(dtype).max
    return np.random.default_rng(0).integers(most - 20, most + 1, shape).astype(dtype)


def result(proto: onnx.ModelProto, a: Array) -> Array:
    return _onnxruntime(proto, {"a": a}, True)[0]["y"]


@pytest.mark.parametrize("zero", [None, -3])
def test_products_of_whole_numbers(zero: int | None) -> None:
    a, b = large("uint8", 4, LONG), large("int8", LONG, 5)
    constants = {"b": b} | ({} if zero is None else {"az": np.uint8(7), "bz": np.int8(zero)})
    order = ["a", "b", *([] if zero is None else ["az", "bz"])]
    given = model("MatMulInteger", a, constants, order, np.int32)
    other = unsigned_weights(given)
    exact = (a.astype(np.int64) - (0 if zero is None else 7)) @ (b.astype(np.int64) - (zero or 0))
    np.testing.assert_array_equal(result(other, a), exact)
    np.testing.assert_array_equal(result(given, a), exact)
    assert {item.name: item.data_type for item in other.graph.initializer}[other.graph.node[0].input[1]] == 2
    assert list(given.graph.node[0].input) == order


def test_convolutions_of_whole_numbers() -> None:
    a, b = large("uint8", 1, LONG, 2, 2), large("int8", 6, LONG, 1, 1)
    given = model("ConvInteger", a, {"b": b, "z": np.uint8(3)}, ["a", "b", "z"], np.int32)
    exact = np.einsum("nchw,oc->nohw", a.astype(np.int64) - 3, b[:, :, 0, 0].astype(np.int64))
    for proto in (given, unsigned_weights(given)):
        np.testing.assert_array_equal(result(proto, a), exact)


@pytest.mark.parametrize("op", ["QLinearMatMul", "QGemm"])
def test_products_with_a_scale_per_column(op: str) -> None:
    a, b = large("uint8", 4, LONG), large("int8", LONG, 5)
    scales = np.linspace(5e-5, 1e-4, 5).astype(np.float32)
    constants = {
        "s": SCALE,
        "z": np.uint8(9),
        "b": b,
        "bs": scales,
        "bz": np.zeros(5, np.int8),
        "c": np.zeros(5, np.int32),
    }
    middle = ["c"] if op == "QGemm" else []
    order = ["a", "s", "z", "b", "bs", "bz", *middle, "s", "z"]
    used = {name: value for name, value in constants.items() if name in order}
    given = model(op, a, used, order, np.uint8, "com.microsoft" if op == "QGemm" else "")
    exact = (a.astype(np.int64) - 9) @ b.astype(np.int64)
    codes = np.clip(np.rint(exact * scales) + 9, 0, 255)
    assert codes.min() > 20 and codes.max() < 255
    for proto in (given, unsigned_weights(given)):
        assert np.abs(result(proto, a).astype(np.float64) - codes).max() <= 1
    assert list(unsigned_weights(given).graph.node[0].input) != order


def test_signed_activations_and_floats_are_left_alone() -> None:
    a, b = large("int8", 4, LONG), large("int8", LONG, 5)
    given = model("MatMulInteger", a, {"b": b}, ["a", "b"], np.int32)
    assert list(unsigned_weights(given).graph.node[0].input) == ["a", "b"]
    real = model("MatMul", a.astype(np.float32), {"b": b.astype(np.float32)}, ["a", "b"], np.float32)
    assert unsigned_weights(real) is real


def test_models_are_changed_only_where_sums_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    a = large("uint8", 4, LONG)
    given = model("MatMulInteger", a, {"b": large("int8", LONG, 5)}, ["a", "b"], np.int32)
    monkeypatch.setattr(reference, "saturates", lambda: False)
    assert reference.unsaturated(given) is given
    monkeypatch.setattr(reference, "saturates", lambda: True)
    assert reference.unsaturated(given) is not given
