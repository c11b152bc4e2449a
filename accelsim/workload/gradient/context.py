"""Tools of gradient rules: values that are tensors of the graph, and arithmetic that appends nodes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from accelsim.formats.table import FORMATS
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.ops.base import Shape
from accelsim.workload.ops.values import Filled, contain


def is_float(dtype: str) -> bool:
    """Return whether tensors of the format ``dtype`` can have a gradient."""
    return dtype in FORMATS and FORMATS[dtype].kind == "float"


@dataclass
class Context:
    """Appends nodes to ``nodes`` (in order) and their tensors to ``graph``; ``prefix`` starts every new name.

    Names are unique in the graph: a taken one gets the suffix ``.2``, ``.3``, ...
    """

    graph: Graph
    nodes: list[Node]
    prefix: str = "grad"
    _counts: dict[str, int] = field(default_factory=dict)
    _scalars: dict[tuple[float, str], Value] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """Return a tensor of the graph as a value."""
        return Value(self, name)

    def inputs(self, node: Node) -> list[Value]:
        """Return all inputs of ``node``; absent ones have the empty name."""
        return [Value(self, name) for name in node.inputs]

    def outputs(self, node: Node) -> list[Value]:
        """Return all outputs of ``node``."""
        return [Value(self, name) for name in node.outputs]

    def unique(self, name: str) -> str:
        """Return ``name``, or with the first free suffix where a tensor has that name."""
        free = name
        while free in self.graph.tensors:
            self._counts[name] = self._counts.get(name, 1) + 1
            free = f"{name}.{self._counts[name]}"
        return free

    def ops(self, op: str, inputs: Sequence[Value], outputs: int = 1, **attrs: object) -> list[Value]:
        """Append a node of ``op``; return its results, shaped and typed by the op's own rule."""
        name = self.unique(f"{self.prefix}.{op}")
        names = [name, *(self.unique(f"{name}.{index}") for index in range(1, outputs))]
        node = Node(name, op, [item.name for item in inputs], names, attrs)
        shapes = base.get(op).infer(node, [self.graph.tensors.get(item.name) for item in inputs])
        for out, (shape, dtype) in zip(names, shapes, strict=True):
            self.graph.tensors[out] = Tensor(out, tuple(int(size) for size in shape), dtype)
        self.nodes.append(node)
        return [Value(self, out) for out in names]

    def op(self, op: str, inputs: Sequence[Value], **attrs: object) -> Value:
        """Append a node of ``op`` with one result."""
        return self.ops(op, inputs, 1, **attrs)[0]

    def scalar(self, number: float, dtype: str) -> Value:
        """A constant without axes in the format ``dtype``; one tensor per number and format."""
        key = (float(number), dtype)
        if key not in self._scalars:
            self._scalars[key] = self.constant(np.asarray(float(number)), dtype, f"grad.{number:g}.{dtype}")
        return self._scalars[key]

    def constant(self, values: Array, dtype: str, name: str = "") -> Value:
        """Add a constant tensor, rounded to ``dtype``."""
        data = contain(values, dtype)
        name = self.unique(name or f"{self.prefix}.constant")
        self.graph.tensors[name] = Tensor(name, data.shape, dtype, data=data)
        return Value(self, name)

    def filled(self, shape: Shape, number: float, dtype: str) -> Value:
        """A constant of one number; its values are only made where they are read."""
        name = self.unique(f"{self.prefix}.constant")
        tensor = Tensor(name, tuple(shape), dtype, source=Filled(tuple(shape), number, dtype))
        self.graph.tensors[name] = tensor
        return Value(self, name)


@dataclass(frozen=True)
class Value:
    """A tensor of the graph being written. Arithmetic with numbers and other values appends nodes.

    A number becomes a constant in the format of the value that it meets. Shape changes that change nothing give
    the value itself.
    """

    ctx: Context
    name: str

    @property
    def tensor(self) -> Tensor:
        """Tensor of the graph that the value stands for."""
        return self.ctx.graph.tensors[self.name]

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return self.tensor.shape

    @property
    def rank(self) -> int:
        """Number of axes of the tensor."""
        return len(self.tensor.shape)

    @property
    def dtype(self) -> str:
        """Format of the tensor."""
        return self.tensor.dtype

    def __bool__(self) -> bool:
        """Return whether the input is there: an absent optional one has no name."""
        return bool(self.name)

    def op(self, op: str, *others: Value, **attrs: object) -> Value:
        """A node of ``op`` on this value and ``others``."""
        return self.ctx.op(op, [self, *others], **attrs)

    def _like(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return other.cast(self.dtype)
        return self.ctx.scalar(other, self.dtype)

    def __add__(self, other: Value | float) -> Value:
        return self.op("Add", self._like(other))

    def __sub__(self, other: Value | float) -> Value:
        return self.op("Sub", self._like(other))

    def __rsub__(self, other: float) -> Value:
        return self.ctx.scalar(other, self.dtype).op("Sub", self)

    def __mul__(self, other: Value | float) -> Value:
        return self if other == 1 else self.op("Mul", self._like(other))

    def __truediv__(self, other: Value) -> Value:
        return self.op("Div", self._like(other))

    def __neg__(self) -> Value:
        return self.op("Neg")

    __radd__ = __add__
    __rmul__ = __mul__

    def cast(self, dtype: str) -> Value:
        """Cast to the format ``dtype``."""
        return self if dtype == self.dtype else self.op("Cast", to=dtype)

    def step(self) -> Value:
        """1 where positive, else 0, as a number: no truth values, which few vector units hold."""
        return self.op("Relu").op("Sign")

    def is_zero(self) -> Value:
        """Return 1 where the value is zero, else 0, as a number."""
        return 1 - self.op("Abs").op("Sign")

    def matmul(self, other: Value) -> Value:
        """Multiply matrices by NumPy's rules."""
        return self.op("MatMul", other, a_zero_point=0, b_zero_point=0)

    def sum(self, axes: Sequence[int], keepdims: bool = True) -> Value:
        """Sum over ``axes``."""
        if not axes:
            return self
        return self.op("ReduceSum", axes=list(axes), keepdims=int(keepdims))

    def mean(self, axes: Sequence[int]) -> Value:
        """Mean over ``axes``, which stay with size 1."""
        return self.op("ReduceMean", axes=list(axes), keepdims=1) if axes else self

    def reshape(self, shape: Sequence[int]) -> Value:
        """Return the value in another shape, with its elements in order."""
        return self if tuple(shape) == self.shape else self.op("Reshape", shape=list(shape))

    def transpose(self, perm: Sequence[int]) -> Value:
        """Return the value with its axes in the order ``perm``."""
        return self if list(perm) == sorted(perm) else self.op("Transpose", perm=list(perm))

    def swap(self) -> Value:
        """Exchange the last two axes."""
        return self.transpose([*range(self.rank - 2), self.rank - 1, self.rank - 2])

    def expand(self, shape: Sequence[int]) -> Value:
        """Broadcast to ``shape``."""
        return self if tuple(shape) == self.shape else self.op("Expand", shape=list(shape))

    def unbroadcast(self, shape: Sequence[int]) -> Value:
        """The gradient of what was broadcast from ``shape``: the sum over the axes that were repeated."""
        extra = self.rank - len(shape)
        stretched = [i + extra for i, size in enumerate(shape) if size == 1 and self.shape[i + extra] != 1]
        return self.sum([*range(extra), *stretched], keepdims=False).reshape(shape)

    def fit(self, before: Sequence[int], after: Sequence[int]) -> Value:
        """Zeros added before and after along every axis; where the number is negative, elements cut away."""
        axes = [axis for axis in range(self.rank) if before[axis] < 0 or after[axis] < 0]
        x = self
        if axes:
            starts = [max(0, -before[axis]) for axis in axes]
            ends = [self.shape[axis] - max(0, -after[axis]) for axis in axes]
            x = self.op("Slice", starts=starts, ends=ends, axes=axes, steps=[1] * len(axes))
        pads = [max(0, width) for width in (*before, *after)]
        return x.op("Pad", pads=pads, mode="constant", value=0.0) if any(pads) else x

    def flip(self, axes: Sequence[int]) -> Value:
        """Reverse the elements along ``axes``."""
        axes = [axis for axis in axes if self.shape[axis] > 1]
        if not axes:
            return self
        low = [-self.shape[axis] - 1 for axis in axes]
        return self.op("Slice", starts=[-1] * len(axes), ends=low, axes=axes, steps=[-1] * len(axes))

    def dilate(self, steps: Sequence[int]) -> Value:
        """``step - 1`` zeros after every element along each axis: extent n becomes n * step."""
        split, pads = [], []
        for size, step in zip(self.shape, steps, strict=True):
            split += [size] if step == 1 else [size, 1]
            pads += [0] if step == 1 else [0, step - 1]
        if len(split) == self.rank:
            return self
        wide = self.reshape(split).fit([0] * len(pads), pads)
        return wide.reshape([size * step for size, step in zip(self.shape, steps, strict=True)])

    def count(self, axes: Sequence[int]) -> int:
        """Number of elements along ``axes`` together."""
        return prod(self.shape[axis] for axis in axes)
