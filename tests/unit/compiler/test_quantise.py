from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.compiler.numbers import ranges as spans_of
from accelsim.compiler.numbers.formats import Operands
from accelsim.compiler.numbers.scales import weight_scale
from accelsim.compiler.state import Options
from accelsim.errors import ModelError, UsageError
from accelsim.explore.against_reference import check_run
from accelsim.formats import integer
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.ops import base
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.pass_graphs import Graphs, compiled, outputs, residual_block, sqnr_dB, structure

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "int8_ops_ort.npz"
MODELS = ["cnn", "lstm?steps=2", "mlp?hidden=64", "gpt-prefill?seq=16,hidden=48,heads=4", "squeezenet"]


INTEGERS = {"int8": ("int8", "int8"), "int8xint16": ("int8", "int16"), "int16": ("int16", "int16")}


def peaks(graph: Graph, options: Options) -> dict[str, float]:
    spans = spans_of.ranges(graph, options, {"x": 8, "y": 8})
    return {name: max(span.high, -span.low) for name, span in spans.items()}


def real(node: Any, values: list[Array | None]) -> list[Array]:
    return base.get(node.op).kernel(node, values)


def assert_equals_reference(graph: Graph) -> None:
    """Every tensor that exists in a memory, to the last bit and with its type."""
    feeds = spans_of.synthetic(graph, 1)
    reference = integer_reference(graph, feeds, real)
    for name, values in execute.run(graph, feeds, keep=True).items():
        assert values.dtype == reference[name].dtype
        np.testing.assert_array_equal(values, reference[name], err_msg=name)


def labels(graph: Graph) -> list[str]:
    return [node.label() for node in graph.nodes]


def test_the_form_of_a_residual_block() -> None:
    graph = compiled(residual_block(pool=True), dtype="int8").graph
    assert labels(graph) == [
        "Quantize",
        "Conv+Bias+Requantize+Relu",
        "Conv+Bias+Requantize",
        "Conv+Bias+Dequantize+Dequantize+Add+Relu+MaxPool+Quantize",
        "Dequantize",
    ]
    assert [node.engine for node in graph.nodes] == ["host", "matrix", "matrix", "matrix", "host"]
    formats = {part.op: [graph.tensors[name].dtype for name in [*part.inputs, *part.outputs]]
               for node in graph.nodes[1:2] for part in (node, *node.epilogue)}  # fmt: skip
    assert formats == {
        "Conv": ["int8", "int8", "int32"],
        "Bias": ["int32", "int32", "int32"],
        "Requantize": ["int32", "int8"],
        "Relu": ["int8", "int8"],
    }


def test_a_dequantise_of_a_residual_stands_before_its_reader() -> None:
    graph = compiled(residual_block(), dtype="int8").graph
    node = graph.nodes[3]
    own, side, add = node.epilogue[1:4]
    assert (own.op, side.op, add.op) == ("Dequantize", "Dequantize", "Add")
    assert side.inputs == ["n2"]
    assert set(add.inputs) == {own.outputs[0], side.outputs[0]}
    assert own.attrs["axis"] == 1 and own.attrs["scale"].shape == (8,)
    assert side.attrs["axis"] is None and side.attrs["scale"].shape == ()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_executed_graph_equals_the_integer_reference(name: str, dtype: str) -> None:
    assert_equals_reference(compiled(load_model(name), "tpu-v1", dtype).graph)


@pytest.mark.parametrize("name", MODELS)
def test_a_chip_that_does_all_on_its_vector_unit_equals_the_reference(name: str) -> None:
    graph = compiled(load_model(name), "edu-4x4", "int8").graph
    assert_equals_reference(graph)
    for node in graph.nodes:
        for part in (node, *node.epilogue):
            ins = [graph.tensors[given] if given else None for given in part.inputs]
            outs = [(graph.tensors[out].shape, graph.tensors[out].dtype) for out in part.outputs]
            assert base.get(part.op).infer(part, ins) == outs


@pytest.mark.parametrize("name", [*MODELS, "densenet121", "bert?layers=1,seq=16,hidden=48,heads=4"])
@pytest.mark.parametrize(("chip", "dtype"), [("tpu-v1", "int8"), ("edu-4x4", "int8"), ("neuroncore-v2", "bf16")])
def test_the_structure_does_not_depend_on_the_values(name: str, chip: str, dtype: str) -> None:
    exact = compiled(load_model(name), chip, dtype, values="exact").graph
    off = compiled(load_model(name), chip, dtype, values="off").graph
    assert structure(exact) == structure(off)


def test_sums_that_are_kept_narrower_than_they_are_computed_are_told() -> None:
    told = {
        values: [note for note in compiled(load_model("cnn"), "eyeriss-hierarchy", "int16", values=values).notes
                 if "computed in int32" in note]
        for values in ("exact", "off")
    }  # fmt: skip
    assert len(told["exact"]) == 1 and "sums of int16 are int16" in told["exact"][0]
    assert told["off"] == []


def test_no_value_is_made_when_values_are_off() -> None:
    graph = residual_block()

    def forbidden() -> Array:
        raise AssertionError("values were made")

    for tensor in graph.tensors.values():
        if tensor.is_constant:
            tensor.data, tensor.source = None, forbidden
    after = compiled(graph, dtype="int8", values="off").graph
    assert after.tensors["c1.weight"].dtype == "int8"
    assert all(tensor.data is None for tensor in after.constants())


@pytest.mark.parametrize(("dtype", "least_dB"), [("int8", 20), ("int8xint16", 40), ("int16", 40)])
def test_the_error_of_the_small_cnn(dtype: str, least_dB: float) -> None:
    model = load_model("cnn")
    graph = compiled(model, "tpu-v1", dtype).graph
    exact, rounded = outputs(model, seed=0), outputs(graph, seed=0)
    assert rounded["probabilities"].dtype == np.float32
    assert sqnr_dB(exact["probabilities"], rounded["probabilities"]) > least_dB


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("chip", ["tpu-v1", "edu-4x4"])
@pytest.mark.parametrize("name", ["block", "lstm?steps=2", "gpt-prefill?seq=16,hidden=48,heads=4", "squeezenet"])
def test_the_error_of_residuals_gates_masks_and_concatenations(name: str, chip: str, fuse: bool) -> None:
    model = residual_block() if name == "block" else load_model(name, weights="random:0")
    graph = compiled(model, chip, "int8", fusion="compiled" if fuse else "eager").graph
    exact, rounded = outputs(model, seed=0), outputs(graph, seed=0)
    assert min(sqnr_dB(exact[key], rounded[key]) for key in exact) > 20


def test_scales_are_absolute_maxima() -> None:
    model = residual_block()
    x = 3 * np.ones((4, 4, 8, 8), np.float32)
    x[2, 1, 3, 3] = -7.0
    graph = compiled(model, dtype="int8", ranges_from={"x": x}).graph
    quant = graph.tensors["x.int8"].quant
    assert quant is not None
    assert quant.scale == np.float32(7.0) / np.float32(127)
    floats = compiled(model, dtype="fp32").graph
    batches = [execute.run(floats, {"x": x[i : i + 1]}, keep=True)["r1"] for i in range(4)]
    quant = graph.tensors["r1"].quant
    assert quant is not None
    assert quant.scale == np.float32(np.max(batches)) / np.float32(127)


def test_weights_and_bias_are_rounded_to_nearest() -> None:
    model = residual_block()
    floats, graph = compiled(model, upto="fuse").graph, compiled(model, dtype="int8").graph
    weight, bias = (floats.tensors[name].value().astype(np.float64) for name in ("c1.weight", "c1.bias"))
    x, w = graph.tensors["x.int8"].quant, graph.tensors["c1.weight"].quant
    assert x is not None and w is not None and w.axis == 0
    error = graph.tensors["c1.weight"].value() - weight / w.scale.reshape(-1, 1, 1, 1)
    assert np.max(np.abs(error)) <= 0.5 + 1e-4
    error = graph.tensors["c1.bias"].value() - bias / (x.scale.astype(np.float64) * w.scale)
    assert np.max(np.abs(error)) <= 0.5 + 1e-3


@pytest.mark.parametrize(
    ("data", "words"),
    [({"y": np.zeros(1)}, ["no input 'y'", "'x' is missing"]), ({"x": np.zeros((2, 4, 8, 7))}, ["[2, 4, 8, 7]"])],
)
def test_data_for_ranges_that_do_not_fit(data: dict[str, Array], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        compiled(residual_block(), dtype="int8", ranges_from=data)
    assert all(word in str(caught.value) for word in words)


def test_masks_do_not_set_the_scale() -> None:
    g = Graphs()
    graph = g.finish(g.op("Add", [g.input("x", (4,)), g.constant("mask", np.array([0, -1e9, 0, -np.inf]))], "y"))
    x = np.array([1, 2, 3, 4], np.float32)
    assert peaks(graph, Options(ranges_from={"x": x})) == {"x": 4.0, "y": 3.0}


def test_large_values_without_a_gap_do() -> None:
    g = Graphs()
    graph = g.finish(g.op("Relu", [g.input("x", (3,))], "y"))
    x = np.array([-30000, 9000, 12000], np.float32)
    assert peaks(graph, Options(ranges_from={"x": x})) == {"x": 30000.0, "y": 12000.0}


def test_indices_are_drawn_within_their_table() -> None:
    g = Graphs()
    graph = g.finish(g.op("Gather", [g.weight("table", (3, 2)), g.input("ids", (200,), "int64")], "y", axis=0))
    ids = spans_of.synthetic(graph, 0)["ids"]
    assert set(ids) == {0, 1, 2}


def test_concatenated_tensors_share_one_scale() -> None:
    g = Graphs()
    x = g.input("x", (1, 2, 4, 4))
    a, b = g.op("Relu", [g.conv(x, 2, 1, "a")], "ra"), g.op("Sigmoid", [g.conv(x, 3, 3, "b", pad=1)], "sb")
    y = g.max_pool(g.op("Concat", [a, b], "cat", axis=1), 2, "p")
    graph = compiled(g.finish(g.conv(y, 2, 1, "c")), dtype="int8").graph
    scales = {name: graph.tensors[name].quant.scale for name in ("ra", "sb", "cat", "p")}  # type: ignore[union-attr]
    assert len(set(map(float, scales.values()))) == 1
    cat = next(node for node in graph.nodes if node.op == "Concat")
    assert cat.label() == "Concat"
    assert_equals_reference(graph)


def test_host_nodes_compute_in_floats_between_integers() -> None:
    g = Graphs()
    y = g.op("Softmax", [g.conv(g.input("x", (1, 2, 4, 4)), 4, 1, "a")], "s", axis=1)
    graph = compiled(g.finish(g.conv(y, 2, 1, "b")), "tpu-v1", "int8").graph
    node = next(node for node in graph.nodes if node.engine == "host" and "Softmax" in node.label())
    assert node.label() == "Dequantize+Softmax+Quantize"
    assert [graph.tensors[name].dtype for name in (*node.reads, *node.writes)] == ["int8", "int8"]


def test_several_outputs_of_a_host_node_are_quantised_each() -> None:
    g = Graphs()
    top = g.matmul(g.input("x", (3, 6)), g.weight("w", (6, 8)), "m")
    g.graph.tensors["k"] = Tensor("k", (1,), "int64", np.array([4]))
    g.graph.nodes.append(Node("top", "onnx::TopK", [top, "k"], ["v", "i"], {"axis": -1}))
    g.graph.tensors |= {"v": Tensor("v", (3, 4)), "i": Tensor("i", (3, 4), "int64")}
    graph = compiled(g.finish(g.matmul("v", g.weight("u", (4, 2)), "n"), "i"), "tpu-v1", "int8").graph
    assert labels(graph)[2:4] == ["Dequantize+onnx::TopK", "Quantize"]
    assert graph.nodes[2].writes == ["v.fp32", "i"]
    assert graph.nodes[3].writes == ["v"]
    result = outputs(graph)
    assert result["i"].dtype == np.int64
    assert result["n"].dtype == np.float32


def test_a_bias_that_is_computed_is_added_in_floats() -> None:
    g = Graphs()
    y = g.op("Conv", [g.input("x", (1, 2, 4, 4)), g.weight("w", (3, 2, 1, 1)), g.input("b", (3,))], "c",
             kernel_shape=[1, 1], strides=[1, 1], pads=[0] * 4, dilations=[1, 1], group=1)  # fmt: skip
    graph = compiled(g.finish(y), dtype="int8").graph
    assert "Conv+Dequantize+Dequantize+Add+Quantize" in labels(graph)
    assert_equals_reference(graph)


def test_clip_bounds_become_codes() -> None:
    g = Graphs()
    graph = g.finish(g.op("Clip", [g.conv(g.input("x", (1, 2, 9, 9)), 8, 3, "a")], "y", min=0.0, max=1.5))
    after = compiled(graph, dtype="int8").graph
    clip = after.nodes[1].epilogue[-1]
    assert (clip.op, clip.attrs) == ("Clip", {"min": 0, "max": 127})
    assert_equals_reference(after)


def test_shared_weights_are_quantised_once_and_kept_for_other_readers() -> None:
    g = Graphs()
    table = g.weight("table", (6, 6))
    y = g.matmul(g.op("Gather", [table, g.input("ids", (3,), "int64")], "e", axis=0), table, "m")
    graph = compiled(g.finish(g.matmul(y, table, "n")), "tpu-v1", "int8").graph
    formats = {tensor.name: tensor.dtype for tensor in graph.constants()}
    assert formats == {"table": "fp32", "table.int8": "int8"}
    assert_equals_reference(graph)


def test_half_formats_round_what_is_written_once() -> None:
    model = residual_block()
    floats, graph = (compiled(model, "neuroncore-v2", dtype).graph for dtype in ("fp32", "bf16"))
    dtypes = {name: tensor.dtype for name, tensor in graph.tensors.items()}
    assert {dtypes[name] for name in ("x", "r1", "n2", "y", "c1.weight")} == {"bf16"}
    assert {dtypes[part.outputs[0]] for node in graph.nodes for part in (node, *node.epilogue)[:-1]} == {"fp32"}
    assert dtypes["c1.bias"] == "fp32"
    assert 30 < sqnr_dB(outputs(floats)["y"], outputs(graph)["y"]) < 60


def test_fp32_is_left_alone() -> None:
    fused = compiled(residual_block(), upto="fuse").graph
    assert structure(compiled(residual_block()).graph) == structure(fused)


@given(st.integers(1, 4000), st.sampled_from(sorted(INTEGERS)), st.integers(0, 99), st.sampled_from([0.0, 1.0]))
@settings(max_examples=40)
def test_no_sum_can_leave_int32(k: int, dtype: str, seed: int, spread: float) -> None:
    formats = Operands(dtype, *INTEGERS[dtype], *INTEGERS[dtype])
    weights = np.exp(spread * np.random.default_rng(seed).standard_normal((k, 3))).astype(np.float32)
    codes = integer.quantise(weights, weight_scale(weights, formats, 1), formats.weights, axis=1)
    worst = np.abs(codes.astype(np.int64)).sum(axis=0) * -integer.code_range(formats.activations)[0]
    assert np.all(worst <= 2**30)
    assert np.all(np.max(np.abs(codes), axis=0) > 0)


def test_8_bit_weights_use_all_codes() -> None:
    weights = np.random.default_rng(0).standard_normal((512, 4)).astype(np.float32)
    expected = integer.absmax_scale(weights, "int8", 1)
    np.testing.assert_array_equal(weight_scale(weights, Operands("int8", "int8", "int8", "int8", "int8"), 1), expected)


def golden_graph(values: dict[str, Array], op: str, attrs: dict[str, Any]) -> tuple[SimpleNamespace, dict[str, Array]]:
    """A matrix op on integers, its bias and its requantisation, as ONNX Runtime defines them."""
    rank_axis = 1 if op == "Conv" else values["x"].ndim - 1
    zero = values["w_zp"].reshape(-1, *[1] * (values["w"].ndim - 1)) if op == "Conv" else values["w_zp"]
    main = Node(
        "m", op, ["x", "w"], ["acc"], {**attrs, "a_zero_point": int(values["x_zp"]), "b_zero_point": zero.astype(int)}
    )
    last = "acc"
    if values.get("bias", np.empty(0)).size:
        main.epilogue.append(Node("b", "Bias", ["acc", "bias"], ["sum"], {"axis": rank_axis}))
        last = "sum"
    multiplier = integer.multiplier_of(values["x_scale"], values["w_scale"], values["y_scale"])
    requantize = {"multiplier": multiplier, "axis": rank_axis if multiplier.ndim else None,
                  "dtype": str(values["y"].dtype), "zero_point": int(values["y_zp"])}  # fmt: skip
    main.epilogue.append(Node("r", "Requantize", [last], ["y"], requantize))
    shapes = {"acc": values["acc_int32"], "sum": values["acc_int32"], "y": values["y"], "x": values["x"]}
    tensors = {name: SimpleNamespace(shape=array.shape, dtype=str(array.dtype)) for name, array in shapes.items()}
    return SimpleNamespace(nodes=[main], tensors=tensors), {
        name: values[name] for name in ("x", "w", "bias") if name in values
    }


def golden(prefix: str) -> dict[str, Array]:
    with np.load(GOLDEN) as data:
        return {name.removeprefix(prefix): data[name] for name in data.files if name.startswith(prefix)}


@pytest.mark.parametrize("case", "abcde")
def test_reference_equals_onnx_runtime_convolutions(case: str) -> None:
    values = golden(f"qlinearconv_{case}_")
    pads, strides, dilations, group = np.split(values["attrs"], [4, 6, 8])
    attrs = {
        "kernel_shape": values["w"].shape[2:],
        "pads": pads,
        "strides": strides,
        "dilations": dilations,
        "group": int(group[0]),
    }
    graph, feeds = golden_graph(values, "Conv", attrs)
    result = integer_reference(graph, feeds)
    np.testing.assert_array_equal(result["sum" if "sum" in result else "acc"], values["acc_int32"])
    np.testing.assert_array_equal(result["y"], values["y"])


@pytest.mark.parametrize("case", "abcd")
def test_reference_equals_onnx_runtime_products(case: str) -> None:
    values = golden(f"qlinearmatmul_{case}_")
    renamed = {"x": "a", "w": "b", "x_zp": "a_zp", "w_zp": "b_zp", "x_scale": "a_scale", "w_scale": "b_scale"}
    values |= {new: values[old] for new, old in renamed.items()}
    graph, feeds = golden_graph(values, "MatMul", {})
    result = integer_reference(graph, feeds)
    np.testing.assert_array_equal(result["acc"], golden(f"matmulinteger_{case}_")["y"])
    np.testing.assert_array_equal(result["y"], values["y"])


def test_the_reference_names_all_ops_that_it_lacks() -> None:
    g = Graphs()
    y = g.op("Sigmoid", [g.op("Softmax", [g.input("x", (2, 3))], "a", axis=1)], "b")
    with pytest.raises(ModelError) as caught:
        integer_reference(g.finish(y), {"x": np.zeros((2, 3), np.float32)})
    assert [problem.where for problem in caught.value.problems] == ["a", "b"]


@pytest.mark.parametrize("edges", ["host", "outside"])
@pytest.mark.parametrize("values", ["exact", "fast"])
def test_an_input_that_is_an_output_too_stays_what_was_given(values: str, edges: str) -> None:
    b = Builder("through")
    x = b.input("x", (2, 3))
    y = b.matmul(x, b.constant("w", np.arange(6.0).reshape(3, 2) - 2), "y")
    graph = b.finish(y, x)
    result = accelsim.run(graph, "tpu-v1", values=values, keep=True, edges=edges)
    np.testing.assert_array_equal(result.outputs["x"], result.feeds["x"])
    assert check_run(result, graph).holds
