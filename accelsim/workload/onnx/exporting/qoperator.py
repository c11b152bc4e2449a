"""QOperator form of a graph of codes: QLinearConv, QLinearMatMul, and standard ops of integers for the rest.

A product of codes with its Requantize becomes one QLinear op. A matrix product with a bias, which QLinearMatMul does
not have, becomes a 1x1 convolution of its rows. What ONNX has no quantised op for stays as the graph has it: integer
products with 32-bit sums (ConvInteger, MatMulInteger), floats between DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from math import prod

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.onnx.exporting.coded_graph import Parts

CONTAINERS = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
"""Codes that a QLinear op has no type for -> the type that holds them."""

PRODUCT_CODES = ("int8", "uint8")

QLINEAR = ("QLinearConv", "QLinearMatMul")
"""Ops that hold a product and its requantisation."""


def to_qoperator(graph: Graph) -> Graph:
    """A graph of integer ops that stands for ``graph`` to the last bit.

    Codes of 2 and 4 bits are held in 8. Raises ModelError, all at once, for products of other codes.
    """
    return _Writer(graph).run()


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.parts = Parts(graph)
        self.taken: set[int] = set()

    def run(self) -> Graph:
        self._refuse()
        narrow = self._widen()
        for part in self.parts.parts:
            if id(part) in self.taken:
                continue
            if not (self.parts.coded(part) and self._qlinear(part, narrow)):
                self._emit(part, narrow)
        return self.parts.graph()

    def _refuse(self) -> None:
        allowed = (*PRODUCT_CODES, *CONTAINERS)
        problems = []
        for part in self.parts.parts:
            found = {self.parts.dtype(name) for name in part.inputs[:2]} if self.parts.coded(part) else set()
            if wrong := sorted(found.difference(allowed)):
                what = f"{part.op} of {' and '.join(wrong)} codes has no QOperator form"
                problems.append(Problem(what, part.name, "the QDQ form"))
        ModelError.raise_for(problems)

    def _widen(self) -> dict[str, str]:
        """Hold narrow codes in 8 bits; returns tensor name -> format that its codes stay within."""
        narrow = {}
        for name, tensor in self.parts.tensors.items():
            if tensor.dtype in CONTAINERS:
                narrow[name] = tensor.dtype
                tensor.dtype = tensor.stored = CONTAINERS[tensor.dtype]
        return narrow

    def _emit(self, part: Node, narrow: dict[str, str]) -> None:
        """The part as it is; codes narrower than their container are clipped after it."""
        out = part.outputs[0]
        if part.op not in ("Quantize", "Requantize"):
            self.parts.nodes.append(part)
            return
        part.attrs["dtype"] = self.parts.dtype(out)
        if out in narrow:
            part.outputs = [self._clipped(part, out, narrow[out])]
            self.parts.nodes.insert(len(self.parts.nodes) - 1, part)
        else:
            self.parts.nodes.append(part)

    def _clipped(self, part: Node, out: str, dtype: str) -> str:
        """A Clip to the codes of ``dtype`` that writes ``out``; returns the tensor that it reads."""
        low, high = integer.code_range(dtype)
        wide = self.parts.add(f"{out}.wide", self.parts.tensors[out].shape, self.parts.dtype(out))
        self.parts.emit(f"{part.name}.clip", "Clip", [wide], [out], min=low, max=high)
        return wide

    def _qlinear(self, part: Node, narrow: dict[str, str]) -> bool:
        """Write product, bias and requantisation as one op, if they follow each other."""
        bias, last = (part.inputs[2] if len(part.inputs) > 2 else ""), self.parts.only_reader(part.outputs[0])
        chain = [part]
        if last is not None and last.op == "Bias" and not bias and self._is_vector(part, last):
            chain.append(last)
            bias, last = last.inputs[1], self.parts.only_reader(last.outputs[0])
        if last is None or last.op != "Requantize" or not self._can(part, bias, last):
            return False
        self.taken.update(id(each) for each in (*chain, last))
        out = last.outputs[0]
        before = len(self.parts.nodes)
        target = self._clipped(part, out, narrow[out]) if out in narrow else out
        clip = self.parts.nodes[before:]
        del self.parts.nodes[before:]
        if part.op == "Conv":
            self._conv(part, bias, last, target)
        elif bias:
            self._rows(part, bias, last, target)
        else:
            self._product(part, last, target)
        self.parts.nodes += clip
        return True

    def _is_vector(self, part: Node, last: Node) -> bool:
        """Return whether a Bias adds 32-bit constants to the output channels of a product."""
        bias = self.parts.tensors[last.inputs[1]]
        return bias.is_constant and bias.dtype == "int32" and last.attrs["axis"] == self.parts.channel_axis(part)

    def _can(self, part: Node, bias: str, last: Node) -> bool:
        """Return whether a QLinear op has what these nodes need."""
        axis, attrs = last.attrs["axis"], part.attrs
        multiplier = np.asarray(last.attrs["multiplier"])
        per_channel = multiplier.ndim <= 1 and axis in (None, self.parts.channel_axis(part))
        zeros = [np.ndim(attrs.get(key, 0)) == 0 for key in ("a_zero_point", "b_zero_point")]
        if not per_channel or not all(zeros) or np.ndim(last.attrs["zero_point"]):
            return False
        weights = self.parts.tensors[part.inputs[1]]
        constant = weights.is_constant and len(weights.shape) == 2
        plain = part.op == "MatMul" or (
            attrs.get("alpha", 1) == 1 and attrs.get("beta", 1) == 1 and not attrs.get("transA", 0)
        )
        if part.op == "Conv":
            return weights.is_constant
        return plain and (constant if bias or part.op == "Gemm" else True)

    def _parameters(self, part: Node, last: Node, second: str) -> list[str]:
        """Inputs of a QLinear op: x, its scale and zero point, w and its, scale and zero point of y."""
        parts, (x, w), out = self.parts, part.inputs[:2], last.outputs[0]
        scales = self._scales(x, w, out, np.asarray(last.attrs["multiplier"], np.float32))
        count = scales[1].size if scales[1].ndim else 1
        zeros = [part.attrs.get("a_zero_point", 0), part.attrs.get("b_zero_point", 0), last.attrs["zero_point"]]
        names = []
        for role, scale, zero, of in zip(("x", "w", "y"), scales, zeros, (x, w, out), strict=True):
            dtype = parts.dtype(of)
            shape = (count,) if role == "w" and scales[1].ndim else ()
            point = np.full(shape, int(zero), np.dtype(dtype))
            names += [
                parts.constant(f"{out}.{role}.scale", scale, "fp32"),
                parts.constant(f"{out}.{role}.zero_point", point, dtype),
            ]
        return [x, *names[:2], second, *names[2:]]

    def _scales(self, x: str, w: str, y: str, multiplier: Array) -> list[Array]:
        """Scales whose quotient in float32 is the multiplier: those of the tensors, else (1, multiplier, 1)."""
        found = [self.parts.tensors[name].quant for name in (x, w, y)]
        scales = [np.asarray(quant.scale, np.float32) for quant in found if quant is not None]
        if len(scales) == 3:
            wanted = np.asarray(scales[0] * scales[1] / scales[2], np.float32)
            if wanted.shape == multiplier.shape and np.array_equal(wanted, multiplier):
                return scales
        one = np.asarray(1, np.float32)
        return [one, multiplier, one]

    def _conv(self, part: Node, bias: str, last: Node, out: str) -> None:
        inputs = [*self._parameters(part, last, part.inputs[1]), *([bias] if bias else [])]
        window = {key: part.attrs[key] for key in ("kernel_shape", "strides", "pads", "dilations", "group")}
        self.parts.emit(part.name, "QLinearConv", inputs, [out], **window)

    def _second(self, part: Node) -> str:
        """The second operand, not transposed."""
        name = part.inputs[1]
        if not part.attrs.get("transB", 0):
            return name
        tensor = self.parts.tensors[name]
        return self.parts.constant(f"{name}.transposed", np.ascontiguousarray(tensor.value().T), tensor.dtype)

    def _product(self, part: Node, last: Node, out: str) -> None:
        self.parts.emit(part.name, "QLinearMatMul", self._parameters(part, last, self._second(part)), [out])

    def _rows(self, part: Node, bias: str, last: Node, out: str) -> None:
        """x [.., K] times w [K, N] plus bias as the 1x1 convolution of [rows, K, 1, 1] with [N, K, 1, 1]."""
        parts, shape = self.parts, self.parts.tensors[part.inputs[0]].shape
        weights = parts.tensors[part.inputs[1]]
        matrix = weights.value() if part.attrs.get("transB", 0) else weights.value().T
        kernel = parts.constant(f"{weights.name}.kernel", np.ascontiguousarray(matrix)[:, :, None, None], weights.dtype)
        rows, (channels, depth) = prod(shape[:-1]), matrix.shape
        flat = parts.add(f"{out}.rows", (rows, depth, 1, 1), parts.dtype(part.inputs[0]))
        done = parts.add(f"{out}.columns", (rows, channels, 1, 1), parts.dtype(out))
        inputs = self._parameters(part, last, kernel)
        parts.emit(f"{part.name}.rows", "Reshape", [inputs[0]], [flat], shape=[rows, depth, 1, 1])
        window = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1}
        parts.emit(part.name, "QLinearConv", [flat, *inputs[1:], bias], [done], **window)
        after = parts.only_reader(out)
        if after is not None and after.op in ("Relu", "Clip"):  # so that it follows its product directly
            self.taken.add(id(after))
            bounded = parts.add(f"{out}.bounded", (rows, channels, 1, 1), parts.dtype(out))
            parts.emit(after.name, after.op, [done], [bounded], **after.attrs)
            done, out = bounded, after.outputs[0]
        parts.emit(f"{part.name}.columns", "Reshape", [done], [out], shape=list(parts.tensors[out].shape))
