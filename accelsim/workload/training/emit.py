"""Writing nodes of a training step: a builder with constants that are shared and casts that are written once."""

from __future__ import annotations

import numpy as np

from accelsim.workload.graph import Tensor
from accelsim.workload.ops.values import contain
from accelsim.workload.zoo.build import Builder


class Emitter(Builder):
    """Collects the nodes of one training step; each method returns the name of the tensor that it made."""

    def number(self, value: float) -> str:
        """The float32 scalar ``value`` as a constant, one tensor per value."""
        name = f"const.{np.float32(value):.9g}"
        return name if name in self.graph.tensors else self.constant(name, value)

    def cast(self, x: str, dtype: str, name: str = "") -> str:
        """``x`` in the format ``dtype``; ``x`` itself when it has it already."""
        if self.graph.tensors[x].dtype == dtype:
            return x
        name = name or f"{x}.{dtype}"
        return name if name in self.graph.tensors else self.op("Cast", [x], name, to=dtype)

    def pair(self, op: str, a: str, b: str, name: str) -> str:
        """Add a node with two inputs; return its result."""
        return self.op(op, [a, b], name)

    def fixed(self, tensor: Tensor, dtype: str) -> str:
        """A constant of the model, in the format ``dtype`` when it is of floats."""
        floats = tensor.dtype in ("fp32", "fp16", "bf16")
        kept = dtype if floats else tensor.dtype
        return self._add(Tensor(tensor.name, tensor.shape, kept, contain(tensor.value(), kept)))
