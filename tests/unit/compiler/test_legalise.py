from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compiler.graph import edit
from accelsim.workload.graph import Graph
from tests.helpers.pass_graphs import Graphs, assert_same_values, compiled, outputs


def legal(graph: Graph) -> Graph:
    return compiled(graph, upto="legalise").graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_renaming_nodes_go_and_outputs_keep_their_names() -> None:
    g = Graphs()
    x = g.input("x", (2, 3))
    y = g.op("Dropout", [g.op("Relu", [g.op("Identity", [x], "a")], "b")], "c")
    graph = g.finish(g.op("Identity", [y], "out"))
    after = legal(graph)
    assert ops(after) == ["Relu"]
    assert (after.nodes[0].inputs, after.nodes[0].outputs, after.outputs) == (["x"], ["out"], ["out"])
    assert_same_values(graph, after)


def test_an_identity_from_input_to_output_stays() -> None:
    g = Graphs()
    graph = g.finish(g.op("Identity", [g.input("x", (2,))], "y"))
    assert ops(legal(graph)) == ["Identity"]


def test_both_names_of_a_tensor_that_is_an_output_twice_stay() -> None:
    g = Graphs()
    a = g.op("Relu", [g.input("x", (4,))], "a")
    graph = g.finish(a, g.op("Identity", [a], "b"))
    after = legal(graph)
    assert list(outputs(after)) == ["a", "b"]
    assert_same_values(graph, after)


def test_the_given_graph_is_left_alone() -> None:
    g = Graphs()
    graph = g.finish(g.op("Relu", [g.op("Identity", [g.input("x", (2,))], "a")], "y"))
    legal(graph)
    assert ops(graph) == ["Identity", "Relu"]


def test_constant_nodes_become_constants_only_on_demand() -> None:
    g = Graphs()
    x = g.input("x", (3, 4))
    w = g.op("Transpose", [g.weight("w", (5, 4))], "wt", perm=[1, 0])
    graph = g.finish(g.matmul(x, w, "y"))
    after = legal(graph)
    assert ops(after) == ["MatMul"]
    assert after.tensors["wt"].is_constant
    assert after.tensors["wt"].data is None
    assert_same_values(graph, after)


def test_several_outputs_of_a_constant_node() -> None:
    g = Graphs()
    a, b = g.ops("Split", [g.weight("w", (4, 6))], ["a", "b"], "cut", axis=1, split=[2, 4])
    x = g.input("x", (1, 4))
    graph = g.finish(g.matmul(x, a, "p"), g.matmul(x, b, "q"))
    after = legal(graph)
    assert ops(after) == ["MatMul", "MatMul"]
    assert_same_values(graph, after)


@pytest.mark.parametrize(("op", "link"), [("Sum", "Add"), ("Min", "Min"), ("Max", "Max")])
def test_many_inputs_become_a_chain_of_two(op: str, link: str) -> None:
    g = Graphs()
    names = [g.input(f"x{i}", shape) for i, shape in enumerate([(2, 1), (1, 3), (2, 3), (3,)])]
    graph = g.finish(g.op(op, names, "y"))
    after = legal(graph)
    assert ops(after) == [link] * 3
    assert all(len(node.inputs) == 2 for node in after.nodes)
    assert_same_values(graph, after, 1e-6)


@settings(max_examples=40)
@given(
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, (), (1,), (5,), (1, 5), (3, 5), (3, 1)]),
    st.booleans(),
)
def test_every_gemm_becomes_plain(
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    constant_b: bool,
    c: tuple[int, ...] | None,
    constant_c: bool,
) -> None:
    g = Graphs()
    a = g.input("a", (4, 3) if trans_a else (3, 4))
    shape = (5, 4) if trans_b else (4, 5)
    b = g.weight("b", shape) if constant_b else g.input("b", shape)
    third = None if c is None else (g.weight("c", c) if constant_c else g.input("c", c))
    attrs = {"alpha": alpha, "beta": beta, "transA": int(trans_a), "transB": int(trans_b)}
    graph = g.finish(g.gemm_node(a, b, third, "y", **attrs))
    after = legal(graph)
    gemm = next(node for node in after.nodes if node.op == "Gemm")
    assert [gemm.attrs[key] for key in ("alpha", "beta", "transA", "transB")] == [1.0, 1.0, 0, 0]
    assert all(after.tensors[name].shape == (5,) and after.tensors[name].is_constant for name in gemm.inputs[2:])
    assert_same_values(graph, after)


def test_affine_constants_behind_batch_norm_go_into_it() -> None:
    g = Graphs()
    n = g.batch_norm(g.input("x", (2, 3, 4, 4)), "n")
    scaled = g.op("Mul", [g.weight("w", (3, 1, 1)), n], "scaled")
    shifted = g.op("Add", [scaled, g.weight("b", (3, 1, 1))], "shifted")
    graph = g.finish(g.op("Sub", [shifted, g.weight("s", (1,))], "y"))
    after = legal(graph)
    assert ops(after) == ["BatchNormalization"]
    assert after.nodes[0].outputs == ["y"]
    assert_same_values(graph, after)


def test_a_constant_along_another_axis_stays_outside() -> None:
    g = Graphs()
    n = g.batch_norm(g.input("x", (2, 3, 4, 4)), "n")
    graph = g.finish(g.op("Mul", [n, g.weight("w", (4,))], "y"))
    assert ops(legal(graph)) == ["BatchNormalization", "Mul"]


def test_dead_nodes_and_tensors_go() -> None:
    g = Graphs()
    x = g.input("x", (2, 2))
    g.op("Mul", [x, g.weight("w", (2,))], "unused")
    graph = g.finish(g.op("Relu", [x], "y"))
    after = legal(graph)
    assert ops(after) == ["Relu"]
    assert set(after.tensors) == {"x", "y"}


@given(st.permutations(range(6)))
@settings(max_examples=30)
def test_sorting_restores_data_flow_from_any_order(order: list[int]) -> None:
    g = Graphs()
    name = g.input("x", (2,))
    for index in range(6):
        name = g.op("Relu", [name], f"t{index}")
    graph = g.finish(name)
    expected = list(graph.nodes)
    graph.nodes = [expected[index] for index in order]
    edit.sort(graph)
    assert [node.name for node in graph.nodes] == [node.name for node in expected]


def test_sorting_keeps_a_valid_order() -> None:
    g = Graphs()
    x = g.input("x", (2,))
    a, b = g.op("Relu", [x], "a"), g.op("Neg", [x], "b")
    graph = g.finish(g.op("Add", [b, a], "y"))
    before = [node.name for node in graph.nodes]
    edit.sort(graph)
    assert [node.name for node in graph.nodes] == before


def test_notes_say_what_was_done() -> None:
    g = Graphs()
    graph = g.finish(g.op("Relu", [g.op("Identity", [g.input("x", (2,))], "a")], "y"))
    assert compiled(graph, upto="legalise").notes == ["legalise: 1 node removed because they only rename"]


def test_derived_values_are_float32() -> None:
    g = Graphs()
    graph = g.finish(
        g.gemm_node(g.input("a", (2, 3)), g.weight("b", (4, 3)), g.weight("c", (4,)), "y", alpha=0.3, transB=1)
    )
    after = legal(graph)
    assert {after.tensors[name].value().dtype for name in after.nodes[0].inputs[1:]} == {np.dtype(np.float32)}
