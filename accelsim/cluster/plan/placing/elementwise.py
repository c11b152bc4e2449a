"""Placements of operators that work element by element."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.cluster.plan.placing.base import WHOLE, Ask, Choice, Place, partial, rule, split
from accelsim.workload.ops.base import Shape


def along(shape: Shape | None, out: Shape, axis: int) -> Place:
    """Return how an operand lies when the result is split along ``axis``: split too, or whole where it is broadcast."""
    if shape is None:
        return WHOLE
    own = axis - (len(out) - len(shape))
    return split(own) if own >= 0 and shape[own] == out[axis] else WHOLE


@rule("elementwise")
def elementwise(ask: Ask) -> Iterator[Choice]:
    """Any axis."""
    for out in ask.outs[:1]:
        for axis, size in enumerate(out):
            ins = tuple(along(shape, out, axis) for shape in ask.ins)
            if ask.fits(size) and size > 1 and set(ins) != {WHOLE}:
                yield Choice(ins, (split(axis),))


@rule("Add", "Sub", "Sum", "Neg")
def linear(ask: Ask) -> Iterator[Choice]:
    """Any axis; and sums of partial sums are partial sums."""
    yield Choice((partial(),) * len(ask.ins), (partial(),))
    yield from elementwise(ask)


@rule("Bias")
def bias(ask: Ask) -> Iterator[Choice]:
    """Any axis; the vector is split with the axis that it lies along."""
    for axis, size in enumerate(ask.outs[0]):
        if ask.fits(size) and size > 1:
            yield Choice((split(axis), split(0) if axis == ask.node.attrs["axis"] else WHOLE), (split(axis),))


@rule("OneHot")
def nothing(ask: Ask) -> Iterator[Choice]:
    """Only whole."""
    yield from ()
