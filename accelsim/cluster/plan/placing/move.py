"""Placements of operators that rename, reorder, cut, join, take and put."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelsim.cluster.plan.placing.base import WHOLE, Ask, Choice, partial, rule, split
from accelsim.cluster.plan.placing.elementwise import along
from accelsim.workload.ops.base import Shape
from accelsim.workload.ops.reduce import REDUCTIONS


@rule("alias")
def rename(ask: Ask) -> Iterator[Choice]:
    """Parts of an axis stay parts where it is the first of what is joined or divided."""
    shape = ask.ins[0]
    assert shape is not None
    yield Choice((partial(),), (partial(),))
    for before, after in same_elements(shape, ask.outs[0]):
        if ask.fits(shape[before]) and ask.fits(ask.outs[0][after]):
            yield Choice((split(before),), (split(after),))


def same_elements(before: Shape, after: Shape) -> Iterator[tuple[int, int]]:
    """Pairs (axis before, axis behind a reshape) whose first elements are the same slices.

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
    """Every axis; partial sums stay what they are."""
    perm, shape = list(ask.node.attrs["perm"]), ask.ins[0]
    assert shape is not None
    yield Choice((partial(),), (partial(),))
    for axis, size in enumerate(shape):
        if ask.fits(size) and size > 1:
            yield Choice((split(axis),), (split(perm.index(axis)),))


@rule("Expand")
def expand(ask: Ask) -> Iterator[Choice]:
    """Axes that are there already."""
    shape, out = ask.ins[0], ask.outs[0]
    for axis, size in enumerate(out):
        place = along(shape, out, axis)
        if ask.fits(size) and size > 1 and place != WHOLE:
            yield Choice((place,), (split(axis),))


@rule("Concat")
def joined(ask: Ask) -> Iterator[Choice]:
    """Place as ``one_axis`` does; partial sums that are joined are partial sums."""
    yield Choice((partial(),) * len(ask.ins), (partial(),))
    yield from one_axis(ask)


@rule("Append", "Split", "CumSum", "CumProd")
def one_axis(ask: Ask) -> Iterator[Choice]:
    """All axes but that of the op."""
    yield from beside(ask, [ask.node.attrs["axis"]])


@rule("Slice")
def cut(ask: Ask) -> Iterator[Choice]:
    """All axes that stay whole."""
    yield from beside(ask, list(ask.node.attrs["axes"]))


@rule("Pad")
def pad(ask: Ask) -> Iterator[Choice]:
    """All axes without pads."""
    pads = list(ask.node.attrs["pads"])
    rank = len(pads) // 2
    yield from beside(ask, [axis for axis in range(rank) if pads[axis] or pads[axis + rank]])


@rule("Gather")
def gather(ask: Ask) -> Iterator[Choice]:
    """Rows of the table (what another rank has counts as 0), the other axes of the table, the indices."""
    axis, (table, indices), out = ask.node.attrs["axis"], ask.ins, ask.outs[0]
    assert table is not None and indices is not None
    if ask.fits(table[axis]):
        yield Choice((split(axis), WHOLE), (partial(),), "GatherPart")
    for other, size in enumerate(table):
        if other != axis and ask.fits(size) and size > 1:
            yield Choice((split(other), WHOLE), (split(other + (len(indices) - 1) * (other > axis)),))
    for place, size in enumerate(indices):
        if ask.fits(size) and size > 1:
            yield Choice((WHOLE, split(place)), (split(axis + place),))
    assert len(out) == len(table) + len(indices) - 1


@rule("GatherGrad")
def gather_grad(ask: Ask) -> Iterator[Choice]:
    """A rank's rows of the table, other axes of the table; indices with their gradients give partial sums."""
    axis, (grad, indices), out = ask.node.attrs["axis"], ask.ins, ask.outs[0]
    assert grad is not None and indices is not None
    if ask.fits(out[axis]):
        yield Choice((WHOLE, WHOLE), (split(axis),), "GatherGradPart")
    for other, size in enumerate(out):
        if other != axis and ask.fits(size) and size > 1:
            yield Choice((split(other + (len(indices) - 1) * (other > axis)), WHOLE), (split(other),))
    for place, size in enumerate(indices):
        if ask.fits(size) and size > 1:
            yield Choice((split(axis + place), split(place)), (partial(),))


def beside(ask: Ask, busy: Sequence[int], others: int = 0) -> Iterator[Choice]:
    """Any axis that the op does not work along; all inputs split alike, but for the last ``others``, whole."""
    shape = ask.ins[0]
    assert shape is not None
    for axis, size in enumerate(shape):
        if axis not in busy and ask.fits(size) and size > 1:
            alike = len(ask.ins) - others
            yield Choice((split(axis),) * alike + (WHOLE,) * others, (split(axis),) * len(ask.outs))


@rule("LayerNormalization", "RMSNormalization")
def normal(ask: Ask) -> Iterator[Choice]:
    """Rows: a part of the tokens, or of the batch."""
    assert ask.ins[0] is not None
    yield from beside(ask, range(ask.node.attrs["axis"], len(ask.ins[0])), len(ask.ins) - 1)


@rule("Softmax")
def softmax(ask: Ask) -> Iterator[Choice]:
    """All axes but its own."""
    assert ask.ins[0] is not None
    first = ask.node.attrs.get("flatten_from")
    yield from beside(ask, [ask.node.attrs["axis"]] if first is None else range(first, len(ask.ins[0])))


@rule("LogSoftmax")
def log_softmax(ask: Ask) -> Iterator[Choice]:
    """Its own axis too: maximum and sum are those of all ranks (vocabulary-parallel cross-entropy, Megatron-LM)."""
    shape = ask.ins[0]
    if "axis" in ask.node.attrs and shape is not None:
        axis = ask.node.attrs["axis"]
        yield from beside(ask, [axis])
        if ask.fits(shape[axis]):
            yield Choice((split(axis),), (split(axis),), "log_softmax")


@rule("BatchNormalization")
def batch_norm(ask: Ask) -> Iterator[Choice]:
    """Channels, with what belongs to them; images (its statistics are stored ones)."""
    x = ask.ins[0]
    assert x is not None
    if ask.fits(x[1]):
        yield Choice((split(1),) + (split(0),) * 4, (split(1),))
    if ask.fits(x[0]):
        yield Choice((split(0),) + (WHOLE,) * 4, (split(0),))


@rule("LRN", "InstanceNormalization", "GroupNormalization", "DepthToSpace", "SpaceToDepth")
def by_image(ask: Ask) -> Iterator[Choice]:
    """Images."""
    shape = ask.ins[0]
    assert shape is not None
    yield from beside(ask, range(1, len(shape)), len(ask.ins) - 1)


@rule("pool", "MaxPoolGrad")
def pool(ask: Ask) -> Iterator[Choice]:
    """Images and channels."""
    assert ask.ins[0] is not None
    yield from beside(ask, range(2, len(ask.ins[0])))


@rule("TopKGating")
def gating(ask: Ask) -> Iterator[Choice]:
    """All axes but that of the experts."""
    assert ask.ins[0] is not None
    yield from beside(ask, [len(ask.ins[0]) - 1])


REDUCED = {"ReduceSum": "sum", "ReduceMax": "max"}
"""Reductions of parts, whose results a reduction of the same kind puts together."""


@rule(*REDUCTIONS)
def reduce(ask: Ask) -> Iterator[Choice]:
    """Axes that stay; along others a sum or a maximum is partial."""
    shape, axes = ask.ins[0], list(ask.node.attrs["axes"])
    assert shape is not None
    for axis, size in enumerate(shape):
        if not ask.fits(size) or size == 1:
            continue
        if axis not in axes:
            out = axis if ask.node.attrs["keepdims"] else axis - sum(other < axis for other in axes)
            yield Choice((split(axis),), (split(out),))
        elif ask.node.op in REDUCED:
            yield Choice((split(axis),), (partial(REDUCED[ask.node.op]),))
