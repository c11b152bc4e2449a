"""Transposed operands: where the library of an engine takes them as they lie, no kernel turns them."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from tests.helpers.pass_graphs import Graphs, assert_same_values, compiled

GPU, ARRAY = "v100-sxm2-16", "neuroncore-v2"


def turned_operands(batch: int = 0) -> Graph:
    """a^T b and a b^T, of matrices or of a batch of them."""
    g = Graphs()
    front = (batch,) if batch else ()
    a, b, c = (g.input(name, (*front, 12, 12)) for name in "abc")
    perm = [*range(len(front)), len(front) + 1, len(front)]
    left = g.op("MatMul", [g.op("Transpose", [a], "a.t", perm=perm), b], "left", a_zero_point=0, b_zero_point=0)
    right = g.op("MatMul", [left, g.op("Transpose", [c], "c.t", perm=perm)], "right", a_zero_point=0, b_zero_point=0)
    return g.finish(right)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("chip", (GPU, "h100-sxm", "p4"))
def test_matrices_are_read_as_they_lie(chip: str) -> None:
    graph = turned_operands()
    after = compiled(graph, chip, upto="turn").graph
    assert ops(after) == ["Gemm", "MatMul"]
    assert (after.nodes[0].attrs["transA"], after.nodes[1].attrs["transB"]) == (1, 1)
    assert_same_values(graph, after)


def test_of_a_batch_the_second_operand_alone() -> None:
    after = compiled(turned_operands(batch=3), GPU, upto="turn").graph
    assert ops(after) == ["Transpose", "MatMul", "MatMul"]
    assert after.nodes[1].attrs.get("transB", 0) == 0
    assert after.nodes[2].attrs["transB"] == 1


def test_an_array_that_streams_rows_has_them_turned() -> None:
    assert "Transpose" in ops(compiled(turned_operands(), ARRAY, upto="turn").graph)


def test_a_single_number_has_no_axes_to_turn() -> None:
    g = Graphs()
    turned = g.op("Transpose", [g.input("x", ())], "x.t", perm=[])
    graph = g.finish(g.op("Relu", [turned], "y"))
    assert_same_values(graph, compiled(graph, GPU, upto="turn").graph)


def test_a_matrix_that_others_read_too_is_turned_once_for_all() -> None:
    g = Graphs()
    a, b = g.input("a", (12, 12)), g.input("b", (12, 12))
    turned = g.op("Transpose", [a], "a.t", perm=[1, 0])
    product = g.op("MatMul", [turned, b], "y", a_zero_point=0, b_zero_point=0)
    graph = g.finish(g.op("Add", [product, turned], "sum"))
    assert ops(compiled(graph, GPU, upto="turn").graph) == ["Transpose", "MatMul", "Add"]


@pytest.mark.parametrize("values", ("exact", "fast"))
def test_the_values_of_a_run_are_those_of_the_graph(values: str) -> None:
    graph = turned_operands()
    rng = np.random.default_rng(3)
    feeds = {name: rng.integers(-4, 5, (12, 12)).astype(np.float32) for name in graph.inputs}
    run = accelsim.run(graph, on=GPU, dtype="fp16", values=values, inputs=feeds)
    (name,) = graph.outputs
    np.testing.assert_array_equal(run.outputs[name], execute.run(graph, feeds)[name])
