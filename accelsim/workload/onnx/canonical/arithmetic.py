"""Canonical forms of arithmetic: products, elementwise ops, normalisations, reductions."""

from __future__ import annotations

import numpy as np

from accelsim.formats import table
from accelsim.workload.graph import Attributes, Node, Tensor
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import (
    RULES,
    Foreign,
    Scope,
    axes_of,
    axis_attribute,
    drop_unread,
    ints,
    make,
    rule,
    scalar,
)
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.types import FORMATS
from accelsim.workload.ops import REGISTRY
from accelsim.workload.ops.reduce import REDUCTIONS
from accelsim.workload.ops.values import Filled

DEFAULTS = {op.name: op.onnx for op in REGISTRY.values() if op.onnx is not None}
"""Ops whose canonical attributes are those of ONNX, with the defaults of the ONNX operator specification."""


@rule(*DEFAULTS)
def same(raw: RawNode, scope: Scope) -> Node:
    """The op as it is, with its default attributes filled in."""
    defaults = DEFAULTS[raw.op]
    return make(raw, **{name: raw.attrs.get(name, value) for name, value in defaults.items()})


RULES.update({
    "MatMul": lambda raw, scope: make(raw, a_zero_point=0, b_zero_point=0),
    # bounds are attributes before opset 11, inputs from there on
    "Clip": lambda raw, scope: (
        make(raw, min=raw.attrs.get("min"), max=raw.attrs.get("max"))
        if scope.opset < 11
        else make(raw, 1, min=scalar(raw, scope, 1), max=scalar(raw, scope, 2))
    ),
    # the format of the second input is known
    "CastLike": lambda raw, scope: make(raw, 1, "Cast", **_conversion(scope.tensors[raw.inputs[1]].dtype, raw)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), lambda raw, scope: make(
        drop_unread(raw, scope), axis=axis_attribute(raw, scope, -1), epsilon=raw.attrs.get("epsilon", 1e-5)
    )),
    **dict.fromkeys(("ArgMax", "ArgMin"), lambda raw, scope: make(
        raw, axis=axis_attribute(raw, scope, 0), keepdims=raw.attrs.get("keepdims", 1),
        select_last_index=raw.attrs.get("select_last_index", 0),
    )),
})  # fmt: skip


@rule("Swish")
def swish(raw: RawNode, scope: Scope) -> Node:
    """Swish with alpha 1 is Silu."""
    if raw.attrs.get("alpha", 1.0) != 1.0:
        raise Foreign
    return make(raw, op="Silu")


@rule("Cast")
def cast(raw: RawNode, scope: Scope) -> Node:
    """Cast to a format by name."""
    if raw.attrs["to"] not in FORMATS:
        raise Foreign
    return make(raw, **_conversion(FORMATS[raw.attrs["to"]], raw))


def _conversion(to: str, raw: RawNode) -> Attributes:
    """Attributes of a Cast: what becomes of values beyond the largest is said for formats of 8 bits only."""
    if to == "e8m0":
        rounding = {"up": "up", "down": "rz", "nearest": "rna"}[raw.attrs.get("round_mode", "up")]
        return {"to": to, "rounding": rounding}
    if not to.startswith("fp8"):
        return {"to": to}
    loose = "inf" if table.get(to).has_inf else "nan"
    return {"to": to, "overflow": "saturate" if raw.attrs.get("saturate", 1) else loose}


@rule("Dropout")
def dropout(raw: RawNode, scope: Scope) -> Node:
    """Dropout that drops nothing: the identity and, where somebody reads it, a mask of ones; it drops in training."""
    ratio = scalar(raw, scope, 1)
    if scalar(raw, scope, 2) and ratio != 0:
        raise Foreign
    if len(raw.outputs) > 1 and raw.outputs[1]:
        x = scope.tensors[raw.inputs[0]]
        dtype = "bool" if scope.opset >= 10 else x.dtype
        scope.tensors[raw.outputs[1]] = Tensor(raw.outputs[1], x.shape, dtype, source=Filled(x.shape, 1, dtype))
    return Node(raw.name, "Dropout", raw.inputs[:1], raw.outputs[:1], {})


@rule("LpNormalization")
def lp_normalization(raw: RawNode, scope: Scope) -> list[Node]:
    """X over its norm along one axis; where the norm is 0, so is the result."""
    x, p = raw.inputs[0], int(raw.attrs.get("p", 2))
    axis, chain = axis_attribute(raw, scope, -1), Chain(raw, scope)
    dtype = scope.tensors[x].dtype
    zero, one = (chain.constant(np.asarray(value), dtype) for value in (0, 1))
    norm = chain.add(f"ReduceL{p}", x, axes=[axis], keepdims=1)
    safe = chain.add("Where", chain.add("Equal", norm, zero), one, norm)
    chain.add("Div", x, safe, to=raw.outputs[0])
    return chain.nodes


def _trained_normalization(raw: RawNode, scope: Scope) -> list[Node]:
    """BatchNormalization with the statistics of the batch, and the moving averages of these."""
    x, scale, bias, *running = raw.inputs
    shape, chain = scope.shape(x), Chain(raw, scope)
    axes = [axis for axis in range(len(shape)) if axis != 1]
    mean = chain.add("ReduceMean", x, axes=axes, keepdims=0)
    wide = chain.add("Reshape", mean, shape=[1, -1 if len(shape) < 2 else shape[1], *[1] * (len(shape) - 2)])
    centred = chain.add("Sub", x, wide)
    variance = chain.add("ReduceMean", chain.add("Mul", centred, centred), axes=axes, keepdims=0)
    names = [*raw.outputs, "", ""]
    chain.add("BatchNormalization", x, scale, bias, mean, variance, to=names[0], epsilon=raw.attrs.get("epsilon", 1e-5))
    keep = raw.attrs.get("momentum", 0.9)
    for old, new, name in zip(running, (mean, variance), names[1:3], strict=True):
        if name:
            dtype = scope.tensors[old].dtype
            share, rest = (chain.constant(np.asarray(value), dtype) for value in (keep, 1 - keep))
            chain.add("Add", chain.add("Mul", old, share), chain.add("Mul", new, rest), to=name)
    return chain.nodes


@rule("BatchNormalization")
def batch_normalization(raw: RawNode, scope: Scope) -> Node | list[Node]:
    """BatchNormalization; per-activation statistics have no canonical form."""
    if not raw.attrs.get("spatial", 1):
        raise Foreign
    if raw.attrs.get("training_mode", 0):
        return _trained_normalization(raw, scope)
    return make(drop_unread(raw, scope), epsilon=raw.attrs.get("epsilon", 1e-5))


@rule("Softmax", "LogSoftmax")
def softmax(raw: RawNode, scope: Scope) -> Node:
    """Softmax: over one axis from opset 13 on, over all axes from ``axis`` on before."""
    rank = scope.rank(raw.inputs[0])
    if scope.opset >= 13:
        return make(raw, axis=axis_attribute(raw, scope, -1))
    axis = axis_attribute(raw, scope, 1)
    return make(raw, axis=axis) if axis == rank - 1 else make(raw, flatten_from=axis)


@rule(*REDUCTIONS)
def reduce(raw: RawNode, scope: Scope) -> Node:
    """Reductions: axes are an attribute before opset 18 (ReduceSum: 13), an input from there on."""
    rank = scope.rank(raw.inputs[0])
    axes = ints(raw, scope, 1, "axes")
    if not axes and raw.attrs.get("noop_with_empty_axes", 0):
        return make(raw, 1, "Identity")
    axes = sorted(axes_of(axes or range(rank), rank))
    if not axes:
        raise Foreign
    return make(raw, 1, axes=axes, keepdims=raw.attrs.get("keepdims", 1))


@rule("ReduceLogSum", "ReduceLogSumExp")
def reduce_log(raw: RawNode, scope: Scope) -> list[Node]:
    """Return the logarithm of a sum, relative to the largest term for ReduceLogSumExp."""
    x, dtype = raw.inputs[0], scope.tensors[raw.inputs[0]].dtype
    reduction = reduce(raw, scope)
    if reduction.op == "Identity" or dtype[:2] not in ("fp", "bf"):
        raise Foreign
    chain, keep = Chain(raw, scope), {"axes": reduction.attrs["axes"], "keepdims": 1}
    if raw.op == "ReduceLogSum":
        chain.add("Log", chain.add("ReduceSum", x, **reduction.attrs), to=raw.outputs[0])
        return chain.nodes
    zero = chain.constant(np.zeros(()), dtype)
    top = chain.add("ReduceMax", x, **keep)
    infinite = chain.add("IsInf", top, detect_negative=1, detect_positive=1)
    top = chain.add("Where", infinite, zero, top)
    powers = chain.add("Exp", chain.add("Sub", x, top))
    total = chain.add("Log", chain.add("ReduceSum", powers, **keep))
    y = chain.add("Add", total, top)
    shape = [size for axis, size in enumerate(scope.shape(x)) if axis not in keep["axes"]]
    kept = [1 if axis in keep["axes"] else size for axis, size in enumerate(scope.shape(x))]
    chain.add("Reshape", y, to=raw.outputs[0], shape=kept if reduction.attrs["keepdims"] else shape)
    return chain.nodes
