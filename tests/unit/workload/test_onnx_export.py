"""Export: the same graph comes back, and ONNX Runtime computes the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import load_model
from tests.helpers.onnx_models import feeds_of, import_proto, model, node

pytest.importorskip("onnxruntime")


def graph_of(nodes: list[Node], tensors: list[Tensor], inputs: list[str]) -> Graph:
    outputs = [name for made in nodes for name in made.outputs]
    return Graph("small", nodes, {tensor.name: tensor for tensor in tensors}, inputs, outputs, 21)


def exact(graph: Graph, feeds: dict[str, Any]) -> None:
    theirs = reference_outputs(graph, feeds, every_tensor=True).values
    ours = run(graph, feeds, keep=True)
    assert [row.max_abs for row in compare(ours, theirs)] == [0.0] * len(graph.nodes)
    assert all(np.abs(ours[name]).max() > 0 for name in graph.outputs)


@pytest.mark.parametrize(
    "name",
    [
        "squeezenet",
        "mobilenet?width=25,resolution=32",
        "bert?layers=1,hidden=16,heads=2",
        "lstm?steps=2,hidden=4,inputs=3",
    ],
)
def test_export_and_import_give_the_same_graph(name: str) -> None:
    graph = load_model(name)
    again = import_proto(export_onnx(graph))
    views = ("Reshape", "Flatten")  # a Softmax over several axes is written as one over a matrix view
    ops, ops_again = ([made.op for made in each.nodes if made.op not in views] for each in (graph, again))
    assert ops == ops_again
    for tensor in graph.constants():
        assert np.array_equal(again.tensors[tensor.name].value(), tensor.value()) or tensor.name not in again.tensors
    feeds = feeds_of(graph)
    ours, theirs = run(graph, feeds), run(again, feeds)
    for out in graph.outputs:
        np.testing.assert_allclose(theirs[out], ours[out], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("a", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_integer_convolution_and_requantisation_are_exact(a: str, per_channel: bool) -> None:
    rng = np.random.default_rng(0)
    low = 0 if a == "uint8" else -128
    multiplier = np.float32([0.002, 0.003, 0.0015]) if per_channel else np.float32(0.002)
    attrs = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1], "group": 1,
             "a_zero_point": low + 128, "b_zero_point": 0}  # fmt: skip
    requantise = {"dtype": a, "multiplier": multiplier, "zero_point": low + 120, "axis": 1 if per_channel else None}
    tensors = [
        Tensor("x", (2, 4, 6, 6), a),
        Tensor("w", (3, 4, 3, 3), "int8", data=rng.integers(-128, 128, (3, 4, 3, 3)).astype(np.int8)),
        Tensor("b", (3,), "int32", data=rng.integers(-9000, 9000, 3).astype(np.int32)),
        Tensor("s", (2, 3, 6, 6), "int32"),
        Tensor("y", (2, 3, 6, 6), a),
    ]
    nodes = [Node("conv", "Conv", ["x", "w", "b"], ["s"], attrs), Node("rq", "Requantize", ["s"], ["y"], requantise)]
    feeds = {"x": rng.integers(low, low + 256, (2, 4, 6, 6)).astype(a)}
    exact(graph_of(nodes, tensors, ["x"]), feeds)


def test_integer_products_bias_and_scales_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = {"w": rng.integers(-128, 128, (5, 7)).astype(np.int8), "b": rng.integers(-99, 99, 5).astype(np.int32)}
    scale = {"scale": np.float32(0.05), "zero_point": 3, "axis": None}
    tensors = [
        Tensor("x", (4, 7)),
        Tensor("q", (4, 7), "uint8"),
        *[Tensor(name, value.shape, str(value.dtype), data=value) for name, value in values.items()],
        Tensor("g", (4, 5), "int32"),
        Tensor("m", (4, 4), "int32"),
        Tensor("t", (4, 5), "int32"),
        Tensor("d", (4, 5)),
    ]
    nodes = [
        Node("q", "Quantize", ["x"], ["q"], {"dtype": "uint8", **scale}),
        Node("g", "Gemm", ["q", "w", "b"], ["g"], {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1,
                                                  "a_zero_point": 3, "b_zero_point": 0}),
        Node("t", "Bias", ["g", "b"], ["t"], {"axis": 1}),
        Node("d", "Dequantize", ["t"], ["d"], {**scale, "zero_point": 0}),
    ]  # fmt: skip
    exact(graph_of(nodes, tensors, ["x"]), {"x": rng.normal(0, 4, (4, 7)).astype(np.float32)})


def test_sixteen_bit_products_cannot_be_exported() -> None:
    tensors = [Tensor("x", (2, 2), "int16"), Tensor("w", (2, 2), "int16", data=np.eye(2, dtype=np.int16)),
               Tensor("y", (2, 2), "int32")]  # fmt: skip
    graph = graph_of([Node("p", "MatMul", ["x", "w"], ["y"], {})], tensors, ["x"])
    with pytest.raises(ModelError, match="p: MatMul of int16 operands"):
        export_onnx(graph)


def test_fused_nodes_are_written_one_by_one() -> None:
    graph = load_model("mlp?layers=2")
    fused = graph.copy()
    fused.nodes[0].epilogue = [fused.nodes[1]]
    del fused.nodes[1]
    feeds = feeds_of(graph)
    one, two = (reference_outputs(g, feeds, every_tensor=True).values for g in (graph, fused))
    assert list(one) == list(two) and all(np.array_equal(one[name], two[name]) for name in one)


def test_foreign_nodes_are_exported_where_their_meaning_is_the_same() -> None:
    same = import_proto(model([node("Det", ["x"], ["y"])], {"x": (2, 3, 3)}, ["y"]))
    feeds = feeds_of(same)
    assert compare(run(same, feeds), reference_outputs(same, feeds).values)[0].relative < 1e-6
    old = import_proto(
        model([node("DFT", ["x"], ["y"], axis=1, inverse=1, onesided=1)], {"x": (1, 4, 2)}, ["y"], opset=17)
    )
    with pytest.raises(ModelError, match="DFT of opset 17 cannot be exported"):
        export_onnx(old)


def test_weights_beyond_the_format_are_refused() -> None:
    with pytest.raises(ModelError, match="B of constants"):
        export_onnx(load_model("gpt-prefill?hidden=12288,heads=96"))
