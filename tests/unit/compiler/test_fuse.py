from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.spec.chip import Chip
from accelsim.workload.gradient.backward import backward
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, assert_same_values, chip, compiled, residual_block


def fused(graph: Graph, chip_name: str | Chip = "edu-4x4", **options: str) -> Graph:
    return compiled(graph, chip_name, upto="fuse", **options).graph


def labels(graph: Graph) -> list[str]:
    return [node.label() for node in graph.nodes]


def check_invariants(graph: Graph) -> None:
    """Parts form a chain, what lies between has no other reader, and nodes are in topological order."""
    consumers, known = graph.consumers(), {*graph.inputs, *(t.name for t in graph.constants())}
    for node in graph.nodes:
        parts = [node, *node.epilogue]
        for before, after in pairwise(parts):
            (name,) = before.outputs
            assert after.inputs.count(name) == 1
            assert not consumers[name]
            assert name not in graph.outputs
        assert set(node.reads) <= known
        known.update(node.writes)
    assert set(graph.outputs) <= known


def test_a_residual_block_becomes_three_nodes() -> None:
    graph = residual_block()
    after = fused(graph)
    assert labels(after) == ["Conv+Bias+Relu", "Conv+Bias", "Conv+Bias+Add+Relu"]
    assert "n2" in after.nodes[2].reads
    check_invariants(after)
    assert_same_values(graph, after)


def test_the_bias_is_split_off_even_without_fusion() -> None:
    graph = residual_block()
    after = fused(graph, fusion="eager")
    norm = "BatchNormalization"
    assert labels(after) == ["Conv+Bias", norm, "Relu", "Conv+Bias", norm, "Conv", norm, "Add", "Relu"]
    assert all(len(node.inputs) == 2 for node in after.nodes if node.op == "Conv")
    check_invariants(after)
    assert_same_values(graph, after)


def test_nor_behind_an_array_whose_results_do_not_pass_the_vector_unit() -> None:
    edu = chip("edu-4x4")
    assert edu.matrix is not None
    bare = edu.with_engine(edu.matrix.model_copy(update={"epilogue": False}))
    assert labels(fused(residual_block(), bare)) == ["Conv+Bias", "Relu", "Conv+Bias", "Conv+Bias", "Add+Relu"]


def test_a_residual_computed_later_comes_first() -> None:
    g = Graphs()
    x = g.input("x", (1, 4, 4, 4))
    y = g.conv(x, 4, 1, "c")
    other = g.op("Relu", [g.max_pool(g.op("Neg", [x], "n"), 1, "p")], "r")
    graph = g.finish(g.op("Add", [y, other], "y"))
    after = fused(graph)
    assert labels(after) == ["Neg", "MaxPool", "Relu", "Conv+Bias+Add"]
    check_invariants(after)
    assert_same_values(graph, after)


@pytest.mark.parametrize(("width", "label"), [(32, "Conv+Bias+Relu+MaxPool"), (34, "Conv+Bias+Relu")])
def test_pooling_is_fused_when_the_open_sums_fit(width: int, label: str) -> None:
    g = Graphs()
    y = g.op("Relu", [g.conv(g.input("x", (1, 2, 16, width)), 3, 1, "c")], "r")
    graph = g.finish(g.max_pool(y, 2, "y"))
    assert labels(fused(graph))[0] == label  # 4 columns x 4 B x 16 x width against half of 16 KiB
    assert_same_values(graph, fused(graph))


def test_nothing_is_fused_behind_a_pooling() -> None:
    g = Graphs()
    graph = g.finish(g.op("Relu", [g.max_pool(g.conv(g.input("x", (1, 2, 4, 4)), 3, 1, "c"), 2, "p")], "y"))
    assert labels(fused(graph)) == ["Conv+Bias+MaxPool", "Relu"]


@pytest.mark.parametrize("other", ["x", "reader", "output"])
def test_what_is_read_twice_or_returned_is_not_hidden(other: str) -> None:
    g = Graphs()
    y = g.conv(g.input("x", (1, 2, 4, 4)), 2, 1, "c")
    if other == "x":
        graph = g.finish(g.op("Mul", [y, y], "z"))
    else:
        extra = g.op("Neg", [y], "n") if other == "reader" else y
        graph = g.finish(g.op("Relu", [y], "z"), extra)
    after = fused(graph)
    assert labels(after)[0] == "Conv+Bias"
    assert_same_values(graph, after)


def test_a_result_that_grows_by_broadcasting_is_not_fused() -> None:
    g = Graphs()
    y = g.conv(g.input("x", (1, 1, 4, 4)), 1, 1, "c")
    graph = g.finish(g.op("Add", [y, g.input("r", (1, 3, 4, 4))], "z"))
    assert labels(fused(graph)) == ["Conv+Bias", "Add"]


def test_chains_of_the_vector_unit() -> None:
    g = Graphs()
    x = g.input("x", (2, 3))
    y = g.op("Mul", [g.op("Sigmoid", [g.op("Neg", [x], "a")], "b"), g.input("w", (3,))], "c")
    graph = g.finish(g.op("Softmax", [y], "y", axis=1))
    after = fused(graph)
    assert labels(after) == ["Neg+Sigmoid+Mul", "Softmax"]
    check_invariants(after)
    assert_same_values(graph, after)


@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "shufflenet", "inception-v2", "densenet121"])
def test_whole_models_keep_their_values(name: str) -> None:
    graph = load_model(name, weights="random:0")
    state = compiled(graph, "tpu-v1", "int8", upto="fuse")
    check_invariants(state.graph)
    assert_same_values(graph, state.graph, 3e-5)
    assert len(state.graph.nodes) < 0.65 * len(graph.nodes)


UNARY = ["Relu", "Neg", "Sigmoid", "Conv", "Pool", "Softmax"]


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    g = Graphs(draw(st.integers(0, 99)))
    names = [g.input("x", (1, 3, 6, 6))]
    for index in range(draw(st.integers(2, 10))):
        pick = st.sampled_from(names)
        op, a, name = draw(st.sampled_from([*UNARY, "Add", "Mul", "Max"])), draw(pick), f"t{index}"
        if op == "Conv":
            names.append(g.conv(a, 3, 3, name, pad=1))
        elif op == "Pool":
            window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4, "dilations": [1, 1]}
            names.append(g.op("MaxPool", [a], name, **window, ceil_mode=0))
        elif op == "Softmax":
            names.append(g.op(op, [a], name, axis=1))
        else:
            names.append(g.op(op, [a] if op in UNARY else [a, draw(pick)], name))
    return g.finish(*dict.fromkeys([names[-1], draw(st.sampled_from(names[1:]))]))


@given(random_graphs(), st.sampled_from(["edu-4x4", "tpu-v1"]))
@settings(max_examples=40)
def test_random_graphs_keep_their_values_and_the_invariants(graph: Graph, name: str) -> None:
    dtype = "int8" if name == "tpu-v1" else "fp32"
    state = compiled(graph, name, dtype, upto="fuse")
    check_invariants(state.graph)
    assert_same_values(graph, state.graph)


def test_the_gradient_of_one_function_is_few_kernels_even_without_fusion() -> None:
    """As a framework has them: what lies between is written by no kernel of its own."""
    g = Graphs()
    x = g.input("x", (1, 8, 32))
    graph = g.finish(
        g.op("ReduceMean", [g.op("Gelu", [x], "y", approximate="none")], "loss", axes=(0, 1, 2), keepdims=0)
    )
    found = backward(graph, "loss", ["x"])
    graph.outputs.append(found["x"])
    alone = {node.part_of for node in graph.nodes if node.part_of}
    after = fused(graph, "v100-sxm2-16", fusion="eager")
    check_invariants(after)
    assert_same_values(graph, after)
    of_gelu = [node for node in after.nodes if node.part_of.startswith("y")]
    assert len(alone) == 2 and 1 <= len(of_gelu) <= 3
    assert sum(1 + len(node.epilogue) for node in of_gelu) > 6
