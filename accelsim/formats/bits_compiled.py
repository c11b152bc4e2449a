"""Rounding of float32 to a shorter float, to nearest even, compiled by numba (extra ``fast``): equal to ``bits``."""

from __future__ import annotations

import numba
import numpy as np

from accelsim.types import Array

if getattr(numba.config, "DISABLE_JIT", False):
    raise ImportError("NUMBA_DISABLE_JIT is set")  # plain loops in Python would take hours

BLOCK = 4096
MAGNITUDE, INFINITE = 0x7FFFFFFF, 0x7F800000
"""Bits of float32 without its sign, and those of infinity."""


@numba.njit(cache=True, error_model="numpy", boundscheck=False)
def rounded(
    patterns: Array, out: Array, shift: int, keep: int, largest: int, normal: int, magic: Array, beyond: int, nan: int
) -> None:
    """``patterns`` (int32, one axis) rounded into ``out``: what is larger than ``largest`` becomes ``beyond``, NaN
    becomes ``nan``; below ``normal`` the last bit is that of ``magic``, which is added and taken away again."""
    sizes, sums = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    numbers, lows = sizes.view(np.float32), sums.view(np.int32)
    carry = (1 << (shift - 1)) - 1
    for start in range(0, patterns.size, BLOCK):
        count = min(BLOCK, patterns.size - start)
        given, result = patterns[start : start + count], out[start : start + count]
        for n in range(count):
            sizes[n] = given[n] & MAGNITUDE
        for n in range(count):
            sums[n] = (numbers[n] + magic) - magic
        for n in range(count):
            size = sizes[n]
            value = np.int32((size + ((size >> shift) & 1) + carry) & keep)
            value = lows[n] if size < normal else value
            value = np.int32(beyond) if value > largest else value
            value = np.int32(nan) if size > INFINITE else value
            result[n] = value | (given[n] ^ size)
