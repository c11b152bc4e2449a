"""Nodes of operator sets below 7 in the form of opset 7, whose rules then apply.

Before opset 7 a binary op broadcast its second input only when asked to (``broadcast``, ``axis``), and
BatchNormalization and Dropout said by ``is_test`` whether they infer. Before opset 6 more ops had another form; of
those only the ones that did not change are taken.
"""

from __future__ import annotations

from collections.abc import Callable

from accelsim.workload.onnx.canonical.rules import MODERN, Foreign, Scope
from accelsim.workload.onnx.importing.foreign_shapes import since_version
from accelsim.workload.onnx.importing.read import RawNode

_BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater")


def modern(raw: RawNode, scope: Scope) -> list[RawNode]:
    """The nodes of opset 7 for one of an older set; Foreign when its form is not known here."""
    convert = _CONVERT.get(raw.op)
    if convert is not None and scope.opset >= 6:
        return convert(raw, scope)
    if since_version(raw.op, scope.opset) != since_version(raw.op, MODERN):
        raise Foreign
    return [raw]


def _without(raw: RawNode, *attributes: str) -> RawNode:
    attrs = {key: value for key, value in raw.attrs.items() if key not in attributes}
    return RawNode(raw.name, raw.op, raw.domain, raw.inputs, raw.outputs, attrs)


def _broadcast(raw: RawNode, scope: Scope) -> list[RawNode]:
    """The second input gets axes of size 1 at its end, so that its first axis meets ``axis`` of the first input."""
    a, b = raw.inputs
    plain = _without(raw, "broadcast", "axis")
    axis, rank = raw.attrs.get("axis"), scope.rank(b)
    if not raw.attrs.get("broadcast", 0) or axis is None or scope.tensors[b].elements == 1:
        return [plain]
    return _widened(plain, scope, scope.rank(a) - (axis % max(scope.rank(a), 1)) - rank)


def _widened(raw: RawNode, scope: Scope, count: int) -> list[RawNode]:
    """``raw`` after ``count`` axes of size 1 were put after its second input."""
    if count <= 0:
        return [raw]
    name, rank = f"{raw.outputs[0]}.wide", scope.rank(raw.inputs[1])
    axes = list(range(rank, rank + count))
    wide = RawNode(f"{raw.name}.wide", "Unsqueeze", "", [raw.inputs[1]], [name], {"axes": axes})
    return [wide, RawNode(raw.name, raw.op, "", [raw.inputs[0], name], raw.outputs, raw.attrs)]


def _prelu(raw: RawNode, scope: Scope) -> list[RawNode]:
    """One slope, or one per channel."""
    x, slope = raw.inputs
    single = scope.tensors[slope].elements == 1 or scope.rank(slope) != 1
    return [raw] if single else _widened(raw, scope, scope.rank(x) - 2)


def _inference(raw: RawNode, scope: Scope) -> list[RawNode]:
    if not raw.attrs.get("is_test", 0):
        raise Foreign
    return [_without(raw, "is_test")]


_CONVERT: dict[str, Callable[[RawNode, Scope], list[RawNode]]] = {
    **dict.fromkeys(_BROADCASTING, _broadcast),
    "PRelu": _prelu,
    "Gemm": lambda raw, scope: [_without(raw, "broadcast")],
    "BatchNormalization": _inference,
    "Dropout": _inference,
    "AveragePool": lambda raw, scope: [raw],
}
