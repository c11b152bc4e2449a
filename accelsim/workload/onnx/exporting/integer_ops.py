"""Integer ops in ONNX: products with 32-bit sums, and the steps between integers and reals."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.errors import ModelError
from accelsim.formats.integer import code_range
from accelsim.workload.graph import Node
from accelsim.workload.onnx.exporting.writer import Writer
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES
from accelsim.workload.ops.foreign import stored
from accelsim.workload.ops.values import CONTAINERS

FP32, INT32 = ELEMENT_TYPES["fp32"], ELEMENT_TYPES["int32"]


def conv(node: Node, writer: Writer) -> None:
    """Integer Conv: ConvInteger, then the 32-bit bias."""
    window = {name: node.attrs[name] for name in ("kernel_shape", "strides", "pads", "dilations", "group")}
    with_bias = len(node.inputs) > 2 and bool(node.inputs[2])
    out = writer.step(node, "sum") if with_bias else node.outputs[0]
    writer.emit("ConvInteger", [*node.inputs[:2], *_zero_points(node, writer)], [out], **window)
    if with_bias:
        rank = len(writer.graph.tensors[node.inputs[0]].shape)
        writer.emit("Add", [out, _along(node, writer, node.inputs[2], rank, 1)], node.outputs)


def matmul(node: Node, writer: Writer) -> None:
    """Integer MatMul: MatMulInteger."""
    writer.emit("MatMulInteger", [*node.inputs[:2], *_zero_points(node, writer)], node.outputs)


def gemm(node: Node, writer: Writer) -> None:
    """Integer Gemm: transposes, MatMulInteger, then the 32-bit bias; ModelError unless alpha = beta = 1."""
    if node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0:
        raise ModelError("integer Gemm with alpha or beta cannot be exported", node.name, "1 and 1")
    operands = [_turned(node, writer, index, key) for index, key in enumerate(("transA", "transB"))]
    with_bias = len(node.inputs) > 2 and bool(node.inputs[2])
    out = writer.step(node, "sum") if with_bias else node.outputs[0]
    writer.emit("MatMulInteger", [*operands, *_zero_points(node, writer)], [out])
    if with_bias:
        writer.emit("Add", [out, node.inputs[2]], node.outputs)


def quantize(node: Node, writer: Writer) -> None:
    """QuantizeLinear."""
    _linear(node, writer, "QuantizeLinear", node.attrs["dtype"])


def dequantize(node: Node, writer: Writer) -> None:
    """DequantizeLinear."""
    _linear(node, writer, "DequantizeLinear", writer.dtype(node.inputs[0]))


def requantize(node: Node, writer: Writer) -> None:
    """The sum times a float32 multiplier, rounded half to even, plus the zero point, clipped and cast."""
    low, high = code_range(node.attrs["dtype"])
    names = [writer.step(node, part) for part in ("real", "scaled", "rounded", "moved", "clipped")]
    multiplier = _parameter(node, writer, "multiplier", np.float32)
    writer.emit("Cast", node.inputs, names[:1], to=FP32)
    writer.emit("Mul", [names[0], multiplier], names[1:2])
    writer.emit("Round", names[1:2], names[2:3])
    writer.emit("Add", [names[2], _parameter(node, writer, "zero_point", np.float32)], names[3:4])
    bounds = [writer.number(node, f"bound{value}", value, np.float32) for value in (low, high)]
    writer.emit("Clip", [names[3], *bounds], names[4:5])
    writer.emit("Cast", names[4:5], node.outputs, to=ELEMENT_TYPES[node.attrs["dtype"]])


def bias(node: Node, writer: Writer) -> None:
    """X + B along an axis."""
    rank = len(writer.graph.tensors[node.inputs[0]].shape)
    writer.emit("Add", [node.inputs[0], _along(node, writer, node.inputs[1], rank, node.attrs["axis"])], node.outputs)


def unchanged(node: Node, writer: Writer) -> None:
    """QLinearConv, QLinearMatMul: no registry op; newer operator sets only add types to them."""
    writer.emit(node.op, node.inputs, node.outputs, **node.attrs)


def _zero_points(node: Node, writer: Writer) -> list[str]:
    """Initialisers of both zero points; ModelError for 16-bit operands, which ONNX cannot multiply."""
    names = []
    for key, operand in zip(("a_zero_point", "b_zero_point"), node.inputs, strict=False):
        dtype = writer.dtype(operand)
        if dtype not in ("int8", "uint8"):
            raise ModelError(f"{node.op} of {dtype} operands cannot be exported", node.name, "int8 or uint8")
        names.append(writer.number(node, key, node.attrs.get(key, 0), np.dtype(dtype)))
    return names


def _turned(node: Node, writer: Writer, index: int, key: str) -> str:
    if not node.attrs.get(key, 0):
        return node.inputs[index]
    name = writer.step(node, key)
    writer.emit("Transpose", [node.inputs[index]], [name], perm=[1, 0])
    return name


def _along(node: Node, writer: Writer, name: str, rank: int, axis: int) -> str:
    """The vector ``name`` with its one axis at ``axis`` of ``rank``."""
    if axis == rank - 1:
        return name
    view = writer.step(node, "along")
    shape = [-1 if index == axis else 1 for index in range(rank)]
    writer.emit("Reshape", [name, writer.number(node, "along.shape", shape)], [view])
    return view


def _parameter(node: Node, writer: Writer, key: str, kind: Any) -> str:
    """A quantisation parameter as an initialiser that broadcasts along the node's axis."""
    values = np.asarray(node.attrs[key], kind)
    rank = len(writer.graph.tensors[node.inputs[0]].shape)
    if values.ndim:
        values = values.reshape([-1 if index == node.attrs["axis"] else 1 for index in range(rank)])
    return writer.number(node, key, values, kind)


def _linear(node: Node, writer: Writer, op: str, dtype: str) -> None:
    """QuantizeLinear and DequantizeLinear, per tensor, per slice or in blocks."""
    scale = np.asarray(node.attrs["scale"], np.float32)
    kind = stored(np.zeros(0, CONTAINERS[dtype]), dtype).dtype
    zero = np.broadcast_to(np.asarray(node.attrs["zero_point"], CONTAINERS[dtype]), scale.shape).astype(kind)
    given = [writer.number(node, "scale", scale, np.float32), writer.number(node, "zero_point", zero, kind)]
    axis, block = node.attrs["axis"] if scale.ndim else None, node.attrs.get("block") or None
    writer.emit(op, [*node.inputs, *given], node.outputs, axis=axis, block_size=block)
