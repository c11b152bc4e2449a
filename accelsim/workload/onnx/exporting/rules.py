"""ONNX nodes of each canonical op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from accelsim.workload.graph import Node
from accelsim.workload.onnx.exporting import integer_ops as export_quantised
from accelsim.workload.onnx.exporting.writer import Writer
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES, onnx_node
from accelsim.workload.ops import base
from accelsim.workload.ops.foreign import stored
from accelsim.workload.ops.reduce import REDUCTIONS
from accelsim.workload.ops.values import CONTAINERS

_INTERNAL = ("a_zero_point", "b_zero_point")


def plain(node: Node, writer: Writer) -> None:
    """An op whose ONNX attributes are the canonical ones, or a foreign node."""
    if base.find(node.op) is None:
        writer.nodes.append(onnx_node(node))
    else:
        writer.emit(node.op, node.inputs, node.outputs, **_attrs(node))


def _attrs(node: Node, *drop: str) -> dict[str, Any]:
    return {name: value for name, value in node.attrs.items() if name not in (*_INTERNAL, *drop)}


def _as_inputs(*names: str) -> Callable[[Node, Writer], None]:
    """Export of an op that takes these attributes as integer inputs, in this order."""

    def export(node: Node, writer: Writer) -> None:
        numbers = [writer.number(node, name, node.attrs[name]) for name in names]
        writer.emit(node.op, [*node.inputs, *numbers], node.outputs, **_attrs(node, *names))

    return export


def _container(node: Node, writer: Writer) -> Any:
    """NumPy type that ONNX stores for the first input of ``node``."""
    dtype = writer.graph.tensors[node.inputs[0]].dtype
    return stored(np.zeros(0, CONTAINERS[dtype]), dtype).dtype


def _clip(node: Node, writer: Writer) -> None:
    kind = _container(node, writer)
    bounds = [
        "" if node.attrs[name] is None else writer.number(node, name, node.attrs[name], kind) for name in ("min", "max")
    ]
    writer.emit("Clip", [*node.inputs, *bounds], node.outputs)


def _pad(node: Node, writer: Writer) -> None:
    value = writer.number(node, "value", node.attrs["value"], _container(node, writer))
    pads = writer.number(node, "pads", node.attrs["pads"])
    writer.emit("Pad", [*node.inputs, pads, value], node.outputs, mode=node.attrs["mode"])


def _slice(node: Node, writer: Writer) -> None:
    names = ("starts", "ends", "axes", "steps")
    writer.emit("Slice", [*node.inputs, *(writer.number(node, name, node.attrs[name]) for name in names)], node.outputs)


def _cast(node: Node, writer: Writer) -> None:
    loose = {"saturate": 0} if node.attrs.get("overflow", "saturate") != "saturate" else {}
    writer.emit("Cast", node.inputs, node.outputs, to=ELEMENT_TYPES[node.attrs["to"]], **loose)


def _bit_cast(node: Node, writer: Writer) -> None:
    writer.emit("BitCast", node.inputs, node.outputs, to=ELEMENT_TYPES[node.attrs["to"]])


def _one_hot(node: Node, writer: Writer) -> None:
    indices, values = node.inputs
    depth = writer.number(node, "depth", node.attrs["depth"])
    writer.emit("OneHot", [indices, depth, values], node.outputs, axis=node.attrs["axis"])


def _top(node: Node, writer: Writer) -> None:
    k = writer.number(node, "k", [node.attrs["k"]])
    writer.emit("TopK", [*node.inputs, k], node.outputs, axis=node.attrs["axis"], largest=node.attrs["largest"])


def _softmax(node: Node, writer: Writer) -> None:
    """Softmax over several axes (before opset 13) is one over a matrix view."""
    if "flatten_from" not in node.attrs:
        return plain(node, writer)
    flat, done = writer.step(node, "flat"), writer.step(node, "done")
    shape = writer.number(node, "shape", writer.graph.tensors[node.inputs[0]].shape)
    writer.emit("Flatten", node.inputs, [flat], axis=node.attrs["flatten_from"])
    writer.emit(node.op, [flat], [done], axis=1)
    return writer.emit("Reshape", [done, shape], node.outputs)


def _conv(node: Node, writer: Writer) -> None:
    if writer.is_integer(node):
        return export_quantised.conv(node, writer)
    return plain(node, writer)


def _gemm(node: Node, writer: Writer) -> None:
    if writer.is_integer(node):
        return export_quantised.gemm(node, writer)
    return plain(node, writer)


def _matmul(node: Node, writer: Writer) -> None:
    if node.attrs.get("transB"):
        rank = len(writer.graph.tensors[node.inputs[1]].shape)
        turned = writer.step(node, "turned")
        writer.emit("Transpose", [node.inputs[1]], [turned], perm=[*range(rank - 2), rank - 1, rank - 2])
        attrs = {name: value for name, value in node.attrs.items() if name != "transB"}
        node = replace(node, inputs=[node.inputs[0], turned, *node.inputs[2:]], attrs=attrs)
    if writer.is_integer(node):
        return export_quantised.matmul(node, writer)
    return plain(node, writer)


def _gating(node: Node, writer: Writer) -> None:
    """TopK, Softmax, Cast."""
    best, places = writer.step(node, "best"), writer.step(node, "places")
    writer.emit("TopK", [*node.inputs, writer.number(node, "k", [node.attrs["k"]])], [best, places], axis=-1)
    writer.emit("Softmax", [best], node.outputs[:1], axis=-1)
    writer.emit("Cast", [places], node.outputs[1:], to=ELEMENT_TYPES["int32"])


def _experts(node: Node, writer: Writer) -> None:
    """Gather the weights of each choice, multiply row by row, pad."""
    x, w, chosen = (writer.graph.tensors[name] for name in node.inputs)
    (tokens, k), (rows, features) = chosen.shape, writer.graph.tensors[node.outputs[0]].shape
    steps = ("flat", "weights", "column", "wide", "rows", "product", "result")
    flat, weights, column, wide, each, product, result = (writer.step(node, step) for step in steps)
    writer.emit("Reshape", [chosen.name, writer.number(node, "all", [-1])], [flat])
    writer.emit("Gather", [w.name, flat], [weights], axis=0)
    if x.shape[0] == tokens:
        writer.emit("Unsqueeze", [x.name, writer.number(node, "axis", [1])], [column])
        writer.emit("Expand", [column, writer.number(node, "wide.shape", [tokens, k, x.shape[1]])], [wide])
        writer.emit("Reshape", [wide, writer.number(node, "rows.shape", [tokens * k, 1, x.shape[1]])], [each])
    else:
        cut = [writer.number(node, f"cut.{index}", [value]) for index, value in enumerate((0, tokens * k, 0))]
        writer.emit("Slice", [x.name, *cut], [column])
        writer.emit("Unsqueeze", [column, writer.number(node, "axis", [1])], [each])
    writer.emit("MatMul", [each, weights], [product])
    writer.emit("Reshape", [product, writer.number(node, "shape", [tokens * k, features])], [result])
    writer.emit("Pad", [result, writer.number(node, "pads", [0, 0, rows - tokens * k, 0])], node.outputs)


def _append(node: Node, writer: Writer) -> None:
    """Return what is before the new rows, the new rows, what is behind them."""
    (past, new), axis, at = node.inputs, node.attrs["axis"], node.attrs["at"]
    held, end = writer.graph.tensors[past].shape[axis], at + writer.graph.tensors[new].shape[axis]
    parts = []
    for role, (first, last) in {"before": (0, at), "behind": (end, held)}.items():
        if first < last:
            cut = [
                writer.number(node, f"{role}.{what}", [value])
                for what, value in (("starts", first), ("ends", last), ("axes", axis))
            ]
            parts.append((role, writer.step(node, role)))
            writer.emit("Slice", [past, *cut], [parts[-1][1]])
    named = dict(parts)
    order = [named.get("before"), new, named.get("behind")]
    writer.emit("Concat", [name for name in order if name], node.outputs, axis=axis)


def _silu(node: Node, writer: Writer) -> None:
    gate = writer.step(node, "gate")
    writer.emit("Sigmoid", node.inputs, [gate])
    writer.emit("Mul", [node.inputs[0], gate], node.outputs)


_RESIZE_EXTRAS = ("cubic_coeff_a", "exclude_outside", "antialias", "extrapolation_value")


def _resize(node: Node, writer: Writer) -> None:
    """Resize by the stated scales where they give the stated sizes, else by sizes."""
    shape, scales, sizes = (writer.graph.tensors[node.inputs[0]].shape, node.attrs["scales"], node.attrs["sizes"])
    exact = all(int(length * scale) == size for length, scale, size in zip(shape, scales, sizes, strict=True))
    how = [writer.number(node, "scales", scales, np.float32)] if exact else ["", writer.number(node, "sizes", sizes)]
    nearest = node.attrs["nearest_mode"] if node.attrs["mode"] == "nearest" else None
    roi = writer.number(node, "roi", node.attrs["roi"], np.float32) if "roi" in node.attrs else ""
    extra = {name: node.attrs[name] for name in _RESIZE_EXTRAS if name in node.attrs}
    writer.emit("Resize", [node.inputs[0], roi, *how], node.outputs, mode=node.attrs["mode"],
                coordinate_transformation_mode=node.attrs["coordinate"], nearest_mode=nearest, **extra)  # fmt: skip


def _group_norm(node: Node, writer: Writer) -> None:
    """GroupNormalization with scale and bias per channel (opset 21), repeated where they are per group."""
    channels = writer.graph.tensors[node.inputs[0]].shape[1]
    parts = []
    for role, name in zip(("scale", "bias"), node.inputs[1:], strict=True):
        (size,) = writer.graph.tensors[name].shape
        parts.append(name if size == channels else _repeated(node, writer, name, role, channels // size))
    writer.emit("GroupNormalization", [node.inputs[0], *parts], node.outputs, **_attrs(node))


def _repeated(node: Node, writer: Writer, name: str, role: str, times: int) -> str:
    tall, wide, flat = (writer.step(node, f"{role}.{part}") for part in ("tall", "wide", "flat"))
    writer.emit("Unsqueeze", [name, writer.number(node, f"{role}.axis", [1])], [tall])
    writer.emit("Tile", [tall, writer.number(node, f"{role}.times", [1, times])], [wide])
    writer.emit("Reshape", [wide, writer.number(node, f"{role}.all", [-1])], [flat])
    return flat


EXPORTS: dict[str, Callable[[Node, Writer], None]] = {
    **{op: _as_inputs("axes") for op in (*REDUCTIONS, "Squeeze", "Unsqueeze")},
    **{op: _as_inputs("shape") for op in ("Reshape", "Expand")},
    **{op: _as_inputs("axis") for op in ("CumSum", "CumProd")},
    "Tile": _as_inputs("repeats"),
    "Append": _append,
    "TopKGating": _gating,
    "ExpertMatMul": _experts,
    "Trilu": _as_inputs("k"),
    "TopK": _top,
    "OneHot": _one_hot,
    "BitCast": _bit_cast,
    "Split": _as_inputs("split"),
    "Slice": _slice,
    "Pad": _pad,
    "Clip": _clip,
    "Cast": _cast,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Quantize": export_quantised.quantize,
    "Dequantize": export_quantised.dequantize,
    "Requantize": export_quantised.requantize,
    "Bias": export_quantised.bias,
    "QLinearConv": export_quantised.unchanged,
    "QLinearMatMul": export_quantised.unchanged,
    "Silu": _silu,
    "Gemm": _gemm,
    "Conv": _conv,
    "MatMul": _matmul,
    "Resize": _resize,
    "GroupNormalization": _group_norm,
}
"""Ops whose ONNX form differs from the canonical one."""
