"""The matrix product itself: float32 through BLAS, integers exact through BLAS.

NumPy's own integer product is 20 to 100 times slower than BLAS. An integer product in float32 is exact while no partial
sum reaches 2^24 (float64: 2^53), so K is cut into chunks that cannot; chunks are added as integers.
"""

from __future__ import annotations

import numpy as np

from accelsim.types import Array

_EXACT_F32 = 1 << 24
_EXACT_F64 = 1 << 53
_SHORT_CHUNK = 96  # below this, one float64 product is faster than the float32 chunks


def is_integer(a: Array) -> bool:
    """Return whether ``a`` holds integers (whose product is an int32 accumulator)."""
    return a.dtype.kind in "iu"


def peak(a: Array) -> int:
    """Largest magnitude in ``a`` (0 when empty)."""
    return max(int(a.max()), -int(a.min())) if a.size else 0


def shifted(a: Array, zero_point: int | Array) -> Array:
    """Integers minus their zero point, in a type that holds them; as they are where that is zero.

    ``zero_point`` is a number, or an array that broadcasts to ``a``: one per row, column or channel.
    """
    return a.astype(np.int32) - np.asarray(zero_point, np.int32) if np.any(zero_point) else a


def product(a: Array, b: Array) -> Array:
    """``a`` [..., M, K] times ``b`` [..., K, N], broadcasting.

    Floats give their own type, integers exact int32 sums (modulo 2^32).
    """
    if not is_integer(a):
        return np.asarray(np.matmul(a, b))
    largest = max(peak(a) * peak(b), 1)
    chunk, depth = (_EXACT_F32 - 1) // largest, a.shape[-1]
    if chunk >= depth:
        return _blas(a, b, np.float32).astype(np.int32)
    if chunk >= _SHORT_CHUNK:
        return _chunked(a, b, chunk, np.float32)
    return _chunked(a, b, max((_EXACT_F64 - 1) // largest, 1), np.float64)


def _blas(a: Array, b: Array, container: type[np.floating]) -> Array:
    return np.asarray(np.matmul(a.astype(container), b.astype(container)))


def _chunked(a: Array, b: Array, chunk: int, container: type[np.floating]) -> Array:
    total: Array | int = 0
    for start in range(0, a.shape[-1], chunk):
        part = _blas(a[..., start : start + chunk], b[..., start : start + chunk, :], container)
        total = total + part.astype(np.int64)
    return np.asarray(total).astype(np.int32)
