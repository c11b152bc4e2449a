"""Placements of operators that work along some axes and leave the others alone: normalisations, reductions, pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelsim.cluster.plan.placing.base import WHOLE, Ask, Choice, partial, rule, split


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


@rule(
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
)
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
