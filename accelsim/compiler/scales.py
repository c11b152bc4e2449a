"""Which tensors an integer chip holds as integers, and which of them must share one scale."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from accelsim.compiler import calibrate, edit
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import base

KEEPING = frozenset({
    "MaxPool", "GlobalMaxPool", "Relu", "Clip", "Concat", "Split", "Slice", "Gather", "Transpose", "Pad",
    "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Resize",
})  # fmt: skip
"""Ops that return some of their inputs, or a bound: they work on integers as they are, with one scale."""


@dataclass(frozen=True)
class IntegerFormat:
    """Formats of one way to compute: weights and activations; sums are int32."""

    weights: str
    activations: str


INTEGER_FORMATS = {
    "int8": IntegerFormat("int8", "int8"),
    "int8xint16": IntegerFormat("int8", "int16"),
    "int16": IntegerFormat("int16", "int16"),
}
"""Operand format of a matrix unit -> formats of weights and activations."""


SUM_LIMIT = 2**30
"""Products and bias may each reach this, so that no sum leaves int32."""


def keeps_scale(graph: Graph, part: Node) -> bool:
    """Whether the op can work on the integers themselves, input and output having one scale."""
    op = base.find(part.op)
    if op is None or (op.kind != "alias" and part.op not in KEEPING):
        return False
    if part.op == "Pad" and part.attrs["mode"] == "constant" and part.attrs["value"]:
        return False
    if part.op == "Resize" and part.attrs["mode"] != "nearest":
        return False
    data = [graph.tensors[name] for name in part.inputs if name]
    return not any(tensor.is_constant and tensor.dtype in edit.FLOATS for tensor in data)


def real_tensors(graph: Graph, node: Node) -> list[str]:
    """Tensors of real numbers, weights and constants aside, that the fused node reads and writes."""
    names = [*node.reads, *node.writes]
    return [
        name
        for name in names
        if not graph.tensors[name].is_constant and graph.tensors[name].dtype in edit.FLOATS
    ]


def scales(state: State) -> dict[str, Array]:
    """Scale (0-d float32) of every tensor that is to be an integer on the chip.

    These are: what a matrix or vector node reads or writes, and what shares its scale with one of them
    through nodes that only keep values. Symmetric: max |x| / highest code, over the group and all calibration
    batches. With ``options.values`` 'off' nothing is executed and all scales are 1.
    """
    members = [group for group in _groups(state.graph) if group.on_chip]
    names = [name for group in members for name in group.names]
    if state.options.values == "off":
        return {name: np.asarray(1, np.float32) for name in names}
    peaks = calibrate.peaks(state.graph, state.options, names)
    dtype = INTEGER_FORMATS[state.dtype].activations
    table: dict[str, Array] = {}
    for group in members:
        scale = integer.absmax_scale(np.array([peaks[name] for name in group.names]), dtype)
        table.update(dict.fromkeys(group.names, scale))
    return table


@dataclass
class _Group:
    names: list[str]
    on_chip: bool = False


def _groups(graph: Graph) -> list[_Group]:
    """Tensors of real numbers in groups of one scale, in order of first appearance."""
    table: dict[str, _Group] = {}
    for node in graph.nodes:
        names = real_tensors(graph, node)
        keeps = all(keeps_scale(graph, part) for part in edit.parts(node))
        for name in names:
            table.setdefault(name, _Group([name]))
        if keeps:
            _join(table, names)
        for name in names:
            table[name].on_chip |= node.engine in ("matrix", "vector")
    return list({id(group): group for group in table.values()}.values())


def _join(table: dict[str, _Group], names: list[str]) -> None:
    for other in names[1:]:
        first, second = table[names[0]], table[other]
        if first is second:
            continue
        first.names += second.names
        first.on_chip |= second.on_chip
        table.update(dict.fromkeys(second.names, first))


def weight_scale(values: Array, formats: IntegerFormat, axis: int | None) -> Array:
    """Symmetric scale per slice of ``axis``: max |w| / highest code, or more where int32 sums could overflow.

    With |x| <= X codes, a sum of K products stays within ``SUM_LIMIT`` when sum(|w|) / scale + K / 2 <=
    SUM_LIMIT / X (K / 2 for the rounding of the codes). Binds for 16-bit weights only, unless K > 65,000.
    """
    scale = integer.absmax_scale(values, formats.weights, axis)
    others = tuple(i for i in range(values.ndim) if i != axis)
    budget = (
        SUM_LIMIT / -integer.code_range(formats.activations)[0] - prod(values.shape[i] for i in others) / 2
    )
    if budget <= 0:
        return scale
    needed = np.sum(np.abs(values), axis=others, dtype=np.float64) / budget
    return np.asarray(
        np.maximum(scale, np.nextafter(needed.astype(np.float32), np.float32(np.inf))), np.float32
    )


def weight_codes(tensor: Tensor, formats: IntegerFormat, axis: int | None) -> Array:
    """The weights as integers, per slice of ``axis``."""
    values = edit.peek(tensor)
    return integer.quantise(values, weight_scale(values, formats, axis), formats.weights, axis=axis)


def bias_codes(bias: Tensor, scale: Array) -> Array:
    """rint(b / scale) as int32, within ``SUM_LIMIT``; float64 division of float32 numbers."""
    codes = np.rint(edit.peek(bias).astype(np.float64) / scale.astype(np.float64))
    return np.clip(codes, -SUM_LIMIT, SUM_LIMIT).astype(np.int32)
