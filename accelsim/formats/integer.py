"""Integer quantisation: real = scale * (code - zero_point), bit-equal to ONNX QuantizeLinear and QLinear*.

Rounding is to nearest, ties to even, in float32; a code that does not fit is clipped. A scale is a true
divisor: multiplying by its reciprocal moves some ties (281 of 14,466 int8 codes in the golden vectors). PyTorch
does that, so it is a method here. Float formats (fp8 ...) are quantised by the same steps, with the codec's
rounding instead of that to whole numbers, and int1 is the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats.table import ALIASES, FORMATS, get
from accelsim.types import Array

RANGES: dict[str, tuple[int, int]] = {
    row.name: (row.low, row.high) for row in FORMATS.values() if row.kind in ("int", "binary") and row.bits <= 32
}
"""Lowest and highest code of each integer format; the codes of int1 are -1 and +1."""

CONTAINERS: dict[str, type[np.integer[Any]]] = {
    name: cast("type[np.integer[Any]]", FORMATS[name].container) for name in RANGES
}
"""NumPy type that holds the codes of each integer format."""


def code_range(dtype: str, narrow: bool = False) -> tuple[int, int]:
    """Lowest and highest code of ``dtype``; ``narrow`` leaves out the lowest signed one (int8: -127..127).

    Raises UsageError for a format that is not an integer format.
    """
    dtype = ALIASES.get(dtype, dtype)
    if dtype not in RANGES:
        expected = "one of " + ", ".join(RANGES)
        raise UsageError(f"{dtype!r} is not an integer format", "", expected, nearest(dtype, RANGES))
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


def check_scale(scale: ArrayLike, where: str = "") -> Array:
    """``scale`` as float32 when every value is positive and finite; else UsageError, saying ``where``."""
    with np.errstate(over="ignore"):
        values: Array = np.asarray(scale, np.float32)
    if values.size and not (values.min() > 0 and values.max() < np.inf):
        wrong = values[~((values > 0) & (values < np.inf))].flat[0]
        raise UsageError(f"scale {wrong:g}", where, "a positive, finite scale (in float32)")
    return values


def _fused(x: Array, inverse: Array, zero: Array) -> Array:
    """x * inverse + zero, rounded to float32 once: the float64 sum is rounded to odd, so nothing is lost."""
    product = x.astype(np.float64) * inverse
    total = product + zero
    rest = total - product
    error = (product - (total - rest)) + (zero - rest)
    even = (total.view(np.uint64) & 1) == 0
    moved = np.nextafter(total, np.copysign(np.inf, error))
    odd = (error != 0) & even & np.isfinite(total)
    return np.asarray(np.where(odd, moved, total).astype(np.float32))


METHODS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "divide": lambda x, scale, zero: np.asarray(x / scale),
    "reciprocal": lambda x, scale, zero: np.asarray(x * (np.float32(1) / scale)),
    "fma": lambda x, scale, zero: _fused(x, np.float32(1) / scale, zero),
}
"""Numbers that are rounded: x / s as in ONNX Runtime, x * (1 / s) as in PyTorch's qint8, x * (1 / s) + z with one
rounding as in its quint8. Only the last has the zero point inside: ties fall elsewhere when it is odd."""


def quantise(
    x: Array,
    scale: ArrayLike,
    dtype: str = "int8",
    zero_point: ArrayLike = 0,
    axis: int | None = None,
    narrow: bool = False,
    *,
    method: str = "divide",
    block_size: int | None = None,
    source: str = "onnx",
) -> Array:
    """Codes of ``x``: clip(rint(x / scale) + zero_point), float32 division; the shape of ``x``.

    ``scale`` and ``zero_point`` are scalars or one value per slice along ``axis``, or with ``block_size`` one per
    block of so many values along ``axis`` (the shape of ``x``, divided there); codes come in the container of
    ``dtype``. Infinities saturate; NaN, which has no code, becomes the zero point. ``method`` is one of
    ``METHODS``. ``source='ort'`` is ONNX Runtime 1.31, whose int2 makes -2 of values from 2^31 scales.

    A float ``dtype`` gives values x / scale, rounded and saturated; int1 the sign. Raises UsageError for an
    unknown ``dtype``, ``method`` or ``source``, a scale that is not positive and finite, a zero point where
    there is none, and a block size that does not divide.
    """
    values = np.asarray(x, np.float32)
    _check_choices(dtype, zero_point, method, source)
    scales = _placed(check_scale(scale), values.shape, axis, block_size)
    zero = _placed(np.asarray(zero_point, np.float64), values.shape, axis, block_size)
    if get(dtype).kind == "binary":
        return np.where(values >= 0, 1, -1).astype(np.int8)
    with np.errstate(over="ignore", invalid="ignore"):
        real = METHODS[method](values, scales, zero)
        if get(dtype).kind == "float":
            from accelsim.formats import codec

            return codec.cast(real, dtype, overflow="saturate")
        whole = np.rint(real, out=real)
        if (source, dtype) == ("ort", "int2"):
            whole = np.where(np.abs(whole) >= 2.0**31, -np.inf, whole)
        return _to_codes(whole, dtype, zero, narrow, added=method == "fma")


def _check_choices(dtype: str, zero_point: ArrayLike, method: str, source: str) -> None:
    """Raise UsageError, with all problems, for what ``quantise`` cannot do."""
    problems = []
    for what, name, valid in (("method", method, METHODS), ("source", source, ("onnx", "ort"))):
        if name not in valid:
            problems.append(Problem(f"no {what} {name!r}", "", "one of " + ", ".join(valid), nearest(name, valid)))
    kind = get(dtype).kind
    if kind not in ("int", "float", "binary") or dtype == "int64":
        problems.append(
            Problem(f"values cannot be quantised to {dtype!r} here", "", "an integer of up to 32 bits, or a float")
        )
    if kind != "int" and np.any(zero_point):
        problems.append(Problem(f"{dtype} has no zero point", "", "zero_point = 0"))
    UsageError.raise_for(problems)


def _placed(parameter: Array, shape: tuple[int, ...], axis: int | None, block_size: int | None) -> Array:
    """A parameter, shaped to broadcast over values of ``shape``."""
    if block_size is None or parameter.size == 1:
        return along(parameter, len(shape), axis)
    return over_blocks(parameter, shape, -1 if axis is None else axis, block_size)


def over_blocks(parameter: ArrayLike, shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """One parameter per block of ``block_size`` along ``axis``, repeated for every value of ``shape``.

    Raises UsageError when the size does not divide or the shape of the parameter is not that of the blocks.
    """
    values: Array = np.asarray(parameter)
    axis %= len(shape)
    if block_size < 1 or shape[axis] % block_size:
        raise UsageError(_does_not_fill(block_size, shape[axis], axis))
    blocks = (*shape[:axis], shape[axis] // block_size, *shape[axis + 1 :])
    if values.shape != blocks:
        raise UsageError(f"parameters of shape {values.shape}", "", f"one per block: {blocks}")
    return np.repeat(values, block_size, axis)


def dequantise(
    q: Array, scale: ArrayLike, zero_point: ArrayLike = 0, axis: int | None = None, *, block_size: int | None = None
) -> Array:
    """float32(q - zero_point) * scale, in float32; the shape of ``q``, which are codes or values of a float format.

    Parameters as in ``quantise``. Raises UsageError for a block size that does not divide.
    """
    zero = _placed(np.asarray(zero_point, np.int64), q.shape, axis, block_size)
    difference = q.astype(np.float32) if not np.any(zero) else (q.astype(np.int64) - zero).astype(np.float32)
    scales = _placed(np.asarray(scale, np.float32), q.shape, axis, block_size)
    return np.asarray(difference * scales, np.float32)


def requantise(
    acc: Array, multiplier: ArrayLike, dtype: str = "int8", zero_point: ArrayLike = 0, axis: int | None = None
) -> Array:
    """Accumulators to codes: clip(rint(float32(acc) * float32(multiplier)) + zero_point).

    ``multiplier`` is scale_a * scale_b / scale_y in float32 (see ``multiplier_of``), scalar or one per slice
    along ``axis``. A float ``dtype`` gives values of it, saturated; int1 the sign. Raises UsageError for an
    unknown ``dtype``. Integers only, without float32: ``fixed_point.requantise``.
    """
    kind = get(dtype).kind
    if kind == "binary":
        return np.where(np.asarray(acc) >= 0, 1, -1).astype(np.int8)
    factors = along(np.asarray(multiplier, np.float32), acc.ndim, axis)
    with np.errstate(over="ignore"):
        real = np.asarray(acc.astype(np.float32) * factors)
    if kind == "float":
        from accelsim.formats import codec

        return codec.cast(real, dtype, overflow="saturate")
    return _to_codes(np.rint(real, out=real), dtype, along(np.asarray(zero_point, np.float64), acc.ndim, axis), False)


MULTIPLIERS = np.finfo(np.float32).tiny, np.nextafter(np.float32(2**31), np.float32(0))
"""The least multiplier and the most: these turn every sum of int32 into 0, and every sum but 0 into the last code."""


def scale_of_products(scale_a: ArrayLike, scale_b: ArrayLike) -> Array:
    """scale_a * scale_b, float32; its largest number for what is beyond."""
    product = _wide(scale_a) * _wide(scale_b)
    return np.asarray(np.minimum(product, np.finfo(np.float32).max), np.float32)


def multiplier_of(scale_a: ArrayLike, scale_b: ArrayLike, scale_y: ArrayLike) -> Array:
    """The requantisation multiplier (scale_a * scale_b) / scale_y, each step rounded to float32, within
    ``MULTIPLIERS``."""
    real = _wide(scale_of_products(scale_a, scale_b)) / _wide(scale_y)
    return np.asarray(np.clip(real, *MULTIPLIERS), np.float32)


def _wide(scale: ArrayLike) -> Array:
    """float32 in float64: one product or quotient of two such numbers, rounded to float32, is that of float32."""
    return np.asarray(scale, np.float32).astype(np.float64)


def absmax_scale(x: Array, dtype: str = "int8", axis: int | None = None, *, block_size: int | None = None) -> Array:
    """Symmetric scale max|x| / highest value of ``dtype`` (int8: 127, fp8_e4m3fn: 448), float32.

    0-d, one value per slice along ``axis``, or one per block along it. A slice whose scale would be zero or
    subnormal gets scale 1. Raises UsageError for an unknown ``dtype`` and a block size that does not divide.
    """
    high = np.float32(get(dtype).max if get(dtype).kind == "float" else code_range(dtype)[1])
    values = np.abs(np.asarray(x, np.float32))
    others: tuple[int, ...] | None
    if block_size is not None:
        values, others = _in_blocks(values, -1 if axis is None else axis, block_size)
    else:
        others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    peak: Array = np.asarray(np.max(values, axis=others, initial=0), np.float32)
    scale = peak / high
    return np.asarray(np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1)), np.float32)


def _in_blocks(values: Array, axis: int, block_size: int) -> tuple[Array, tuple[int, ...]]:
    """Blocks along ``axis`` as an axis of their own behind it, and that axis."""
    axis %= values.ndim
    if block_size < 1 or values.shape[axis] % block_size:
        raise UsageError(_does_not_fill(block_size, values.shape[axis], axis))
    shape = (*values.shape[:axis], values.shape[axis] // block_size, block_size, *values.shape[axis + 1 :])
    return values.reshape(shape), (axis + 1,)


def _does_not_fill(block_size: int, length: int, axis: int) -> Problem:
    what = f"blocks of {block_size} do not fill the {length} values along axis {axis}"
    return Problem(what, "", f"a block size that divides {length}")


def _to_codes(rounded: Array, dtype: str, zero: Array, narrow: bool, added: bool = False) -> Array:
    """Whole numbers, clipped after ``zero`` was ``added``, as codes; NaN becomes the zero point.

    Works in the memory of ``rounded``, which the caller made for it.
    """
    low, high = code_range(dtype, narrow)
    # float32 holds every sum of an 8- or 16-bit format that is not clipped; int32 needs float64
    wide = rounded.astype(np.float64) if dtype == "int32" else np.asarray(rounded)
    if np.any(zero) and not added:
        wide += zero.astype(wide.dtype)
    missing = np.isnan(wide)
    if np.any(missing):
        wide = np.where(missing, zero.astype(wide.dtype), wide)
    return np.clip(wide, low, high, out=wide).astype(CONTAINERS[dtype])
