from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.workload.graph import Array, Graph
from tests.helpers.pass_graphs import Graphs, assert_same_values, chip, compiled, residual_block, vector_without


def absorbed(graph: Graph, **kwargs: object) -> Graph:
    return compiled(graph, upto="absorb_batch_norm", **kwargs).graph  # type: ignore[arg-type]


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_batch_norm_goes_into_the_convolution() -> None:
    graph = residual_block()
    after = absorbed(graph)
    assert ops(after) == ["Conv", "Relu", "Conv", "Conv", "Add", "Relu"]
    assert [node.outputs[0] for node in after.nodes][:1] == ["n1"]
    assert all(len(node.inputs) == 3 for node in after.nodes if node.op == "Conv")
    assert_same_values(graph, after)


def test_it_is_done_in_double_and_rounded_once() -> None:
    g = Graphs(3)
    graph = g.finish(g.batch_norm(g.conv(g.input("x", (1, 2, 4, 4)), 3, 3, "c"), "n"))
    after = absorbed(graph)

    def value(name: str) -> Array:
        return graph.tensors[name].value().astype(np.float64)

    factor = value("n.scale") / np.sqrt(value("n.var") + 1e-5)
    weight = (value("c.weight") * factor[:, None, None, None]).astype(np.float32)
    bias = (value("c.bias") * factor + (value("n.bias") - value("n.mean") * factor)).astype(np.float32)
    np.testing.assert_array_equal(after.tensors["c.weight"].value(), weight)
    np.testing.assert_array_equal(after.tensors["c.bias"].value(), bias)


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    graph = residual_block()

    def forbidden() -> Array:
        raise AssertionError("values were made")

    for tensor in graph.tensors.values():
        if tensor.is_constant:
            tensor.data, tensor.source = None, forbidden
    assert ops(absorbed(graph))[0] == "Conv"


STEPS = st.lists(st.sampled_from(["BatchNormalization", "Mul", "Add", "Sub"]), min_size=1, max_size=4)


@given(STEPS, st.sampled_from(["Conv", "Depthwise", "Gemm", "MatMul"]), st.booleans(), st.integers(0, 99))
@settings(max_examples=40)
def test_any_chain_of_per_channel_maps_goes(steps: list[str], main: str, bias: bool, seed: int) -> None:
    g = Graphs(seed)
    if main in ("Conv", "Depthwise"):
        group = 4 if main == "Depthwise" else 1
        y, column = g.conv(g.input("x", (2, 4, 5, 5)), 4, 3, "m", group=group, bias=int(bias)), (4, 1, 1)
    elif main == "Gemm":
        y = g.gemm_node(g.input("x", (3, 6)), g.weight("w", (6, 4)), g.weight("c", (4,)) if bias else None, "m")
        column = (4,)
    else:
        y, column = g.matmul(g.input("x", (3, 6)), g.weight("w", (6, 4)), "m"), (4,)
    for index, op in enumerate(steps):
        name = f"s{index}"
        y = g.batch_norm(y, name) if op == "BatchNormalization" else g.op(op, [y, g.weight(f"{name}.c", column)], name)
    graph = g.finish(y)
    after = absorbed(graph)
    shifted = any(op != "Mul" for op in steps)
    assert ops(after) == (["MatMul", "Bias"] if main == "MatMul" and shifted else [graph.nodes[0].op])
    assert after.nodes[-1].outputs == [y]
    assert_same_values(graph, after)


@pytest.mark.parametrize("main", ["Conv", "MatMul", "BatchNormalization"])
def test_thousands_of_maps_are_absorbed_by_one_layer(main: str) -> None:
    """More than Python calls may be nested."""
    g = Graphs(1)
    y, column = {
        "Conv": lambda: (g.conv(g.input("x", (1, 2, 3, 3)), 2, 1, "m"), (2, 1, 1)),
        "MatMul": lambda: (g.matmul(g.input("x", (3, 2)), g.weight("w", (2, 2)), "m"), (2,)),
        "BatchNormalization": lambda: (g.batch_norm(g.input("x", (1, 2, 3, 3)), "m"), (2, 1, 1)),
    }[main]()
    for index in range(3_000):
        y = g.op("Mul" if index % 2 else "Add", [y, g.weight(f"c{index}", column)], f"s{index}")
    for tensor in g.graph.tensors.values():
        if tensor.name.startswith("c") and tensor.is_constant:
            tensor.data = np.sign(tensor.value())
    graph = g.finish(y)
    after = absorbed(graph)
    assert len(after.nodes) <= 2
    assert_same_values(graph, after)


def test_a_projection_gets_a_bias_along_its_last_axis() -> None:
    g = Graphs()
    graph = g.finish(g.project(g.input("x", (2, 3, 4)), 5, "p"))
    after = absorbed(graph)
    assert ops(after) == ["MatMul", "Bias"]
    assert after.nodes[1].attrs == {"axis": 2}
    assert_same_values(graph, after)


def test_a_second_reader_or_an_output_in_between_prevents_it() -> None:
    g = Graphs()
    y = g.conv(g.input("x", (1, 2, 4, 4)), 2, 1, "c")
    graph = g.finish(g.batch_norm(y, "n"), y)
    assert ops(absorbed(graph)) == ["Conv", "BatchNormalization"]
    assert_same_values(graph, absorbed(graph))


def test_shared_weights_are_not_changed_for_the_other_reader() -> None:
    g = Graphs()
    x, w = g.input("x", (2, 4)), g.weight("w", (4, 3))
    graph = g.finish(g.batch_norm(g.gemm_node(x, w, None, "a"), "n"), g.gemm_node(x, w, None, "b"))
    assert_same_values(graph, absorbed(graph))


@pytest.mark.parametrize("keeps", [True, False])
def test_a_batch_norm_without_a_matrix_op_before_it(keeps: bool) -> None:
    g = Graphs()
    graph = g.finish(g.batch_norm(g.op("Relu", [g.input("x", (2, 3, 4, 4))], "r"), "n"))
    edu = chip("edu-4x4")
    after = absorbed(graph, chip_name=edu if keeps else vector_without(edu, "BatchNormalization"))
    assert ops(after) == (["Relu", "BatchNormalization"] if keeps else ["Relu", "Mul", "Add"])
    assert after.nodes[-1].outputs == ["n"]
    assert_same_values(graph, after)
