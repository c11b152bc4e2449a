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
        nodes += [Node(f"u{i}", "Sigmoid", ["x"], [f"u{i}"]), Node(f"a{i}", "Add", [name, f"u{i}"], [f"t{i}"])]
        name = f"t{i}"
    return _graph("sums", nodes, [name])


def renames(count: int) -> Graph:
    """Relu and Identity in turns."""
    graph = chain(count)
    for node in graph.nodes[1::2]:
        node.op = "Identity"
    return graph


def vectors(count: int) -> Graph:
    """Vector ops of which none is fused with the next."""
    graph = chain(count)
    for node in graph.nodes:
        node.op, node.attrs = "Softmax", {"axis": -1}
    return graph


def on_host(count: int) -> Graph:
    """Products, and ops that most chips leave to the host, in turns."""
    graph = products(count)
    for node in graph.nodes[1::2]:
        node.op, node.inputs = "Sin", node.inputs[:1]
    return graph


def joins(count: int) -> Graph:
    """Split and Concat in turns."""
    nodes, name = list[Node](), "x"
    for i in range(count // 2):
        nodes += [
            Node(f"s{i}", "Split", [name], [f"a{i}", f"b{i}"], {"axis": 1, "split": [4, 4]}),
            Node(f"c{i}", "Concat", [f"b{i}", f"a{i}"], [f"t{i}"], {"axis": 1}),
        ]
        name = f"t{i}"
    graph = _graph("joins", nodes, [name])
    for node in nodes[::2]:
        graph.tensors.update((half, Tensor(half, (4, 4))) for half in node.outputs)
    return graph


def convolutions(count: int) -> Graph:
    """Blocks of a convolution, a batch normalisation and a Relu, images of one row."""
    window = {"strides": [1, 1], "pads": [0, 1, 0, 1], "dilations": [1, 1], "group": 1, "kernel_shape": [1, 3]}
    nodes, name = list[Node](), "x"
    for i in range(count // 3):
        parameters = [f"{what}{i}" for what in ("scale", "shift", "mean", "variance")]
        nodes += [
            Node(f"c{i}", "Conv", [name, f"w{i}"], [f"c{i}"], dict(window)),
            Node(f"b{i}", "BatchNormalization", [f"c{i}", *parameters], [f"b{i}"], {"epsilon": 1e-5}),
            Node(f"r{i}", "Relu", [f"b{i}"], [f"r{i}"]),
        ]
        name = f"r{i}"
    graph = _graph("convolutions", nodes, [name])
    weights, parameter = np.full((4, 4, 1, 3), 0.1, np.float32), np.ones(4, np.float32)
    for tensor in graph.tensors.values():
        if tensor.is_constant:
            tensor.data = weights if tensor.name.startswith("w") else parameter
        tensor.shape = (1, 4, 1, 8) if tensor.data is None else tensor.data.shape
    return graph


def waiting(count: int) -> Graph:
    """Half of the nodes make tensors, the other half reads them, the last one first: all wait on the chip."""
    nodes, name = list[Node](), "x"
    for i in range(count // 2):
        nodes.append(Node(f"u{i}", "Softmax", [name], [f"u{i}"], {"axis": -1}))
        name = f"u{i}"
    for i in reversed(range(count // 2)):
        nodes.append(Node(f"a{i}", "Add", [name, f"u{i}"], [f"t{i}"]))
        nodes.append(Node(f"s{i}", "Softmax", [f"t{i}"], [f"s{i}"], {"axis": -1}))
        name = f"s{i}"
    return _graph("waiting", nodes, [name])


def states(count: int) -> Graph:
    """As many states as nodes, each of which makes the next value of one."""
    nodes = [Node(f"n{i}", "Relu", [f"s{i}"], [f"t{i}"]) for i in range(count)]
    graph = _graph("states", nodes, [f"t{i}" for i in range(count)])
    graph.tensors = {name: Tensor(name, SHAPE) for node in nodes for name in (*node.inputs, *node.outputs)}
    graph.inputs, graph.states = [f"s{i}" for i in range(count)], {f"s{i}": f"t{i}" for i in range(count)}
    return graph


def caches(count: int) -> Graph:
    """Rows appended to a cache, products with the cache transposed and as it is; a cache in each block."""
    graph = _graph("caches", [], [])
    nodes, tensors, name = graph.nodes, graph.tensors, "x"
    tensors["x"] = Tensor("x", (1, 8))
    for i in range(count // 5):
        past, late = f"past{i}", f"late{i}"
        tensors[f"w{i}"] = Tensor(f"w{i}", WEIGHTS.shape, data=WEIGHTS)
        rows = {f"k{i}": 1, past: 7, late: 8, f"turned{i}": 8, f"s{i}": 1, f"y{i}": 1}
        tensors.update((each, Tensor(each, (length, 8))) for each, length in rows.items())
        nodes += [
            Node(f"k{i}", "MatMul", [name, f"w{i}"], [f"k{i}"]),
            Node(late, "Concat", [past, f"k{i}"], [late], {"axis": 0}),
            Node(f"turned{i}", "Transpose", [late], [f"turned{i}"], {"perm": [1, 0]}),
            Node(f"s{i}", "MatMul", [name, f"turned{i}"], [f"s{i}"]),
            Node(f"y{i}", "MatMul", [f"s{i}", late], [f"y{i}"]),
        ]
        name = f"y{i}"
        graph.inputs.append(past)
        graph.outputs.append(late)
        graph.states[past] = late
    graph.outputs.append(name)
    return graph


class Codes:
    """Builds graphs of a quantised model: pairs of Quantize and Dequantize around ops on reals."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tensors = {"x": Tensor("x", SHAPE), "w": Tensor("w", CODES.shape, "int8", CODES)}

    def op(self, op: str, inputs: list[str], shape: tuple[int, ...] = SHAPE, made: str = "fp32", **attrs: Any) -> str:
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
    "renames": renames, "vectors": vectors, "on_host": on_host, "joins": joins, "convolutions": convolutions,
    "waiting": waiting, "states": states, "caches": caches, "coded_products": coded_products, "coded_moves": coded_moves, "coded_late": coded_late,
    "coded_joins": coded_joins, "coded_fan": coded_fan,
}  # fmt: skip
