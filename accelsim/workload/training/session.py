"""Running one graph many times: everything that does not change from run to run is looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import find
from accelsim.workload.ops.values import CONTAINERS, contain

FLOATS = frozenset({"fp32", "fp16", "bf16"})
WHOLE = frozenset({"fp32", "fp64", "int64", "int32", "bool"})
"""Formats that their container holds exactly, so that nothing is rounded after a kernel."""


class _Step(NamedTuple):
    kernel: Any
    node: Node
    reads: list[str]
    writes: list[tuple[str, str, Any]]  # name, format, the dtype that needs no rounding (None: always round)


class Session:
    """Executes ``graph`` (unfused) again and again, as ``execute.run`` does, with less to look up per node.

    ``values`` holds every tensor of the latest run; shapes are checked in the first one. After a run each state has
    its next value, so only the first run must be given the states. Raises ModelError for an op that has no kernel here.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[str, Array] = {
            tensor.name: contain(tensor.value(), tensor.dtype) for tensor in graph.constants()
        }
        self._steps = [_step(graph, node) for node in graph.nodes]
        self._checked = False

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the graph by name; ``feeds``: input -> array of its shape."""
        values = self.values
        for name, array in feeds.items():
            values[name] = rounded(np.asarray(array), self.graph.tensors[name].dtype)
        with np.errstate(all="ignore"):  # infinities and NaN are values here: a loss scale may be too large
            for kernel, node, reads, writes in self._steps:
                results = kernel(node, [values[name] if name else None for name in reads])
                for (name, dtype, exact), result in zip(writes, results, strict=False):
                    values[name] = result if result.dtype is exact else rounded(result, dtype)
        if not self._checked:
            self._check()
        outputs = {name: values[name] for name in self.graph.outputs}
        values.update((state, values[new]) for state, new in self.graph.states.items())
        return outputs

    def _check(self) -> None:
        ModelError.raise_for(
            Problem(
                f"{node.op} gives {name!r} the shape {list(self.values[name].shape)}",
                node.name,
                str(list(self.graph.tensors[name].shape)),
            )
            for _, node, _, writes in self._steps
            for name, *_ in writes
            if self.values[name].shape != self.graph.tensors[name].shape
        )
        self._checked = True


def _step(graph: Graph, node: Node) -> _Step:
    op = find(node.op)
    if op is None or node.epilogue:
        raise ModelError(f"{node.label()} cannot be part of a training step", node.name)
    formats = [(name, graph.tensors[name].dtype) for name in node.outputs if name]
    exact = [np.dtype(CONTAINERS[dtype]) if dtype in WHOLE else None for _, dtype in formats]
    writes = [(name, dtype, kept) for (name, dtype), kept in zip(formats, exact, strict=True)]
    kernel = _unchanged if node.op == "Cast" and node.attrs["to"] in FLOATS else op.kernel
    return _Step(kernel, node, node.inputs, writes)


def _unchanged(node: Node, arrays: list[Array]) -> list[Array]:
    """A cast between floats: the rounding happens when the result is written."""
    return [arrays[0]]


EXPONENT = np.uint32(0x7F800000)
LOWEST = np.uint32((127 - 14) << 23)
"""Exponent field of the smallest normal fp16; below it the spacing no longer shrinks."""
HIGHEST = np.uint32((127 + 14) << 23)
"""Above it rounding may overflow."""
SHIFT = np.uint32((13 << 23) | 0x400000)
"""From 2^e to 1.5 * 2^(e + 13): float32 has 13 bits more than fp16, so adding that rounds to fp16's spacing."""

SMALL = 2048
"""Up to so many elements NumPy's own conversion is faster."""


def rounded(value: Array, dtype: str) -> Array:
    """``value`` in the container of ``dtype``, rounded to nearest, ties to even."""
    if value.dtype == np.float32:
        if dtype == "fp16":
            return _half(value)
        if dtype == "bf16":
            return np.asarray(value.astype(ml_dtypes.bfloat16).astype(np.float32))
    return contain(value, dtype)


def _half(x: Array) -> Array:
    if x.size > SMALL:
        shift = np.ascontiguousarray(x).view(np.uint32) & EXPONENT
        if shift.max() <= HIGHEST:
            np.maximum(shift, LOWEST, out=shift)
            shift += SHIFT
            large = shift.view(np.float32)
            y = x + large
            y -= large
            return np.copysign(y, x, out=y)  # a negative number that rounds to zero keeps its sign
    with np.errstate(over="ignore"):
        return np.asarray(x.astype(np.float16).astype(np.float32))
