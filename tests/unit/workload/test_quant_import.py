"""Quantised ONNX ops: imported, and executed to the last bit as ONNX Runtime does."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Array, Graph
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.matrix import a_matrix, b_matrix, y_from_matrix
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.onnx.reference import _onnxruntime, unsaturated
from accelsim.workload.ops import base
from accelsim.workload.ops.product import product
from accelsim.workload.sources.load import load_model
from tests.helpers.onnx_models import import_proto

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "int8_ops_ort.npz"


def golden(prefix: str) -> dict[str, Array]:
    with np.load(GOLDEN) as data:
        return {name.removeprefix(prefix): data[name] for name in data.files if name.startswith(prefix)}


def one_op(
    op: str,
    inputs: dict[str, Array],
    constants: dict[str, Any],
    order: list[str],
    outputs: list[str],
    opset: int = 21,
    **attrs: Any,
) -> onnx.ModelProto:
    """A model of one node; ``order`` are its inputs, '' for an absent one."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([helper.make_node(op, order, outputs, "node", **attrs)], "one", infos, made, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def imported(op: str, inputs: dict[str, Array], *rest: Any, **attrs: Any) -> tuple[Graph, dict[str, Array]]:
    graph = import_proto(one_op(op, inputs, *rest, **attrs))
    return graph, run(graph, inputs)


def by_matrix_views(graph: Graph, feeds: dict[str, Array]) -> Array:
    """The product of the first node as a matrix unit sees it, group by group."""
    node = graph.nodes[0]
    gemm = base.get(node.op).gemm
    assert gemm is not None
    ins = [graph.tensors[name] for name in node.inputs]
    out = graph.tensors[node.outputs[0]]
    view = gemm(node, list(ins), [out])
    assert view is not None
    a, b = (feeds[t.name] if t.name in feeds else t.value() for t in ins[:2])
    parts = [product(a_matrix(view, a, group, node), b_matrix(view, b, group, node)) for group in range(view.groups)]
    return y_from_matrix(view, np.stack(parts), out.shape)


@pytest.mark.parametrize("case", "abcde")
def test_convolutions(case: str) -> None:
    values = golden(f"qlinearconv_{case}_")
    pads, strides, dilations, group = np.split(values.pop("attrs"), [4, 6, 8])
    y, sums = values.pop("y"), values.pop("acc_int32")
    feeds = {"x": values.pop("x")}
    order = ["x", "x_scale", "x_zp", "w", "w_scale", "w_zp", "y_scale", "y_zp", "bias"]
    if not values["bias"].size:
        values.pop("bias"), order.pop()
    attrs = {"pads": pads.tolist(), "strides": strides.tolist(), "dilations": dilations.tolist()}
    graph, result = imported("QLinearConv", feeds, values, order, ["y"], **attrs, group=int(group[0]))
    assert [node.op for node in graph.nodes] == ["Conv", "Requantize"]
    np.testing.assert_array_equal(result["y"], y)
    known = run(graph, feeds, keep=True)
    np.testing.assert_array_equal(known[graph.nodes[0].outputs[0]], sums)
    np.testing.assert_array_equal(integer_reference(graph, feeds)["y"], y)


@pytest.mark.parametrize("case", "abcd")
def test_products(case: str) -> None:
    values = golden(f"qlinearmatmul_{case}_")
    y, sums = values.pop("y"), values.pop("acc_int32")
    feeds = {"a": values.pop("a")}
    order = ["a", "a_scale", "a_zp", "b", "b_scale", "b_zp", "y_scale", "y_zp"]
    graph, result = imported("QLinearMatMul", feeds, values, order, ["y"])
    np.testing.assert_array_equal(result["y"], y)
    np.testing.assert_array_equal(integer_reference(graph, feeds)["y"], y)
    wide, result = imported("MatMulInteger", feeds, values, ["a", "b", "a_zp", "b_zp"], ["y"])
    np.testing.assert_array_equal(result["y"], sums)
    np.testing.assert_array_equal(golden(f"matmulinteger_{case}_")["y"], sums)
    np.testing.assert_array_equal(by_matrix_views(wide, feeds), sums)


@pytest.mark.parametrize("name", ["normal", "pos", "neg", "zeros", "wide", "const", "ties"])
def test_dynamic_quantisation(name: str) -> None:
    values = golden(f"dql_{name}_")
    _, result = imported("DynamicQuantizeLinear", {"x": values["x"]}, {}, ["x"], ["y", "s", "z"])
    for ours, theirs in (("y", "y"), ("s", "scale"), ("z", "zp")):
        np.testing.assert_array_equal(result[ours], values[theirs])
        assert result[ours].dtype == values[theirs].dtype


def test_zero_points_per_channel() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8), rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8))
    zeros, scales = rng.integers(-9, 9, 6).astype(np.int8), rng.uniform(0.001, 0.01, 6).astype(np.float32)
    values = {"xs": np.float32(0.02), "xz": np.uint8(7), "w": w, "ws": scales, "wz": zeros, "ys": np.float32(0.05),
              "yz": np.uint8(100)}  # fmt: skip
    order = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    graph, result = imported("QLinearConv", {"x": x}, values, order, ["y"], group=2, pads=[1, 1, 1, 1])
    shifted = w.astype(np.float64) - zeros.reshape(-1, 1, 1, 1)
    padded = np.pad(x.astype(np.float64) - 7, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).reshape(2, 2, 2, 7, 6, 3, 3)
    sums = np.einsum("ngchwrs,gocrs->ngohw", windows, shifted.reshape(2, 3, 2, 3, 3)).reshape(2, 6, 7, 6)
    multiplier = (np.float32(0.02) * scales / np.float32(0.05)).reshape(-1, 1, 1)
    want = np.clip(np.rint(sums.astype(np.float32) * multiplier) + 100, 0, 255)
    np.testing.assert_array_equal(result["y"], want)
    np.testing.assert_array_equal(by_matrix_views(graph, {"x": x}), sums)
    np.testing.assert_array_equal(integer_reference(graph, {"x": x})["y"], want)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_parameters_per_row_and_per_column(batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 256, (*batch, 5, 8)).astype(np.uint8), rng.integers(-128, 128, (8, 3)).astype(np.int8))
    row, column = (*batch, 5, 1) if batch else (5,), (3,)
    values = {
        "as": rng.uniform(0.01, 0.02, row).astype(np.float32), "az": rng.integers(0, 200, row).astype(np.uint8),
        "b": b, "bs": rng.uniform(0.01, 0.02, column).astype(np.float32),
        "bz": rng.integers(-9, 9, column).astype(np.int8), "ys": np.float32(0.5), "yz": np.int8(-3),
    }  # fmt: skip
    order = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    graph, result = imported("QLinearMatMul", {"a": a}, values, order, ["y"])
    rows = {key: values[key].reshape(*batch, 5, 1) for key in ("as", "az")}
    sums = (a.astype(np.int64) - rows["az"]) @ (b.astype(np.int64) - values["bz"])
    multiplier = (rows["as"] * values["bs"] / np.float32(0.5)).astype(np.float32)
    want = np.clip(np.rint(sums.astype(np.float32) * multiplier) - 3, -128, 127)
    np.testing.assert_array_equal(result["y"], want)
    np.testing.assert_array_equal(by_matrix_views(graph, {"a": a}), sums)


@settings(max_examples=25)
@given(st.sampled_from(["uint8", "int8"]), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_products_with_zero_points_of_the_run(dtype: str, left: bool, right: bool, constant: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    a, b = (rng.integers(low, high, shape).astype(dtype) for shape in ((2, 3, 7), (7, 4)))
    az, bz = (rng.integers(low, high, ()).astype(dtype) for _ in range(2))
    given_, constants = {"a": a}, {}
    for name, value, in_run in (("b", b, not constant), ("az", az, left), ("bz", bz, right)):
        (given_ if in_run else constants)[name] = value
    _, result = imported("MatMulInteger", given_, constants, ["a", "b", "az", "bz"], ["y"])
    np.testing.assert_array_equal(result["y"], (a.astype(np.int64) - az) @ (b.astype(np.int64) - bz))
    assert result["y"].dtype == np.int32


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 2, 1]])
def test_convolutions_with_a_zero_point_of_the_run(pads: list[int]) -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.integers(0, 256, (2, 4, 8, 9)).astype(np.uint8), rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8))
    attrs = {"pads": pads, "group": 2, "strides": [2, 1], "dilations": [1, 2]}
    zero = np.asarray(37, np.uint8)
    rest: tuple[Any, ...] = (["x", "w", "z"], ["y"])
    _, known = imported("ConvInteger", {"x": x}, {"w": w, "z": zero}, *rest, **attrs)
    graph, result = imported("ConvInteger", {"x": x, "z": zero}, {"w": w}, *rest, **attrs)
    np.testing.assert_array_equal(result["y"], known["y"])
    assert [node.op for node in graph.nodes] == ["Conv", "Cast", "Mul", "Sub"]  # the sum of weights is a constant
    assert known["y"].any()


FLOAT8 = {"fp8_e4m3fn": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2,
          "fp8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "fp8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz}  # fmt: skip
WHOLE = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int4": ml_dtypes.int4,
         "uint4": ml_dtypes.uint4}  # fmt: skip
LIMITS = {"int4": (-8, 7), "uint4": (0, 15)}


@pytest.mark.parametrize("how", ["tensor", "axis", "block", "ragged"])
@pytest.mark.parametrize("dtype", sorted(WHOLE))
def test_whole_number_codes_there_and_back(dtype: str, how: str) -> None:
    rng = np.random.default_rng(3)
    low, high = LIMITS[dtype] if dtype in LIMITS else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.normal(0, 8, (3, 8)).astype(np.float32)
    shape, attrs = {"tensor": ((), {}), "axis": ((8,), {"axis": -1}), "block": ((3, 2), {"axis": 1, "block_size": 4}),
                    "ragged": ((3, 3), {"axis": 1, "block_size": 3})}[how]  # fmt: skip
    scale = rng.uniform(0.5, 2, shape).astype(np.float32)
    zero = rng.integers(max(low, -9), min(high, 9), shape)
    constants = {"s": scale, "z": np.asarray(zero).astype(WHOLE[dtype])}
    graph, result = imported("QuantizeLinear", {"x": x}, constants, ["x", "s", "z"], ["q"], **attrs)
    assert [node.op for node in graph.nodes] == ["Quantize"]
    assert graph.tensors["q"].dtype == dtype
    wide = {"block": 4, "ragged": 3}.get(how, 0)
    if wide:
        scale, zero = np.repeat(scale, wide, 1)[:, :8], np.repeat(zero, wide, 1)[:, :8]
    codes = np.clip(np.rint(x / scale) + zero, low, high)
    np.testing.assert_array_equal(result["q"], codes)
    given_ = {"q": codes.astype(WHOLE[dtype])}
    proto = one_op("DequantizeLinear", given_, constants, ["q", "s", "z"], ["y"], **attrs)
    real = run(import_proto(proto), {"q": codes})["y"]
    np.testing.assert_array_equal(real, ((codes - zero).astype(np.float32) * scale).astype(np.float32))


@pytest.mark.parametrize("dtype", sorted(FLOAT8))
def test_eight_bit_floats_are_codes_too(dtype: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(0, 50, 200), [1e6, -1e6, 0]]).astype(np.float32)
    scale = np.float32(0.7)
    constants = {"s": scale, "z": np.zeros((), FLOAT8[dtype])}
    _, result = imported("QuantizeLinear", {"x": x}, constants, ["x", "s", "z"], ["q"])
    most = float(ml_dtypes.finfo(FLOAT8[dtype]).max)
    want = np.clip(x / scale, -most, most).astype(FLOAT8[dtype]).astype(np.float32)
    np.testing.assert_array_equal(result["q"], want)
    proto = one_op("DequantizeLinear", {"q": want.astype(FLOAT8[dtype])}, constants, ["q", "s", "z"], ["y"])
    np.testing.assert_array_equal(run(import_proto(proto), {"q": want})["y"], want * scale)


def test_two_bit_codes() -> None:
    data = {"q": helper.make_tensor("q", TensorProto.INT2, [4], [-2, -1, 0, 1]),
            "s": numpy_helper.from_array(np.float32(0.5), "s")}  # fmt: skip
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["d"]), helper.make_node("Add", ["d", "x"], ["y"])]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], list(data.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    found = import_proto(model)
    assert found.tensors["q"].nbytes == 1
    np.testing.assert_array_equal(run(found, {"x": np.zeros(4, np.float32)})["y"], [-1, -0.5, 0, 0.5])


def test_half_precision_scales_round_once_more() -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    scale = np.float16(0.0123)
    graph, result = imported("DequantizeLinear", {"q": codes}, {"s": scale}, ["q", "s"], ["y"])
    assert [node.op for node in graph.nodes] == ["Dequantize", "Cast"]
    np.testing.assert_array_equal(result["y"], (codes.astype(np.float16) * scale).astype(np.float32))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_that_are_no_scales(op: str, bad: float) -> None:
    x = np.zeros((2, 2), np.float32 if op == "QuantizeLinear" else np.int8)
    with pytest.raises(ModelError, match=r"node: .* has the scale .* \(tensor 's'\); expected positive") as caught:
        imported(op, {"x": x}, {"s": np.float32([1, bad])}, ["x", "s"], ["y"], axis=0)
    assert len(caught.value.problems) == 1


def test_a_wrong_scale_of_a_product() -> None:
    feeds = {"a": np.zeros((2, 3), np.uint8)}
    values = {"as": np.float32(0), "z": np.uint8(0), "b": np.zeros((3, 2), np.uint8), "s": np.float32(1)}
    order = ["a", "as", "z", "b", "s", "z", "s", "z"]
    with pytest.raises(ModelError, match="QLinearMatMul has the scale 0"):
        imported("QLinearMatMul", feeds, values, order, ["y"])


@pytest.mark.parametrize(
    ("scale", "zero", "attrs", "words"),
    [
        ((3, 3), (3, 3), {"axis": 1, "block_size": 4}, r"blocks of 4 along axis 1 of data \[3, 8\]; .*\[3, 2\]"),
        ((8,), (4,), {"axis": 1}, "4 zero points and 8 scales"),
        ((4,), (4,), {"axis": 1}, r"scales of shape \[4\] for slices of axis 1 of data \[3, 8\]; .*\[8\]"),
    ],
)
def test_parameters_that_do_not_fit(
    scale: tuple[int, ...], zero: tuple[int, ...], attrs: dict[str, int], words: str
) -> None:
    constants = {"s": np.ones(scale, np.float32), "z": np.zeros(zero, np.int8)}
    with pytest.raises(ModelError, match=words):
        imported("QuantizeLinear", {"x": np.zeros((3, 8), np.float32)}, constants, ["x", "s", "z"], ["y"], **attrs)


def test_scales_of_the_run_go_to_the_host() -> None:
    graph = import_proto(
        one_op("QuantizeLinear", {"x": np.zeros(3, np.float32), "s": np.float32(1)}, {}, ["x", "s"], ["y"])
    )
    assert [node.op for node in graph.nodes] == ["QuantizeLinear"]


def contrib(op: str, feeds: dict[str, Array], constants: dict[str, Any], order: list[str], **attrs: Any) -> None:
    """An op of ONNX Runtime's own domain, at most one step off."""
    runtime = pytest.importorskip("onnxruntime")
    proto = one_op(op, feeds, constants, order, ["y"])
    node = helper.make_node(op, order, ["y"], "node", domain="com.microsoft", **attrs)
    proto.graph.node[0].CopyFrom(node)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wire = unsaturated(proto).SerializeToString()
    (want,) = runtime.InferenceSession(wire, options, ["CPUExecutionProvider"]).run(None, feeds)
    y = run(import_proto(proto), feeds)["y"]
    assert (y.dtype, y.shape) == (want.dtype, want.shape)
    assert np.ptp(want.astype(np.float64)) > 3
    assert np.abs(y.astype(np.float64) - want).max() <= (1 if want.dtype.kind in "iu" else 1e-4)
    assert np.mean(y != want) < 0.1 or want.dtype.kind == "f"


KIND = {"uint8": (np.uint8, 0, 256, 121), "int8": (np.int8, -128, 128, -7)}


def drawn(dtype: str, *shape: int, seed: int = 0) -> Array:
    kind, low, high, _ = KIND[dtype]
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


@pytest.mark.parametrize("dtype", sorted(KIND))
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_of_codes(op: str, dtype: str) -> None:
    kind, zero = KIND[dtype][0], KIND[dtype][3]
    values = {"as": np.float32(0.02), "bs": np.float32(0.013), "ys": np.float32(0.05), "z": kind(zero)}
    feeds = {"a": drawn(dtype, 2, 3, 8), "b": drawn(dtype, 2, 3, 8, seed=1)}
    contrib(op, feeds, values, ["a", "as", "z", "b", "bs", "z", "ys", "z"])


@pytest.mark.parametrize("dtype", sorted(KIND))
@pytest.mark.parametrize(
    ("op", "scale", "attrs"),
    [
        ("QLinearSigmoid", 1 / 256, {}), ("QLinearLeakyRelu", 0.02, {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", 0.002, {"channels_last": 0}),
        ("QLinearAveragePool", 0.02, {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearSoftmax", 1 / 256, {"axis": -1, "opset": 13}),
    ],
)  # fmt: skip
def test_functions_of_codes(op: str, scale: float, attrs: dict[str, Any], dtype: str) -> None:
    kind, low, _, zero = KIND[dtype]
    values = {"xs": np.float32(0.02), "xz": kind(zero), "ys": np.float32(scale), "yz": kind(low + 3)}
    contrib(op, {"x": drawn(dtype, 1, 5, 6, 6)}, values, ["x", "xs", "xz", "ys", "yz"], **attrs)


def test_codes_of_several_scales_as_one() -> None:
    values = {"ys": np.float32(0.03), "z": np.uint8(9), "as": np.float32(0.02), "bs": np.float32(0.04)}
    feeds = {"a": drawn("uint8", 2, 3), "b": drawn("uint8", 2, 4, seed=1)}
    contrib("QLinearConcat", feeds, values, ["ys", "z", "a", "as", "z", "b", "bs", "z"], axis=1)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("per_column", [False, True])
def test_gemms_of_codes(per_column: bool, turned: int, real: bool) -> None:
    rng = np.random.default_rng(5)
    shape = (6,) if per_column else ()
    values = {
        "as": np.float32(0.02), "az": np.uint8(100), "b": drawn("int8", *((6, 9) if turned else (9, 6))),
        "bs": rng.uniform(0.01, 0.02, shape).astype(np.float32), "bz": np.zeros(shape, np.int8),
        "c": rng.integers(-999, 999, 6).astype(np.int32), "ys": np.float32(0.3), "yz": np.uint8(80),
    }  # fmt: skip
    order = ["a", "as", "az", "b", "bs", "bz", "c", *([] if real else ["ys", "yz"])]
    used = {name: value for name, value in values.items() if name in order}
    contrib("QGemm", {"a": drawn("uint8", 4, 9)}, used, order, alpha=1.0, transB=turned)


@pytest.mark.parametrize("name", ["mlp?hidden=32", "cnn", "bert?layers=1,seq=8,hidden=16,heads=2"])
def test_files_quantised_in_the_run(name: str, tmp_path: Path) -> None:
    """ONNX Runtime's dynamic quantiser: DynamicQuantizeLinear, then products with zero points of the run."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    logging.getLogger().setLevel(logging.ERROR)
    onnx.save(export_onnx(load_model(name)), tmp_path / "real.onnx")
    quantization.quantize_dynamic(
        tmp_path / "real.onnx", tmp_path / "codes.onnx", op_types_to_quantize=["MatMul", "Gemm", "Conv"]
    )
    model = onnx.load(tmp_path / "codes.onnx")
    graph = import_proto(model)
    found = Counter(node.op for node in graph.nodes)
    assert found["DynamicQuantizeLinear"] and not any(op.endswith("Integer") for op in found)
    products = [node for node in graph.nodes if node.op in ("Conv", "MatMul")]
    assert any(graph.tensors[node.outputs[0]].dtype == "int32" for node in products)
    feeds = synthetic(graph, 3)
    theirs, ours = _onnxruntime(model, feeds, True)[0], run(graph, feeds)
    for out, values in theirs.items():
        assert np.abs(ours[out] - values).max() <= 1e-4 * np.abs(values).max()
