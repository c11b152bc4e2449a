"""Requantisation with integers alone: an int32 multiplier, a doubling high multiplication and a rounding shift.

Integer-only inference (Jacob et al., CVPR 2018, arXiv:1712.05877, section 2.2; gemmlowp and TensorFlow Lite) replaces
the real multiplier M by mantissa * 2^(shift - 31) with 2^30 <= mantissa < 2^31. Every step rounds, so the result is
that of rounding twice: it differs now and then from one float32 multiplication.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import UsageError
from accelsim.formats.integer import CONTAINERS, along, code_range
from accelsim.formats.table import ALIASES
from accelsim.types import Array

INT32 = (-(2**31), 2**31 - 1)


def from_multiplier(real: ArrayLike) -> tuple[Array, Array]:
    """(mantissa, shift), int32 each, with real ~ mantissa * 2^(shift - 31); the shape of ``real``.

    Rounded to nearest, ties away from zero; the relative error is at most 2^-31. A multiplier below 2^-32 becomes
    (0, 0). Raises UsageError for one that is not positive and finite, or above 2^31.
    """
    values: Array = np.asarray(real, np.float64)
    if np.any(~((values > 0) & (values < 2.0**31))):
        raise UsageError("a multiplier of a fixed-point requantisation", "", "0 < multiplier < 2^31")
    fraction, shift = np.frexp(values)
    mantissa = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    carried = mantissa == 2**31
    mantissa, shift = np.where(carried, 2**30, mantissa), shift + carried
    tiny = shift < -31
    return np.where(tiny, 0, mantissa).astype(np.int32), np.where(tiny, 0, shift).astype(np.int32)


def multiply_high(a: Array, b: ArrayLike) -> Array:
    """round(a * b / 2^31), ties up, int32: the high half of the doubled product; INT_MIN * INT_MIN saturates."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Array = np.clip((product + (1 << 30)) >> 31, *INT32)
    return high.astype(np.int32)


def shift_right(a: Array, bits: ArrayLike) -> Array:
    """round(a / 2^bits), ties away from zero, int32; ``bits`` >= 0."""
    wide, places = np.asarray(a, np.int64), np.asarray(bits, np.int64)
    mask = (np.int64(1) << places) - 1
    up = (wide & mask) > (mask >> 1) + (wide < 0)
    return np.asarray((wide >> places) + up, np.int32)


def requantise(
    acc: Array,
    mantissa: ArrayLike,
    shift: ArrayLike,
    dtype: str = "int8",
    zero_point: ArrayLike = 0,
    axis: int | None = None,
) -> Array:
    """Accumulators (int32) to codes: clip(shift_right(multiply_high(acc << left, mantissa), right) + zero_point).

    ``shift`` > 0 shifts left before (saturating to int32), < 0 right after; all parameters are scalars or one per
    slice along ``axis``. Codes come in the container of ``dtype``; raises UsageError for an unknown one.
    """
    low, high = code_range(dtype)
    places = along(np.asarray(shift, np.int64), acc.ndim, axis)
    lifted = np.clip(acc.astype(np.int64) << np.maximum(places, 0), *INT32)
    product = multiply_high(lifted, along(np.asarray(mantissa, np.int64), acc.ndim, axis))
    result = shift_right(product, np.maximum(-places, 0)).astype(np.int64)
    codes: Array = np.clip(result + along(np.asarray(zero_point, np.int64), acc.ndim, axis), low, high)
    return codes.astype(CONTAINERS[ALIASES.get(dtype, dtype)])
