"""QDQ form of a graph of codes: float ops between DequantizeLinear and QuantizeLinear, weights kept as codes.

Rounding does not decrease, so a Relu, Clip or move of codes after a Requantize is written as the same op on reals
before the QuantizeLinear, with the same codes. Sums of products are float32 sums then: where one of them rounds to
the other side, a code differs by one.
"""

from __future__ import annotations

import numpy as np

from accelsim.errors import ModelError
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.onnx.exporting.coded_graph import Parts, is_code, moves
from accelsim.workload.ops import base

BOUNDS = frozenset({"Relu", "Clip"})
WIDE_CODES = ("int8", "uint8", "int16", "uint16")
"""Codes that ONNX Runtime moves as they are; pooling and moves of others stand before their QuantizeLinear."""


def to_qdq(graph: Graph) -> Graph:
    """A graph of float ops, Quantize and Dequantize that stands for ``graph``, which holds codes.

    Raises ModelError for codes of unknown scale, and where a requantisation contradicts the scales.
    """
    return _Writer(graph).run()


class _Writer:
    """``real``: tensor of codes or sums -> float tensor with the numbers that they stand for."""

    def __init__(self, graph: Graph) -> None:
        self.parts = Parts(graph)
        self.real: dict[str, str] = {}
        self.taken: set[int] = set()

    def run(self) -> Graph:
        for part in self.parts.parts:
            if id(part) not in self.taken:
                self._write(part)
        self._guard()
        return self.parts.graph()

    def _guard(self) -> None:
        """Write Relu and Clip before narrow codes as Max and Min: ONNX Runtime 1.31 takes them out otherwise.

        It believes that such codes, as unsigned ones, begin at their zero point.
        """
        quantised = (node for node in self.parts.nodes if node.op == "Quantize")
        narrow = {node.inputs[0] for node in quantised if node.attrs["dtype"] not in WIDE_CODES}
        nodes, self.parts.nodes = self.parts.nodes, []
        for node in nodes:
            if node.op in BOUNDS and node.outputs[0] in narrow:
                self._bound(node)
            else:
                self.parts.nodes.append(node)

    def _bound(self, node: Node) -> None:
        least, most = (0.0, None) if node.op == "Relu" else (node.attrs["min"], node.attrs["max"])
        limits = [(op, value) for op, value in (("Max", least), ("Min", most)) if value is not None]
        source, (out,) = node.inputs[0], node.outputs
        for index, (op, value) in enumerate(limits):
            last = index == len(limits) - 1
            target = out if last else self.parts.add(f"{out}.{op}", self.parts.tensors[out].shape)
            number = self.parts.constant(f"{out}.{op}.bound", np.asarray(value, np.float32), "fp32")
            self.parts.emit(f"{node.name}.{op}", op, [source, number], [target])
            source = target

    def _write(self, part: Node) -> None:
        parts = self.parts
        if parts.coded(part):
            self._product(part)
        elif part.op == "Bias" and part.inputs[0] in self.real:
            self._bias(part)
        elif part.op == "Requantize":
            self._requantised(part)
        elif part.op == "Dequantize":
            self._dequantised(part)
        elif part.op != "Quantize" and any(is_code(parts.dtype(name)) for name in part.outputs if name):
            self._on_codes(part)
        else:
            parts.nodes.append(part)

    def _real(self, name: str) -> str:
        """Add the float tensor that stands for codes or sums."""
        self.real[name] = self.parts.add(f"{name}.real", self.parts.tensors[name].shape)
        return self.real[name]

    def _dequantised_once(self, name: str, scale: Array, zero_point: int, axis: int | None) -> str:
        """The float tensor that stands for codes, dequantised where it was not yet."""
        if name not in self.real:
            self.parts.emit(f"{name}.dequantize", "Dequantize", [name], [self._real(name)], scale=scale,
                            zero_point=zero_point, axis=axis)  # fmt: skip
        return self.real[name]

    def _as_real(self, name: str) -> str:
        if name in self.real:
            return self.real[name]
        quant = self.parts.quant(name)
        axis = quant.axis if np.size(quant.scale) > 1 else None
        return self._dequantised_once(name, np.asarray(quant.scale, np.float32), quant.zero_point, axis)

    def _product(self, part: Node) -> None:
        parts, (total,) = self.parts, part.outputs
        scale = parts.sum_scale(part)
        parts.sums[total] = scale
        operands = [self._as_real(name) for name in part.inputs[:2]]
        bias, out = part.inputs[2] if len(part.inputs) > 2 else "", ""
        if not bias and part.op != "MatMul":
            bias, out = self._following(total)
        real = self.real[total] = out or self._real(total)
        if bias:
            operands.append(self._bias_as_real(bias, scale))
        attrs = {**part.attrs, "a_zero_point": 0, "b_zero_point": 0}
        parts.emit(part.name, part.op, operands, [real], **attrs)

    def _following(self, total: str) -> tuple[str, str]:
        """The constant that a Bias after a product adds, which the product then adds itself, and the real result.

        The Bias may add integers to the sums, or reals to what they are dequantised to. ('', '') where there is none.
        """
        reader = self.parts.only_reader(total)
        before = reader if reader is not None and reader.op == "Dequantize" else None
        if before is not None:
            reader = self.parts.only_reader(before.outputs[0])
        if reader is None or reader.op != "Bias" or not self.parts.tensors[reader.inputs[1]].is_constant:
            return "", ""
        self.taken.update(id(part) for part in (reader, before) if part is not None)
        bias, out = reader.inputs[1], reader.outputs[0]
        if before is not None:
            return bias, out
        self.parts.sums[out] = self.parts.sums[total]
        return bias, self._real(out)

    def _bias_as_real(self, name: str, scale: Array) -> str:
        whole = self.parts.dtype(name) == "int32"
        return self._dequantised_once(name, scale, 0, 0 if scale.ndim else None) if whole else name

    def _bias(self, part: Node) -> None:
        (total, name), (out,) = part.inputs, part.outputs
        scale = self.parts.sums[out] = self.parts.sums[total]
        real = self._real(out)
        inputs = [self.real[total], self._bias_as_real(name, scale)]
        self.parts.emit(part.name, "Bias", inputs, [real], **part.attrs)

    def _requantised(self, part: Node) -> None:
        (total,), (out,) = part.inputs, part.outputs
        if total not in self.real:
            raise ModelError("Requantize of what is no product of codes", part.name)
        wanted = np.asarray(self.parts.sums[total] / np.float32(self.parts.quant(out).scale), np.float32)
        if not np.allclose(wanted, part.attrs["multiplier"], rtol=1e-6, atol=0):
            raise ModelError("Requantize with another multiplier than its scales give", part.name)
        self._give(part, self.real[total], out)

    def _give(self, part: Node, real: str, out: str) -> None:
        """Codes of a real tensor: at once, or after the ops that can work on reals as well."""
        reader = self.parts.only_reader(out)
        narrow = self.parts.dtype(out) not in WIDE_CODES
        if reader is not None and (reader.op in BOUNDS or (narrow and moves(reader))):
            self.real[out] = real
            return
        quant = self.parts.quant(out)
        self.parts.emit(f"{part.name}.quantize", "Quantize", [real], [out], dtype=self.parts.dtype(out),
                        scale=np.asarray(quant.scale, np.float32), zero_point=quant.zero_point, axis=None)  # fmt: skip

    def _dequantised(self, part: Node) -> None:
        (source,), (out,) = part.inputs, part.outputs
        if source not in self.parts.sums:
            self.real.setdefault(source, out)
            self.parts.nodes.append(part)
            return
        inner = self.real[source]
        for node in self.parts.nodes:
            node.outputs = [out if name == inner else name for name in node.outputs]
            node.inputs = [out if name == inner else name for name in node.inputs]
        self.real = {name: out if value == inner else value for name, value in self.real.items()}

    def _on_codes(self, part: Node) -> None:
        """An op that keeps codes, on the reals that they stand for."""
        op = base.find(part.op)
        if op is None:
            raise ModelError(f"{part.op} of codes has no QDQ form", part.name)
        codes = [name for name in part.inputs if name and is_code(self.parts.dtype(name))]
        quant = self.parts.quant(codes[0])
        inputs = [self._as_real(name) if name in codes else name for name in part.inputs]
        outs = [self.parts.add(f"{out}.real", self.parts.tensors[out].shape) for out in part.outputs]
        attrs = dict(part.attrs)
        for key in ("min", "max", "value"):
            if attrs.get(key) is not None and part.op in ("Clip", "Pad"):
                attrs[key] = float(integer.dequantise(np.asarray(attrs[key]), quant.scale, quant.zero_point))
        self.parts.emit(part.name, part.op, inputs, outs, **attrs)
        for real, out in zip(outs, part.outputs, strict=True):
            self._give(part, real, out)
