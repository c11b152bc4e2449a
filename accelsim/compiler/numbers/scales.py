"""Number format of every tensor on the chip, and the scale and zero point of those that hold codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, prod
from typing import NamedTuple

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers import ranges as spans_of
from accelsim.compiler.numbers.formats import (
    Operands,
    is_code,
    is_integer,
    memory_format,
    pair,
    resolve,
    serves_narrow,
    short_float,
    supported,
    widest_match,
)
from accelsim.compiler.state import Options, State
from accelsim.formats import integer, table
from accelsim.spec.chip import Chip
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import ELSEWHERE, gemm_view
from accelsim.workload.ops import base

SUM_LIMIT = 2**30
"""Products and bias may each reach this, so that no sum leaves int32."""

LEAST_BITS = 8
"""Codes that no matrix product reads (results of the network, operands of sums) have at least so many bits."""


class Codes(NamedTuple):
    """A tensor of codes: real = scale x (code - zero_point); ``scale`` is float32, 0-d for an activation."""

    dtype: str
    scale: Array
    zero_point: int = 0


@dataclass
class Plan:
    """Formats of the real tensors of a graph on its chip.

    ``operands``: of each matrix node, by name. ``codes``: tensors that hold codes. ``floats``: float format of the
    others that are on the chip. ``ranges``: range of each tensor on the chip. ``limits``: largest |code -
    zero point| of tensors that are multiplied by one another, so that no sum leaves int32.
    """

    operands: dict[str, Operands]
    options: Options
    codes: dict[str, Codes] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, spans_of.Range] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    def codes_as(self, name: str, dtype: str) -> Codes:
        """The codes that a tensor has, or would have in another format."""
        held = self.codes.get(name)
        return held if held is not None and held.dtype == dtype else self.make([name], dtype)

    def make(self, names: Sequence[str], dtype: str) -> Codes:
        """Codes of tensors that share a range: the scale that one of them was given, else what the range asks for.

        See ``Options.scheme``; unsigned codes always have a zero point, for they have no other negative numbers.
        """
        given = [self.options.scales[name] for name in names if name in self.options.scales]
        if given:
            return Codes(dtype, np.asarray(given[0], np.float32).reshape(()))
        if self.options.values == "off":
            return Codes(dtype, np.asarray(1, np.float32))
        span = self.ranges[names[0]]
        limit = min((self.limits[name] for name in names if name in self.limits), default=0)
        if limit and is_integer(dtype):
            span = span.stretched(max(1.0, reach(dtype, self.options) / limit))
        if is_affine(dtype, self.options):
            return Codes(dtype, *spans_of.affine(span, dtype))
        return Codes(dtype, symmetric_scale(span, dtype))


def is_affine(dtype: str, options: Options) -> bool:
    """Return whether codes of this format get a zero point."""
    row = table.get(dtype)
    return row.kind == "int" and (options.scheme == "affine" or not row.signed)


def reach(dtype: str, options: Options) -> int:
    """Largest |code - zero point| of an integer format."""
    low, high = integer.code_range(dtype)
    return high - low if is_affine(dtype, options) else max(-low, high)


def symmetric_scale(span: spans_of.Range, dtype: str) -> Array:
    """Scale without a zero point: largest magnitude / largest code; the mean magnitude for binary codes.

    The latter is Rastegari et al., arXiv 1603.05279, equation 6.
    """
    if dtype == "int1":
        return np.asarray(span.mean or 1.0, np.float32)
    return code_scale(np.asarray(max(span.high, -span.low)), dtype)


def code_scale(peak: Array, dtype: str) -> Array:
    """peak / highest code in float32; 1 where that would be zero or subnormal."""
    if is_integer(dtype):
        return integer.absmax_scale(np.atleast_1d(peak)[:, np.newaxis], dtype, 0).reshape(np.shape(peak))
    scale = np.asarray(peak, np.float32) / np.float32(table.get(dtype).max)
    return np.asarray(np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1)), np.float32)


def keeps_scale(graph: Graph, part: Node, dtype: str = "int8") -> bool:
    """Return whether the op can work on the codes themselves, input and output having one scale."""
    op = base.find(part.op)
    if op is None or not (op.kind == "alias" or op.keeps):
        return False
    if dtype == "int1" and part.op in ("Relu", "Clip", "Pad"):  # there is no code for zero
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
    return [name for name in names if not graph.tensors[name].is_constant and graph.tensors[name].dtype in edit.FLOATS]


def plan(state: State, operands: dict[str, Operands]) -> Plan:
    """Format, and scale where it holds codes, of every tensor that a matrix or vector node reads or writes.

    Tensors joined by nodes that only keep values are one group with one format and scale. Its format is what the
    matrix nodes that read it take (the widest where they differ), else that of ``Options.dtype``, of 8 bits at
    least. Ranges are over the whole group and all data for them; scales in ``Options.scales`` come first. With
    ``values`` 'off' nothing is executed and all scales are 1.
    """
    result = Plan(operands, state.options)
    others = _default(state)
    chosen: list[tuple[_Group, str]] = []
    for group in _groups(state.graph, operands):
        if group.on_chip:
            chosen.append((group, _widest(group.wanted) or others))
    bits = {name: group.code_bits(dtype) for group, dtype in chosen if group.needs_range(dtype) for name in group.names}
    spans = spans_of.ranges(state.graph, state.options, bits) if bits else {}
    for group, dtype in chosen:
        _settle(result, group, dtype, spans)
    return result


def _settle(result: Plan, group: _Group, dtype: str, spans: Mapping[str, spans_of.Range]) -> None:
    """Write the format, range and codes of one group into the plan."""
    if group.needs_range(dtype):
        span = spans_of.union(spans[name] for name in group.names)
        result.ranges.update(dict.fromkeys(group.names, span))
        if group.limit:
            result.limits.update(dict.fromkeys(group.names, group.limit))
    if not is_code(dtype):
        result.floats.update(dict.fromkeys(group.names, dtype))
        return
    result.codes.update(dict.fromkeys(group.names, result.make(group.names, dtype)))


def _default(state: State) -> str:
    """Format of a tensor that no matrix node reads: beside narrow layers of a serving stack one of 16 bits."""
    if serves_narrow(state.chip, state.options.fusion, state.dtype):
        return short_float(state.chip)
    wanted = resolve(state.chip, state.dtype, state.options.emulate).activations
    fmt = table.get(wanted)
    if not is_code(wanted):
        return memory_format(wanted)
    if fmt.bits >= LEAST_BITS:
        return wanted
    return "int8" if is_integer(wanted) else "fp8_e4m3fn"


def _widest(wanted: Iterable[str]) -> str:
    """The format that serves all readers best: a real one before codes, more bits before fewer; '' for none."""
    order = sorted(wanted)
    return max(order, key=lambda name: (not is_code(name), table.get(name).bits), default="")


@dataclass
class _Group:
    names: list[str]
    on_chip: bool = False
    wanted: set[str] = field(default_factory=set)
    """Formats in which matrix nodes read it."""
    limit: int = 0
    """Largest |code - zero point| that products with another activation allow; 0 where there is none."""

    def bounded(self, limit: int) -> None:
        """Take the limit of one more product of two activations into account."""
        self.limit = min(self.limit, limit) if self.limit else limit

    def needs_range(self, dtype: str) -> bool:
        """Return whether it is held as codes, or some reader takes it as codes."""
        return is_code(dtype) or any(is_code(name) for name in self.wanted)

    def code_bits(self, dtype: str) -> int:
        """Bits of the narrowest codes that it is held or read as."""
        return min(table.get(name).bits for name in (dtype, *self.wanted) if is_code(name))


def _groups(graph: Graph, operands: Mapping[str, Operands]) -> list[_Group]:
    """Tensors of real numbers in groups of one scale, in order of first appearance."""
    groups: dict[str, _Group] = {}
    binary = any(entry.activations == "int1" for entry in operands.values())
    for node in graph.nodes:
        names = real_tensors(graph, node)
        for name in names:
            groups.setdefault(name, _Group([name]))
        if all(keeps_scale(graph, part, "int1" if binary else "int8") for part in edit.parts(node)):
            _join(groups, names)
        for name in names:
            groups[name].on_chip |= node.engine not in ELSEWHERE
        if node.name in operands:
            read = [name for name in node.inputs[:2] if name in groups]
            for name in read:
                groups[name].wanted.add(memory_format(operands[node.name].activations))
                if len(read) > 1 and operands[node.name].integer_sums:
                    groups[name].bounded(isqrt(SUM_LIMIT // depth(graph, node)))
    return list({id(group): group for group in groups.values()}.values())


def depth(graph: Graph, node: Node) -> int:
    """Products that a matrix node adds up."""
    gemm = gemm_view(graph, node)
    assert gemm is not None
    return gemm.K


def _join(groups: dict[str, _Group], names: list[str]) -> None:
    for other in names[1:]:
        first, second = groups[names[0]], groups[other]
        if first is second:
            continue
        first.names += second.names
        first.on_chip |= second.on_chip
        first.wanted |= second.wanted
        if second.limit:
            first.bounded(second.limit)
        groups.update(dict.fromkeys(second.names, first))


def stored_format(chip: Chip, dtype: str, weights: bool = False) -> str:
    """Format in which this chip keeps values of ``dtype``: its own, or the one in which it emulates them.

    What no unit of the chip takes is kept as the unit needs it; ``weights``: as its stationary operand.
    """
    own = {each for name in supported(chip) for each in pair(name)}
    if dtype in own or dtype in ("fp32", "fp64"):
        return dtype
    match = widest_match(supported(chip), dtype, dtype)
    return memory_format(pair(match)[0 if weights else 1]) if match else dtype


def weight_scale(
    values: Array, operands: Operands, axis: int | None, largest: int = 0, least: Array | float = 0.0
) -> Array:
    """Symmetric scale per slice of ``axis``: max |w| / highest code, or more where int32 sums could overflow.

    Binary weights: mean |w|. With |x - zero point| <= X (``largest``), a sum of K products stays within ``SUM_LIMIT``
    when sum(|w|) / scale + K / 2 <= SUM_LIMIT / X (K / 2 for the rounding of the codes). ``least``: what the bias asks
    for. Both bind for 16-bit codes only, unless K > 65,000.
    """
    others = tuple(i for i in range(values.ndim) if i != axis)
    if operands.weights == "int1":
        mean = np.mean(np.abs(values), axis=others, dtype=np.float64)
        return np.asarray(np.where(mean > 0, mean, 1), np.float32)
    peak = np.maximum(np.max(values, axis=others, initial=0), -np.min(values, axis=others, initial=0))
    scale = code_scale(peak, operands.weights)
    if not operands.integer_sums:
        return scale
    scale = np.asarray(np.maximum(scale, least), np.float32)
    largest = largest or max(abs(code) for code in integer.code_range(operands.activations))
    count = prod(values.shape[i] for i in others)
    budget = SUM_LIMIT / largest - count / 2
    # most weights: even the largest of them everywhere would not reach the limit
    if budget <= 0 or np.all(1.001 * count * peak.astype(np.float64) / budget <= scale):
        return scale
    needed = np.sum(np.abs(values), axis=others, dtype=np.float64) / budget
    bound = np.nextafter(needed.astype(np.float32), np.float32(np.inf))
    return np.asarray(np.maximum(scale, bound), np.float32)


def bias_codes(bias: Tensor, scale: Array, shift: Array | float = 0.0) -> Array:
    """rint((b + shift) / scale) as int32, within ``SUM_LIMIT``; float64 division of float32 numbers."""
    real = edit.peek(bias).astype(np.float64) + shift
    return np.clip(np.rint(real / scale.astype(np.float64)), -SUM_LIMIT, SUM_LIMIT).astype(np.int32)
