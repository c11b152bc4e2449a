"""Ops that the import writes as several others, against ONNX Runtime: ConvTranspose, Einsum, control
flow, functions, and the forms of old operator sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Array
from accelsim.workload.nodes import node_work
from accelsim.workload.ops import find
from tests.helpers.onnx_models import against_ort, import_proto, model, node

RNG = np.random.default_rng(3)


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


@st.composite
def transposed(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    rank, group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    attrs: dict[str, Any] = {"group": group, "strides": strides, "dilations": dilations}
    kind = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if kind == "pads":
        attrs["pads"] = [
            draw(st.integers(0, d * (k - 1))) for _ in range(2) for d, k in zip(dilations, kernel, strict=True)
        ]
        attrs["output_padding"] = [draw(st.integers(0, stride - 1)) for stride in strides]
    else:
        attrs["auto_pad"] = kind
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        attrs["strides"] = [min(pair) for pair in zip(strides, reach, strict=True)]  # gaps would pad by less than 0
    size = tuple(draw(st.integers(5, 6)) for _ in range(rank))  # padding leaves something
    return attrs, (2, 2 * group, *size), (2 * group, 3, *kernel)


@settings(max_examples=40)
@given(transposed())
def test_transposed_convolutions(case: tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]) -> None:
    attrs, shape, weights = case
    made = node("ConvTranspose", ["x", "w", "b"], ["y"], **attrs)
    values = {"w": f32(*weights), "b": f32(3 * attrs["group"])}
    graph = against_ort(model([made], {"x": shape}, ["y"], values), {"x": f32(*shape)})
    (out,), convs = graph.outputs, [each for each in graph.nodes if each.op == "Conv"]
    places, seen = 1, 1
    for axis, (stride, dilation, kernel) in enumerate(
        zip(attrs["strides"], attrs["dilations"], weights[2:], strict=True)
    ):
        length, begin = graph.tensors[out].shape[2 + axis], begin_of(attrs, axis, shape[2 + axis], kernel)
        pairs = [divmod(o + begin - k * dilation, stride) for o in range(length) for k in range(kernel)]
        places *= sum(not rest for _, rest in pairs)
        seen *= sum(not rest and 0 <= at < shape[2 + axis] for at, rest in pairs)
    each = shape[0] * weights[0] * weights[1]
    assert each * seen <= sum(node_work(graph, conv).macs for conv in convs) <= each * places


def begin_of(attrs: dict[str, Any], axis: int, size: int, kernel: int) -> int:
    """Elements that a transposed convolution loses at the begin of an axis (ONNX, ConvTranspose, total_padding)."""
    if "pads" in attrs:
        return int(attrs["pads"][axis])
    total = max(0, attrs["dilations"][axis] * (kernel - 1) + 1 - attrs["strides"][axis])
    return int({"VALID": 0, "SAME_UPPER": total // 2, "SAME_LOWER": total - total // 2}[attrs["auto_pad"]])


@pytest.mark.parametrize(
    ("weights", "attrs", "want"),
    [
        ((8, 16, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, [56_448, 4]),
        ((8, 16, 2, 2), {"strides": [2, 2]}, [8 * 16 * 4 * 49, 1]),
        ((8, 4, 4, 4), {"strides": [2, 2], "group": 4}, [32_768, 1]),  # padding counts, as in every convolution
        ((8, 2, 16, 16), {"strides": [8, 8], "pads": [4, 4, 4, 4]}, [8 * 2 * 256 * 49, 4]),
        ((8, 2, 1, 1), {"strides": [3, 3]}, [8 * 2 * 49, 1]),
    ],
)
def test_no_inserted_zero_is_multiplied(weights: tuple[int, ...], attrs: dict[str, Any], want: list[int]) -> None:
    values = {"w": f32(*weights), "b": f32(weights[1] * attrs.get("group", 1))}
    made = node("ConvTranspose", ["x", "w", "b"], ["y"], **attrs)
    graph = against_ort(model([made], {"x": (1, 8, 7, 7)}, ["y"], values), {"x": f32(1, 8, 7, 7)})
    counts = [node_work(graph, each).macs for each in graph.nodes if each.op == "Conv"]
    assert [sum(counts), len(counts)] == want


EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "i,j->ij", "ij->ji", "ijk->j", "ij,j", "bhid,bhjd->bhij", "...ij,...jk->...ik",
             "ij,kj,lk->il", "abc,abd->cd", "i,i->"]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    size = {letter: 2 + index % 3 for index, letter in enumerate("abcdhijkl")}
    shapes = {}
    for index, letters in enumerate(equation.partition("->")[0].split(",")):
        lead = [2, 3] if "..." in letters else []
        shapes[f"x{index}"] = (*lead, *(size[letter] for letter in letters.replace(".", "")))
    made = node("Einsum", list(shapes), ["y"], equation=equation)
    feeds = {name: f32(*shape) for name, shape in shapes.items()}
    graph = against_ort(model([made], shapes, ["y"]), feeds)
    np.testing.assert_allclose(run(graph, feeds)["y"], np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 4, 9])
def test_transforms_are_products(half: int, parts: int, length: int | None) -> None:
    x = f32(2, 6, 3, parts)
    constants = {"n": np.int64(length)} if length else {}
    made = node("DFT", ["x", *constants], ["y"], axis=1, onesided=half)
    graph = import_proto(model([made], {"x": x.shape}, ["y"], constants))
    complexes = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
    want = np.fft.fft(complexes, length, axis=1)
    want = want[:, : want.shape[1] // 2 + 1] if half else want
    got = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, rtol=1e-4, atol=1e-4)
    assert [each.op for each in graph.nodes].count("MatMul") == 1


def test_a_transform_and_its_inverse() -> None:
    nodes = [node("DFT", ["x"], ["f"], axis=2), node("DFT", ["f"], ["y"], axis=2, inverse=1)]
    x = f32(1, 2, 7, 2)
    graph = import_proto(model(nodes, {"x": x.shape}, ["y"]))
    np.testing.assert_allclose(run(graph, {"x": x})["y"], x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [False, True])
def test_transforms_of_frames(window: bool) -> None:
    x, shape = f32(2, 20, 1), np.hanning(8).astype(np.float32)
    constants = {"step": np.int64(3), **({"w": shape} if window else {"n": np.int64(8)})}
    made = node("STFT", ["x", "step", "w" if window else "", "" if window else "n"], ["y"])
    got = run(import_proto(model([made], {"x": x.shape}, ["y"], constants)), {"x": x})["y"]
    for frame in range(5):
        part = x[:, 3 * frame : 3 * frame + 8, 0] * (shape if window else 1)
        want = np.fft.rfft(part, axis=1)
        np.testing.assert_allclose(got[:, frame, :, 0] + 1j * got[:, frame, :, 1], want, rtol=1e-4, atol=1e-4)


def test_a_diagonal_of_einsum_goes_to_the_host() -> None:
    graph = import_proto(model([node("Einsum", ["x"], ["y"], equation="ii->i")], {"x": (3, 3)}, ["y"]))
    assert [each.op for each in graph.nodes] == ["Einsum"]


def value(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def info(name: str, kind: int = TensorProto.FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("chosen", [True, False])
def test_a_constant_condition_chooses_the_branch(chosen: bool) -> None:
    branches = {
        "then_branch": helper.make_graph([node("Add", ["x", "k"], ["r"])], "t", [], [info("r")], [value("k", f32(1))]),
        "else_branch": helper.make_graph([node("Mul", ["x", "k"], ["r"])], "e", [], [info("r")], [value("k", f32(1))]),
    }
    made = node("If", ["c"], ["y"], **branches)
    graph = against_ort(model([made], {"x": (3,)}, ["y"], {"c": np.bool_(chosen)}), {"x": f32(3)})
    assert [each.op for each in graph.nodes] == ["Add" if chosen else "Mul", "Identity"]


@pytest.mark.parametrize("going", [None, True, False])
def test_a_loop_of_constant_trip_count_is_unrolled(going: bool | None) -> None:
    nodes = [node("Identity", ["c"], ["c2"]), node("Add", ["s", "x"], ["s2"]), node("Mul", ["s2", "s2"], ["z"])]
    inputs = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("s", shape=[3])]
    outputs = [info("c2", TensorProto.BOOL, []), info("s2", shape=[3]), info("z", shape=[3])]
    body = helper.make_graph(nodes, "b", inputs, outputs)
    constants = {"n": np.int64(3), **({} if going is None else {"g": np.bool_(going)})}
    names = ["last"] if going is False else ["last", "all"]
    made = helper.make_node("Loop", ["n", "" if going is None else "g", "s0"], names + ["all"] * (2 - len(names)), "loop",
                            body=body)  # fmt: skip
    proto = model([made], {"x": (3,), "s0": (3,)}, names, constants)
    if going is False:
        with pytest.raises(ModelError, match="Loop"):
            import_proto(proto)
        return
    graph = against_ort(proto, {"x": f32(3), "s0": f32(3)})
    assert [each.op for each in graph.nodes].count("Add") == 3


def test_a_loop_whose_condition_is_computed_is_refused() -> None:
    nodes = [node("IsNaN", ["s"], ["c2"]), node("Identity", ["s"], ["s2"])]
    inputs = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("s", shape=[])]
    body = helper.make_graph(nodes, "b", inputs, [info("c2", TensorProto.BOOL, []), info("s2", shape=[])])
    made = node("Loop", ["n", "", "x"], ["y"], body=body)
    with pytest.raises(ModelError, match="what Loop does depends on values that only a run makes"):
        import_proto(model([made], {"x": ()}, ["y"], {"n": np.int64(3)}))


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_is_unrolled(backwards: int) -> None:
    nodes = [node("Add", ["s", "e"], ["s2"]), node("Mul", ["s2", "e"], ["z"])]
    body = helper.make_graph(nodes, "b", [info("s", shape=[2]), info("e", shape=[2])],
                             [info("s2", shape=[2]), info("z", shape=[2])])  # fmt: skip
    made = node("Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1],
                scan_input_directions=[backwards], scan_output_directions=[1 - backwards], scan_output_axes=[1])  # fmt: skip
    against_ort(model([made], {"s0": (2,), "x": (2, 4)}, ["last", "all"]), {"s0": f32(2), "x": f32(2, 4)})


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2]), (2, 3, 4)),
        (node("ThresholdedRelu", ["x"], ["y"], alpha=0.5), (3, 4)),
        (node("Celu", ["x"], ["y"], alpha=0.7), (3, 4)),
        *(
            (node(f"Reduce{name}", ["x"], ["y"], axes=[1], keepdims=keep), (3, 4))
            for name in ("LogSumExp", "LogSum")
            for keep in (0, 1)
        ),
        (node("LpNormalization", ["x"], ["y"], axis=0, p=2), (3, 4)),
        (node("GlobalLpPool", ["x"], ["y"], p=2), (1, 2, 3, 4)),
        (node("Hardmax", ["x"], ["y"], axis=1), (3, 4)),
    ],
)
def test_functions_become_ops_of_the_registry(made: onnx.NodeProto, shape: tuple[int, ...]) -> None:
    against_ort(model([made], {"x": shape}, ["y"]), {"x": np.abs(f32(*shape))})


def test_functions_that_need_the_host_go_there_whole() -> None:
    made = node("Bernoulli", ["x"], ["y"])
    with pytest.raises(ModelError, match="other values in every run"):
        import_proto(model([made], {"x": (3,)}, ["y"]))
    made = node("AffineGrid", ["x", "s"], ["y"])
    for batch, on_host in ((2, False), (1, True)):  # the body that ONNX gives squeezes a batch of one away
        graph = import_proto(model([made], {"x": (batch, 2, 3)}, ["y"], {"s": np.array([batch, 1, 2, 3])}, opset=20))
        assert graph.tensors["y"].shape == (batch, 2, 3, 2)
        assert [find(each.op) is None for each in graph.nodes] == [on_host] * len(graph.nodes)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3,), 1), ((3, 4), 1), ((2,), 0), ((5,), -1), ((1,), None), ((4, 5), None)]
)
def test_broadcasting_of_operator_set_6(shape: tuple[int, ...], axis: int | None) -> None:
    x, b = f32(2, 3, 4, 5), f32(*shape)
    more = {} if axis is None else {"axis": axis}
    graph = import_proto(
        model([node("Add", ["x", "b"], ["y"], broadcast=1, **more)], {"x": x.shape}, ["y"], {"b": b}, opset=6)
    )
    first = (4 - len(shape)) if axis is None else axis % 4
    wide = b.reshape(*[1] * first, *shape, *[1] * (4 - first - len(shape))) if b.size > 1 else b
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], x + wide)


def test_slopes_per_channel_of_operator_set_6() -> None:
    x, slope = f32(2, 3, 4, 5), f32(3)
    graph = import_proto(model([node("PRelu", ["x", "s"], ["y"])], {"x": x.shape}, ["y"], {"s": slope}, opset=6))
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], np.where(x >= 0, x, x * slope[:, None, None]))


def test_training_of_operator_set_6_is_not_taken_for_inference() -> None:
    x = {"x": (2, 3)}
    assert import_proto(model([node("Dropout", ["x"], ["y"], is_test=1)], x, ["y"], opset=6)).nodes[0].op == "Dropout"
    with pytest.raises(ModelError, match="Dropout"):
        run(import_proto(model([node("Dropout", ["x"], ["y"])], x, ["y"], opset=6)), {"x": f32(2, 3)})


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(
    ("size", "window", "stated"),
    [
        (5, {"kernel_shape": [2], "strides": [3], "pads": [0, 1]}, 3),
        (4, {"kernel_shape": [3], "strides": [4], "pads": [0, 2]}, 2),
        (4, {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}, 3),
    ],
)
def test_a_last_window_in_the_padding_is_left_out(op: str, size: int, window: dict[str, Any], stated: int) -> None:
    """The shape inference of ONNX counts it, so many files state an output that no kernel makes."""
    proto = model(
        [node(op, ["x"], ["p"], ceil_mode=1, **window), node("Relu", ["p"], ["y"])], {"x": (1, 1, size)}, ["y"]
    )
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, stated]))
    graph = against_ort(proto, {"x": f32(1, 1, size)})
    made = graph.tensors["y"].shape[2]
    assert [f"[1, 1, {stated}] and has [1, 1, {made}]" in note for note in graph.notes] == [True] * (made < stated)
