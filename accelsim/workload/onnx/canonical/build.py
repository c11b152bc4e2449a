"""Writing canonical nodes one after the other: what a rule needs that makes several out of one."""

from __future__ import annotations

from accelsim.types import Array
from accelsim.workload.constants import constant_tensor
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.onnx.canonical.rules import Scope
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.ops.values import Filled, contain


class Chain:
    """Nodes that together stand for ``raw``; results in between are named after its first output.

    ``dtype`` is the format of the first input. Shapes of results in between are not known to the scope: a rule computes
    what it needs of them itself.
    """

    def __init__(self, raw: RawNode, scope: Scope) -> None:
        self.nodes: list[Node] = []
        self._raw, self._scope, self._count = raw, scope, 0
        self.dtype = scope.tensors[raw.inputs[0]].dtype
        self._stem = next(name for name in raw.outputs if name)

    def constant(self, value: Array, dtype: str = "") -> str:
        """A constant of the graph, of format ``dtype`` or that of its NumPy type; gives its name."""
        name = self._name("constant")
        made = Tensor(name, value.shape, dtype, data=contain(value, dtype)) if dtype else constant_tensor(name, value)
        self._scope.tensors[name] = made
        return name

    def zeros(self, *shape: int) -> str:
        """A constant of zeros in the format of the first input, made on first use; gives its name."""
        name = self._name("zeros")
        self._scope.tensors[name] = Tensor(name, shape, self.dtype, source=Filled(shape, 0, self.dtype))
        return name

    def add(self, op: str, *inputs: str, to: str = "", **attrs: object) -> str:
        """Append a node of one result, named ``to`` where given; gives the name of the result."""
        return self.split(op, *inputs, to=[to or self._name(op.lower())], **attrs)[0]

    def split(self, op: str, *inputs: str, to: list[str], **attrs: object) -> list[str]:
        """Append a node of several results, '' where the chain may choose the name; gives their names."""
        names = [name or self._name(op.lower()) for name in to]
        self.nodes.append(Node(f"{self._raw.name}.{len(self.nodes)}", op, list(inputs), names, attrs))
        return names

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self._stem}/{kind}{self._count}"
