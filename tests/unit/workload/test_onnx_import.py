"""ONNX import: one form for all operator sets, static shapes, evaluated constants, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Array, Graph
from accelsim.workload.onnx.canonical.shape import rebatched, same_pads
from tests.helpers.onnx_models import feeds_of, import_proto, model, node

ort = pytest.importorskip("onnxruntime")


def theirs(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, feeds)


def check(proto: onnx.ModelProto, **options: Any) -> Graph:
    """Import, run, and compare every output with ONNX Runtime on the original model."""
    graph = import_proto(proto, "small", **options)
    feeds = feeds_of(graph)
    ours = run(graph, feeds)
    for name, value in zip(graph.outputs, theirs(proto, feeds), strict=True):
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-6)
    return graph


I = np.int64  # noqa: E741
X = {"x": (2, 3, 4)}
OPSET_PAIRS = {
    "squeeze": (11, {"x": (2, 1, 4)}, node("Squeeze", ["x"], ["y"], axes=[-2]), {},
                13, node("Squeeze", ["x", "a"], ["y"]), {"a": I([-2])}),
    "unsqueeze": (11, X, node("Unsqueeze", ["x"], ["y"], axes=[0, -1]), {},
                  13, node("Unsqueeze", ["x", "a"], ["y"]), {"a": I([0, -1])}),
    "reduce_sum": (11, X, node("ReduceSum", ["x"], ["y"], axes=[-1], keepdims=0), {},
                   13, node("ReduceSum", ["x", "a"], ["y"], keepdims=0), {"a": I([-1])}),
    "reduce_mean": (13, X, node("ReduceMean", ["x"], ["y"], axes=[1, 2]), {},
                    18, node("ReduceMean", ["x", "a"], ["y"]), {"a": I([1, 2])}),
    "clip": (7, X, node("Clip", ["x"], ["y"], min=-0.5, max=0.25), {},
             13, node("Clip", ["x", "lo", "hi"], ["y"]), {"lo": np.float32(-0.5), "hi": np.float32(0.25)}),
    "pad": (7, X, node("Pad", ["x"], ["y"], pads=[0, 1, 2, 0, 0, 1], value=1.5), {},
            18, node("Pad", ["x", "p", "v", "a"], ["y"]),
            {"p": I([1, 2, 0, 1]), "v": np.float32(1.5), "a": I([1, -1])}),
    "slice": (9, X, node("Slice", ["x"], ["y"], starts=[1, -3], ends=[9, 3], axes=[1, 2]), {},
              13, node("Slice", ["x", "s", "e", "a"], ["y"]),
              {"s": I([1, -3]), "e": I([9, 3]), "a": I([1, -1])}),
    "split": (11, X, node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3]), {},
              13, node("Split", ["x", "s"], ["y", "z"], axis=-1), {"s": I([1, 3])}),
    "dropout": (7, X, node("Dropout", ["x"], ["y", "mask"], ratio=0.3), {},
                13, node("Dropout", ["x", "r", "t"], ["y"]), {"r": np.float32(0.3), "t": np.bool_(False)}),
    "upsample": (9, {"x": (1, 2, 3, 4)}, node("Upsample", ["x", "s"], ["y"], mode="nearest"),
                 {"s": np.float32([1, 1, 2, 2])},
                 13, node("Resize", ["x", "", "s"], ["y"], mode="nearest", nearest_mode="floor",
                          coordinate_transformation_mode="asymmetric"), {"s": np.float32([1, 1, 2, 2])}),
    "softmax_last": (7, X, node("Softmax", ["x"], ["y"], axis=2), {}, 13, node("Softmax", ["x"], ["y"]), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPSET_PAIRS)
def test_one_canonical_form_for_old_and_new_operator_sets(name: str) -> None:
    old, inputs, old_node, old_values, new, new_node, new_values = OPSET_PAIRS[name]
    outputs = [out for out in old_node.output if out != "mask"]
    graphs = [
        check(model([old_node], inputs, outputs, old_values, opset=old)),
        check(model([new_node], inputs, outputs, new_values, opset=new)),
    ]
    first, second = graphs[0].nodes[0], graphs[1].nodes[0]
    assert (first.op, first.inputs, first.outputs, first.attrs) == (
        second.op, second.inputs, second.outputs, second.attrs)  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(("opset", "op"), [(11, "Softmax"), (13, "Softmax"), (11, "LogSoftmax"), (13, "LogSoftmax")])
def test_softmax_before_13_is_over_all_later_axes(opset: int, op: str, axis: int) -> None:
    check(model([node(op, ["x"], ["y"], axis=axis)], X, ["y"], opset=opset))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_auto_pad(op: str, auto_pad: str) -> None:
    weights = {"w": np.random.default_rng(0).standard_normal((3, 2, 3, 2)).astype(np.float32)} if op == "Conv" else {}
    made = node(op, ["x", *weights], ["y"], kernel_shape=[3, 2], strides=[2, 2], auto_pad=auto_pad)
    graph = check(model([made], {"x": (1, 2, 8, 9)}, ["y"], weights))
    assert "auto_pad" not in graph.nodes[0].attrs


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_same_padding_gives_ceil_of_length_over_stride(size: int, k: int, stride: int, dilation: int, up: bool) -> None:
    begin, end = same_pads((size,), [k], [stride], [dilation], up)
    extent = (k - 1) * dilation + 1
    assert (size + begin + end - extent) // stride + 1 == -(-size // stride) or begin + end == 0
    assert 0 <= (end - begin if up else begin - end) <= 1


def test_shape_arithmetic_is_evaluated() -> None:
    """The usual exporter idiom: Reshape(x, Concat(Gather(Shape(x), 0), -1))."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "zero1"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": I(0), "zero1": I([0]), "rest": I([-1])}
    graph = check(model(nodes, {"x": ("batch", 3, 4)}, ["y"], constants), batch=5)
    assert [part.op for part in graph.nodes] == ["Reshape"]
    assert set(graph.tensors) == {"x", "y"} and graph.tensors["y"].shape == (5, 12)


def test_large_constants_stay_lazy() -> None:
    nodes = [node("ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.float32([2.0]))),
             node("Reshape", ["c", "t"], ["w"]), node("MatMul", ["x", "w"], ["y"])]  # fmt: skip
    proto = model(nodes, {"x": (2, 4096)}, ["y"], {"s": I([1, 4096, 4096]), "t": I([4096, -1])})
    weight = import_proto(proto).tensors["w"]
    assert weight.is_constant and weight.data is None and weight.shape == (4096, 4096)


def test_dead_nodes_and_unused_inputs_do_not_disturb() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("NoSuchOp", ["queue"], ["dead"])]
    graph = import_proto(model(nodes, {"x": (2,), "queue": ("unknown",)}, ["y"], {"blob": np.float32([1])}))
    assert graph.inputs == ["x"] and set(graph.tensors) == {"x", "y"}


def test_an_initialiser_among_the_inputs_is_a_weight() -> None:
    proto = model([node("Add", ["x", "b"], ["y"])], {"x": (3,), "b": (3,)}, ["y"], {"b": np.float32([1, 2, 3])})
    assert import_proto(proto).inputs == ["x"]


def test_local_functions_are_inlined() -> None:
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": (3,)}, ["y"])
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert [part.op for part in import_proto(proto).nodes] == ["Add"]


def test_constant_node_of_every_kind() -> None:
    nodes = [
        helper.make_node("Constant", [], ["a"], value_float=2.0),
        helper.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Constant", [], ["t"], value_ints=[3, 1]),
        node("Mul", ["x", "a"], ["m"]), node("Add", ["m", "b"], ["s"]), node("Reshape", ["s", "t"], ["y"]),
    ]  # fmt: skip
    check(model(nodes, {"x": (1, 3)}, ["y"]))


def test_static_batch_is_rewritten_with_literal_reshapes() -> None:
    nodes = [node("Reshape", ["x", "heads"], ["h"]), node("Transpose", ["h"], ["t"], perm=[0, 2, 1]),
             node("Reshape", ["t", "flat"], ["f"]), node("MatMul", ["f", "w"], ["y"])]  # fmt: skip
    values = {"heads": I([2, 3, 4]), "flat": I([2, -1]), "w": np.ones((12, 5), np.float32)}
    proto = model(nodes, {"x": (2, 12)}, ["y"], values)
    graph = import_proto(proto, batch=8)
    assert graph.tensors["h"].shape == (8, 3, 4) and graph.tensors["y"].shape == (8, 5)
    assert import_proto(proto).tensors["y"].shape == (2, 5)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_rebatched_target_has_the_right_number_of_elements(old: int, new: int, heads: int, rest: list[int]) -> None:
    data = (new, heads, *rest)
    target = rebatched([old * heads, *rest], data, (old, new))
    assert target == [new * heads, *rest]
    assert rebatched([-1, *rest], data, (old, new)) == [-1, *rest]
    assert rebatched([old, -1], data, (old, new)) == [new, -1]


def test_a_reshape_that_cannot_take_the_batch_is_refused() -> None:
    proto = model([node("Reshape", ["x", "t"], ["y"])], {"x": (2, 6)}, ["y"], {"t": I([3, 4])})
    assert import_proto(proto, batch=4).tensors["y"].shape == (6, 4)
    with pytest.raises(ModelError, match=r"n_y: cannot reshape \[3, 6\] to \[3, 4\]"):
        import_proto(proto, batch=3)


def test_an_op_without_a_row_goes_to_the_host() -> None:
    graph = check(model([node("Det", ["x"], ["y"])], {"x": (2, 3, 3)}, ["y"]))
    assert graph.nodes[0].op == "Det" and graph.tensors["y"].shape == (2,)


def test_a_form_outside_the_registry_goes_to_the_host() -> None:
    made = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2])
    proto = model([made], X, ["y", "i"])
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    graph = import_proto(proto)
    assert graph.nodes[0].op == "onnx::MaxPool"
    assert graph.tensors["i"].dtype == "int64" and graph.tensors["i"].shape == (2, 3, 3)
    values = run(graph, feeds_of(graph))
    assert values["y"].shape == values["i"].shape == (2, 3, 3)


def test_an_op_without_a_shape_rule_is_tried_out() -> None:
    made = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    proto = model([made], {"x": (2, 3)}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    assert check(proto).tensors["y"].shape == (2, 3)


def test_lstm_with_only_its_last_state() -> None:
    rng = np.random.default_rng(0)
    values = {
        "w": rng.standard_normal((1, 8, 4)).astype(np.float32),
        "r": rng.standard_normal((1, 8, 2)).astype(np.float32),
    }
    check(model([node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)], {"x": (3, 1, 4)}, ["h"], values))


def test_foreign_ops_on_constants_are_computed_whatever_their_shape() -> None:
    nodes = [node("NonZero", ["c"], ["i"]), node("Gather", ["x", "i"], ["y"], axis=0)]
    proto = model(nodes, {"x": (4,)}, ["y"], {"c": np.float32([0, 1, 0, 2])})
    assert check(proto).tensors["y"].shape == (1, 2)


def test_quantised_models_keep_their_integers() -> None:
    rng = np.random.default_rng(1)
    values = {
        "xs": np.float32(0.05), "xz": np.uint8(128), "ws": np.float32([0.01, 0.02, 0.03]),
        "wz": np.int8([0, 0, 0]),
        "w": rng.integers(-100, 100, (3, 2, 3, 3)).astype(np.int8),
        "b": rng.integers(-500, 500, 3).astype(np.int32),
        "ys": np.float32(0.1), "yz": np.uint8(120),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("DequantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    graph = check(model(nodes, {"x": (1, 2, 6, 6)}, ["y"], values))
    assert [part.op for part in graph.nodes] == ["Quantize", "Conv", "Requantize", "Dequantize"]
    assert graph.tensors["w"].dtype == "int8"
