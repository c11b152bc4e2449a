"""Collected parts of an exported graph: ONNX nodes and the initialisers that canonical attributes become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.values import INTEGER_OPERANDS


@dataclass
class Writer:
    """The ONNX nodes and extra initialisers written so far."""

    graph: Graph
    nodes: list[Any] = field(default_factory=list)
    extra: list[Any] = field(default_factory=list)

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        """Append one ONNX node; attributes that are None or have no elements are left out."""
        from onnx import helper

        given = {
            name: value
            for name, value in attrs.items()
            if value is not None and not (isinstance(value, list | tuple) and not value)
        }
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), f"{op}:{outputs[0]}", **given))

    def number(self, node: Node, role: str, values: Any, kind: Any = np.int64) -> str:
        """The name of a new initialiser with these values, named after the node's first output."""
        from onnx import numpy_helper

        name = f"{node.outputs[0]}//{role}"
        self.extra.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def step(self, node: Node, role: str) -> str:
        """Name of a tensor between the ONNX nodes that stand for one node."""
        return f"{node.outputs[0]}//{role}"

    def is_integer(self, node: Node) -> bool:
        """Return whether the first operand of ``node`` is an 8- or 16-bit integer."""
        return self.graph.tensors[node.inputs[0]].dtype in INTEGER_OPERANDS

    def dtype(self, name: str) -> str:
        """Format of a tensor of the graph."""
        return self.graph.tensors[name].dtype
