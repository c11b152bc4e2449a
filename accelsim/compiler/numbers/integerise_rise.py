"""Codes instead of reals, upwards: Quantize goes above ops that only move values, to what can give codes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.wiring import Wiring
from accelsim.compiler.numbers.integerise_moves import BOUNDS, data_of, made_by, on_codes, read_by
from accelsim.workload.graph import Node, Quant
from accelsim.workload.onnx.exporting.coded_graph import moves


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
        """Whether a Quantize of ``name``, which ``before`` makes, may go above ``before`` and gains by that."""
        return self._passes(before, name) and any(
            self._absorbs(before.inputs[slot]) for slot in data_of(before)
        )

    def _passes(self, before: Node, name: str) -> bool:
        """Whether a Quantize of ``name``, which ``before`` makes, may go above ``before``."""
        return (
            (moves(before) or before.op in BOUNDS) and len(before.outputs) == 1 and self.wires.uses(name) == 1
        )

    def _absorbs(self, name: str) -> bool:
        """Whether the tensor comes, perhaps through moves, from codes or from a product that can give some.

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
        """Whether what makes the tensor is a Dequantize, or a product that can give codes."""
        node = self.wires.maker(name)
        if node is None:
            return False
        if node.op == "Dequantize":
            return read_by(self.graph, node) is not None
        return self._product(node) == name and self.wires.uses(name) == 1

    def _behind(self, name: str) -> Iterator[str]:
        """What a Quantize of the tensor would stand behind if it went up by one move."""
        node = self.wires.maker(name)
        if node is not None and self._passes(node, name):
            yield from (node.inputs[slot] for slot in data_of(node))

    def _useful(self, node: Node) -> list[Node]:
        """The node, or nothing when it is a Clip to all codes: its readers then read its input."""
        if (
            node.op != "Clip"
            or node.attrs != {"min": None, "max": None}
            or node.outputs[0] in self.wires.outputs
        ):
            return [node]
        self.wires.rewire(node.outputs[0], node.inputs[0])
        return []
