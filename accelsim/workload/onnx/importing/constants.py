"""Constants: what ONNX nodes give without reading an input, and ops on constants, computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, isfinite, prod
from typing import Any

import numpy as np

from accelsim.errors import ModelError, Problem, memory_text
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import check_memory
from accelsim.workload.onnx.canonical.rules import Scope, ints, scalar
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.refusing import refusing
from accelsim.workload.onnx.importing.types import FORMATS
from accelsim.workload.ops import base
from accelsim.workload.ops.values import CONTAINERS, contain

TEMPORARY_B = 8
"""Memory of each element of a constant beside its container, while it is made: numbers of 64 bits, then rounded."""
LAZY_ELEMENTS = 1024
"""Constants of more elements are made on first use."""

UNFOLDED = ("Dequantize",)
"""Ops that stay in the graph even on constants: what they would leave (8-bit weights) is modelled."""


@dataclass(frozen=True)
class Made:
    """``make()``, an array [shape] of ``dtype`` that a node of the file asks for, made on first use.

    ``name`` is the node.
    """

    make: Callable[[], Array]
    shape: tuple[int, ...]
    dtype: str
    name: str

    def __call__(self) -> Array:
        """The array, in the container type of its format. Raises TooLarge beyond the limit."""
        check_bytes(self.shape, self.dtype, self.name)
        return contain(self.make(), self.dtype)


def check_bytes(shape: tuple[int, ...], dtype: str, name: str) -> None:
    """Raise TooLarge, naming the node, if an array of this shape takes more memory than the limit."""
    size_B = prod(shape) * (np.dtype(CONTAINERS[dtype]).itemsize + TEMPORARY_B)
    text = f"a constant of {' x '.join(map(str, shape))} that {name} makes takes about {memory_text(size_B)} of memory"
    check_memory(name, size_B, text, "a smaller constant, --values off")


@dataclass(frozen=True, eq=False)
class Computed:
    """Output ``index`` of an op of the registry on constants; ``shapes`` are those of all its outputs."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    index: int
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    def __call__(self) -> Array:
        """The values by the kernels of the ops. Raises TooLarge, and ModelError when a kernel refuses them.

        Constants behind it that are large are made once and not kept: they would be in memory twice.
        """
        order = _behind(self)
        for part in order:  # before any of them is made
            part.check()
        readers = Counter(id(before.node) for part in order for before in part.before)
        made: dict[int, list[Array]] = {}
        for part in order:
            waited = part.before
            made[id(part.node)] = part.evaluated(made)
            for before in waited:
                readers[id(before.node)] -= 1
                if not readers[id(before.node)]:
                    del made[id(before.node)]
        return made[id(self.node)][self.index]

    @property
    def before(self) -> list[Computed]:
        """Return what makes the inputs that are not there yet."""
        sources = (tensor.source for tensor in self.inputs if tensor is not None and tensor.data is None)
        return [source for source in sources if isinstance(source, Computed)]

    def check(self) -> None:
        """Raise TooLarge if a result takes more memory than the limit."""
        for shape, dtype in self.shapes:
            check_bytes(shape, dtype, self.node.name)

    def evaluated(self, made: Mapping[int, list[Array]]) -> list[Array]:
        """Return all results of the node. ``made`` holds results of its producers that are not kept."""
        values = [None if tensor is None else _value(tensor, made) for tensor in self.inputs]
        with refusing(self.node.op, self.node.name, self.inputs), np.errstate(all="ignore"):
            return base.get(self.node.op).kernel(self.node, values)


def _value(tensor: Tensor, made: Mapping[int, list[Array]]) -> Array:
    """The values of a constant; small ones are kept."""
    if tensor.data is not None or tensor.source is None:
        return tensor.value()
    source = tensor.source
    found = made[id(source.node)][source.index] if isinstance(source, Computed) else source()
    if tensor.elements <= LAZY_ELEMENTS:
        tensor.data = found
    return found


def _behind(last: Computed) -> list[Computed]:
    """Return what must be computed for ``last``, and itself, in order; without recursion, for chains may be long."""
    order: list[Computed] = []
    seen: set[int] = set()
    stack: list[tuple[Computed, bool]] = [(last, False)]
    while stack:
        part, entered = stack.pop()
        if entered:
            order.append(part)
        elif id(part.node) not in seen:
            seen.add(id(part.node))
            stack.append((part, True))
            stack += [(source, False) for source in part.before]
    return order


def evaluated(
    node: Node, ins: list[Tensor | None], shapes: list[tuple[tuple[int, ...], str]]
) -> list[Tensor]:
    """The outputs of ``node`` as constant tensors; values are computed now where all are small, else on first use."""
    made = [
        Tensor(name, shape, dtype, source=Computed(node, tuple(ins), index, tuple(shapes)))
        for index, (name, (shape, dtype)) in enumerate(zip(node.outputs, shapes, strict=False))
    ]
    if all(tensor is None or tensor.elements <= LAZY_ELEMENTS for tensor in (*ins, *made)):
        for tensor in made:
            tensor.value()
    return made


def constant_tensor(name: str, values: Array) -> Tensor:
    """A constant from an array of any ONNX type; bfloat16 and float16 in a float32 container."""
    dtype = format_of(values.dtype)
    return Tensor(name, values.shape, dtype, data=values.astype(CONTAINERS[dtype], copy=False))


_KINDS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "object": "string",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float8_{kind}": f"fp8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    "float4_e2m1fn": "fp4_e2m1fn", "float8_e8m0fnu": "e8m0",
}  # fmt: skip


def format_of(dtype: Any) -> str:
    """Format of a NumPy type; ModelError for one that no format stands for."""
    name = "object" if dtype.kind in "US" else dtype.name
    if name not in _KINDS:
        raise ModelError(Problem(f"NumPy type {name!r} has no format", expected=", ".join(_KINDS)))
    return _KINDS[name]


def _constant(raw: RawNode, scope: Scope) -> Tensor | None:
    kinds: dict[str, Any] = {
        "value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
        "value_ints": np.int64, "value_string": np.object_, "value_strings": np.object_,
    }  # fmt: skip
    for attr, kind in kinds.items():
        if attr in raw.attrs:
            return constant_tensor(raw.outputs[0], np.asarray(raw.attrs[attr], kind))
    raise ModelError(Problem("Constant without a dense value", raw.name, ", ".join(kinds)))


def _made(
    raw: RawNode, scope: Scope, shape: tuple[int, ...], dtype: str, make: Callable[[], Array]
) -> Tensor:
    """A constant that is made on first use: now, if it is small."""
    tensor = Tensor(raw.outputs[0], shape, dtype, source=Made(make, shape, dtype, raw.name))
    if tensor.elements <= LAZY_ELEMENTS and min(shape, default=0) >= 0:
        tensor.value()
    return tensor


def _constant_of_shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = ints(raw, scope, 0) if scope.constant(raw.inputs[0]) is not None else None
    if shape is None:
        return None
    value = np.asarray(raw.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    if value.size != 1:
        what = f"the value of ConstantOfShape has {value.size} elements"
        raise ModelError(Problem(what, raw.name, "one"))
    return _made(raw, scope, tuple(shape), format_of(value.dtype), partial(np.full, shape, value[0]))


def _shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = scope.shape(raw.inputs[0])
    part = shape[slice(raw.attrs.get("start", 0), raw.attrs.get("end"))]
    return constant_tensor(raw.outputs[0], np.array(part, np.int64))


def _size(raw: RawNode, scope: Scope) -> Tensor | None:
    return constant_tensor(raw.outputs[0], np.array(prod(scope.shape(raw.inputs[0])), np.int64))


def _range(raw: RawNode, scope: Scope) -> Tensor | None:
    ends = [scalar(raw, scope, index) if scope.constant(name) is not None else None
            for index, name in enumerate(raw.inputs)]  # fmt: skip
    start, limit, step = ends
    if start is None or limit is None or step is None:
        return None
    if not all(isfinite(number) for number in (start, limit, step)) or not step:
        raise ModelError(
            Problem(f"Range from {start} to {limit} by {step}", raw.name, "finite numbers, a step")
        )
    count = max(ceil((limit - start) / step), 0)
    dtype = scope.tensors[raw.inputs[0]].dtype
    return _made(raw, scope, (count,), dtype, partial(_steps, start, step, count))


def _steps(start: float, step: float, count: int) -> Array:
    kind = np.float64 if isinstance(start, float) or isinstance(step, float) else np.int64
    values: Array = np.arange(count, dtype=kind)
    values *= step
    values += start
    return values


def _eye_like(raw: RawNode, scope: Scope) -> Tensor | None:
    like = scope.tensors[raw.inputs[0]]
    dtype = FORMATS.get(raw.attrs.get("dtype", 0), like.dtype)
    rows, columns = like.shape
    diagonal = max(-rows, min(raw.attrs.get("k", 0), columns))
    return _made(raw, scope, like.shape, dtype, partial(np.eye, rows, columns, diagonal))


ConstantOp = Callable[[RawNode, Scope], "Tensor | None"]
CONSTANT_OPS: dict[str, ConstantOp] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "EyeLike": _eye_like,
}
"""ONNX ops whose result is known from shapes and constants alone; None where this node's is not."""
