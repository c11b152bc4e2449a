"""Reference of a quantised graph: whole ops in plain arithmetic, independent of the kernels of machines.

Bit equality with it is the check of tiling, accumulation, fused epilogues and quantisation steps. Matrix products run
in float64: with operands of at most 16 bits and K < 2^23 every partial sum is an integer below 2^53, so they are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import floor, frexp

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.types import Array, Index
from accelsim.workload.graph import Attributes, Graph, Node

Floats = Callable[[Node, list[Array | None]], list[Array]]
Rule = Callable[[Node, list[Array], tuple[int, ...]], Array]

LIMITS = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535), "int4": (-8, 7),
    "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3), "int1": (-1, 1),
}  # fmt: skip
HELD_IN = {"int4": "int8", "int2": "int8", "int1": "int8", "uint4": "uint8", "uint2": "uint8"}
"""NumPy has no type of their own for these."""
PRODUCTS = frozenset({"Conv", "MatMul", "Gemm", "ExpertMatMul"})


def integer_reference(
    graph: Graph, feeds: Mapping[str, Array], floats: Floats | None = None, given: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Every tensor of the graph, those inside fused nodes included, computed from ``feeds``.

    ``floats(node, values)`` computes what has no rule here: real-valued functions of the host or the vector
    unit, whose last bit depends on how they are computed (softmax, averages, float products); without it such
    nodes are a ModelError that names all of them. ``given``: values with which what reads these tensors goes on,
    instead of those computed here (the result of a layer of real numbers, say).
    """
    parts = [part for node in graph.nodes for part in (node, *node.epilogue)]
    unknown = [part for part in parts if not _has_rule(graph, part)]
    if unknown and floats is None:
        raise ModelError(Problem(f"no integer reference for {part.op}", part.name) for part in unknown)
    known: dict[str, Array] = {name: np.asarray(value) for name, value in feeds.items()}
    found = dict(known)
    for part in parts:
        values = [_value(graph, known, name) for name in part.inputs]
        if floats is not None and not _has_rule(graph, part):
            results = dict(zip(part.outputs, floats(part, values), strict=False))
        else:
            results = dict(_apply(graph, part, [value for value in values if value is not None]))
        found |= results
        known |= {name: (given or {}).get(name, value) for name, value in results.items()}
    return found


def _has_rule(graph: Graph, part: Node) -> bool:
    """Return whether the result is defined to the last bit: a rule exists, and products are of integers."""
    if part.op in PRODUCTS:
        sums = graph.tensors[part.outputs[0]].dtype  # a unit of floats may compute with codes too
        return graph.tensors[part.inputs[0]].dtype in LIMITS and sums == "int32"
    if part.op == "Dequantize":
        exact = graph.tensors[part.inputs[0]].dtype in (*LIMITS, "int32")
        return exact and graph.tensors[part.outputs[0]].dtype == "fp32"
    rounded = graph.tensors[part.outputs[0]].dtype in ("fp16", "bf16")
    return not rounded and part.op in RULES and part.attrs.get("dtype", "int8") in LIMITS


def _value(graph: Graph, known: Mapping[str, Array], name: str) -> Array | None:
    if not name:
        return None
    return known[name] if name in known else graph.tensors[name].value()


def _apply(graph: Graph, part: Node, values: list[Array]) -> Iterator[tuple[str, Array]]:
    if part.op == "Split":
        cuts = np.cumsum(part.attrs["split"])[:-1]
        yield from zip(part.outputs, np.split(values[0], cuts, axis=part.attrs["axis"]), strict=True)
    else:
        name = part.outputs[0]
        yield name, RULES[part.op](part, values, graph.tensors[name].shape)


def _wrap(total: Array) -> Array:
    """Sums modulo 2^32, as int32 holds them."""
    return ((total.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)


def _centred(node: Node, values: list[Array]) -> tuple[Array, Array]:
    """Return both operands in float64, zero points subtracted."""
    a = values[0].astype(np.float64) - node.attrs.get("a_zero_point", 0)
    return a, values[1].astype(np.float64) - node.attrs.get("b_zero_point", 0)


def _conv(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    """One product per kernel offset: Y[n, g, o, pq] += W[g, o, c, offset] X[n, g, c, pq + offset]."""
    x, w = _centred(node, values)
    groups, rank, attrs = node.attrs["group"], x.ndim - 2, node.attrs
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    padding = [(0, 0), (0, 0), *zip(attrs["pads"][:rank], attrs["pads"][rank:], strict=True)]
    padded = np.pad(x, padding)
    total = np.zeros((x.shape[0], groups, w.shape[1], int(np.prod(shape[2:]))))
    for offset in product(*map(range, attrs["kernel_shape"])):
        seen = padded[_window(attrs, offset, shape[2:])]
        seen = seen.reshape(x.shape[0], groups, x.shape[1] // groups, -1)
        at: Index = (..., *offset)
        total += w[at] @ seen
    y = _wrap(total.reshape(shape))
    return y if len(values) < 3 else _bias_along(y, values[2], 1)


def _window(attrs: Attributes, offset: tuple[int, ...], out: tuple[int, ...]) -> Index:
    """Index of what one kernel offset sees, for every output position."""
    starts = [d * o for d, o in zip(attrs["dilations"], offset, strict=True)]
    steps = list(attrs["strides"])
    along = zip(starts, steps, out, strict=True)
    return (..., *(slice(start, start + step * (n - 1) + 1, step) for start, step, n in along))


def _matmul(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    a, b = _centred(node, values)
    return _wrap(np.matmul(a, np.swapaxes(b, -1, -2) if node.attrs.get("transB") else b))


def _gemm(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    attrs = node.attrs
    if (attrs["alpha"], attrs["beta"]) != (1, 1):
        raise ModelError("Gemm with factors has no integer reference", node.name, "alpha = beta = 1")
    a, b = _centred(node, values)
    y = _wrap(np.matmul(a.T if attrs["transA"] else a, b.T if attrs["transB"] else b))
    return y if len(values) < 3 else _add(node, [y, values[2]], shape)


def _experts(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    """Row by row: those of token t, or of its j-th choice, times the weights of expert ``values[2][t, j]``."""
    a, b = _centred(node, values)
    y = np.zeros(shape)
    for row, (token, choice) in enumerate(np.ndindex(*values[2].shape)):
        y[row] = a[token if len(a) == len(values[2]) else row] @ b[values[2][token, choice]]
    return _wrap(y)


def _bias(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return _bias_along(values[0], values[1], node.attrs["axis"])


def _bias_along(y: Array, bias: Array, axis: int) -> Array:
    along = bias.reshape([-1 if i == axis else 1 for i in range(y.ndim)])
    return _wrap(y.astype(np.int64) + along) if y.dtype.kind in "iu" else (y + along).astype(np.float32)


def _parameter(node: Node, name: str, rank: int) -> Array:
    """A scale or multiplier, placed along its axis."""
    value: Array = np.asarray(node.attrs[name])
    axis = node.attrs["axis"]
    return value if axis is None or value.ndim == 0 else value.reshape([-1 if i == axis else 1 for i in range(rank)])


def _codes(node: Node, real: Array) -> Array:
    """Round half to even, add the zero point, saturate."""
    dtype = node.attrs["dtype"]
    if dtype == "int1":
        return np.where(real >= 0, 1, -1).astype(np.int8)
    low, high = LIMITS[dtype]
    whole = np.rint(np.nan_to_num(real.astype(np.float64), nan=0.0, posinf=1e9, neginf=-1e9)).astype(np.int64)
    return np.clip(whole + _parameter(node, "zero_point", real.ndim), low, high).astype(HELD_IN.get(dtype, dtype))


def _quantize(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    with np.errstate(over="ignore"):
        return _codes(node, values[0].astype(np.float32) / _parameter(node, "scale", values[0].ndim))


def _requantize(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    if node.attrs.get("fixed_point"):
        return _codes(node, _fixed_point(values[0], _parameter(node, "multiplier", values[0].ndim)))
    with np.errstate(over="ignore"):
        return _codes(node, values[0].astype(np.float32) * _parameter(node, "multiplier", values[0].ndim))


def _fixed_point(acc: Array, multiplier: Array) -> Array:
    """acc times multiplier in whole numbers: a mantissa of 31 bits and two roundings, as in gemmlowp and TFLite."""

    def one(total: int, real: float) -> int:
        fraction, exponent = frexp(real)
        mantissa = floor(fraction * 2**31 + 0.5)
        product = min(max(int(total) << max(exponent, 0), -(2**31)), 2**31 - 1) * mantissa
        high = (product + 2**30) >> 31
        places = max(-exponent, 0)
        size = (2 * abs(high) + (1 << places)) >> (places + 1)
        return size if high >= 0 else -size

    return np.asarray(np.vectorize(one, otypes=[np.int64])(acc, multiplier))


def _dequantize(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    rank = values[0].ndim
    centred = values[0].astype(np.int64) - _parameter(node, "zero_point", rank)
    return (centred.astype(np.float32) * _parameter(node, "scale", rank)).astype(np.float32)


def _relu(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return np.where(values[0] > 0, values[0], 0).astype(values[0].dtype)


def _clip(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    x = values[0]
    low, high = node.attrs["min"], node.attrs["max"]
    x = x if low is None else np.where(x < x.dtype.type(low), x.dtype.type(low), x)
    return x if high is None else np.where(x > x.dtype.type(high), x.dtype.type(high), x)


def _max_pool(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    """The padding never wins, so it holds the lowest value."""
    x, attrs = values[0], node.attrs
    rank = x.ndim - 2
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    reach = [
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(shape[2:], attrs["strides"], attrs["dilations"], attrs["kernel_shape"], strict=True)
    ]
    before = attrs["pads"][:rank]
    after = [max(0, need - size - b) for need, size, b in zip(reach, x.shape[2:], before, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)], constant_values=lowest)
    offsets = product(*map(range, attrs["kernel_shape"]))
    return np.asarray(np.max([padded[_window(attrs, o, shape[2:])] for o in offsets], axis=0))


def _global_max(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return np.asarray(np.max(values[0], axis=tuple(range(2, values[0].ndim)), keepdims=True))


def _add(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    total: Array = np.add(values[0], values[1])
    return total


def _reshape(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return values[0].reshape(shape)


def _concat(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return np.concatenate(values, axis=node.attrs["axis"])


def _append(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    past, new = values
    whole = np.zeros(shape, past.dtype)
    whole[tuple(slice(extent) for extent in past.shape)] = past
    axis, at = node.attrs["axis"], node.attrs["at"]
    whole[(slice(None),) * axis + (slice(at, at + new.shape[axis]),)] = new
    return whole


def _transpose(node: Node, values: list[Array], shape: tuple[int, ...]) -> Array:
    return np.transpose(values[0], node.attrs["perm"])


def _pairwise(step: Callable[[Array, Array], Array]) -> Rule:
    return lambda node, values, shape: step(values[0], values[1])


RULES: dict[str, Rule] = {
    "Conv": _conv, "MatMul": _matmul, "Gemm": _gemm, "ExpertMatMul": _experts, "Bias": _bias,
    "Quantize": _quantize, "Requantize": _requantize, "Dequantize": _dequantize,
    "Relu": _relu, "Clip": _clip, "MaxPool": _max_pool, "GlobalMaxPool": _global_max,
    "Add": _add, "Sub": _pairwise(np.subtract), "Mul": _pairwise(np.multiply),
    "Min": _pairwise(np.minimum), "Max": _pairwise(np.maximum),
    "Concat": _concat, "Append": _append, "Transpose": _transpose, "Split": _reshape,
    "Reshape": _reshape, "Flatten": _reshape, "Squeeze": _reshape, "Unsqueeze": _reshape,
    "Identity": _reshape, "Dropout": _reshape,
}  # fmt: skip
"""Op -> rule on whole arrays: (node, values, shape of the result) -> result. One correctly rounded step each,
so the result does not depend on how it is computed. Split has several outputs and is cut in place."""
