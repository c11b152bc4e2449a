"""Weights as codes: made once for every format in which a matrix node takes them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers.formats import Operands
from accelsim.compiler.numbers.scales import SUM_LIMIT, Codes, reach, weight_scale
from accelsim.compiler.state import State
from accelsim.errors import UsageError
from accelsim.formats import integer, table
from accelsim.types import Array
from accelsim.workload.graph import Node, Quant, Tensor
from accelsim.workload.limits import check_memory

SCALE_B = 12
"""Memory of one channel's scale on its way to the requantisation, bytes: three float32."""


class CodedWeights:
    """The constant operands of the matrix nodes of ``state.graph`` as codes with scales.

    A scale per output channel, or one for all with ``Options.per_channel`` False; those of ``Options.scales`` as they
    are. With ``Options.values`` 'off' scales are 1 and the codes are made when somebody asks for them.
    """

    def __init__(self, state: State) -> None:
        self.graph, self.options = state.graph, state.options
        self._counts = edit.use_counts(state.graph)
        self._made: dict[Hashable, tuple[str, Array]] = {}
        self._alone: dict[Hashable, str] = {}

    def coded(self, node: Node, operands: Operands, x: Codes) -> tuple[str, Array]:
        """Name of the weights of a node as codes, now a tensor of the graph, and their scale (0-d or [channels]).

        ``x``: codes of what they are multiplied by, whose sums must stay in int32.
        """
        name, axis = node.inputs[1], self._axis(node)
        least = self._least(node, operands, axis, x)
        key = (name, operands.weights, axis, least.tobytes())
        if key not in self._made:
            largest = reach(x.dtype, self.options) if operands.integer_sums else 0
            make = _Make(operands, axis, largest, least)
            self._made[key] = self._make(self.graph.tensors[name], make)
        return self._made[key]

    def round_alone(self, node: Node, operands: Operands) -> None:
        """Round the weights of a node whose activations are numbers: they are stored as codes, multiplied as numbers.

        Their bytes are those of the codes, their values scale x code in the format of the unit.
        """
        name, how = node.inputs[1], _Make(operands, self._axis(node), 0, np.zeros((), np.float32))
        key, tensor = (name, operands.weights, how.axis), self.graph.tensors[name]
        if key not in self._alone:
            make, dtype = partial(self._rounded, tensor, how), operands.stored_weights
            made = edit.derive_constant(self.graph, name, tensor.shape, make, dtype, self._counts)
            self.graph.tensors[made].stored = operands.weights
            self.graph.tensors[made].sparse = tensor.sparse
            self._alone[key] = made
        node.inputs[1] = edit.moved(self._counts, name, self._alone[key])

    def _rounded(self, tensor: Tensor, how: _Make) -> Array:
        values = edit.peek(tensor)
        scale = self._scale(tensor.name, values, how)
        codes = integer.quantise(values, scale, how.operands.weights, axis=how.axis)
        return integer.dequantise(codes, scale, axis=how.axis)

    def _least(self, node: Node, operands: Operands, axis: int | None, x: Codes) -> Array:
        """Scale below which the bias would leave int32: only sums of 16-bit codes are so fine."""
        none = np.zeros((), np.float32)
        part = node.epilogue[0] if node.epilogue else None
        fine = operands.integer_sums and max(table.get(name).bits for name in operands[1:3]) > 8
        if part is None or part.op != "Bias" or not fine or self.options.values == "off":
            return none
        sizes = np.abs(edit.peek(self.graph.tensors[part.inputs[1]])).astype(np.float64)
        needed = np.nextafter((sizes / (x.scale * SUM_LIMIT)).astype(np.float32), np.float32(np.inf))
        return np.asarray(needed if axis is not None else needed.max(initial=0), np.float32)

    def _axis(self, node: Node) -> int | None:
        """Axis of the output channels; None where all weights share one scale."""
        rank = len(self.graph.tensors[node.inputs[1]].shape)
        if not self.options.per_channel or rank < 2:
            return None
        return 0 if node.op == "Conv" else rank - 1

    def _make(self, tensor: Tensor, how: _Make) -> tuple[str, Array]:
        dtype, axis = how.operands.weights, how.axis
        shared = self._counts[tensor.name] > 1
        name = edit.fresh(self.graph, f"{tensor.name}.{dtype}") if shared else tensor.name
        if self.options.values == "off":
            channels = () if axis is None else (tensor.shape[axis],)
            check_memory(f"one scale per channel of {tensor.name!r}", SCALE_B * prod(channels))
            scale = np.ones(channels, np.float32)
            make = partial(self._codes, tensor, how)
            new = Tensor(name, tensor.shape, dtype, source=make)
        else:
            values = edit.peek(tensor)
            scale = self._scale(tensor.name, values, how)
            new = Tensor(name, tensor.shape, dtype, integer.quantise(values, scale, dtype, axis=axis))
        new.quant, new.sparse = Quant(scale, 0, axis), tensor.sparse
        self.graph.tensors[name] = new
        return name, scale

    def _codes(self, tensor: Tensor, how: _Make) -> Array:
        values = edit.peek(tensor)
        return integer.quantise(values, self._scale(tensor.name, values, how), how.operands.weights, axis=how.axis)

    def _scale(self, name: str, values: Array, how: _Make) -> Array:
        given = self.options.scales.get(name)
        if given is None:
            return weight_scale(values, *how)
        scale = np.asarray(given, np.float32)
        channels = 1 if how.axis is None else values.shape[how.axis]
        if scale.size not in (1, channels):
            what = f"{scale.size} scales are given for weights {name!r}"
            raise UsageError(what, "scales", f"1 or {channels}, one per output channel")
        return scale.reshape(()) if scale.size == 1 else scale.reshape(-1)


class _Make(NamedTuple):
    """Arguments of ``weight_scale`` behind the values."""

    operands: Operands
    axis: int | None
    largest: int
    least: Array
