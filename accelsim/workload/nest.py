"""A loop nest: what a matrix op computes, as axes and as operands that are touched along them, before any mapping.

Axes carry the letters of the field: ``b g m n k`` for products, ``n g k c p q r s`` for convolutions (image, group,
output channel, channel, output row and column, kernel row and column).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from accelsim.errors import Problem, UsageError, brief, nearest
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.base import Conv, Gemm, Shape, find
from accelsim.workload.windows import touched

Box = Mapping[str, tuple[int, int]]
"""Axis -> (first index, extent); an axis that is absent is whole."""


@dataclass(frozen=True)
class Form:
    """One dimension of an operand: the index sum(coefficient * axis) + offset.

    ``terms``: one or two (axis, coefficient), coefficients of 1 or more. ``size``: elements of the dimension; what
    lies outside of 0..size-1 is padding. None: nothing is outside.
    """

    terms: tuple[tuple[str, int], ...]
    offset: int = 0
    size: int | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that move it."""
        return tuple(axis for axis, _ in self.terms)

    @property
    def coefficients(self) -> tuple[int, ...]:
        """What one step of each axis adds."""
        return tuple(coefficient for _, coefficient in self.terms)


@dataclass(frozen=True)
class Operand:
    """An array that the nest touches: its dimensions by name, and whether it reads or writes it.

    ``tensor``: its name in the graph, '' where there is none. An operand that is written is summed up over the axes
    that it does not have.
    """

    name: str
    dims: Mapping[str, Form]
    access: Literal["reads", "writes"] = "reads"
    tensor: str = ""

    @property
    def writes(self) -> bool:
        """Whether it is a result."""
        return self.access == "writes"

    @property
    def axes(self) -> tuple[str, ...]:
        """The relevant axes: those that lead to other elements."""
        return tuple(axis for form in self.dims.values() for axis in form.axes)


@dataclass(frozen=True)
class LoopNest:
    """Axes with their extents, and the operands of one multiply-accumulate at each point of the iteration space.

    ``conv`` is the geometry where it is a convolution, ``batch`` the shape of the groups of a batched product.
    Raises UsageError, with all problems at once.
    """

    axes: Mapping[str, int]
    operands: tuple[Operand, ...]
    conv: Conv | None = None
    batch: Shape = ()

    def __post_init__(self) -> None:
        problems = [*_axis_problems(self), *_operand_problems(self)]
        if problems:
            raise UsageError(problems)

    @property
    def macs(self) -> int:
        """Multiply-accumulates: points of the iteration space."""
        return prod(self.axes.values())

    def operand(self, name: str) -> Operand:
        """The operand of that name. KeyError with the nearest name."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        names = [operand.name for operand in self.operands]
        raise KeyError(f"no operand {name!r} in {names}; nearest {nearest(name, names)!r}")

    @property
    def result(self) -> Operand:
        """The operand that is written."""
        return next(operand for operand in self.operands if operand.writes)

    def reduced(self, operand: Operand) -> tuple[str, ...]:
        """Axes that do not lead to other elements of an operand: a result is summed over them."""
        return tuple(axis for axis in self.axes if axis not in operand.axes)

    def macs_of(self, box: Box) -> int:
        """Multiply-accumulates inside a box."""
        return prod(box.get(axis, (0, extent))[1] for axis, extent in self.axes.items())

    def distinct(self, name: str, box: Box | None = None, *, padding: bool = True) -> int:
        """Elements of an operand that a box touches: the union, not the interval around it.

        ``padding``: count what lies in the padding too, as a buffer that holds it would; without it only elements
        that a memory has.
        """
        operand, within = self.operand(name), box or {}
        return prod(self._dimension(form, within, padding) for form in operand.dims.values())

    def _dimension(self, form: Form, box: Box, padding: bool) -> int:
        ranges = [box.get(axis, (0, self.axes[axis])) for axis in form.axes]
        if padding or form.size is None:
            extents = tuple(np.array(extent, np.int64) for _, extent in ranges)
            return int(touched(form.coefficients, extents))
        index = np.array([form.offset])
        for (start, extent), step in zip(ranges, form.coefficients, strict=True):
            index = np.unique(index[:, None] + step * np.arange(start, start + extent))
        return int(((index >= 0) & (index < form.size)).sum())

    def gemm(self) -> Gemm:
        """The nest as groups of matrix products; a convolution by im2col: rows (n, p, q), reduction (c, r, s)."""
        a, b = (operand for operand in self.operands if not operand.writes)
        size = self.axes.get
        if self.conv is not None:
            rows, depth = _product(self, "npq"), _product(self, "crs")
            return Gemm(size("g", 1), rows, self.axes["k"], depth, a.tensor, b.tensor, self.conv)
        groups = self.macs // _product(self, "mnk")
        m, n, k = (self.axes[axis] for axis in "mnk")
        return Gemm(groups, m, n, k, a.tensor, b.tensor, batch=self.batch)


def _product(nest: LoopNest, letters: str) -> int:
    return prod(nest.axes.get(letter, 1) for letter in letters)


def product_nest(m: int, n: int, k: int, groups: int = 1) -> LoopNest:
    """``groups`` independent products Y[m,n] = A[m,k] x B[k,n]; one group has no axis of its own."""
    axes = {"g": groups, "m": m, "n": n, "k": k} if groups > 1 else {"m": m, "n": n, "k": k}
    group = "g" if groups > 1 else ""
    return LoopNest(axes, _matrices(f"{group}mk", f"{group}kn", f"{group}mn"))


def _matrices(a: str, b: str, y: str, names: tuple[str, str, str] = ("", "", "")) -> tuple[Operand, ...]:
    return (
        Operand("A", _plain(a), "reads", names[0]),
        Operand("B", _plain(b), "reads", names[1]),
        Operand("Y", _plain(y), "writes", names[2]),
    )


def _plain(axes: str) -> dict[str, Form]:
    return {axis: Form(((axis, 1),)) for axis in axes}


def conv_nest(
    conv: Conv, filters: int, groups: int = 1, names: tuple[str, str, str] = ("", "", "")
) -> LoopNest:
    """A convolution: ``filters`` output channels per group. ``names``: tensors of input, weights and result."""
    axes = {
        "n": conv.batch, "g": groups, "k": filters, "c": conv.channels,
        "p": conv.out[0], "q": conv.out[1], "r": conv.kernel[0], "s": conv.kernel[1],
    }  # fmt: skip
    top, left = conv.pad[:2]
    seen = {
        **_plain("ngc"),
        "h": Form((("p", conv.stride[0]), ("r", conv.dilation[0])), -top, conv.height),
        "w": Form((("q", conv.stride[1]), ("s", conv.dilation[1])), -left, conv.width),
    }
    operands = (
        Operand("A", seen, "reads", names[0]),
        Operand("B", _plain("gkcrs"), "reads", names[1]),
        Operand("Y", _plain("ngkpq"), "writes", names[2]),
    )
    return LoopNest(axes, operands, conv)


def nest_of(graph: Graph, node: Node) -> LoopNest:
    """The loop nest of a MatMul, Gemm or Conv node (what is fused behind it is not part of it).

    Raises UsageError where the node is none of these, or a convolution over more than two axes.
    """
    op = find(node.op)
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    outs = [graph.tensors[name] for name in node.outputs if name in graph.tensors]
    known = node.op in ("MatMul", "Gemm", "Conv")
    gemm = op.gemm(node, ins, outs) if known and op is not None and op.gemm is not None else None
    if gemm is None:
        what = f"{node.op} {node.name!r} is no loop nest"
        raise UsageError(Problem(what, expected="a MatMul, a Gemm, or a Conv over one or two axes"))
    names = (gemm.a, gemm.b, node.outputs[0])
    if gemm.conv is not None:
        return conv_nest(gemm.conv, gemm.N, gemm.groups, names)
    shapes = [graph.tensors[name].shape for name in (gemm.a, gemm.b)]
    return _matmul_nest(gemm, shapes, names)


def _matmul_nest(gemm: Gemm, shapes: list[Shape], names: tuple[str, str, str]) -> LoopNest:
    axes, has_a, has_b = _batch_axes(gemm.batch, *(shape[:-2] for shape in shapes))
    letters = "".join(axes)
    axes |= {"m": gemm.M, "n": gemm.N, "k": gemm.K}
    operands = _matrices(has_a + "mk", has_b + "kn", letters + "mn", names)
    return LoopNest(axes, operands, None, gemm.batch)


def _batch_axes(batch: Shape, a: Shape, b: Shape) -> tuple[dict[str, int], str, str]:
    """Axes of a batch that is broadcast, and those that each operand has; neighbours that are alike are one axis."""
    axes: dict[str, int] = {}
    has = {True: "", False: ""}
    last: tuple[bool, bool] | None = None
    letters = iter("bgdefhij")
    for place, extent in enumerate(batch):
        if extent == 1:
            continue
        kind = (_has(a, place - len(batch), extent), _has(b, place - len(batch), extent))
        if kind != last:
            letter = next(letters)
            axes[letter], last = 1, kind
            has = {side: has[side] + letter * kind[not side] for side in (True, False)}
        axes[letter] *= extent
    return axes, has[True], has[False]


def _has(shape: Shape, place: int, extent: int) -> bool:
    return -place <= len(shape) and shape[place] == extent


def _axis_problems(nest: LoopNest) -> list[Problem]:
    return [
        Problem(f"axis {axis!r} has the extent {brief(extent)}", expected="a whole number from 1 to 2^31")
        for axis, extent in nest.axes.items()
        if not isinstance(extent, int) or not 1 <= extent <= 1 << 31
    ]


def _operand_problems(nest: LoopNest) -> list[Problem]:
    problems = []
    names = [operand.name for operand in nest.operands]
    if len(set(names)) < len(names):
        problems.append(Problem(f"operands {names}", expected="names that differ"))
    if sum(operand.writes for operand in nest.operands) != 1:
        problems.append(Problem(f"operands {names}", expected="one that is written"))
    for operand in nest.operands:
        problems += [
            Problem(what, f"operand {operand.name}", wanted) for what, wanted in _faults(nest, operand)
        ]
    return problems


def _faults(nest: LoopNest, operand: Operand) -> list[tuple[str, str]]:
    found = []
    for axis in operand.axes:
        if axis not in nest.axes:
            found.append((f"axis {axis!r}", f"one of {', '.join(nest.axes)}"))
    if len(set(operand.axes)) < len(operand.axes):
        found.append((f"axes {' '.join(operand.axes)}", "each axis in one dimension, once"))
    for name, form in operand.dims.items():
        if not 1 <= len(form.terms) <= 2:
            found.append((f"dimension {name!r} of {len(form.terms)} axes", "one or two"))
        if len(form.terms) == 2 and operand.writes:
            found.append((f"dimension {name!r} of two axes", "one, in a result"))
        if any(coefficient < 1 for coefficient in form.coefficients):
            found.append((f"dimension {name!r} with coefficients {form.coefficients}", "1 or more each"))
    return found
