"""Binary values: -1 and +1, one bit each, whose dot products are XNOR and a count of bits.

Rastegari et al., XNOR-Net, arXiv:1603.05279. Zero is +1 (so no value has sign 0, as PyTorch's ``sign`` would say).
The first value is the highest bit of the first byte, as ``numpy.packbits`` has it; 1 is +1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import Problem, UsageError
from accelsim.types import Array


def sign(x: ArrayLike) -> Array:
    """+1 where x >= 0 (also -0), -1 elsewhere (also NaN); int8, the shape of ``x``."""
    return np.where(np.asarray(x) >= 0, 1, -1).astype(np.int8)


def pack(signs: ArrayLike, axis: int = -1) -> Array:
    """Bits of -1/+1 values, eight to a byte along ``axis`` (uint8, ceil(K / 8) there); what is missing is 0."""
    return np.packbits(np.asarray(signs) > 0, axis=axis)


def unpack(packed: Array, count: int, axis: int = -1) -> Array:
    """The first ``count`` values (-1/+1, int8) along ``axis`` of packed bits; UsageError when there are fewer."""
    if not 0 <= count <= 8 * packed.shape[axis]:
        raise UsageError(Problem(f"{count} bits of {packed.shape[axis]} bytes", "", "at most 8 per byte"))
    bits = np.unpackbits(packed, axis=axis, count=count)
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)


def xnor_dot(a: Array, b: Array, count: int) -> Array:
    """Dot products of rows of -1/+1 values, packed along the last axis: (M, bytes), (N, bytes) -> int32 (M, N).

    2 * popcount(xnor) - K with K = ``count`` values per row; bits behind them do not count. Raises UsageError when
    the rows do not have the bytes of ``count`` values.
    """
    width = -(-count // 8)
    if a.shape[-1] != width or b.shape[-1] != width:
        what = f"rows of {a.shape[-1]} and {b.shape[-1]} bytes"
        raise UsageError(Problem(what, "", f"{width} bytes for {count} values"))
    counted = np.packbits(np.arange(8 * width) < count)
    result = np.empty((a.shape[0], b.shape[0]), np.int32)
    for row, bits in zip(result, a, strict=True):
        row[:] = 2 * np.bitwise_count(~(bits ^ b) & counted).sum(-1, dtype=np.int32) - count
    return result


def mean_scale(x: ArrayLike, axis: int | None = None) -> Array:
    """mean|x|, float32: the factor that makes sign(x) closest to x (XNOR-Net, equation 6); per slice along ``axis``."""
    values = np.abs(np.asarray(x, np.float32))
    others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    return np.asarray(values.mean(axis=others, dtype=np.float64), np.float32)
