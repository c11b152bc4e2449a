"""Weights as codes: made once for every format in which a matrix node takes them."""

from __future__ import annotations

from functools import partial

import numpy as np

from accelsim.compiler import edit
from accelsim.compiler.number_formats import Operands
from accelsim.compiler.scales import weight_scale
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.workload.graph import Array, Node, Quant, Tensor


class CodedWeights:
    """The constant operands of the matrix nodes of ``state.graph`` as codes with scales.

    A scale per output channel, or one for all with ``Options.per_channel`` False; those of ``Options.scales`` as they
    are. With ``Options.values`` 'off' scales are 1 and the codes are made when somebody asks for them.
    """

    def __init__(self, state: State) -> None:
        self.graph, self.options = state.graph, state.options
        self._made: dict[tuple[str, str, int | None], tuple[str, Array]] = {}

    def of(self, node: Node, operands: Operands) -> tuple[str, Array]:
        """Name of the weights of a node as codes, now a tensor of the graph, and their scale (0-d or [channels])."""
        name, axis = node.inputs[1], self._axis(node)
        key = (name, operands.weights, axis)
        if key not in self._made:
            self._made[key] = self._make(self.graph.tensors[name], operands, axis)
        return self._made[key]

    def scale(self, node: Node, operands: Operands) -> tuple[Array, int | None]:
        """Scale of the weights of a node that are not codes yet, and its axis."""
        tensor, axis = self.graph.tensors[node.inputs[1]], self._axis(node)
        return self._scale(tensor.name, edit.peek(tensor), operands, axis), axis

    def _axis(self, node: Node) -> int | None:
        """Axis of the output channels; None where all weights share one scale."""
        rank = len(self.graph.tensors[node.inputs[1]].shape)
        if not self.options.per_channel or rank < 2:
            return None
        return 0 if node.op == "Conv" else rank - 1

    def _make(self, tensor: Tensor, operands: Operands, axis: int | None) -> tuple[str, Array]:
        dtype = operands.weights
        shared = edit.uses(self.graph, tensor.name) > 1
        name = edit.fresh(self.graph, f"{tensor.name}.{dtype}") if shared else tensor.name
        if self.options.values == "off":
            scale = np.ones(() if axis is None else tensor.shape[axis], np.float32)
            make = partial(self._codes, tensor, operands, axis)
            new = Tensor(name, tensor.shape, dtype, source=make)
        else:
            values = edit.peek(tensor)
            scale = self._scale(tensor.name, values, operands, axis)
            new = Tensor(name, tensor.shape, dtype, integer.quantise(values, scale, dtype, axis=axis))
        new.quant, new.sparse = Quant(scale, 0, axis), tensor.sparse
        self.graph.tensors[name] = new
        return name, scale

    def _codes(self, tensor: Tensor, operands: Operands, axis: int | None) -> Array:
        values = edit.peek(tensor)
        scale = self._scale(tensor.name, values, operands, axis)
        return integer.quantise(values, scale, operands.weights, axis=axis)

    def _scale(self, name: str, values: Array, operands: Operands, axis: int | None) -> Array:
        given = self.options.scales.get(name)
        if given is None:
            return weight_scale(values, operands, axis)
        scale = np.asarray(given, np.float32)
        return scale.reshape(()) if axis is None or scale.size == 1 else scale.reshape(-1)
