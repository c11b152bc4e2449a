"""Integerise: a model that its file quantises already is computed in integers, with the file's own scales.

The usual form of such files has float ops between DequantizeLinear and QuantizeLinear (QDQ). The pass makes products
of the codes, 32-bit sums, and one Requantize out of them, as ONNX QLinearConv and QLinearMatMul define it (Jacob et
al., arXiv 1712.05877, section 2). Models of QLinear ops have this form after import.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.wiring import Wiring
from accelsim.compiler.numbers.integerise_match import PRODUCTS, Matcher, Product, is_turned
from accelsim.compiler.numbers.integerise_moves import Codes, Moves, dequantised, made_by
from accelsim.compiler.numbers.integerise_rise import Rise
from accelsim.compiler.state import State
from accelsim.errors import count_of
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Quant, Tensor


def integerise(state: State) -> None:
    """Rewrite a graph with Quantize and Dequantize nodes to integers; others are left alone.

    1. Dequantize -> [product, bias] -> Quantize becomes an integer product (int32 bias, zero points as attributes)
    and Requantize with float32(xs * ws) / ys; without a Quantize behind, the sums are dequantised.
    2. Relu, Clip, pooling and moves between a product and its Quantize work on the codes, with the same result.
    3. What else stands between Dequantize and Quantize stays in floats. Weights that only floats read are
    dequantised once.

    Runs before ``legalise``, which evaluates ops on constants and so would lose the codes of weights. Codes and
    scales are those of the file; the sums are exact, so that a code differs from that of the float model where its
    float32 sums round to the other side (by one). A product whose sums could leave int32 stays in floats.
    """
    if not any(node.op in ("Quantize", "Dequantize") for node in state.graph.nodes):
        return
    graph = state.graph = state.graph.copy()
    edit.sort(graph)
    moves = Moves(graph)
    for step in (moves.free, moves.merge, moves.down, moves.merge):
        step()
    wide = _raised(graph)
    moves.merge()
    pass_ = _Integerise(graph, wide)
    pass_.run()
    edit.sort(graph)
    edit.prune(graph)
    state.notes += [f"integerise: {note}" for note in pass_.notes()]


def _raised(graph: Graph) -> dict[str, None]:
    """Let Quantize nodes go up to what can absorb them; returns the products found on the way that are too wide."""
    wires = Wiring(graph)
    find = Matcher(wires)

    def product(node: Node) -> str | None:
        found = find.match(node) or find.match_add(node)
        return None if found is None else found.real

    Rise(wires, product).up()
    wires.store()
    return find.wide


class _Integerise:
    def __init__(self, graph: Graph, wide: dict[str, None]) -> None:
        self.graph, self.wires = graph, Wiring(graph)
        self.find = Matcher(self.wires, wide)
        self.done: dict[str, list[str]] = {"requantised": [], "real": [], "weights": []}

    def run(self) -> None:
        """Rewrite the whole graph."""
        for node in list(self.wires.nodes()):
            product = self.find.match(node)
            if product is not None:
                self._rewrite(product)
        self._note_weights()
        self._dequantise_constants()
        self.wires.store()

    def notes(self) -> list[str]:
        """Return what a user should know."""
        texts = {
            "requantised": ("product", "has", "integers in and out, as the file quantises them"),
            "real": ("product", "has", "integers in and reals out"),
            "weights": ("layer", "has", "integer weights but real activations: computed in floats"),
            "wide": ("product", "could", "leave 32-bit sums: computed in floats"),
        }
        return [
            f"{count_of(len(names), *texts[key][:2])} {texts[key][2]} ({_shortened(names)})"
            for key, names in (self.done | {"wide": list(self.find.wide)}).items()
            if names
        ]

    def _rewrite(self, product: Product) -> None:
        """Put the integer nodes in the place of the float ones."""
        graph, node = self.graph, product.node
        shape = graph.tensors[product.real].shape
        operands, before = self._operands(product)
        total = edit.add_tensor(graph, f"{product.real}.sum", shape, "int32")
        attrs = {**node.attrs, "a_zero_point": product.a.zero, "b_zero_point": _spread_zero(product, graph)}
        if node.op == "Gemm":
            attrs |= {"transB": 0, "beta": 1.0}
        new = [*before, Node(node.name, node.op, operands, [total], attrs, note=node.note)]
        if product.bias:
            total = self._biased(product, new[-1], new)
        new.append(self._ending(product, total))
        self._put(product, new)

    def _operands(self, product: Product) -> tuple[list[str], list[Node]]:
        """Names of both operands, not transposed, and the node that this takes."""
        graph, b = self.graph, product.b
        for codes in (product.a, b):
            tensor = graph.tensors[codes.name]
            if isinstance(codes.zero, int):
                tensor.quant = Quant(codes.scale, codes.zero, codes.axis)
        if not is_turned(product.node):
            return [product.a.name, b.name], []
        tensor = graph.tensors[b.name]
        axis = None if b.axis is None else 1 - b.axis
        quant = Quant(b.scale, b.zero, axis) if isinstance(b.zero, int) else None
        name = edit.fresh(graph, f"{b.name}.transposed")
        if tensor.is_constant:
            make = partial(_transposed, tensor)
            graph.tensors[name] = Tensor(name, tensor.shape[::-1], b.dtype, source=make, quant=quant)
            return [product.a.name, name], []
        graph.tensors[name] = Tensor(name, tensor.shape[::-1], b.dtype, quant=quant)
        turn = Node(f"{product.node.name}.transpose", "Transpose", [b.name], [name], {"perm": [1, 0]})
        return [product.a.name, name], [turn]

    def _biased(self, product: Product, matrix: Node, new: list[Node]) -> str:
        """Add the bias to the sums: as an input of Conv and Gemm, by a node behind MatMul."""
        graph, scale = self.graph, product.scale
        values, (channels, axis) = self.find.bias_codes(product), self.find.channels(product.node)
        name = edit.fresh(graph, f"{self.find.source(product.bias)}.int32")
        quant = Quant(scale, 0, 0 if scale.ndim else None)
        graph.tensors[name] = Tensor(name, (channels,), "int32", values, quant=quant)
        total = matrix.outputs[0]
        if matrix.op != "MatMul":
            matrix.inputs.append(name)
            return total
        out = edit.add_tensor(graph, f"{product.real}.biased", graph.tensors[total].shape, "int32")
        new.append(Node(f"{matrix.name}.bias", "Bias", [total, name], [out], {"axis": axis}))
        return out

    def _ending(self, product: Product, total: str) -> Node:
        """Requantize to what the only reader makes of the result, else Dequantize."""
        scale, axis = product.scale, self.find.channels(product.node)[1] if product.scale.ndim else None
        codes = self._quantised(product.real)
        if codes is None:
            self.done["real"].append(product.node.name)
            attrs = {"scale": scale, "zero_point": 0, "axis": axis}
            return Node(f"{product.node.name}.dequantize", "Dequantize", [total], [product.real], attrs)
        self.done["requantised"].append(product.node.name)
        multiplier = integer.multiplier_of(product.a.scale, product.b.scale, codes.scale)
        attrs = {"dtype": codes.dtype, "multiplier": multiplier, "zero_point": codes.zero, "axis": axis}
        tensor = self.graph.tensors[codes.name]
        tensor.quant = Quant(codes.scale, int(codes.zero))
        return Node(f"{product.node.name}.requantize", "Requantize", [total], [codes.name], attrs)

    def _quantised(self, name: str) -> Codes | None:
        """What the only reader of a tensor makes of it, when that is a Quantize to one scale."""
        reader = self.wires.only_reader(name)
        codes = None if reader is None else made_by(reader)
        return codes if codes is not None and codes.plain else None

    def _put(self, product: Product, new: list[Node]) -> None:
        last = new[-1]
        gone = [node for node in (product.node, product.add) if node is not None]
        quantize = self.wires.maker(last.outputs[0]) if last.op == "Requantize" else None
        self.wires.replace([*gone, *([] if quantize is None else [quantize])], new)

    def _note_weights(self) -> None:
        for node in self.wires.nodes():
            if (
                node.op in PRODUCTS
                and node.name not in self.find.wide
                and self.find.source(node.inputs[1]) != node.inputs[1]
            ):
                self.done["weights"].append(node.name)

    def _dequantise_constants(self) -> None:
        """Dequantize nodes of constants become float constants, made on first use."""
        for node in list(self.wires.nodes()):
            source = self.graph.tensors[node.inputs[0]] if node.op == "Dequantize" else None
            if source is None or not source.is_constant or node.outputs[0] in self.wires.outputs:
                continue
            self.graph.tensors[node.outputs[0]].source = partial(dequantised, node, source)
            self.wires.drop(node)


def _spread_zero(product: Product, graph: Graph) -> int | Array:
    """Zero points of the second operand in the form that broadcasts to it."""
    zero = product.b.zero
    if isinstance(zero, int):
        return zero
    rank = len(graph.tensors[product.b.name].shape)
    return zero.reshape(-1, *[1] * (rank - 1)) if product.node.op == "Conv" else zero.reshape(-1)


def _transposed(tensor: Tensor) -> Array:
    return np.ascontiguousarray(edit.peek(tensor).T)


def _shortened(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
