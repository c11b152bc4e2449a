"""Collected parts of an exported graph: ONNX nodes and the initialisers that canonical attributes become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.values import INTEGER_OPERANDS

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


@dataclass
class Writer:
    """The ONNX nodes and extra initialisers written so far."""

    graph: Graph
    nodes: list[NodeProto] = field(default_factory=list)
    extra: list[TensorProto] = field(default_factory=list)

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: object) -> None:
        """Append one ONNX node; attributes that are None or have no elements are left out."""
        from onnx import helper

        node = helper.make_node(op, list(inputs), list(outputs), f"{op}:{outputs[0]}")
        node.attribute.extend(
            helper.make_attribute(name, value)
            for name, value in sorted(attrs.items())
            if value is not None and not (isinstance(value, list | tuple) and not value)
        )
        self.nodes.append(node)

    def part(self, node: Node, role: str, op: str, *inputs: str, **attrs: object) -> str:
        """Append one of the ONNX nodes that stand for ``node``; return the name of its result."""
        name = self.step(node, role)
        self.emit(op, inputs, [name], **attrs)
        return name

    def number(self, node: Node, role: str, values: ArrayLike, kind: DTypeLike = np.int64) -> str:
        """Append an initialiser with these values; return its name, after the node's first output."""
        from onnx import numpy_helper

        name = self.step(node, role)
        self.extra.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def step(self, node: Node, role: str) -> str:
        """Return the name of a tensor between the ONNX nodes that stand for one node."""
        return f"{node.outputs[0]}//{role}"

    def is_integer(self, node: Node) -> bool:
        """Return whether the first operand of ``node`` is an 8- or 16-bit integer."""
        return self.dtype(node.inputs[0]) in INTEGER_OPERANDS

    def dtype(self, name: str) -> str:
        """Return the format of a tensor of the graph."""
        return self.graph.tensors[name].dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor of the graph."""
        return self.graph.tensors[name].shape
