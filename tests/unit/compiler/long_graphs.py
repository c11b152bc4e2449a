"""Graphs of as many nodes as one likes, for tests and benchmarks of what compiling costs per node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.workload.graph import Graph, Node, Tensor

SHAPE = (4, 8)
WEIGHTS = np.full((8, 8), 0.1, np.float32)


def _graph(name: str, nodes: list[Node], outputs: list[str]) -> Graph:
    tensors = {"x": Tensor("x", SHAPE)}
    for node in nodes:
        tensors.update((made, Tensor(made, SHAPE)) for made in node.outputs)
        for read in node.inputs:
            tensors.setdefault(read, Tensor(read, WEIGHTS.shape, data=WEIGHTS))
    return Graph(name, nodes, tensors, ["x"], outputs)


def chain(count: int) -> Graph:
    """Relu behind Relu."""
    names = ["x", *(f"t{i}" for i in range(count))]
    nodes = [Node(f"n{i}", "Relu", [names[i]], [names[i + 1]]) for i in range(count)]
    return _graph("chain", nodes, names[-1:])


def products(count: int) -> Graph:
    """Products, each with weights of its own."""
    names = ["x", *(f"t{i}" for i in range(count))]
    nodes = [Node(f"n{i}", "MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    return _graph("products", nodes, names[-1:])


def fan(count: int) -> Graph:
    """One input that everybody reads; every result leaves the graph."""
    nodes = [Node(f"n{i}", "Relu", ["x"], [f"t{i}"]) for i in range(count)]
    return _graph("fan", nodes, [f"t{i}" for i in range(count)])


def residuals(count: int) -> Graph:
    """Blocks of a product, a sum with the input of the block, and a Relu."""
    nodes, name = list[Node](), "x"
    for i in range(count // 3):
        nodes += [
            Node(f"m{i}", "MatMul", [name, f"w{i}"], [f"p{i}"]),
            Node(f"a{i}", "Add", [f"p{i}", name], [f"s{i}"]),
            Node(f"r{i}", "Relu", [f"s{i}"], [f"t{i}"]),
        ]
        name = f"t{i}"
    return _graph("residuals", nodes, [name])


def shared(count: int) -> Graph:
    """Products that all have the same weights."""
    graph = products(count)
    for node in graph.nodes:
        node.inputs[1] = "w0"
    return graph


def sums(count: int) -> Graph:
    """A long sum, each term of which is made just before."""
    nodes, name = list[Node](), "x"
    for i in range(count // 2):
        nodes += [
            Node(f"u{i}", "Sigmoid", ["x"], [f"u{i}"]),
            Node(f"a{i}", "Add", [name, f"u{i}"], [f"t{i}"]),
        ]
        name = f"t{i}"
    return _graph("sums", nodes, [name])


def renames(count: int) -> Graph:
    """Relu and Identity in turns."""
    graph = chain(count)
    for node in graph.nodes[1::2]:
        node.op = "Identity"
    return graph


LONG: dict[str, Callable[[int], Graph]] = {
    "chain": chain, "products": products, "fan": fan, "residuals": residuals, "shared": shared, "sums": sums,
    "renames": renames,
}  # fmt: skip
