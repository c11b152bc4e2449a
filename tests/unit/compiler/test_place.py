from __future__ import annotations

import pytest

from accelsim.compiler.graph.place import place
from accelsim.errors import UsageError
from accelsim.workload.graph import Graph, Node
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, chip, compiled, residual_block, state_of, vector_without


def placed(graph: Graph, chip_name: str, dtype: str) -> list[tuple[str, str, str]]:
    return [(node.op, node.engine, node.note) for node in compiled(graph, chip_name, dtype, "place").graph.nodes]


def test_matrix_vector_alias_and_host() -> None:
    g = Graphs()
    y = g.op("Relu", [g.conv(g.input("x", (1, 2, 4, 4)), 3, 3, "c")], "r")
    flat = g.op("Flatten", [y], "f", axis=1)
    graph = g.finish(g.op("Softmax", [flat], "s", axis=1))
    assert placed(graph, "tpu-v1", "int8") == [
        ("Conv", "matrix", ""),
        ("Relu", "vector", ""),
        ("Flatten", "alias", ""),
        ("Softmax", "host", "Softmax: not a function of the vector unit"),
    ]


@pytest.mark.parametrize(("name", "dtype", "engine"), [("tpu-v1", "int8", "host"), ("edu-4x4", "fp32", "matrix")])
def test_products_of_two_activations_need_a_stationary_activation(name: str, dtype: str, engine: str) -> None:
    g = Graphs()
    graph = g.finish(g.matmul(g.input("a", (2, 3)), g.input("b", (3, 4)), "y"))
    ((_, found, note),) = placed(graph, name, dtype)
    assert found == engine
    assert ("product of two activations" in note) == (engine == "host")


def test_a_constant_left_operand_stays_on_the_host() -> None:
    g = Graphs()
    graph = g.finish(g.matmul(g.weight("a", (2, 3)), g.input("b", (3, 4)), "y"))
    assert placed(graph, "edu-4x4", "fp32")[0][1] == "host"


def test_a_three_dimensional_convolution_has_no_matrix_form() -> None:
    g = Graphs()
    window = {"kernel_shape": [1] * 3, "strides": [1] * 3, "pads": [0] * 6, "dilations": [1] * 3}
    y = g.op("Conv", [g.input("x", (1, 2, 3, 3, 3)), g.weight("w", (2, 2, 1, 1, 1))], "y", **window, group=1)
    assert placed(g.finish(y), "edu-4x4", "fp32") == [("Conv", "host", "Conv: has no form as a matrix product")]


def test_without_a_matrix_unit_everything_is_on_the_host() -> None:
    nodes = placed(residual_block(), "haswell-e5-2699v3", "fp32")
    assert {engine for _, engine, _ in nodes} == {"host"}


def test_an_op_of_the_host_only() -> None:
    g = Graphs()
    g.input("x", (2, 2))
    graph = g.finish("x")
    graph.nodes.append(Node("d", "Det", ["x"], ["x"]))
    state = state_of(graph)
    place(state)
    assert (graph.nodes[0].engine, graph.nodes[0].note) == ("host", "Det: only the host knows this op")


def test_whole_numbers_and_flags_are_for_the_host() -> None:
    g = Graphs()
    graph = g.finish(g.op("Cast", [g.input("x", (2, 2))], "y", to="int64"))
    assert placed(graph, "edu-4x4", "fp32") == [("Cast", "host", "Cast: the vector unit has no int64 numbers")]


@pytest.mark.parametrize(
    ("name", "dtype", "has", "nearest"),
    [("tpu-v1", "int88", "int8xint16", "int8"), ("edu-4x4", "fp16", "one of int8, fp32", "")],
)
def test_a_format_that_the_chip_lacks_is_refused(name: str, dtype: str, has: str, nearest: str) -> None:
    state = state_of(residual_block(), name, dtype)
    with pytest.raises(UsageError) as caught:
        place(state)
    (problem,) = caught.value.problems
    assert has in problem.expected
    assert problem.nearest == nearest
    assert name in problem.what
    assert not any(node.engine for node in state.graph.nodes)


def test_an_island_between_host_nodes_goes_to_the_host() -> None:
    g = Graphs()
    y = g.op("Softmax", [g.input("x", (2, 3))], "a", axis=1)
    y = g.op("Reshape", [g.op("Mul", [y, g.weight("w", (3,))], "b")], "c", shape=[3, 2])
    graph = g.finish(g.op("Softmax", [g.op("Relu", [y], "d")], "e", axis=1))
    nodes = placed(graph, "tpu-v1", "int8")
    assert [engine for _, engine, _ in nodes] == ["host", "host", "alias", "host", "host"]
    assert nodes[1][2] == "Mul: between nodes of the host, so it stays there"


def test_a_vector_node_at_the_edge_of_the_graph_stays_on_the_chip() -> None:
    g = Graphs()
    graph = g.finish(g.op("Relu", [g.op("Softmax", [g.input("x", (2, 3))], "a", axis=1)], "y"))
    assert [engine for _, engine, _ in placed(graph, "tpu-v1", "int8")] == ["host", "vector"]


def test_the_bias_of_a_matrix_node_never_goes_to_the_host() -> None:
    g = Graphs()
    graph = g.finish(g.project(g.input("x", (2, 3)), 4, "p"))
    bare = vector_without(chip("edu-4x4"), "Bias", "Add")
    engines = [node.engine for node in compiled(graph, bare, upto="place").graph.nodes]
    assert engines == ["matrix", "vector"]


def test_a_uniform_routing_that_time_rests_on_is_told() -> None:
    """8 tokens choose 2 of 4 experts each: 4 rows for each expert, in each of the 3 products of 2 layers."""
    told = [note for note in compiled(load_model("moe?seq=8"), "edu-mixed", "fp16", "place").notes if "rout" in note]
    assert told == [
        "route: time, traffic and energy of 6 products are those of a uniform routing, whatever the values: 4 of 4 experts "
        "expected, 4 rows each"
    ]  # fmt: skip
    dense = compiled(load_model("mlp?hidden=16"), "edu-mixed", "fp16", "place")
    assert not any("rout" in note for note in dense.notes)
