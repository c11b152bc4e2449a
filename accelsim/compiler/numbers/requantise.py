"""The rewriter behind ``quantise``: a graph of real numbers becomes one of codes with scales, node by node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers.coded_weights import CodedWeights
from accelsim.compiler.numbers.formats import Operands, is_integer, memory_format
from accelsim.compiler.numbers.ranges import mean_shift
from accelsim.compiler.numbers.scales import Codes, Plan, bias_codes, is_affine, keeps_scale
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.program.commands import OUTSIDE
from accelsim.program.roles import HOST, function_unit
from accelsim.program.writing.facts import channel_axis
from accelsim.types import Array
from accelsim.workload.graph import Node, Quant
from accelsim.workload.nodes import is_product


class Rewriter:
    """Rewrites the nodes that touch codes.

    Matrix nodes on codes: integers give int32 sums, ``Bias`` in int32 with scale xs * ws; then either ``Requantize``
    and ops on codes (when only those that keep their scale follow), or ``Dequantize``, the ops in fp32, ``Quantize``.
    A state stays in codes from run to run: what the user gives and gets of it are numbers, converted outside the run.
    Narrow floats give fp32 sums, and always take the second way. A residual that an epilogue reads gets a
    ``Dequantize`` of its own in the epilogue, just before its reader. Other nodes, matrix nodes on real numbers among
    them: unchanged on codes when they keep the scale, else ``Dequantize`` in front and ``Quantize`` behind. Inputs and
    outputs of the graph stay fp32: the host converts. Rules of arithmetic: ``formats.integer`` (ONNX QLinearConv;
    Jacob et al., arXiv 1712.05877, section 2).
    """

    def __init__(self, state: State, plan: Plan) -> None:
        self.state, self.graph, self.plan, self.codes = state, state.graph, plan, plan.codes
        self.known = state.options.values != "off"
        self.nodes: list[Node] = []
        self._links, self._counts = edit.Links(state.graph), edit.use_counts(state.graph)
        self._weights, self._staying = CodedWeights(state), state.graph.staying
        self._converted: dict[tuple[str, str], str] = {}
        functions = function_unit(state.chip)
        self._functions = functions.name if functions else HOST
        binary = any(entry.activations == "int1" for entry in plan.operands.values())
        self._keeps = partial(keeps_scale, self.graph, dtype="int1" if binary else "int8")

    def run(self) -> None:
        """Rewrite the whole graph."""
        kept = dict(self.graph.states)
        given = set(self.graph.inputs)  # one that is an output too stays what was given
        ends = [self._leave(name) for name in self.graph.outputs if name in self.codes and name not in given]
        starts = [self._enter(name) for name in self.graph.inputs if name in self.codes]
        twins = {node.outputs[0]: node.inputs[0] for node in ends}
        twins |= {node.inputs[0]: node.outputs[0] for node in starts}
        self.graph.kept = [twins.get(name, name) for name in self.graph.kept]
        self.graph.states = {twins.get(past, past): twins.get(new, new) for past, new in kept.items()}
        for name, codes in self.codes.items():
            self._set(name, codes)
        for node in self.graph.nodes:
            self._rewrite(node)
        self.graph.nodes = [*starts, *self.nodes, *ends]
        edit.prune(self.graph)

    def _set(self, name: str, codes: Codes) -> None:
        tensor = self.graph.tensors[name]
        tensor.dtype, tensor.quant = codes.dtype, Quant(codes.scale, codes.zero_point)

    def _enter(self, name: str) -> Node:
        """Host node that quantises a graph input; its readers now read codes."""
        codes = self._twin(name)
        self._links.rewire(name, codes)
        attrs = {**to_codes(self.codes[codes]), **self._edge(name), "edge": "input"}
        return Node(f"{name}.quantize", "Quantize", [name], [codes], attrs, [], "host")

    def _leave(self, name: str) -> Node:
        """Host node that dequantises a graph output; its producer and other readers now have codes."""
        codes = self._twin(name)
        self._links.rename_output(name, codes)
        self._links.rewire(name, codes)
        attrs = {**to_real(self.codes[codes]), **self._edge(name), "edge": "output"}
        return Node(f"{name}.dequantize", "Dequantize", [codes], [name], attrs, [], "host")

    def _edge(self, name: str) -> dict[str, object]:
        """Attribute of conversions that are not part of the run."""
        return {OUTSIDE: True} if name in self._staying or self.state.options.edges == "outside" else {}

    def _twin(self, name: str) -> str:
        held = self.codes.pop(name)
        codes = edit.add_tensor(self.graph, f"{name}.{held.dtype}", self.graph.tensors[name].shape)
        self.codes[codes] = held
        if name in self.plan.ranges:
            self.plan.ranges[codes] = self.plan.ranges[name]
        if name in self.state.means:
            self.state.means[codes] = self.state.means[name]
        return codes

    def _rewrite(self, node: Node) -> None:
        operands = self.plan.operands.get(node.name)
        touched = any(name in self.codes for name in (*node.reads, *node.writes))
        if operands is not None and operands.codes:
            self.nodes += self._coded(node, operands)
        elif not touched:
            self.nodes.append(node)
        elif not is_product(node) and all(self._keeps(part) for part in edit.parts(node)):
            self._on_codes(edit.parts(node), self.codes[node.writes[0]])
            self.nodes.append(node)
        else:
            self.nodes += self._around(node)

    def _on_codes(self, parts: list[Node], codes: Codes) -> None:
        """Let ops that keep their scale work on codes: zero is the zero point, a bound is its code.

        Whether a Relu becomes a Clip follows from the scheme, not from the zero point that was found: without values
        none is, and the program is the same.
        """
        affine = is_affine(codes.dtype, self.state.options) or codes.zero_point
        for part in parts:
            if part.op in BOUNDS:
                bounds = {key: self._code(bound, codes) for key, bound in BOUNDS[part.op](part.attrs).items()}
                if part.op == "Clip" or affine:
                    part.op, part.attrs = "Clip", bounds
            elif part.op == "Pad" and codes.zero_point:
                part.attrs = {**part.attrs, "value": codes.zero_point}
            for name in part.outputs:
                self._set(name, codes)

    def _code(self, bound: float | None, codes: Codes) -> int | float | None:
        if bound is None:
            return None
        code = integer.quantise(np.asarray(bound), codes.scale, codes.dtype, codes.zero_point)
        return int(code) if is_integer(codes.dtype) else float(code)

    def _around(self, node: Node) -> list[Node]:
        """One fused node: Dequantize, the parts in fp32, Quantize (separate nodes for several outputs).

        What a matrix node multiplies is dequantised by a node before it.
        """
        outputs = [name for name in node.writes if name in self.codes]
        renamed = {name: self._real_twin(name) for name in outputs}
        multiplied = is_product(node)
        front = self._dequantised_operands(node, renamed) if multiplied else []
        parts = self._real_parts(edit.parts(node), renamed)
        behind = [
            Node(f"{node.name}.quantize", "Quantize", [renamed[name]], [name], to_codes(self.codes[name]))
            for name in outputs
        ]
        single = len(node.writes) == 1
        first, *rest = [*parts, *behind] if single else parts
        fused = Node(
            node.name, first.op, first.inputs, first.outputs, first.attrs, rest, node.engine, node.note, node.format
        )
        for part in (*rest, *behind):
            part.engine = self._functions if multiplied else node.engine
        return [*front, fused] if single else [*front, fused, *behind]

    def _dequantised_operands(self, node: Node, renamed: dict[str, str]) -> list[Node]:
        """Nodes that turn the codes which a matrix node reads into the real numbers that it multiplies."""
        operands = self.plan.operands.get(node.name)
        dtype = memory_format(operands.activations) if operands is not None else "fp32"
        found = []
        for name in dict.fromkeys(node.inputs[:2]):
            if name in self.codes:
                key = (name, dtype)
                if key not in self._converted:
                    self._converted[key] = edit.add_tensor(
                        self.graph, f"{name}.{dtype}", self.graph.tensors[name].shape, dtype
                    )
                    found.append(self._convert(f"{node.name}.dequantize.{name}", "Dequantize", name,
                                               self._converted[key], to_real(self.codes[name])))  # fmt: skip
                renamed[name] = self._converted[key]
        return found

    def _convert(self, label: str, op: str, source: str, target: str, attrs: dict[str, object]) -> Node:
        return Node(label, op, [source], [target], attrs, [], self._functions)

    def _real_twin(self, name: str) -> str:
        return edit.add_tensor(self.graph, f"{name}.fp32", self.graph.tensors[name].shape)

    def _real_parts(self, parts: list[Node], renamed: dict[str, str]) -> list[Node]:
        """The parts renamed, and a Dequantize in front of the first reader of each tensor of codes."""
        result: list[Node] = []
        for part in parts:
            for name in part.inputs:
                if name in self.codes and name not in renamed:
                    renamed[name] = self._real_twin(name)
                    label = f"{part.name}.dequantize.{name}"
                    result.append(Node(label, "Dequantize", [name], [renamed[name]], to_real(self.codes[name])))
            part.inputs = [renamed.get(name, name) for name in part.inputs]
            part.outputs = [renamed.get(name, name) for name in part.outputs]
            result.append(part)
        return result

    def _coded(self, node: Node, operands: Operands) -> list[Node]:
        """A matrix node on codes, with what must be converted before it."""
        x, w = node.inputs[:2]
        final, axis = node.writes[0], channel_axis(self.graph, node)
        front, x_name, x_codes = self._operand(node, x, operands.activations)
        attrs = {**node.attrs, "a_zero_point": x_codes.zero_point}
        shift: Array | float = 0.0
        if self.graph.tensors[w].is_constant:
            real = self.graph.tensors[w]
            w_name, second = self._weights.coded(node, operands, x_codes)
            shift = mean_shift(self.state, node, real, self.graph.tensors[w_name])
        else:
            more, w_name, w_codes = self._operand(node, w, operands.activations)
            front, second, attrs["b_zero_point"] = [*front, *more], w_codes.scale, w_codes.zero_point
        scale = integer.scale_of_products(x_codes.scale, second)
        product = self._sum(node.outputs[0], final, operands)
        bias, rest = self._bias(node, product, scale, operands, shift)
        total = bias[-1].outputs[0] if bias else product
        tail = self._tail(node, total, rest, scale, axis if second.ndim else None)
        for part in (*bias, *tail):
            part.engine = self._functions
        inputs = [x_name, w_name, *node.inputs[2:]]
        fused = Node(node.name, node.op, inputs, [product], attrs, [*bias, *tail], node.engine, node.note, node.format)
        return [*front, fused]

    def _operand(self, node: Node, name: str, dtype: str) -> tuple[list[Node], str, Codes]:
        """An activation in the format in which this node takes it, converted if it is held in another."""
        held, wanted = self.codes.get(name), self.plan.codes_as(name, dtype)
        if held is not None and held.dtype == dtype:
            return [], name, held
        if (name, dtype) in self._converted:
            return [], self._converted[name, dtype], wanted
        twin = edit.add_tensor(self.graph, f"{name}.{dtype}", self.graph.tensors[name].shape)
        self._converted[name, dtype] = twin
        self._set(twin, wanted)
        label = f"{node.name}.quantize.{name}"
        if held is None:
            return [self._convert(label, "Quantize", name, twin, to_codes(wanted))], twin, wanted
        real = self._real_twin(name)
        first = self._convert(f"{node.name}.dequantize.{name}", "Dequantize", name, real, to_real(held))
        first.epilogue = [self._convert(label, "Quantize", real, twin, to_codes(wanted))]
        return [first], twin, wanted

    def _sum(self, name: str, final: str, operands: Operands) -> str:
        """The tensor ``name`` inside a node as sums of products; a new one when it is what the node writes."""
        dtype = "int32" if operands.integer_sums else "fp32"
        if name == final:
            return edit.add_tensor(self.graph, f"{final}.sum", self.graph.tensors[final].shape, dtype)
        self.graph.tensors[name].dtype = dtype
        return name

    def _bias(
        self, node: Node, total: str, sum_scale: Array, operands: Operands, shift: Array | float
    ) -> tuple[list[Node], list[Node]]:
        """The Bias in integers (or nothing), and the rest of the epilogue."""
        if not node.epilogue or node.epilogue[0].op != "Bias" or not operands.integer_sums:
            return [], node.epilogue
        part, *rest = node.epilogue
        bias = self.graph.tensors[part.inputs[1]]
        make: Callable[[], Array] = partial(bias_codes, bias, sum_scale, shift)
        if self.known:
            make = partial(np.asarray, make())
        name = edit.derive_constant(self.graph, bias.name, bias.shape, make, "int32", self._counts)
        self.graph.tensors[name].quant = Quant(sum_scale, 0, 0 if sum_scale.ndim else None)
        biased = self._sum(part.outputs[0], node.writes[0], operands)
        return [Node(part.name, "Bias", [total, name], [biased], part.attrs)], rest

    def _tail(self, node: Node, total: str, rest: list[Node], scale: Array, axis: int | None) -> list[Node]:
        """Return what follows the sums: on codes where only ops that keep their scale follow, else on real numbers."""
        final = self.codes.get(node.writes[0])
        integers = self.graph.tensors[total].dtype == "int32" and final is not None and is_integer(final.dtype)
        if final is not None and integers and final.dtype != "int1" and all(self._keeps(part) for part in rest):
            multiplier = integer.multiplier_of(scale, 1.0, final.scale)
            return self._requantised(node, total, rest, final, {"multiplier": multiplier, "axis": axis})
        return self._dequantised(node, total, rest, {"scale": scale, "zero_point": 0, "axis": axis})

    def _requantised(
        self, node: Node, total: str, rest: list[Node], final: Codes, attrs: dict[str, object]
    ) -> list[Node]:
        """Requantize, then the rest on codes."""
        out = node.writes[0]
        if rest:
            old = rest[0].inputs[0]
            out = edit.add_tensor(self.graph, f"{node.name}.requantized", self.graph.tensors[old].shape)
            self._set(out, final)
            rest[0].inputs = [out, *rest[0].inputs[1:]]
            self._on_codes(rest, final)
        attrs = {**attrs, "dtype": final.dtype, "zero_point": final.zero_point}
        unit = function_unit(self.state.chip)
        if unit is not None and getattr(unit.spec, "requantisation", "") == "fixed_point":
            attrs["fixed_point"] = True
        return [Node(f"{node.name}.requantize", "Requantize", [total], [out], attrs), *rest]

    def _dequantised(self, node: Node, total: str, rest: list[Node], attrs: dict[str, object]) -> list[Node]:
        """Dequantize, the rest in fp32, Quantize if the result is codes."""
        final, held = node.writes[0], self.codes.get(node.writes[0])
        shape = self.graph.tensors[total].shape
        real = final if not rest and held is None else edit.add_tensor(self.graph, f"{node.name}.dequantized", shape)
        first = Node(f"{node.name}.dequantize", "Dequantize", [total], [real], attrs)
        renamed = {} if held is None else {final: self._real_twin(final) if rest else real}
        if rest:
            renamed[next(name for name in rest[0].inputs if name not in node.reads)] = real
        parts = self._real_parts(rest, renamed)
        if held is None:
            return [first, *parts]
        last = Node(f"{node.name}.quantize", "Quantize", [renamed[final]], [final], to_codes(held))
        return [first, *parts, last]


BOUNDS: dict[str, Callable[[dict[str, Any]], dict[str, float | None]]] = {
    "Relu": lambda attrs: {"min": 0.0, "max": None},
    "Clip": lambda attrs: {"min": attrs["min"], "max": attrs["max"]},
}
"""Ops that bound their input -> the bounds, as real numbers."""


def to_codes(codes: Codes) -> dict[str, object]:
    """Attributes of a Quantize."""
    return {"dtype": codes.dtype, "scale": codes.scale, "zero_point": codes.zero_point, "axis": None}


def to_real(codes: Codes) -> dict[str, object]:
    """Attributes of a Dequantize."""
    return {"scale": codes.scale, "zero_point": codes.zero_point, "axis": None}
