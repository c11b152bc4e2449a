"""ONNX nodes of each canonical op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from accelsim.errors import ModelError
from accelsim.formats.integer import code_range
from accelsim.workload.graph import Node
from accelsim.workload.onnx.exporting.writer import Writer
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES, onnx_node
from accelsim.workload.ops import base
from accelsim.workload.ops.foreign import stored
from accelsim.workload.ops.reduce import REDUCTIONS
from accelsim.workload.ops.values import CONTAINERS

Export = Callable[[Node, Writer], None]

_INTERNAL = ("a_zero_point", "b_zero_point")


def plain(node: Node, writer: Writer) -> None:
    """Write an op whose ONNX attributes are the canonical ones, or a foreign node."""
    if base.find(node.op) is None:
        writer.nodes.append(onnx_node(node))
    else:
        writer.emit(node.op, node.inputs, node.outputs, **_attrs(node))


def _attrs(node: Node, *drop: str) -> dict[str, object]:
    return {name: value for name, value in node.attrs.items() if name not in (*_INTERNAL, *drop)}


def _as_inputs(*names: str) -> Export:
    """Export of an op that takes these attributes as integer inputs, in this order."""

    def export(node: Node, writer: Writer) -> None:
        numbers = [writer.number(node, name, node.attrs[name]) for name in names]
        writer.emit(node.op, [*node.inputs, *numbers], node.outputs, **_attrs(node, *names))

    return export


def _container(dtype: str) -> DTypeLike:
    """NumPy type that ONNX stores for a format."""
    return stored(np.zeros(0, CONTAINERS[dtype]), dtype).dtype


def _clip(node: Node, writer: Writer) -> None:
    kind = _container(writer.dtype(node.inputs[0]))
    bounds = [
        "" if node.attrs[name] is None else writer.number(node, name, node.attrs[name], kind) for name in ("min", "max")
    ]
    writer.emit("Clip", [*node.inputs, *bounds], node.outputs)


def _pad(node: Node, writer: Writer) -> None:
    value = writer.number(node, "value", node.attrs["value"], _container(writer.dtype(node.inputs[0])))
    pads = writer.number(node, "pads", node.attrs["pads"])
    writer.emit("Pad", [*node.inputs, pads, value], node.outputs, mode=node.attrs["mode"])


def _cast(node: Node, writer: Writer) -> None:
    """Cast and BitCast."""
    loose = {"saturate": 0} if node.attrs.get("overflow", "saturate") != "saturate" else {}
    writer.emit(node.op, node.inputs, node.outputs, to=ELEMENT_TYPES[node.attrs["to"]], **loose)


def _one_hot(node: Node, writer: Writer) -> None:
    indices, values = node.inputs
    depth = writer.number(node, "depth", node.attrs["depth"])
    writer.emit("OneHot", [indices, depth, values], node.outputs, axis=node.attrs["axis"])


def _top(node: Node, writer: Writer) -> None:
    k = writer.number(node, "k", [node.attrs["k"]])
    writer.emit("TopK", [*node.inputs, k], node.outputs, axis=node.attrs["axis"], largest=node.attrs["largest"])


def _softmax(node: Node, writer: Writer) -> None:
    """Softmax over several axes (before opset 13) is one over a matrix view; sinks are one more column."""
    if len(node.inputs) > 1:
        x, sinks = node.inputs
        sizes, axis = list(writer.shape(x)), node.attrs["axis"]
        column = writer.number(node, "column.shape", [*sizes[:axis], 1, *sizes[axis + 1 :]])
        whole = writer.part(node, "whole", "Concat", x, writer.part(node, "column", "Expand", sinks, column), axis=axis)
        soft = writer.part(node, "soft", node.op, whole, axis=axis)
        cut = [writer.number(node, name, [at]) for name, at in (("start", 0), ("end", sizes[axis]), ("axis", axis))]
        return writer.emit("Slice", [soft, *cut], node.outputs)
    if "flatten_from" not in node.attrs:
        return plain(node, writer)
    shape = writer.number(node, "shape", writer.shape(node.inputs[0]))
    flat = writer.part(node, "flat", "Flatten", *node.inputs, axis=node.attrs["flatten_from"])
    return writer.emit("Reshape", [writer.part(node, "done", node.op, flat, axis=1), shape], node.outputs)


def _product(integer: Export) -> Export:
    """Export of a matrix op that has another form, ``integer``, for 8- and 16-bit operands."""
    return lambda node, writer: integer(node, writer) if writer.is_integer(node) else plain(node, writer)


def _integer_conv(node: Node, writer: Writer) -> None:
    """ConvInteger, then the 32-bit bias."""
    window = {name: node.attrs[name] for name in ("kernel_shape", "strides", "pads", "dilations", "group")}
    _with_bias(node, writer, "ConvInteger", node.inputs[:2], 1, **window)


def _integer_matmul(node: Node, writer: Writer) -> None:
    writer.emit("MatMulInteger", [*node.inputs[:2], *_zero_points(node, writer)], node.outputs)


def _integer_gemm(node: Node, writer: Writer) -> None:
    """Transposes, MatMulInteger, then the 32-bit bias; ModelError unless alpha = beta = 1."""
    if node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0:
        raise ModelError("integer Gemm with alpha or beta cannot be exported", node.name, "1 and 1")
    operands = [
        writer.part(node, key, "Transpose", name, perm=[1, 0]) if node.attrs.get(key, 0) else name
        for name, key in zip(node.inputs, ("transA", "transB"), strict=False)
    ]
    _with_bias(node, writer, "MatMulInteger", operands, len(writer.shape(node.inputs[0])) - 1)


def _with_bias(node: Node, writer: Writer, op: str, operands: Sequence[str], axis: int, **attrs: object) -> None:
    """A product of integers, and the addition of the third input, if there is one, along an axis of the result."""
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    inputs = [*operands, *_zero_points(node, writer)]
    if not bias:
        return writer.emit(op, inputs, node.outputs, **attrs)
    total = writer.part(node, "sum", op, *inputs, **attrs)
    return writer.emit("Add", [total, _along(node, writer, bias, axis)], node.outputs)


def _zero_points(node: Node, writer: Writer) -> list[str]:
    """Initialisers of both zero points; ModelError for 16-bit operands, which ONNX cannot multiply."""
    names = []
    for key, operand in zip(_INTERNAL, node.inputs, strict=False):
        dtype = writer.dtype(operand)
        if dtype not in ("int8", "uint8"):
            raise ModelError(f"{node.op} of {dtype} operands cannot be exported", node.name, "int8 or uint8")
        names.append(writer.number(node, key, node.attrs.get(key, 0), np.dtype(dtype)))
    return names


def _bias(node: Node, writer: Writer) -> None:
    """X + B along an axis."""
    x, bias = node.inputs
    writer.emit("Add", [x, _along(node, writer, bias, node.attrs["axis"])], node.outputs)


def _shape_along(node: Node, writer: Writer, axis: int) -> list[int]:
    """Shape of a vector that broadcasts to the first input of ``node`` along ``axis``."""
    return [-1 if index == axis else 1 for index in range(len(writer.shape(node.inputs[0])))]


def _along(node: Node, writer: Writer, name: str, axis: int) -> str:
    """The vector ``name`` so that it broadcasts to the first input of ``node`` along ``axis``."""
    shape = _shape_along(node, writer, axis)
    if axis == len(shape) - 1:
        return name
    return writer.part(node, "along", "Reshape", name, writer.number(node, "along.shape", shape))


def _linear(node: Node, writer: Writer) -> None:
    """QuantizeLinear and DequantizeLinear, per tensor, per slice or in blocks."""
    dtype = node.attrs["dtype"] if node.op == "Quantize" else writer.dtype(node.inputs[0])
    scale, kind = np.asarray(node.attrs["scale"], np.float32), _container(dtype)
    zero = np.broadcast_to(np.asarray(node.attrs["zero_point"], CONTAINERS[dtype]), scale.shape).astype(kind)
    given = [writer.number(node, "scale", scale, np.float32), writer.number(node, "zero_point", zero, kind)]
    axis, block = node.attrs["axis"] if scale.ndim else None, node.attrs.get("block") or None
    writer.emit(f"{node.op}Linear", [*node.inputs, *given], node.outputs, axis=axis, block_size=block)


def _requantize(node: Node, writer: Writer) -> None:
    """The sum times a float32 multiplier, rounded half to even, plus the zero point, clipped and cast."""

    def parameter(key: str) -> str:
        values = np.asarray(node.attrs[key], np.float32)
        wide = values.reshape(_shape_along(node, writer, node.attrs["axis"])) if values.ndim else values
        return writer.number(node, key, wide, np.float32)

    multiplier = parameter("multiplier")
    scaled = writer.part(node, "scaled", "Mul", writer.part(node, "real", "Cast", *node.inputs, to=_FP32), multiplier)
    rounded = writer.part(node, "rounded", "Round", scaled)
    moved = writer.part(node, "moved", "Add", rounded, parameter("zero_point"))
    bounds = [writer.number(node, f"bound{end}", end, np.float32) for end in code_range(node.attrs["dtype"])]
    clipped = writer.part(node, "clipped", "Clip", moved, *bounds)
    writer.emit("Cast", [clipped], node.outputs, to=ELEMENT_TYPES[node.attrs["dtype"]])


_FP32 = ELEMENT_TYPES["fp32"]


def _unchanged(node: Node, writer: Writer) -> None:
    """QLinearConv, QLinearMatMul: no registry op; newer operator sets only add types to them."""
    writer.emit(node.op, node.inputs, node.outputs, **node.attrs)


def _matmul(node: Node, writer: Writer) -> None:
    if node.attrs.get("transB"):
        a, b, *rest = node.inputs
        rank = len(writer.shape(b))
        turned = writer.part(node, "turned", "Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
        attrs = {name: value for name, value in node.attrs.items() if name != "transB"}
        node = replace(node, inputs=[a, turned, *rest], attrs=attrs)
    _product(_integer_matmul)(node, writer)


def _gating(node: Node, writer: Writer) -> None:
    """TopK, Softmax, Cast; with scores of all experts before, these are gathered."""
    score, k = node.attrs.get("score", "chosen"), writer.number(node, "k", [node.attrs["k"]])
    places = writer.step(node, "places")
    if score == "chosen" and len(node.inputs) == 1:
        best = writer.step(node, "best")
        writer.emit("TopK", [*node.inputs, k], [best, places], axis=-1)
        writer.emit("Softmax", [best], node.outputs[:1], axis=-1)
    else:
        word, axis = {"softmax": ("Softmax", -1), "sigmoid": ("Sigmoid", None)}[score]
        scores = writer.part(node, "scores", word, node.inputs[0], axis=axis)
        choice = writer.part(node, "corrected", "Add", scores, node.inputs[1]) if len(node.inputs) > 1 else scores
        writer.emit("TopK", [_in_groups(node, writer, choice), k], [writer.step(node, "best"), places], axis=-1)
        _shares(node, writer, writer.part(node, "gathered", "GatherElements", scores, places, axis=-1))
    writer.emit("Cast", [places], node.outputs[1:], to=ELEMENT_TYPES["int32"])


def _in_groups(node: Node, writer: Writer, choice: str) -> str:
    """Scores for the choice, hidden outside the best groups."""
    groups, shape = node.attrs.get("groups", 1), writer.shape(node.inputs[0])
    if groups == 1:
        return choice
    sizes = [*shape[:-1], groups, shape[-1] // groups]
    grouped = writer.part(node, "grouped", "Reshape", choice, writer.number(node, "groups", sizes))
    largest, count = writer.step(node, "largest"), writer.number(node, "pair", [2 if node.attrs.get("pair") else 1])
    writer.emit("TopK", [grouped, count], [largest, writer.step(node, "at")], axis=-1)
    best = writer.part(node, "sums", "ReduceSum", largest, writer.number(node, "last", [-1]), keepdims=0)
    kept, order = writer.number(node, "kept", [node.attrs.get("top_groups", 1)]), writer.step(node, "order")
    writer.emit("TopK", [best, kept], [writer.step(node, "top"), order], axis=-1)
    hidden = writer.number(node, "hidden", np.full(sizes[:-1], -np.inf), np.float32)
    shown = writer.number(node, "shown", np.zeros((*sizes[:-2], node.attrs.get("top_groups", 1))), np.float32)
    mask = writer.part(node, "mask", "ScatterElements", hidden, order, shown, axis=-1)
    wide = writer.part(node, "wide", "Unsqueeze", mask, writer.number(node, "axis", [-1]))
    masked = writer.part(node, "masked", "Add", grouped, wide)
    return writer.part(node, "choice", "Reshape", masked, writer.number(node, "shape", shape))


def _shares(node: Node, writer: Writer, best: str) -> None:
    if node.attrs.get("normalise"):
        total = writer.part(node, "total", "ReduceSum", best, writer.number(node, "sum", [-1]), keepdims=1)
        best = writer.part(node, "normalised", "Div", best, total)
    scale = writer.number(node, "scale", node.attrs.get("scale", 1.0), np.float32)
    writer.emit("Mul", [best, scale], node.outputs[:1])


def _experts(node: Node, writer: Writer) -> None:
    """Gather the weights of each choice, multiply row by row, pad."""
    x, w, chosen = node.inputs
    (given, width), (tokens, k), (rows, features) = (writer.shape(name) for name in (x, chosen, node.outputs[0]))

    def shaped(role: str, op: str, name: str, given: str, values: list[int]) -> str:
        return writer.part(node, role, op, name, writer.number(node, given, values))

    flat = shaped("flat", "Reshape", chosen, "all", [-1])
    weights = writer.part(node, "weights", "Gather", w, flat, axis=0)
    if given == tokens:
        column = shaped("column", "Unsqueeze", x, "axis", [1])
        wide = shaped("wide", "Expand", column, "wide.shape", [tokens, k, width])
        each = shaped("rows", "Reshape", wide, "rows.shape", [tokens * k, 1, width])
    else:
        cut = [writer.number(node, f"cut.{index}", [value]) for index, value in enumerate((0, tokens * k, 0))]
        each = shaped("rows", "Unsqueeze", writer.part(node, "column", "Slice", x, *cut), "axis", [1])
    product = writer.part(node, "product", "MatMul", each, weights)
    result = shaped("result", "Reshape", product, "shape", [tokens * k, features])
    writer.emit("Pad", [result, writer.number(node, "pads", [0, 0, rows - tokens * k, 0])], node.outputs)


def _append(node: Node, writer: Writer) -> None:
    """Return what is before the new rows, the new rows, what is after them."""
    (past, new), axis, at = node.inputs, node.attrs["axis"], node.attrs["at"]

    def kept(role: str, first: int, last: int) -> list[str]:
        if first >= last:
            return []
        ends = (("starts", first), ("ends", last), ("axes", axis))
        cut = [writer.number(node, f"{role}.{what}", [value]) for what, value in ends]
        return [writer.part(node, role, "Slice", past, *cut)]

    before = kept("before", 0, at)
    behind = kept("behind", at + writer.shape(new)[axis], writer.shape(past)[axis])
    writer.emit("Concat", [*before, new, *behind], node.outputs, axis=axis)


def _silu(node: Node, writer: Writer) -> None:
    writer.emit("Mul", [node.inputs[0], writer.part(node, "gate", "Sigmoid", *node.inputs)], node.outputs)


_RESIZE_EXTRAS = ("cubic_coeff_a", "exclude_outside", "antialias", "extrapolation_value")


def _resize(node: Node, writer: Writer) -> None:
    """Resize by the stated scales where they give the stated sizes, else by sizes."""
    shape, scales, sizes = writer.shape(node.inputs[0]), node.attrs["scales"], node.attrs["sizes"]
    exact = all(int(length * scale) == size for length, scale, size in zip(shape, scales, sizes, strict=True))
    how = [writer.number(node, "scales", scales, np.float32)] if exact else ["", writer.number(node, "sizes", sizes)]
    nearest = node.attrs["nearest_mode"] if node.attrs["mode"] == "nearest" else None
    roi = writer.number(node, "roi", node.attrs["roi"], np.float32) if "roi" in node.attrs else ""
    extra = {name: node.attrs[name] for name in _RESIZE_EXTRAS if name in node.attrs}
    writer.emit("Resize", [node.inputs[0], roi, *how], node.outputs, mode=node.attrs["mode"],
                coordinate_transformation_mode=node.attrs["coordinate"], nearest_mode=nearest, **extra)  # fmt: skip


def _group_norm(node: Node, writer: Writer) -> None:
    """GroupNormalization with scale and bias per channel (opset 21), repeated where they are per group."""
    channels = writer.shape(node.inputs[0])[1]

    def per_channel(name: str, role: str) -> str:
        (size,) = writer.shape(name)
        if size == channels:
            return name
        tall = writer.part(node, f"{role}.tall", "Unsqueeze", name, writer.number(node, f"{role}.axis", [1]))
        times = writer.number(node, f"{role}.times", [1, channels // size])
        wide = writer.part(node, f"{role}.wide", "Tile", tall, times)
        return writer.part(node, f"{role}.flat", "Reshape", wide, writer.number(node, f"{role}.all", [-1]))

    x, scale, bias = node.inputs
    parts = [per_channel(scale, "scale"), per_channel(bias, "bias")]
    writer.emit("GroupNormalization", [x, *parts], node.outputs, **_attrs(node))


EXPORTS: dict[str, Export] = {
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
    "BitCast": _cast,
    "Split": _as_inputs("split"),
    "Slice": _as_inputs("starts", "ends", "axes", "steps"),
    "Pad": _pad,
    "Clip": _clip,
    "Cast": _cast,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Quantize": _linear,
    "Dequantize": _linear,
    "Requantize": _requantize,
    "Bias": _bias,
    "QLinearConv": _unchanged,
    "QLinearMatMul": _unchanged,
    "Silu": _silu,
    "Gemm": _product(_integer_gemm),
    "Conv": _product(_integer_conv),
    "MatMul": _matmul,
    "Resize": _resize,
    "GroupNormalization": _group_norm,
}
"""Ops whose ONNX form differs from the canonical one."""
