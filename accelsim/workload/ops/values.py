"""Containers of values, and small helpers that every family of ops shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from accelsim.errors import ModelError
from accelsim.formats.table import FORMATS
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Shape, Work

Ins = list[Tensor | None]
Values = list[Array | None]
Infers = list[tuple[Shape, str]]
Infer = Callable[[Node, Ins], Infers]
Kernel = Callable[[Node, Values], list[Array]]
WorkRule = Callable[[Node, Ins, list[Tensor]], Work]

CONTAINERS: dict[str, type[np.generic]] = {
    **{name: row.container for name, row in FORMATS.items()},
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
    "string": np.object_,
}
"""NumPy type in which the kernels hold the values of each tensor format."""

ROUNDED = frozenset(name for name, row in FORMATS.items() if row.kind == "float" and name not in ("fp64", "fp32"))
"""Formats whose values are rounded when a tensor is written; the container is wider."""


@dataclass(frozen=True)
class Filled:
    """``value`` everywhere: an array [shape]."""

    shape: tuple[int, ...]
    value: float | str
    dtype: str

    def __call__(self) -> Array:
        """The array, in the container type of its format."""
        return np.full(self.shape, self.value, CONTAINERS[self.dtype])


KNOWN_INDICES = 1 << 16
"""Constant indices that are checked when the shape of a result is inferred."""

_STRIP = 32
"""Columns of a matrix copied at a time."""
MOST_AXES = 64
"""Axes of an array of NumPy."""

INTEGER_OPERANDS = frozenset(name for name, row in FORMATS.items() if row.kind in ("int", "binary") and row.bits <= 16)
"""Operand formats of an integer matrix product; its result is int32."""


def contain(value: Array, dtype: str) -> Array:
    """``value`` in the container of ``dtype``, rounded to the format where that is narrower (nearest even).

    Values that are already right are returned as they are, not copied.
    """
    if dtype in ROUNDED or dtype not in CONTAINERS:  # a float that is configured by its name
        from accelsim.formats import codec

        return codec.cast(np.asarray(value), dtype)
    return np.asarray(value, CONTAINERS[dtype])


def row_major(array: Array) -> Array:
    """The array with its elements one after the other; itself if they are.

    A transposed matrix is copied some columns at a time, which stay in the cache: ten times as fast.
    """
    if array.flags.c_contiguous:
        return array
    if array.ndim != 2:
        return array.copy()
    copied = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[1], _STRIP):
        copied[:, start : start + _STRIP] = array[:, start : start + _STRIP]
    return copied


def mean(x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return NumPy's mean; for no elements no number (in integers 0), without its warning."""
    if x.size:
        return np.asarray(np.mean(x, axis=axis, keepdims=keepdims))
    nothing = np.sum(x, axis=axis, keepdims=keepdims)
    with np.errstate(invalid="ignore"):
        return np.asarray(nothing / np.zeros_like(nothing) if x.dtype.kind == "f" else nothing)


def tensor(node: Node, ins: Ins, index: int) -> Tensor:
    """Input ``index``, which must be there; ModelError naming the node when it is not."""
    found = ins[index] if index < len(ins) else None
    if found is None:
        raise ModelError(f"input {index} of {node.op} is missing", node.name)
    return found


def array(values: Values, index: int) -> Array:
    """The values of input ``index``, which must be there."""
    found = values[index]
    assert found is not None, f"input {index} is absent"
    return found


def optional(values: Values, index: int) -> Array | None:
    """The values of input ``index``, or None when it is absent."""
    return values[index] if index < len(values) else None


def common_shape(*shapes: Shape) -> Shape:
    """The common shape by NumPy's rules, of any number of elements (NumPy's own function ends below 2^63 of them).

    ValueError where there is none.
    """
    rank = max(map(len, shapes), default=0)
    if rank > MOST_AXES:
        raise ValueError(f"{rank} axes")
    sizes = [{*column} - {1} for column in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True)]
    if any(len(found) > 1 or min(found, default=1) < 0 for found in sizes):
        raise ValueError(f"{shapes} have no common shape")
    return tuple(found.pop() if found else 1 for found in sizes)


def broadcast(node: Node, shapes: list[Shape]) -> Shape:
    """The common shape of ``shapes`` by NumPy's rules; ModelError naming the node when there is none."""
    try:
        return common_shape(*shapes)
    except ValueError:
        text = " and ".join(str(list(shape)) for shape in shapes)
        raise ModelError(f"shapes {text} do not broadcast", node.name) from None


def require(condition: bool, node: Node, what: str, expected: str = "") -> None:
    """Raise ModelError that names the node when ``condition`` does not hold."""
    if not condition:
        raise ModelError(what, node.name, expected)


def bits(node: Node, ins: Ins) -> None:
    """Raise ModelError where an op on bits gets anything but integers or flags."""
    for item in ins:
        if item is not None:
            whole = item.dtype.startswith(("int", "uint", "bool"))
            require(whole, node, f"{node.op} of {item.dtype}", "integers")


def within(node: Node, indices: Array, size: int) -> Array:
    """``indices`` into ``size`` elements; ModelError naming the node when one is beyond them."""
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        shown = f"indices from {indices.min()} to {indices.max()}"
        raise ModelError(f"{node.op} has {shown}", node.name, f"{-size} to {size - 1}")
    return indices


def known_within(node: Node, indices: Tensor, size: int) -> None:
    """Check as ``within`` does, for indices that are constants; others are checked when a run makes them."""
    if indices.is_constant and indices.elements <= KNOWN_INDICES:
        within(node, indices.value(), size)


def same(node: Node, ins: Ins) -> Infers:
    """Shape rule: one output, shape and format of input 0."""
    x = tensor(node, ins, 0)
    return [(x.shape, x.dtype)]


def in_format(dtype: str = "", attribute: str = "") -> Infer:
    """Shape rule: one output with the shape of input 0, in ``dtype`` or in the format that an attribute names."""
    return lambda node, ins: [(tensor(node, ins, 0).shape, dtype or node.attrs[attribute])]


def no_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    """Work of ops that compute nothing."""
    return Work()


def per_result(count: int = 1) -> WorkRule:
    """Work of ops with ``count`` operations per element of the first result."""
    return lambda node, ins, outs: Work(ops=count * outs[0].elements)


def per_input(count: int = 1) -> WorkRule:
    """Work of ops with ``count`` operations per element of input 0."""
    return lambda node, ins, outs: Work(ops=count * tensor(node, ins, 0).elements)


def size(shape: Shape) -> int:
    """Number of elements of ``shape``."""
    return prod(shape)
