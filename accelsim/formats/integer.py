"""Integer quantisation: real = scale * (code - zero_point), bit-equal to ONNX QuantizeLinear and QLinear*.

Rounding is to nearest, ties to even, in float32; a code that does not fit is clipped. A scale is a true
divisor: multiplying by its reciprocal moves some ties (281 of 14,466 int8 codes in the golden vectors).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import Problem, UsageError, nearest

Array = NDArray[Any]

RANGES: dict[str, tuple[int, int]] = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int32": (-(2**31), 2**31 - 1),
}
"""Lowest and highest code of each integer format."""

CONTAINERS: dict[str, type[np.integer[Any]]] = {
    "int4": np.int8,
    "uint4": np.uint8,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
}
"""NumPy type that holds the codes of each integer format."""


def code_range(dtype: str, narrow: bool = False) -> tuple[int, int]:
    """Lowest and highest code of ``dtype``; ``narrow`` leaves out the lowest signed one (int8: -127..127).

    Raises UsageError for a format that is not an integer format.
    """
    if dtype not in RANGES:
        expected = "one of " + ", ".join(RANGES)
        raise UsageError(Problem(f"{dtype!r} is not an integer format", "", expected, nearest(dtype, RANGES)))
    low, high = RANGES[dtype]
    return (low + 1 if narrow and low < 0 else low), high


def along(parameter: ArrayLike, rank: int, axis: int | None) -> Array:
    """A per-tensor or per-slice parameter, shaped to broadcast along ``axis`` of an array of ``rank``."""
    values: Array = np.asarray(parameter)
    if values.size == 1 or axis is None:
        return values.reshape(()) if values.size == 1 else values
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def quantise(
    x: Array,
    scale: ArrayLike,
    dtype: str = "int8",
    zero_point: ArrayLike = 0,
    axis: int | None = None,
    narrow: bool = False,
) -> Array:
    """Codes of ``x``: clip(rint(x / scale) + zero_point), float32 division; the shape of ``x``.

    ``scale`` and ``zero_point`` are scalars or one value per slice along ``axis``; codes come in the
    container of ``dtype``. Infinities saturate; NaN, which has no code, becomes the zero point. Raises
    UsageError for an unknown ``dtype``.
    """
    values = np.asarray(x, np.float32)
    with np.errstate(over="ignore"):
        codes = np.rint(values / along(np.asarray(scale, np.float32), values.ndim, axis))
    return _to_codes(codes, dtype, zero_point, axis, narrow)


def dequantise(q: Array, scale: ArrayLike, zero_point: ArrayLike = 0, axis: int | None = None) -> Array:
    """float32(q - zero_point) * scale, in float32; the shape of ``q``."""
    zero = along(np.asarray(zero_point, np.int64), q.ndim, axis)
    difference = q.astype(np.float32) if not np.any(zero) else (q.astype(np.int64) - zero).astype(np.float32)
    scales = along(np.asarray(scale, np.float32), q.ndim, axis)
    return np.asarray(difference * scales, np.float32)


def requantise(
    acc: Array,
    multiplier: ArrayLike,
    dtype: str = "int8",
    zero_point: ArrayLike = 0,
    axis: int | None = None,
) -> Array:
    """Accumulators to codes: clip(rint(float32(acc) * float32(multiplier)) + zero_point).

    ``multiplier`` is scale_a * scale_b / scale_y in float32 (see ``multiplier_of``), scalar or one per slice
    along ``axis``. Raises UsageError for an unknown ``dtype``.
    """
    factors = along(np.asarray(multiplier, np.float32), acc.ndim, axis)
    with np.errstate(over="ignore"):
        codes = np.rint(acc.astype(np.float32) * factors)
    return _to_codes(codes, dtype, zero_point, axis, False)


def multiplier_of(scale_a: ArrayLike, scale_b: ArrayLike, scale_y: ArrayLike) -> Array:
    """The requantisation multiplier (scale_a * scale_b) / scale_y, each step rounded to float32."""
    product = np.asarray(scale_a, np.float32) * np.asarray(scale_b, np.float32)
    return np.asarray(product / np.asarray(scale_y, np.float32), np.float32)


def absmax_scale(x: Array, dtype: str = "int8", axis: int | None = None) -> Array:
    """Symmetric scale max|x| / highest code, float32: 0-d, or one value per slice along ``axis``.

    A slice whose scale would be zero or subnormal gets scale 1. Raises UsageError for an unknown ``dtype``.
    """
    high = code_range(dtype)[1]
    values = np.abs(np.asarray(x, np.float32))
    others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    peak: Array = np.asarray(np.max(values, axis=others, initial=0), np.float32)
    scale = peak / np.float32(high)
    return np.asarray(np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1)), np.float32)


def _to_codes(rounded: Array, dtype: str, zero_point: ArrayLike, axis: int | None, narrow: bool) -> Array:
    low, high = code_range(dtype, narrow)
    zero = along(np.asarray(zero_point, np.float64), rounded.ndim, axis)
    # float32 holds every sum of an 8- or 16-bit format that is not clipped; int32 needs float64
    wide = rounded.astype(np.float64) if dtype == "int32" else rounded
    shifted = wide + zero.astype(wide.dtype) if np.any(zero) else wide
    codes = np.clip(np.where(np.isnan(shifted), zero.astype(wide.dtype), shifted), low, high)
    return codes.astype(CONTAINERS[dtype])
