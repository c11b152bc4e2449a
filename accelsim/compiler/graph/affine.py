"""Per-channel affine maps y = a * x + b with constant a, b: found in a graph, applied to weights lazily."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.program.writing.facts import per_channel
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor

Vector = Callable[[], Array]


@dataclass(frozen=True)
class Affine:
    """y = scale * x + shift along one axis of C channels: makers of float64 arrays [C], None where absent."""

    scale: Vector | None = None
    shift: Vector | None = None


def affine_of(graph: Graph, node: Node, data: str, axis: int) -> Affine | None:
    """The per-channel map that ``node`` applies to its operand ``data`` along ``axis``, or None.

    Knows BatchNormalization, and Mul, Add, Sub with a constant that varies along ``axis`` only.
    """
    if node.op == "BatchNormalization":
        return _batch_norm(graph, node) if axis == 1 and node.inputs[0] == data else None
    if node.op not in ("Mul", "Add", "Sub") or node.inputs.count(data) != 1:
        return None
    if node.op == "Sub" and node.inputs[0] != data:
        return None
    shape = graph.tensors[data].shape
    other = graph.tensors[node.inputs[1 - node.inputs.index(data)]]
    if not other.is_constant or not per_channel(other.shape, shape, axis) or len(shape) <= axis:
        return None
    if np.broadcast_shapes(other.shape, shape) != shape:
        return None
    channels = partial(_channels, other, shape[axis], -1.0 if node.op == "Sub" else 1.0)
    return Affine(scale=channels) if node.op == "Mul" else Affine(shift=channels)


@dataclass(frozen=True)
class Baked:
    """Source of a constant: tensor * scale + shift along ``axis``, in float64, rounded once to float32.

    Thousands of maps may be baked into one weight after the other, so their values are made in a loop, first to last.
    """

    tensor: Tensor
    scale: Vector | None
    shift: Vector | None = None
    axis: int = 0

    def __call__(self) -> Array:
        """float32 of the shape of ``tensor``."""
        chain = [self]
        while (before := chain[-1].tensor).data is None and isinstance(before.source, Baked):
            chain.append(before.source)
        values = edit.peek(chain[-1].tensor)
        for each in reversed(chain):
            values = each._of(values)
        return values

    def _of(self, values: Array) -> Array:
        along = [1] * values.ndim
        along[self.axis] = -1
        # most weights: in one pass, nothing of it kept in float64
        if self.scale is not None and self.shift is None:
            scaled = np.empty(values.shape, np.float32)
            np.multiply(values, self.scale().reshape(along), out=scaled, dtype=np.float64, casting="same_kind")
            return scaled
        values = values.astype(np.float64)
        if self.scale is not None:
            values *= self.scale().reshape(along)
        if self.shift is not None:
            values += self.shift().reshape(along)
        return values.astype(np.float32)


def _channels(tensor: Tensor, count: int, sign: float) -> Array:
    return np.broadcast_to(edit.peek(tensor).astype(np.float64).reshape(-1) * sign, (count,))


def _batch_norm(graph: Graph, node: Node) -> Affine | None:
    """a = scale / sqrt(var + epsilon), b = B - mean * a (Ioffe and Szegedy, arXiv 1502.03167, alg. 2)."""
    tensors = [graph.tensors[name] for name in node.inputs[1:5]]
    if not all(tensor.is_constant for tensor in tensors):
        return None
    scale, bias, mean, var = tensors
    epsilon = float(node.attrs["epsilon"])
    return Affine(partial(_bn_scale, scale, var, epsilon), partial(_bn_shift, scale, bias, mean, var, epsilon))


def _bn_scale(scale: Tensor, var: Tensor, epsilon: float) -> Array:
    root: Array = np.sqrt(edit.peek(var).astype(np.float64) + epsilon)
    return edit.peek(scale).astype(np.float64) / root


def _bn_shift(scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float) -> Array:
    return edit.peek(bias).astype(np.float64) - edit.peek(mean).astype(np.float64) * _bn_scale(scale, var, epsilon)
