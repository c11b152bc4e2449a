"""Microscaling (MX): blocks of 32 values share a power of two, elements are small floats or int8.

OCP Microscaling Formats (MX) Specification 1.0 (2023), section 6.3: the scale of a block is
2^(floor(log2 max|x|) - emax), emax being the exponent of the largest element; elements are x / scale, rounded and
saturated. So the largest value of a block uses the top binade of its format, and may lie beyond the largest element
by less than a factor of two: then it saturates. The -128 of int8 is left unused, as the specification allows: it
would be the one element of a higher binade, and rounding a second time would take another scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import UsageError, nearest
from accelsim.formats import codec
from accelsim.formats.integer import over_blocks
from accelsim.formats.table import FORMATS, Format, get
from accelsim.types import Array

LOWEST = -127
"""Exponent of the smallest scale, which blocks of zeros have too."""


@dataclass(frozen=True)
class Blocks:
    """Values in an MX format: ``codes`` of the elements, and e8m0 codes of the ``scales``.

    The codes have the shape of the values, the scales that shape divided by the block size along ``axis``.
    """

    name: str
    codes: Array
    scales: Array
    axis: int

    @property
    def size_B(self) -> float:
        """Bytes of codes and scales, packed."""
        row = get(self.name)
        return (self.codes.size * get(row.element).bits + self.scales.size * get(row.scale).bits) / 8

    def decode(self) -> Array:
        """The values, float32; a block whose scale is NaN is NaN throughout."""
        row = get(self.name)
        elements = codec.decode(self.codes, row.element).astype(np.float32) * np.float32(row.unit)
        scales = codec.decode(self.scales, row.scale)
        return np.asarray(elements * over_blocks(scales, elements.shape, self.axis, row.block), np.float32)


def scale_exponents(x: ArrayLike, name: str, axis: int = -1) -> Array:
    """floor(log2 max|x|) - emax of every block of 32 along ``axis``, int16, at least -127; a block of zeros has -127.

    Raises UsageError for a format that is no block format, and when 32 does not divide the axis.
    """
    row = _block_format(name)
    values = np.abs(np.asarray(x, np.float32))
    axis = _axis(values, axis, row)
    split = (*values.shape[:axis], values.shape[axis] // row.block, row.block, *values.shape[axis + 1 :])
    peaks = values.reshape(split).max(axis + 1)
    return np.where(peaks > 0, np.maximum(np.frexp(peaks)[1] - 1 - row.emax, LOWEST), LOWEST).astype(np.int16)


def encode(x: ArrayLike, name: str, axis: int = -1, rounding: str = "rne", seed: int = 0) -> Blocks:
    """``x`` in the MX format ``name``, blocks along ``axis``. A block that holds NaN or an infinity has scale NaN.

    Raises UsageError for a format that is no block format, an unknown rounding, and when 32 does not divide.
    """
    row = _block_format(name)
    values = np.asarray(x, np.float32)
    axis = _axis(values, axis, row)
    finite = np.isfinite(values)
    exponents = scale_exponents(np.where(finite, values, 0), name, axis).astype(np.int32)
    factors = over_blocks(np.ldexp(np.float32(1), -exponents), values.shape, axis, row.block)
    with np.errstate(under="ignore"):
        scaled = np.clip(values * factors, -row.max, row.max) * np.float32(1 / row.unit)
    codes = codec.encode(scaled, row.element, rounding, "saturate", seed)
    split = (*values.shape[:axis], exponents.shape[axis], row.block, *values.shape[axis + 1 :])
    known = finite.reshape(split).all(axis + 1)
    scales = np.where(known, exponents + get(row.scale).bias, 255).astype(np.uint8)
    return Blocks(row.name, codes, scales, axis)


def cast(x: ArrayLike, name: str, axis: int = -1, rounding: str = "rne", seed: int = 0) -> Array:
    """``x`` rounded to an MX format: float32 values, the shape of ``x``. Raises UsageError as ``encode`` does."""
    return encode(x, name, axis, rounding, seed).decode()


def _block_format(name: str) -> Format:
    row = get(name)
    if row.kind != "block":
        blocks = [each.name for each in FORMATS.values() if each.kind == "block"]
        what = f"{row.name} is no format of blocks"
        raise UsageError(what, "", "one of " + ", ".join(blocks), nearest(name, blocks))
    return row


def _axis(values: Array, axis: int, row: Format) -> int:
    """The axis counted from the front, along which whole blocks lie."""
    if not -values.ndim <= axis < values.ndim:
        raise UsageError(f"no axis {axis} in values of shape {values.shape}", "", "an axis of theirs")
    axis %= values.ndim
    length = values.shape[axis]
    if length % row.block:
        what = f"blocks of {row.block} do not fill the {length} values along axis {axis}"
        raise UsageError(what, "", f"a multiple of {row.block} (pad with zeros)")
    return axis
