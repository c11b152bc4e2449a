"""Placements of a tensor among the ranks of a group, and the placements that each operator allows.

Products are split by columns, or by rows, whose results are partial sums (Shoeybi et al., Megatron-LM,
arXiv:1909.08053, section 3). What an operator does is registered with ``@rule``, or stands in ``BESIDE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelsim.workload.graph import Node
from accelsim.workload.ops import find
from accelsim.workload.ops.base import Shape
from accelsim.workload.ops.reduce import REDUCTIONS


class Place(NamedTuple):
    """The place of a tensor on the ranks of a group.

    'whole': every rank has all of it. 'split': rank r has the r-th of equal parts along ``axis``. 'partial': every
    rank has an array of the whole shape, and the tensor is their sum (``reduce``: or their maximum).
    """

    kind: str
    axis: int = -1
    reduce: str = ""

    def __str__(self) -> str:
        if self.kind == "split":
            return f"split along axis {self.axis}"
        return "partial sums" if self.reduce == "sum" else "partial maxima" if self.reduce else "whole"


WHOLE = Place("whole")


def split(axis: int) -> Place:
    """Return the placement in equal parts along ``axis``."""
    return Place("split", axis)


def partial(reduce: str = "sum") -> Place:
    """Return the placement as terms of a sum (or candidates for a maximum)."""
    return Place("partial", -1, reduce)


@dataclass(frozen=True)
class Ask:
    """A node, the whole shapes of its inputs (None where absent) and of its outputs, and the number of ranks."""

    node: Node
    ins: list[Shape | None]
    outs: list[Shape]
    ranks: int

    def fits(self, size: int) -> bool:
        """Return whether an axis of so many elements has equal parts."""
        return size % self.ranks == 0 and size > 0

    def axes(self, shape: Shape) -> list[int]:
        """Return the axes of more than one element that have equal parts."""
        return [axis for axis, size in enumerate(shape) if self.fits(size) and size > 1]

    def shape(self, index: int = 0) -> Shape:
        """Return the shape of an input that is not absent."""
        found = self.ins[index]
        assert found is not None
        return found


class Choice(NamedTuple):
    """Placements of inputs with which an op can be computed rank by rank, and those of its results.

    ``form``: '' where each rank runs the node as it is; else how it is written (``shard``).
    """

    ins: tuple[Place, ...]
    outs: tuple[Place, ...]
    form: str = ""


Rule = Callable[[Ask], Iterator[Choice]]
RULES: dict[str, Rule] = {}
"""Op, or kind of ops, -> its choices besides that everything is whole."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the choices of ops, or of a kind of ops; a second rule for one name is an error."""

    def add(function: Rule) -> Rule:
        for name in names:
            if name in RULES or name in BESIDE:
                raise ValueError(f"two rules of placement for {name!r}")
            RULES[name] = function
        return function

    return add


def choices(ask: Ask) -> list[Choice]:
    """Return all choices of a node. In the first everything is whole; an op without a rule has no other."""
    op = find(ask.node.op)
    whole = Choice((WHOLE,) * len(ask.ins), (WHOLE,) * len(ask.outs))
    for name in (ask.node.op, op.kind if op is not None else ""):
        if name in RULES:
            return [whole, *RULES[name](ask)]
        if name in BESIDE:
            busy, others = BESIDE[name](ask)
            return [whole, *beside(ask, busy, others)]
    return [whole]


def along(shape: Shape | None, out: Shape, axis: int) -> Place:
    """Return how an operand lies when the result is split along ``axis``: split too, or whole where it is broadcast."""
    if shape is None:
        return WHOLE
    own = axis - (len(out) - len(shape))
    return split(own) if own >= 0 and shape[own] == out[axis] else WHOLE


def beside(ask: Ask, busy: Sequence[int], others: int = 0) -> Iterator[Choice]:
    """Yield a split along each axis that the op does not work along. All inputs are split alike, but the last
    ``others`` stay whole."""
    for axis in ask.axes(ask.shape()):
        if axis not in busy:
            alike = len(ask.ins) - others
            yield Choice((split(axis),) * alike + (WHOLE,) * others, (split(axis),) * len(ask.outs))


Busy = Callable[[Ask], tuple[Sequence[int], int]]


def _along_axis(ask: Ask) -> tuple[Sequence[int], int]:
    return [ask.node.attrs["axis"]], 0


def _padded(ask: Ask) -> tuple[Sequence[int], int]:
    pads = list(ask.node.attrs["pads"])
    rank = len(pads) // 2
    return [axis for axis in range(rank) if pads[axis] or pads[axis + rank]], 0


def _behind(first: int) -> Busy:
    return lambda ask: (range(first, len(ask.shape())), len(ask.ins) - 1)


def _normalised(ask: Ask) -> tuple[Sequence[int], int]:
    return _behind(ask.node.attrs["axis"])(ask)


BESIDE: dict[str, Busy] = {
    **dict.fromkeys(("Append", "Split", "CumSum", "CumProd"), _along_axis),
    "Slice": lambda ask: (list(ask.node.attrs["axes"]), 0),
    "Pad": _padded,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _normalised),
    **dict.fromkeys(("LRN", "InstanceNormalization", "GroupNormalization", "DepthToSpace", "SpaceToDepth"), _behind(1)),
    **dict.fromkeys(("pool", "MaxPoolGrad"), lambda ask: (range(2, len(ask.shape())), 0)),
    "TopKGating": lambda ask: ([len(ask.shape()) - 1], 0),
    "OneHot": lambda ask: (range(len(ask.shape())), 0),
}
"""Op, or kind of ops, -> the axes that it works along, and how many of its last inputs stay whole."""


@rule("elementwise")
def elementwise(ask: Ask) -> Iterator[Choice]:
    """Yield a split along each axis."""
    for out in ask.outs[:1]:
        for axis in ask.axes(out):
            ins = tuple(along(shape, out, axis) for shape in ask.ins)
            if set(ins) != {WHOLE}:
                yield Choice(ins, (split(axis),))


@rule("Add", "Sub", "Sum", "Neg")
def linear(ask: Ask) -> Iterator[Choice]:
    """Yield a split along each axis; sums of partial sums are partial sums."""
    yield Choice((partial(),) * len(ask.ins), (partial(),))
    yield from elementwise(ask)


@rule("Bias")
def bias(ask: Ask) -> Iterator[Choice]:
    """Yield a split along each axis; the vector is split with the axis that it lies along."""
    for axis in ask.axes(ask.outs[0]):
        yield Choice((split(axis), split(0) if axis == ask.node.attrs["axis"] else WHOLE), (split(axis),))


@rule("MatMul")
def matmul(ask: Ask) -> Iterator[Choice]:
    """Yield splits of the columns of B, the reduction, axes of the batch, and the rows of A."""
    a, b, out = ask.shape(0), ask.shape(1), ask.outs[0]
    if min(len(a), len(b)) < 2:
        return
    turned = bool(ask.node.attrs.get("transB"))
    columns, inner = (len(b) - 2, len(b) - 1) if turned else (len(b) - 1, len(b) - 2)
    if ask.fits(b[columns]):
        yield Choice((WHOLE, split(columns)), (split(len(out) - 1),))
    if ask.fits(b[inner]):
        yield Choice((split(len(a) - 1), split(inner)), (partial(),))
    for axis in ask.axes(out[:-2]):
        yield Choice(tuple(along(x[:-2], out[:-2], axis) for x in (a, b)), (split(axis),))
    if ask.fits(a[-2]):
        yield Choice((split(len(a) - 2), WHOLE), (split(len(out) - 2),))


@rule("Gemm")
def gemm(ask: Ask) -> Iterator[Choice]:
    """Yield splits of columns, of the reduction (the bias is added after the sum), and of rows."""
    attrs, out, bias = ask.node.attrs, ask.outs[0], ask.ins[2] if len(ask.ins) > 2 else None
    rows, inner_a = (1, 0) if attrs["transA"] else (0, 1)
    inner_b, columns = (1, 0) if attrs["transB"] else (0, 1)
    if ask.fits(out[1]):
        yield Choice((WHOLE, split(columns), along(bias, out, 1))[: len(ask.ins)], (split(1),))
    if ask.ins[0] is not None and ask.fits(ask.ins[0][inner_a]) and (bias is None or attrs["beta"] == 1):
        form = "" if bias is None else "bias"
        yield Choice((split(inner_a), split(inner_b), WHOLE)[: len(ask.ins)], (partial(),), form)
    if ask.fits(out[0]):
        yield Choice((split(rows), WHOLE, along(bias, out, 0))[: len(ask.ins)], (split(0),))


@rule("Conv")
def conv(ask: Ask) -> Iterator[Choice]:
    """Yield splits of channels of the output, of the input (partial sums), of groups and of images."""
    group, x, out, count = ask.node.attrs["group"], ask.shape(), ask.outs[0], len(ask.ins)
    biased = count > 2 and ask.ins[2] is not None
    own = split(0) if biased else WHOLE
    if group == 1 and ask.fits(out[1]):
        yield Choice((WHOLE, split(0), own)[:count], (split(1),))
    if group == 1 and ask.fits(x[1]):
        yield Choice((split(1), split(1), WHOLE)[:count], (partial(),), "bias" if biased else "")
    if group > 1 and ask.fits(group):
        yield Choice((split(1), split(0), own)[:count], (split(1),), "group")
    if ask.fits(out[0]):
        yield Choice((split(0), WHOLE, WHOLE)[:count], (split(0),))


@rule("ExpertMatMul")
def expert(ask: Ask) -> Iterator[Choice]:
    """Yield splits of the columns of every expert, of the reduction, and of rows of which none is padding."""
    w = ask.shape(1)
    if ask.node.attrs.get("full") and ask.fits(ask.shape(0)[0]) and ask.fits(ask.shape(2)[0]):
        yield Choice((split(0), WHOLE, split(0)), (split(0),))
    if ask.fits(w[2]):
        yield Choice((WHOLE, split(2), WHOLE), (split(1),))
    if ask.fits(w[1]):
        yield Choice((split(1), split(1), WHOLE), (partial(),))


@rule("alias")
def rename(ask: Ask) -> Iterator[Choice]:
    """Yield splits that a reshape keeps: axes that come first in what is joined or divided; partial sums too."""
    yield Choice((partial(),), (partial(),))
    for before, after in same_elements(ask.shape(), ask.outs[0]):
        if ask.fits(ask.shape()[before]) and ask.fits(ask.outs[0][after]):
            yield Choice((split(before),), (split(after),))


def same_elements(before: Shape, after: Shape) -> Iterator[tuple[int, int]]:
    """Yield pairs (axis before, axis after a reshape) whose parts hold the same elements.

    Axes are grouped into runs of equal products; the first axis above 1 of each run matches.
    """
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == 1 or after[j] == 1:
            i, j = i + (before[i] == 1), j + (before[i] != 1 and after[j] == 1)
            continue
        first = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * before[i], i + 1
            else:
                right, j = right * after[j], j + 1
        yield first


@rule("Transpose")
def transpose(ask: Ask) -> Iterator[Choice]:
    """Yield a split of each axis, which moves with its axis, and partial sums, which stay partial."""
    perm = list(ask.node.attrs["perm"])
    yield Choice((partial(),), (partial(),))
    for axis in ask.axes(ask.shape()):
        yield Choice((split(axis),), (split(perm.index(axis)),))


@rule("Expand")
def expand(ask: Ask) -> Iterator[Choice]:
    """Yield splits of axes that the input has."""
    for axis in ask.axes(ask.outs[0]):
        place = along(ask.ins[0], ask.outs[0], axis)
        if place != WHOLE:
            yield Choice((place,), (split(axis),))


@rule("Concat")
def joined(ask: Ask) -> Iterator[Choice]:
    """Yield splits of all axes but the op's own; joined partial sums are partial sums."""
    yield Choice((partial(),) * len(ask.ins), (partial(),))
    yield from beside(ask, *_along_axis(ask))


@rule("Gather")
def gather(ask: Ask) -> Iterator[Choice]:
    """Yield splits of the rows of the table (rows of other ranks count as 0), of its other axes, and of the indices."""
    axis, table, indices = ask.node.attrs["axis"], ask.shape(0), ask.shape(1)
    if ask.fits(table[axis]):
        yield Choice((split(axis), WHOLE), (partial(),), "GatherPart")
    for other in ask.axes(table):
        if other != axis:
            yield Choice((split(other), WHOLE), (split(other + (len(indices) - 1) * (other > axis)),))
    for place in ask.axes(indices):
        yield Choice((WHOLE, split(place)), (split(axis + place),))


@rule("GatherGrad")
def gather_grad(ask: Ask) -> Iterator[Choice]:
    """Yield splits of the rows of the table and its other axes; split indices with their gradients give partial
    sums."""
    axis, indices, out = ask.node.attrs["axis"], ask.shape(1), ask.outs[0]
    if ask.fits(out[axis]):
        yield Choice((WHOLE, WHOLE), (split(axis),), "GatherGradPart")
    for other in ask.axes(out):
        if other != axis:
            yield Choice((split(other + (len(indices) - 1) * (other > axis)), WHOLE), (split(other),))
    for place in ask.axes(indices):
        yield Choice((split(axis + place), split(place)), (partial(),))


@rule("Softmax")
def softmax(ask: Ask) -> Iterator[Choice]:
    """Yield splits of other axes, also of the sinks that lie along them."""
    first, shape = ask.node.attrs.get("flatten_from"), ask.shape()
    busy = [ask.node.attrs["axis"] % len(shape)] if first is None else range(first, len(shape))
    for axis in ask.axes(shape):
        if axis not in busy:
            yield Choice(tuple(along(each, shape, axis) for each in ask.ins), (split(axis),))


@rule("LogSoftmax")
def log_softmax(ask: Ask) -> Iterator[Choice]:
    """Yield splits of other axes, and of its own: maximum and sum are then those of all ranks (vocabulary-parallel
    cross-entropy, Megatron-LM)."""
    if "axis" in ask.node.attrs and ask.ins[0] is not None:
        axis = ask.node.attrs["axis"]
        yield from beside(ask, [axis])
        if ask.fits(ask.ins[0][axis]):
            yield Choice((split(axis),), (split(axis),), "log_softmax")


@rule("BatchNormalization")
def batch_norm(ask: Ask) -> Iterator[Choice]:
    """Yield splits of channels, with their parameters, and of images (its statistics are stored ones)."""
    x = ask.shape()
    if ask.fits(x[1]):
        yield Choice((split(1),) + (split(0),) * 4, (split(1),))
    if ask.fits(x[0]):
        yield Choice((split(0),) + (WHOLE,) * 4, (split(0),))


REDUCED = {"ReduceSum": "sum", "ReduceMax": "max"}
"""Reductions of parts, whose results a reduction of the same kind puts together."""


@rule(*REDUCTIONS)
def reduce(ask: Ask) -> Iterator[Choice]:
    """Yield splits of axes that stay; along others a sum or a maximum is partial."""
    axes = list(ask.node.attrs["axes"])
    for axis in ask.axes(ask.shape()):
        if axis not in axes:
            out = axis if ask.node.attrs["keepdims"] else axis - sum(other < axis for other in axes)
            yield Choice((split(axis),), (split(out),))
        elif ask.node.op in REDUCED:
            yield Choice((split(axis),), (partial(REDUCED[ask.node.op]),))
