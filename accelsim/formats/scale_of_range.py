"""From a range of values to the scale and zero point of a number format."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import UsageError
from accelsim.formats import integer, table
from accelsim.types import Array


def scale_zero_point(
    low: float, high: float, dtype: str, symmetric: bool = True, mean_abs: float | None = None
) -> tuple[np.float32, int]:
    """Scale (float32) and zero point with which [low, high], widened to hold 0, just fits the codes of ``dtype``.

    Integers, as ONNX Runtime computes it: scale = (high - low) / (highest - lowest code) in float64, then
    float32; zero point = rint(lowest code - low / scale). Symmetric: the range is made [-m, m], the lowest
    code of a signed format is left out, and the zero point is rint of the middle of the codes (uint8: 128).
    Floats: m / largest value of the format, no zero point. int1: ``mean_abs``, the mean of |x|, which is the
    best scale for signs (Rastegari et al., XNOR-Net, ECCV 2016, eq. 6). A scale that would be zero or
    subnormal is 1, with zero point 0. Raises UsageError for a range that is none, and for a format that
    brings its own scales.
    """
    row = table.get(dtype)
    low32, high32 = float(np.float32(min(low, 0.0))), float(np.float32(max(high, 0.0)))
    if not (low <= high and np.isfinite(low32) and np.isfinite(high32)):
        raise UsageError(f"range {low:g} to {high:g}", "ranges_from", "finite, low <= high")
    peak = max(-low32, high32)
    if row.kind == "int":
        return _integer(low32, high32, dtype, symmetric)
    if row.kind == "float":
        return _usable(peak / row.max), 0
    if row.kind == "binary" and mean_abs is not None:
        return _usable(mean_abs), 0
    expected = "mean_abs" if row.kind == "binary" else "an integer, float or binary format"
    raise UsageError(f"no scale for {dtype!r} from a range", "ranges_from", expected)


def _integer(low: float, high: float, dtype: str, symmetric: bool) -> tuple[np.float32, int]:
    first, last = integer.code_range(dtype, narrow=symmetric)
    if symmetric:
        low, high = -max(-low, high), max(-low, high)
    scale = (high - low) / (last - first)
    if scale < np.finfo(np.float32).tiny:
        return np.float32(1), 0
    zero_point = np.rint((first + last) / 2) if symmetric else np.rint(first - low / scale)
    return np.float32(scale), int(zero_point)


def _usable(scale: float) -> np.float32:
    return np.float32(scale) if scale >= np.finfo(np.float32).tiny else np.float32(1)


def dynamic_quantise(x: ArrayLike) -> tuple[Array, np.float32, int]:
    """(codes uint8, scale, zero point) of ONNX DynamicQuantizeLinear: the range of ``x`` itself, with 0 in it.

    All in float32: scale = (max - min) / 255, zero point = rint(-min / scale) within 0..255; an all-zero (or
    empty) ``x`` gets scale 1 and zero point 0.
    """
    values = np.asarray(x, np.float32)
    low, high = values.min(initial=np.float32(0)), values.max(initial=np.float32(0))
    scale = np.float32((high - low) / np.float32(255))
    if scale == 0:
        return np.zeros(values.shape, np.uint8), np.float32(1), 0
    zero_point = int(np.clip(np.rint(-low / scale), 0, 255))
    return integer.quantise(values, scale, "uint8", zero_point), scale, zero_point
