"""Graphs of as many nodes as one likes, for tests and benchmarks of what compiling costs per node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelsim.workload.graph import Graph, Node, Tensor

SHAPE = (4, 8)
WEIGHTS = np.full((8, 8), 0.1, np.float32)
CODES = np.full((8, 8), 3, np.int8)
SCALE = {"scale": np.float32(0.05), "zero_point": 0, "axis": None}


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


class Codes:
    """Builds graphs of a quantised model: pairs of Quantize and Dequantize around ops on reals."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tensors = {"x": Tensor("x", SHAPE), "w": Tensor("w", CODES.shape, "int8", CODES)}

    def op(
        self, op: str, inputs: list[str], shape: tuple[int, ...] = SHAPE, made: str = "fp32", **attrs: Any
    ) -> str:
        """A node; its name is that of its output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(Node(name, op, inputs, [name], attrs))
        self.tensors[name] = Tensor(name, shape, made)
        return name

    def pair(self, x: str) -> str:
        """x quantised and dequantised."""
        shape = self.tensors[x].shape
        codes = self.op("Quantize", [x], shape, "int8", dtype="int8", **SCALE)
        return self.op("Dequantize", [codes], shape, **SCALE)

    def product(self, x: str) -> str:
        """x times weights that are codes."""
        weights = self.op("Dequantize", ["w"], CODES.shape, **SCALE)
        return self.op("MatMul", [x, weights], a_zero_point=0, b_zero_point=0)

    def graph(self, *outputs: str) -> Graph:
        """The graph that returns these tensors."""
        return Graph("coded", self.nodes, self.tensors, ["x"], list(outputs))


def coded_products(count: int) -> Graph:
    """Products of codes, each with weights of its own; one of two adds a bias or is followed by a Relu."""
    c = Codes()
    x = c.pair("x")
    for i in range(count // 5):
        c.tensors[f"b{i}"] = Tensor(f"b{i}", (8,), data=WEIGHTS[0])
        y = c.product(x)
        y = c.op("Add", [y, f"b{i}"]) if i % 2 else c.op("Relu", [y])
        x = c.pair(y)
    return c.graph(x)


def coded_moves(count: int) -> Graph:
    """A product, then many moves, of which a Quantize at the end may go before them all."""
    c = Codes()
    x = c.product(c.pair("x"))
    for _ in range(count):
        x = c.op("Relu", [x])
    return c.graph(c.pair(x))


def coded_late(count: int) -> Graph:
    """Many moves behind a Dequantize, each of which works on codes."""
    c = Codes()
    x = c.pair("x")
    for i in range(count):
        shape = SHAPE[::-1] if i % 2 == 0 else SHAPE
        x = c.op("Transpose", [x], shape, perm=[1, 0])
    return c.graph(c.pair(x))


def coded_joins(count: int) -> Graph:
    """Concat behind Concat, each with one more product; a Quantize at the end may go up all branches."""
    c = Codes()
    x, rows = c.pair("x"), SHAPE[0]
    y = c.product(x)
    for i in range(count // 4):
        rows += SHAPE[0]
        other = c.product(x) if i % 2 else c.pair(x)
        y = c.op("Concat", [y, other], (rows, SHAPE[1]), axis=0)
        y = c.op("Slice", [y], starts=[0], ends=[SHAPE[0]], axes=[0], steps=[1])
        rows = SHAPE[0]
    return c.graph(c.pair(y))


def coded_fan(count: int) -> Graph:
    """Everybody quantises the same input and multiplies it; every result leaves the graph."""
    c = Codes()
    return c.graph(*(c.pair(c.product(c.pair("x"))) for _ in range(count // 6)))


LONG: dict[str, Callable[[int], Graph]] = {
    "chain": chain, "products": products, "fan": fan, "residuals": residuals, "shared": shared, "sums": sums,
    "renames": renames, "coded_products": coded_products, "coded_moves": coded_moves, "coded_late": coded_late,
    "coded_joins": coded_joins, "coded_fan": coded_fan,
}  # fmt: skip
