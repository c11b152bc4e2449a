"""Rounding to fp16 and bf16 as ``ops.values.contain`` does, for the many small tensors of a training step.

The values are those of ``formats.codec.cast`` (a test compares them); only its cost per call, which dominates on
tensors of a few thousand elements, is avoided.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from accelsim.types import Array
from accelsim.workload.ops.values import contain

EXPONENT = np.uint32(0x7F800000)
LOWEST = np.uint32((127 - 14) << 23)
"""Exponent field of the smallest normal fp16; below it the spacing no longer shrinks."""
HIGHEST = np.uint32((127 + 14) << 23)
"""Above it rounding may overflow."""
SHIFT = np.uint32((13 << 23) | 0x400000)
"""From 2^e to 1.5 * 2^(e + 13): float32 has 13 bits more than fp16, so adding that rounds to fp16's spacing."""

SMALL = 2048
"""Up to so many elements NumPy's own conversion is faster."""


def rounded(value: Array, dtype: str) -> Array:
    """``value`` in the container of ``dtype``, rounded to nearest, ties to even."""
    if value.dtype == np.float32:
        if dtype == "fp16":
            return _half(value)
        if dtype == "bf16":
            return np.asarray(value.astype(ml_dtypes.bfloat16).astype(np.float32))
    return contain(value, dtype)


def _half(x: Array) -> Array:
    if x.size > SMALL:
        shift = np.ascontiguousarray(x).view(np.uint32) & EXPONENT
        if shift.max() <= HIGHEST:
            np.maximum(shift, LOWEST, out=shift)
            shift += SHIFT
            large = shift.view(np.float32)
            y = x + large
            y -= large
            return np.copysign(y, x, out=y)  # a negative number that rounds to zero keeps its sign
    with np.errstate(over="ignore"):
        return np.asarray(x.astype(np.float16).astype(np.float32))
