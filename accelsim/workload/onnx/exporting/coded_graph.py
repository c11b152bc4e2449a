"""A graph of codes as the exports need it: fused nodes taken apart, with the numbers that codes stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from accelsim.errors import ModelError
from accelsim.formats import table
from accelsim.formats.integer import code_range
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Quant, Tensor
from accelsim.workload.nodes import needed_nodes
from accelsim.workload.ops import base
from accelsim.workload.ops.values import INTEGER_OPERANDS

MOVES = frozenset({
    "MaxPool", "GlobalMaxPool", "Concat", "Split", "Slice", "Gather", "Transpose", "Pad", "Expand", "Tile",
    "DepthToSpace", "SpaceToDepth", "Resize",
})  # fmt: skip
"""Ops that return some of their inputs (Pad: or zero), beside those that only rename."""

PRODUCTS = frozenset({"Conv", "MatMul", "Gemm"})
WIDE = 16
"""Floats of fewer bits are codes: they need a scale."""


def is_code(dtype: str) -> bool:
    """Return whether tensors of this format stand for scale * (code - zero point)."""
    if dtype in INTEGER_OPERANDS:
        return True
    return dtype in table.FORMATS and table.get(dtype).kind == "float" and table.get(dtype).bits < WIDE


def moves(node: Node) -> bool:
    """Return whether the op works on codes as on reals."""
    op = base.find(node.op)
    if op is None or (op.kind != "alias" and node.op not in MOVES):
        return False
    if node.op == "Pad":
        return node.attrs["mode"] != "constant" or not node.attrs["value"]
    return node.op != "Resize" or node.attrs["mode"] == "nearest"


@dataclass
class Parts:
    """The parts of a graph one by one, and the new graph that is written from them.

    ``old`` is the graph as it is; new nodes and tensors go into ``nodes`` and ``tensors`` (which starts with all of
    the old ones). ``sums``: scale of the sums of products of codes, by tensor name.
    """

    old: Graph
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors = {name: replace(tensor) for name, tensor in self.old.tensors.items()}
        self.parts = [
            replace(part, epilogue=[], inputs=list(part.inputs), outputs=list(part.outputs), attrs=dict(part.attrs))
            for node in self.old.nodes
            for part in (node, *node.epilogue)
        ]
        self._count()
        self._drop_idle_clips()

    def _count(self) -> None:
        self._uses = Counter(name for part in self.parts for name in part.inputs if name)
        self._uses.update(self.old.outputs)
        self.readers = {name: part for part in self.parts for name in part.inputs}

    def _drop_idle_clips(self) -> None:
        """Take out bounds that the format of the codes has anyway."""
        made = {name: part for part in self.parts for name in part.outputs}
        for part in [part for part in self.parts if part.op == "Clip" and self._is_idle(part)]:
            before = made.get(part.inputs[0])
            if before is not None and self._uses[part.inputs[0]] == 1:
                before.outputs = [part.outputs[0] if name == part.inputs[0] else name for name in before.outputs]
                self.parts = [other for other in self.parts if other is not part]
                made[part.outputs[0]] = before
        self._count()

    def _is_idle(self, clip: Node) -> bool:
        dtype = self.dtype(clip.inputs[0])
        if dtype not in INTEGER_OPERANDS or dtype == "int1":
            return False
        low, high = code_range(dtype)
        least, most = clip.attrs["min"], clip.attrs["max"]
        return (least is None or least <= low) and (most is None or most >= high)

    def only_reader(self, name: str) -> Node | None:
        """The part that reads a tensor, when nothing else does."""
        return self.readers.get(name) if self._uses[name] == 1 and name not in self.old.outputs else None

    def dtype(self, name: str) -> str:
        """Return the format of a tensor."""
        return self.tensors[name].dtype

    def coded(self, node: Node) -> bool:
        """Return whether the node multiplies codes."""
        return node.op in PRODUCTS and is_code(self.dtype(node.inputs[0])) and is_code(self.dtype(node.inputs[1]))

    def quant(self, name: str) -> Quant:
        """Scale and zero point of a tensor of codes; ModelError where the graph does not tell."""
        found = self.tensors[name].quant
        if found is None:
            raise ModelError(f"tensor {name!r} holds codes of an unknown scale", self.old.name)
        return found

    def sum_scale(self, node: Node) -> Array:
        """Scale of what a product of codes gives: 0-d, or one per output channel."""
        a, b = (self.quant(name) for name in node.inputs[:2])
        return np.asarray(np.asarray(a.scale, np.float32) * np.asarray(b.scale, np.float32), np.float32)

    def channel_axis(self, node: Node) -> int:
        """Axis of the output channels in the result of a product."""
        return 1 if node.op == "Conv" else len(self.tensors[node.outputs[0]].shape) - 1

    def fresh(self, wanted: str) -> str:
        """``wanted``, or with a number at its end where there is such a tensor."""
        name, count = wanted, 1
        while name in self.tensors:
            count += 1
            name = f"{wanted}.{count}"
        return name

    def add(self, wanted: str, shape: Iterable[int], dtype: str = "fp32") -> str:
        """Add a tensor; return its name."""
        name = self.fresh(wanted)
        self.tensors[name] = Tensor(name, tuple(shape), dtype)
        return name

    def constant(self, wanted: str, values: Array, dtype: str) -> str:
        """Add a constant; return its name."""
        name = self.add(wanted, values.shape, dtype)
        self.tensors[name].data = values
        return name

    def emit(self, name: str, op: str, inputs: list[str], outputs: list[str], **attrs: object) -> Node:
        """Append a node to the new graph."""
        node = Node(name, op, inputs, outputs, dict(attrs))
        self.nodes.append(node)
        return node

    def graph(self) -> Graph:
        """The new graph, without tensors that nobody names and nodes that nothing needs."""
        kept = needed_nodes(self.nodes, self.old.outputs)
        named = {name for node in kept for name in (*node.inputs, *node.outputs)}
        named.update(self.old.inputs, self.old.outputs)
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in named}
        return replace(self.old, nodes=kept, tensors=tensors)
