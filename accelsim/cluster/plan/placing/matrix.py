"""Placements of products: by columns, by rows (whose results are partial sums), by images or heads.

Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3: column-parallel and row-parallel linear layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.cluster.plan.placing.base import WHOLE, Ask, Choice, Place, partial, rule, split
from accelsim.cluster.plan.placing.elementwise import along


@rule("MatMul")
def matmul(ask: Ask) -> Iterator[Choice]:
    """Columns of B, the reduction, axes of the batch, rows of A."""
    a, b = ask.ins
    assert a is not None and b is not None
    if min(len(a), len(b)) < 2:
        return
    out, turned = ask.outs[0], bool(ask.node.attrs.get("transB"))
    columns, inner = (len(b) - 2, len(b) - 1) if turned else (len(b) - 1, len(b) - 2)
    if ask.fits(b[columns]):
        yield Choice((WHOLE, split(columns)), (split(len(out) - 1),))
    if ask.fits(b[inner]):
        yield Choice((split(len(a) - 1), split(inner)), (partial(),))
    for axis in range(len(out) - 2):
        ins = tuple(along(x[:-2], out[:-2], axis) for x in (a, b))
        if ask.fits(out[axis]) and out[axis] > 1:
            yield Choice(ins, (split(axis),))
    if ask.fits(a[-2]):
        yield Choice((split(len(a) - 2), WHOLE), (split(len(out) - 2),))


@rule("Gemm")
def gemm(ask: Ask) -> Iterator[Choice]:
    """Columns, the reduction (the bias is added behind the sum), rows."""
    attrs, out, bias = ask.node.attrs, ask.outs[0], ask.ins[2] if len(ask.ins) > 2 else None
    rows, inner_a = (1, 0) if attrs["transA"] else (0, 1)
    inner_b, columns = (1, 0) if attrs["transB"] else (0, 1)

    def choice(a: Place, b: Place, axis: int) -> Choice:
        own = along(bias, out, axis)
        return Choice((a, b, own)[: len(ask.ins)], (split(axis),))

    if ask.fits(out[1]):
        yield choice(WHOLE, split(columns), 1)
    a = ask.ins[0]
    if a is not None and ask.fits(a[inner_a]) and (bias is None or attrs["beta"] == 1):
        form = "" if bias is None else "bias"
        yield Choice((split(inner_a), split(inner_b), WHOLE)[: len(ask.ins)], (partial(),), form)
    if ask.fits(out[0]):
        yield choice(split(rows), WHOLE, 0)


@rule("Conv")
def conv(ask: Ask) -> Iterator[Choice]:
    """Channels of the output, of the input (partial sums), groups, images."""
    group, x, out = ask.node.attrs["group"], ask.ins[0], ask.outs[0]
    assert x is not None
    biased, count = len(ask.ins) > 2 and ask.ins[2] is not None, len(ask.ins)
    if group == 1 and ask.fits(out[1]):
        yield Choice((WHOLE, split(0), split(0) if biased else WHOLE)[:count], (split(1),))
    if group == 1 and ask.fits(x[1]):
        yield Choice((split(1), split(1), WHOLE)[:count], (partial(),), "bias" if biased else "")
    if group > 1 and ask.fits(group):
        yield Choice((split(1), split(0), split(0) if biased else WHOLE)[:count], (split(1),), "group")
    if ask.fits(out[0]):
        yield Choice((split(0), WHOLE, WHOLE)[:count], (split(0),))


@rule("ExpertMatMul")
def expert(ask: Ask) -> Iterator[Choice]:
    """Columns of every expert, or rows."""
    x, w = ask.ins[0], ask.ins[1]
    assert x is not None and w is not None
    if ask.fits(w[2]):
        yield Choice((WHOLE, split(2), WHOLE), (split(1),))
    if ask.fits(w[1]):
        yield Choice((split(1), split(1), WHOLE), (partial(),))
