"""Canonical forms of ops that take or put elements by an index, and of those that a constant index replaces."""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.constants import check_bytes, constant_tensor
from accelsim.workload.graph import Node
from accelsim.workload.onnx.canonical.rules import RULES, Foreign, Scope, axis_attribute, axis_of, make, rule, scalar
from accelsim.workload.onnx.importing.read import RawNode


def constant(scope: Scope, name: str, value: Array) -> str:
    """Add a constant to the graph; return its name."""
    scope.tensors[name] = constant_tensor(name, value)
    return name


def number(raw: RawNode, scope: Scope, index: int, default: int | None = None) -> int:
    """An integer given as constant input ``index``; Foreign when it is neither that nor has a default."""
    found = scalar(raw, scope, index)
    if found is None:
        found = default
    if found is None:
        raise Foreign
    return int(found)


def _scatter(raw: RawNode, scope: Scope) -> Node:
    axis = axis_attribute(raw, scope, 0)
    return make(raw, op="ScatterElements", axis=axis, reduction=raw.attrs.get("reduction", "none"))


def _running(raw: RawNode, scope: Scope) -> Node:
    axis = axis_of(number(raw, scope, 1), scope.rank(raw.inputs[0]))
    return make(raw, 1, axis=axis, exclusive=raw.attrs.get("exclusive", 0), reverse=raw.attrs.get("reverse", 0))


RULES.update({
    **dict.fromkeys(("Scatter", "ScatterElements"), _scatter),  # the first before opset 11
    **dict.fromkeys(("CumSum", "CumProd"), _running),
    "Trilu": lambda raw, scope: make(raw, 1, upper=raw.attrs.get("upper", 1), k=number(raw, scope, 1, 0)),
})  # fmt: skip


@rule("TensorScatter")
def tensor_scatter(raw: RawNode, scope: Scope) -> Node:
    """TensorScatter to one known place of all sequences: an Append that fits into what is there."""
    past, new = (scope.shape(name) for name in raw.inputs[:2])
    axis = axis_of(raw.attrs.get("axis", -2), len(past))
    places = np.zeros(1, np.int64) if len(raw.inputs) < 3 or not raw.inputs[2] else scope.constant(raw.inputs[2])
    if places is None or not places.size or np.ptp(places):
        raise Foreign
    at = int(places.flat[0])
    if not 0 <= at <= past[axis] - new[axis]:  # a circular one that begins again at the front
        raise Foreign
    return Node(raw.name, "Append", list(raw.inputs[:2]), list(raw.outputs), {"axis": axis, "at": at})


@rule("OneHot")
def one_hot(raw: RawNode, scope: Scope) -> Node:
    """OneHot of constant depth."""
    indices, _, values = raw.inputs
    axis = axis_of(raw.attrs.get("axis", -1), scope.rank(indices) + 1)
    return Node(
        raw.name, "OneHot", [indices, values], list(raw.outputs), {"depth": number(raw, scope, 1), "axis": axis}
    )


@rule("Hardmax")
def hardmax(raw: RawNode, scope: Scope) -> list[Node]:
    """Hardmax: the one-hot form of ArgMax, over one axis from opset 13 on, over all axes from ``axis`` on before."""
    x, shape = raw.inputs[0], scope.shape(raw.inputs[0])
    axis = axis_of(raw.attrs.get("axis", -1 if scope.opset >= 13 else 1), len(shape))
    dtype = scope.tensors[x].dtype
    if dtype not in ("fp32", "fp64") or (scope.opset < 13 and axis != len(shape) - 1):
        raise Foreign
    flags = constant(scope, f"{raw.outputs[0]}.flags", np.array([0, 1], np.float64 if dtype == "fp64" else np.float32))
    best = f"{raw.outputs[0]}.best"
    return [
        Node(f"{raw.name}.best", "ArgMax", [x], [best], {"axis": axis, "keepdims": 0, "select_last_index": 0}),
        Node(raw.name, "OneHot", [best, flags], list(raw.outputs), {"depth": shape[axis], "axis": axis}),
    ]


@rule("TopK")
def top(raw: RawNode, scope: Scope) -> Node:
    """TopK of constant k (an attribute before opset 10); always in order, which ``sorted=0`` leaves open."""
    axis = axis_attribute(raw, scope, -1)
    k = int(raw.attrs["k"]) if "k" in raw.attrs else number(raw, scope, 1)
    return make(raw, 1, outputs=2, axis=axis, k=k, largest=raw.attrs.get("largest", 1))


@rule("Compress")
def compress(raw: RawNode, scope: Scope) -> Node | list[Node]:
    """Write Compress by a constant condition as a Gather, without an axis of the flattened input."""
    x, chosen = raw.inputs[0], scope.constant(raw.inputs[1])
    if chosen is None:
        raise Foreign
    at = constant(scope, f"{raw.outputs[0]}.at", np.flatnonzero(chosen).astype(np.int64))
    if "axis" in raw.attrs:
        axis = axis_of(raw.attrs["axis"], scope.rank(x))
        return Node(raw.name, "Gather", [x, at], list(raw.outputs), {"axis": axis})
    flat = f"{raw.outputs[0]}.flat"
    shape = [scope.tensors[x].elements]
    return [
        Node(f"{raw.name}.flat", "Reshape", [x], [flat], {"shape": shape}),
        Node(raw.name, "Gather", [flat, at], list(raw.outputs), {"axis": 0}),
    ]


@rule("ReverseSequence")
def reverse_sequence(raw: RawNode, scope: Scope) -> Node:
    """ReverseSequence of constant lengths is a GatherND: of step and sequence, or of sequence and step."""
    lengths, shape = scope.constant(raw.inputs[1]), scope.shape(raw.inputs[0])
    time, batch = raw.attrs.get("time_axis", 0), raw.attrs.get("batch_axis", 1)
    if lengths is None or {time, batch} != {0, 1}:
        raise Foreign
    check_bytes((shape[time], shape[batch]), "int64", raw.name)
    step, sequence = np.indices((shape[time], shape[batch]))
    turned = np.where(step < lengths[None, :], lengths[None, :] - 1 - step, step)
    pairs = np.stack([turned, sequence] if time == 0 else [sequence, turned], axis=-1)
    at = constant(scope, f"{raw.outputs[0]}.at", np.moveaxis(pairs, [0, 1], [time, batch]).astype(np.int64))
    return Node(raw.name, "GatherND", [raw.inputs[0], at], list(raw.outputs), {"batch_dims": 0})
