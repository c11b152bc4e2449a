"""Collectives between arrays, and graphs in lockstep."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.cluster.plan.spmd import SPMD, add, collectives
from accelsim.cluster.values.lockstep import TOGETHER, Lockstep, all_gather, all_reduce, reduce_scatter
from accelsim.errors import ModelError
from accelsim.workload.graph import Graph, Node, Tensor

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_sums_have_the_same_bits_on_all_ranks(ranks: int) -> None:
    arrays = [RNG.standard_normal((3, 7)).astype(np.float32) for _ in range(ranks)]
    found = all_reduce(arrays)
    assert all(np.array_equal(found[0], other) for other in found)
    np.testing.assert_allclose(found[0], np.sum(arrays, 0), rtol=1e-5)
    assert np.array_equal(all_reduce(arrays, "max")[0], np.max(arrays, 0))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("ranks", [2, 3])
def test_parts_come_together_and_apart(ranks: int, axis: int) -> None:
    whole = RNG.standard_normal((6, 12, 6))
    parts = np.split(whole, ranks, axis)
    assert all(np.array_equal(found, whole) for found in all_gather(parts, axis))
    terms = [RNG.integers(-9, 9, (6, 12, 6)).astype(np.float64) for _ in range(ranks)]
    scattered = reduce_scatter(terms, axis)
    assert np.array_equal(np.concatenate(scattered, axis), np.sum(terms, 0))


def graph_of(op: str, shapes: list[tuple[int, ...]], ranks: int, **attrs: int | str) -> Graph:
    tensors = {f"x{index}": Tensor(f"x{index}", shape, "int64" if index else "fp32")
               for index, shape in enumerate(shapes)}  # fmt: skip
    graph = Graph("g", [], tensors, list(tensors), ["y"])
    add(graph, graph.nodes, op, list(tensors), "y", ranks, group="tp", **attrs)
    return graph


def test_every_node_of_several_ranks_has_values() -> None:
    assert TOGETHER.keys() == SPMD.keys()


def test_a_table_in_parts() -> None:
    table, rows = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([[5, 0], [2, 2]])
    graph = graph_of("GatherPart", [(3, 2), (2, 2)], 2, axis=0)
    out = Lockstep(graph).run([{"x0": part, "x1": rows} for part in np.split(table, 2)])
    assert np.array_equal(out[0]["y"] + out[1]["y"], table[rows])
    grad = RNG.standard_normal((2, 2, 2)).astype(np.float32)
    graph = graph_of("GatherGradPart", [(2, 2, 2), (2, 2)], 2, axis=0, size=3)
    out = Lockstep(graph).run([{"x0": grad, "x1": rows}] * 2)
    want = np.zeros((6, 2), np.float32)
    np.add.at(want, rows, grad)
    np.testing.assert_allclose(np.concatenate([out[0]["y"], out[1]["y"]]), want, rtol=1e-6)


def test_bytes_of_collectives_are_those_of_the_whole() -> None:
    for op, shape, nbytes in (("AllReduce", (4, 6), 96), ("AllGather", (4, 6), 192), ("ReduceScatter", (4, 6), 96)):
        graph = graph_of(op, [shape], 2, axis=1, reduce="sum")
        assert [(item.kind, item.nbytes) for item in collectives(graph, 2)] == [(SPMD[op].kind, nbytes)]
    assert collectives(graph_of("Part", [(4, 6)], 2, axis=1), 2) == []


def test_an_op_without_a_kernel() -> None:
    graph = Graph("g", [Node("n", "Nothing", ["x"], ["y"])], {"x": Tensor("x", (1,)), "y": Tensor("y", (1,))}, ["x"], ["y"])  # fmt: skip
    with pytest.raises(ModelError, match="Nothing has no kernel"):
        Lockstep(graph)
