"""Values to formats and back: cast, encode, decode, with every rounding and every overflow policy.

Whatever ml_dtypes does faster with the wanted meaning, it does (bf16 from float32); the rest is bit arithmetic of
``bits``, which also rounds float64 inputs once only.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats.bits import FLOAT32, FLOAT64, WHOLE, convert, plan, power_codes
from accelsim.formats.table import Format, get
from accelsim.seeds import generator
from accelsim.types import Array

ROUNDINGS: dict[str, str] = {
    "rne": "to nearest, ties to even",
    "rna": "to nearest, ties away from zero",
    "rz": "toward zero",
    "stochastic": "up or down by chance, right on average",
}
"""Rounding -> in words."""

TABLE_BITS = 16
"""Codes of up to so many bits are decoded with a table."""


def cast(x: ArrayLike, name: str, rounding: str = "rne", overflow: str | None = None, seed: int = 0) -> Array:
    """``x`` rounded to the format ``name``: values in its container, the shape of ``x``.

    ``overflow`` ('inf', 'nan', 'saturate'; None: the format's own) is what becomes of what rounds beyond the largest
    value, infinities included; truncation (rz) carries no finite value to infinity. NaN stays NaN; a float without NaN
    makes it zero (of the opposite sign, as ml_dtypes does), an integer 0, int1 -1. ``seed`` is that of the stochastic
    rounding. Raises UsageError for an unknown format, rounding or policy, and for blocks (``mx.cast``).
    """
    row, policy = _checked(name, rounding, overflow)
    values = np.asarray(x)
    if row.kind in ("int", "binary"):
        return _whole(values, row, rounding, seed)
    if row.kind == "scale":
        return decode(encode(values, row.name, rounding, policy, seed), row.name)
    if row.bits == 64:
        with np.errstate(invalid="ignore"):
            return values.astype(np.float64)
    flat = _flat(values, row)
    if _is_native(flat, row, rounding, policy):
        return np.asarray(_native(flat).astype(np.float32)).reshape(values.shape)
    result = convert(
        flat, plan(row, FLOAT32 if flat.dtype == np.float32 else FLOAT64), rounding, policy, seed, as_codes=False
    )
    return result.astype(np.float32, copy=False).reshape(values.shape)


def encode(x: ArrayLike, name: str, rounding: str = "rne", overflow: str | None = None, seed: int = 0) -> Array:
    """The codes that ``cast`` rounds to: unsigned integers of ``code_type``, the shape of ``x``.

    Integers are two's complement in the low bits, int1 is 1 for +1 and 0 for -1, tf32 a float32 pattern whose
    last 13 bits are 0. Raises UsageError as ``cast`` does.
    """
    row, policy = _checked(name, rounding, overflow)
    values = np.asarray(x)
    if row.kind in ("int", "binary") or row.stored or row.bits == 64:
        return _patterns(cast(values, name, rounding, policy, seed), row)
    flat = _flat(values, row)
    word = FLOAT32 if flat.dtype == np.float32 else FLOAT64
    if row.kind == "scale":
        return power_codes(flat, word, rounding, policy, seed).reshape(values.shape)
    if _is_native(flat, row, rounding, policy):
        return _native(flat).view(np.uint16).reshape(values.shape)
    return convert(flat, plan(row, word), rounding, policy, seed, as_codes=True).reshape(values.shape)


def decode(codes: ArrayLike, name: str) -> Array:
    """The values of codes (unsigned integers): float32 (fp64: float64), integers in their container; same shape.

    Raises UsageError for an unknown format, for blocks, and for codes that the format does not have.
    """
    row = _single(name)
    given = np.asarray(codes)
    if given.dtype.kind not in "iu" or (given.size and (given.min() < 0 or int(given.max()) >= _end(row))):
        what = f"{'values that are no' if given.dtype.kind in 'iu' else f'{given.dtype} as'} codes of {row.name}"
        raise UsageError(what, "", f"unsigned integers below {_end(row)}")
    if row.kind in ("int", "binary"):
        return _integers(given, row)
    if row.stored or row.bits >= 32:
        return given.astype(row.code_type).view(row.container)
    if row.bits > TABLE_BITS:
        return _values(given, row)
    return np.asarray(_table(row).take(given))


def _end(row: Format) -> int:
    return 1 << (row.stored or row.bits)


def _single(name: str) -> Format:
    """A format whose values stand alone."""
    row = get(name)
    if row.kind == "block":
        what = f"{row.name} is a format of blocks, whose values share a scale"
        raise UsageError(what, "", f"accelsim.formats.mx for blocks, or its elements: {row.element}")
    return row


def _checked(name: str, rounding: str, overflow: str | None) -> tuple[Format, str]:
    row = _single(name)
    policy = row.overflow if overflow is None else overflow
    problems = []
    if rounding not in ROUNDINGS:
        near = nearest(rounding, ROUNDINGS)
        problems.append(Problem(f"no rounding {rounding!r}", "", "one of " + ", ".join(ROUNDINGS), near))
    if policy not in row.overflows:
        expected = " or ".join(row.overflows)
        problems.append(Problem(f"{row.name} cannot overflow to {policy!r}", "", expected))
    UsageError.raise_for(problems)
    return row, policy


def _flat(values: Array, row: Format) -> Array:
    """One contiguous row of float32, or of float64 where ``values`` need it."""
    if values.dtype.kind == "c":
        raise UsageError(f"complex values have no {row.name}", "", "real numbers")
    small = values.dtype.itemsize < 4 or (values.dtype.kind not in "iu" and values.dtype.itemsize == 4)
    wide = not small or (row.kind == "float" and plan(row, FLOAT32).word is FLOAT64)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(values, np.float64 if wide else np.float32).reshape(-1)


def _is_native(flat: Array, row: Format, rounding: str, policy: str) -> bool:
    """Return whether ml_dtypes rounds so, and faster than the general path."""
    return row.name == "bf16" and flat.dtype == np.float32 and (rounding, policy) == ("rne", "inf")


def _native(flat: Array) -> Array:
    import ml_dtypes  # as long to load as this package

    with np.errstate(invalid="ignore"):
        return flat.astype(ml_dtypes.bfloat16)


def _whole(values: Array, row: Format, rounding: str, seed: int) -> Array:
    """Rounded and clipped to the range of an integer format; exact for integers and float64."""
    if row.kind == "binary":
        return np.where(values >= 0, 1, -1).astype(row.container)
    if values.dtype.kind in "iub":
        return np.clip(values, row.low, row.high).astype(row.container)
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        sizes = WHOLE[rounding](np.abs(wide), generator(seed))
        wide = np.where(np.isnan(wide), 0.0, np.copysign(sizes, wide))
    inside = (wide >= row.low) & (wide < float(row.high) + 1)
    result = np.where(inside, wide, 0).astype(row.container)
    limits = np.where(wide > 0, np.array(row.high, row.container), np.array(row.low, row.container))
    return np.asarray(np.where(inside, result, limits))


def _patterns(values: Array, row: Format) -> Array:
    """Codes of values that are already of the format."""
    if row.kind == "binary":
        return (values > 0).astype(np.uint8)
    codes = values.view(row.code_type)
    return codes & row.code_type((1 << row.bits) - 1) if row.kind == "int" else codes


def _integers(codes: Array, row: Format) -> Array:
    if row.kind == "binary":
        return (2 * codes.astype(np.int8) - 1).astype(np.int8)
    lifted = codes.astype(row.code_type) << (8 * np.dtype(row.code_type).itemsize - row.bits)
    return np.asarray(lifted.view(row.container) >> (8 * np.dtype(row.container).itemsize - row.bits))


@lru_cache(maxsize=64)
def _table(row: Format) -> Array:
    """Value of every code, float32."""
    table = _values(np.arange(row.codes), row)
    table.flags.writeable = False
    return table


def _values(codes: Array, row: Format) -> Array:
    """Values by the definition of the format, float32."""
    if row.kind == "scale":
        powers = np.ldexp(1.0, codes.astype(np.int64) - row.bias)
        return np.where(codes == 255, np.nan, powers).astype(np.float32)
    codes = codes.astype(np.int64)
    sizes = codes & (row.sign_code - 1)
    fields, digits = sizes >> row.mantissa, sizes & ((1 << row.mantissa) - 1)
    wholes = digits + ((fields > 0).astype(np.int64) << row.mantissa)
    values = np.ldexp(wholes.astype(np.float64), np.maximum(fields, 1) - row.bias - row.mantissa)
    if row.encoding == "fnuz":
        values = np.where(codes == row.sign_code, np.nan, values)
    elif row.has_nan:
        values = np.where(sizes > row.max_code, np.nan, values)
    if row.inf_code is not None:
        values = np.where(sizes == row.inf_code, np.inf, values)
    signed: Array = np.copysign(values, np.where(codes >= row.sign_code, -1.0, 1.0))
    with np.errstate(over="ignore"):
        return signed.astype(np.float32)
