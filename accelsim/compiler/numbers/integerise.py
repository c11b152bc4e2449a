"""Integerise: a model that its file quantises already is computed in integers, with the file's own scales.

The usual form of such files has float ops between DequantizeLinear and QuantizeLinear (QDQ). The pass makes products
of the codes, 32-bit sums, and one Requantize out of them, as ONNX QLinearConv and QLinearMatMul define it (Jacob et
al., arXiv 1712.05877, section 2). Models of QLinear ops have this form after import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.wiring import Wiring
from accelsim.compiler.numbers.integerise_match import PRODUCTS, Matcher, Product, is_turned
from accelsim.compiler.numbers.integerise_moves import (
    BOUNDS,
    CodedTensor,
    Moves,
    data_of,
    dequantised,
    made_by,
    on_codes,
    read_by,
)
from accelsim.compiler.state import State
from accelsim.errors import count_of
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Quant, Tensor
from accelsim.workload.onnx.exporting.coded_graph import moves
from accelsim.workload.ops.values import row_major


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
        """Return notes for the user: how many products are computed in which arithmetic."""
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

    def _quantised(self, name: str) -> CodedTensor | None:
        """Return what the only reader of a tensor makes of it, when that is a Quantize to one scale."""
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
    return row_major(edit.peek(tensor).T)


def _shortened(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


class Rise:
    """Quantize goes up; ``product(node)`` gives the real tensor of the product that ends in a node and that can be
    computed in integers, if there is one."""

    def __init__(self, wires: Wiring, product: Callable[[Node], str | None]) -> None:
        self.graph, self.wires, self._product = wires.graph, wires, product
        self._known: dict[str, bool] = {}

    def up(self) -> None:
        """move -> Quantize becomes Quantize -> move, wherever that brings the Quantize to what can absorb it."""
        queue = [node for node in self.wires.nodes() if node.op == "Quantize"]
        while queue:
            node = queue.pop()
            if not self._cancelled(node):
                queue += self._raised(node)

    def _cancelled(self, node: Node) -> bool:
        """Dequantize -> Quantize with the same parameters is nothing."""
        before = self.wires.maker(node.inputs[0])
        ours, theirs = made_by(node), None if before is None else read_by(self.graph, before)
        if ours is None or theirs is None or not ours.same(theirs) or ours.name in self.wires.outputs:
            return False
        self.wires.rewire(ours.name, theirs.name)
        self.wires.drop(node)
        if self.graph.tensors[theirs.name].is_constant:  # the products that read it are others now
            self._known.clear()
        return True

    def _raised(self, node: Node) -> list[Node]:
        """The Quantize nodes above the move that stood above this one, or nothing."""
        name, codes = node.inputs[0], made_by(node)
        before = self.wires.maker(name)
        if before is None or codes is None or not codes.plain or not self._can_rise(before, name):
            return []
        new: list[Node] = []
        for slot in data_of(before):
            real = before.inputs[slot]
            shape = self.graph.tensors[real].shape
            out = edit.add_tensor(self.graph, f"{real}.{codes.dtype}", shape, codes.dtype)
            self.graph.tensors[out].quant = Quant(codes.scale, int(codes.zero))
            label = f"{before.name}.quantize{slot}"
            new.append(Node(label, "Quantize", [real], [out], codes.rounded()))
        moved = on_codes(self.graph, before, [part.outputs[0] for part in new], [codes.name], codes)
        self.wires.replace([before, node], [*new, *self._useful(moved)])
        return new

    def _can_rise(self, before: Node, name: str) -> bool:
        """Return whether a Quantize of ``name``, made by ``before``, may go above ``before`` and gains by that."""
        return self._passes(before, name) and any(self._absorbs(before.inputs[slot]) for slot in data_of(before))

    def _passes(self, before: Node, name: str) -> bool:
        """Return whether a Quantize of ``name``, made by ``before``, may go above ``before``."""
        return (moves(before) or before.op in BOUNDS) and len(before.outputs) == 1 and self.wires.uses(name) == 1

    def _absorbs(self, name: str) -> bool:
        """Return whether the tensor comes, perhaps through moves, from codes or from a product that can give some.

        Moves may stand in long rows, so that what was found is kept (to raise a Quantize does not change it) and the
        way back is a list, not a recursion.
        """
        way: list[tuple[str, Iterator[str]]] = [("", iter([name]))]
        answer = False
        while way:
            wanted, left = way[-1]
            source = None if answer else next(left, None)
            if source is None:
                self._known[wanted] = answer
                way.pop()
            elif source in self._known:
                answer = self._known[source]
            else:
                way.append((source, self._behind(source)))
                answer = self._gives_codes(source)
        return self._known.pop("")

    def _gives_codes(self, name: str) -> bool:
        """Return whether what makes the tensor is a Dequantize, or a product that can give codes."""
        node = self.wires.maker(name)
        if node is None:
            return False
        if node.op == "Dequantize":
            return read_by(self.graph, node) is not None
        return self._product(node) == name and self.wires.uses(name) == 1

    def _behind(self, name: str) -> Iterator[str]:
        """Return the node that a Quantize of the tensor would stand behind if it went up by one move."""
        node = self.wires.maker(name)
        if node is not None and self._passes(node, name):
            yield from (node.inputs[slot] for slot in data_of(node))

    def _useful(self, node: Node) -> list[Node]:
        """The node, or nothing when it is a Clip to all codes: its readers then read its input."""
        if node.op != "Clip" or node.attrs != {"min": None, "max": None} or node.outputs[0] in self.wires.outputs:
            return [node]
        self.wires.rewire(node.outputs[0], node.inputs[0])
        return []
