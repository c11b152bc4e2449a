"""Rounding of floats in bit arithmetic: any exponent, mantissa and bias, blocks that stay in cache.

A float32 (or float64) is rounded on its own pattern: adding to the bits that will be cut off carries into those that
stay, and from the mantissa into the exponent, as rounding must. Below the smallest normal value of the target the
bits that stay change with the value; there the sum with 2^23 (2^52) times the smallest subnormal rounds it to a
multiple of that, to nearest even, because the hardware adds so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ldexp
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from accelsim.formats.loops import compiled
from accelsim.formats.table import Format
from accelsim.seeds import generator
from accelsim.types import Array

if TYPE_CHECKING:
    from numpy.random import Generator

Random: TypeAlias = "Generator"

BLOCK = 1 << 14
"""Values per block: its patterns and the arrays beside them fit a level-2 cache of 512 KiB."""


class Word(NamedTuple):
    """A float type of the machine and the layout of its pattern."""

    real: type[np.floating[Any]]
    code: type[np.unsignedinteger[Any]]
    mantissa: int
    bias: int

    @property
    def sign(self) -> int:
        """Pattern of which only the sign bit is set."""
        return 1 << (8 * np.dtype(self.code).itemsize - 1)

    @property
    def inf(self) -> int:
        """Pattern of infinity."""
        return self.sign - (1 << self.mantissa)

    def pattern(self, value: float) -> int:
        """Pattern of a value that the type holds."""
        return int(np.array(value, self.real).view(self.code))


FLOAT32 = Word(np.float32, np.uint32, 23, 127)
FLOAT64 = Word(np.float64, np.uint64, 52, 1023)


@dataclass(frozen=True)
class Plan:
    """Constants for rounding to one format, as bit patterns of type ``word``; ``shift`` bits are cut off."""

    row: Format
    word: Word
    shift: int
    keep: int
    largest: int
    normal: int
    magic: Any
    offset: int


@lru_cache(maxsize=1024)
def plan(row: Format, word: Word) -> Plan:
    """The plan of a float format; ``word`` is float64 where float32 does not hold its constants."""
    if 1 - row.bias - row.mantissa + FLOAT32.mantissa > FLOAT32.bias:
        word = FLOAT64
    shift = word.mantissa - row.mantissa
    magic = word.real(ldexp(row.min_subnormal, word.mantissa))
    offset = (word.bias - row.bias) << row.mantissa
    mask = 2 * word.sign - (1 << shift)
    return Plan(row, word, shift, mask, word.pattern(row.max), word.pattern(row.min_normal), magic, offset)


def _nearest_even(a: Array, plan: Plan, rng: Random) -> Array:
    result: Array = (a >> plan.shift) & 1
    result += (1 << (plan.shift - 1)) - 1
    result += a
    return result


def _nearest_away(a: Array, plan: Plan, rng: Random) -> Array:
    return np.asarray(a + (1 << (plan.shift - 1)))


def _toward_zero(a: Array, plan: Plan, rng: Random) -> Array:
    return a


def _by_chance(a: Array, plan: Plan, rng: Random) -> Array:
    return np.asarray(a + rng.integers(0, 1 << plan.shift, a.shape, a.dtype))


CARRY: dict[str, Callable[[Array, Plan, Random], Array]] = {
    "rne": _nearest_even,
    "rna": _nearest_away,
    "rz": _toward_zero,
    "stochastic": _by_chance,
}
"""Rounding -> what is added to patterns of magnitudes before their last ``shift`` bits are cut off."""


def _away(t: Array, rng: Random) -> Array:
    below = np.floor(t)
    return np.asarray(below + (t - below >= 0.5))


def _chance(t: Array, rng: Random) -> Array:
    below = np.floor(t)
    return np.asarray(below + (rng.random(t.shape) < t - below))


WHOLE: dict[str, Callable[[Array, Random], Array]] = {
    "rne": lambda t, rng: np.rint(t),
    "rna": _away,
    "rz": lambda t, rng: np.floor(t),
    "stochastic": _chance,
}
"""Rounding -> magnitudes (float64) to whole numbers."""


def convert(x: Array, to: Plan, rounding: str, overflow: str, seed: int, as_codes: bool) -> Array:
    """Flat ``x`` (of ``to.word.real``) rounded: values of the same type, or codes of the format's code type."""
    if rounding == "rne" and not as_codes and (quick := _by_loop(x, to, overflow)) is not None:
        return quick
    out = np.empty(x.shape, to.row.code_type if as_codes else x.dtype)
    rng, patterns = generator(seed), x.view(to.word.code)
    finish = _codes if as_codes else _values
    with np.errstate(all="ignore"):
        for start in range(0, x.size, BLOCK):
            piece = patterns[start : start + BLOCK]
            magnitude = piece & (to.word.sign - 1)
            result = _round(magnitude, to, rounding, rng)
            sign = piece & to.word.sign
            _meet_specials(magnitude, result, sign, to, overflow, rounding)
            out[start : start + BLOCK] = finish(result, sign, to)
    return out


def _by_loop(x: Array, to: Plan, overflow: str) -> Array | None:
    """``convert`` to nearest even by the compiled loop, None where there is none or the format is not a usual one."""
    loops, row = compiled("bits_compiled"), to.row
    if loops is None or to.word is not FLOAT32 or not (to.shift and row.has_nan and row.has_negative_zero):
        return None
    quiet = FLOAT32.inf + (1 << (FLOAT32.mantissa - 1))
    beyond = {"saturate": to.largest, "inf": FLOAT32.inf}.get(overflow, quiet)
    patterns, out = np.ascontiguousarray(x).view(np.int32), np.empty(x.shape, np.int32)
    loops.rounded(patterns, out, to.shift, -(1 << to.shift), to.largest, to.normal, to.magic, beyond, quiet)
    return out.view(np.float32)


def _round(a: Array, to: Plan, rounding: str, rng: Random) -> Array:
    """Patterns of magnitudes, rounded as if there were no largest value."""
    result = CARRY[rounding](a, to, rng) & to.keep if to.shift else a.copy()
    small = a < to.normal
    if not small.any():
        return np.asarray(result)
    if rounding == "rne":
        sums = a.view(to.word.real) + to.magic
        sums -= to.magic
        return np.where(small, sums.view(to.word.code), result)
    unit = to.row.min_subnormal
    whole = WHOLE[rounding](a[small].view(to.word.real).astype(np.float64) / unit, rng) * unit
    result[small] = whole.astype(to.word.real).view(to.word.code)
    return np.asarray(result)


def _meet_specials(a: Array, result: Array, sign: Array, to: Plan, overflow: str, rounding: str) -> None:
    """Overflow, infinities, NaN and unsigned zero, in place. Truncation carries no finite value to infinity."""
    word, row = to.word, to.row
    quiet = word.inf + (1 << (word.mantissa - 1))
    if overflow == "saturate":
        np.minimum(result, to.largest, out=result)
    elif (over := result > to.largest).any():
        beyond = word.inf if overflow == "inf" else quiet
        if overflow == "inf" and rounding == "rz":
            np.copyto(result, to.largest, where=over & (a < word.inf))
            over &= a >= word.inf
        np.copyto(result, beyond, where=over)
    if int(a.max()) > word.inf:
        unknown = a > word.inf
        np.copyto(result, quiet if row.has_nan else 0, where=unknown)
        if not row.has_nan:
            sign ^= unknown.astype(word.code) * word.code(word.sign)
    if not row.has_negative_zero:
        np.copyto(sign, 0, where=result == 0)


def _values(result: Array, sign: Array, to: Plan) -> Array:
    result |= sign
    return result.view(to.word.real)


def _codes(result: Array, sign: Array, to: Plan) -> Array:
    word, row = to.word, to.row
    codes = result >> to.shift
    codes -= np.array(to.offset & (2 * word.sign - 1), word.code)
    small = result < to.normal
    if small.any():
        sums = (result.view(word.real) + to.magic).view(word.code)
        sums -= to.word.code(word.pattern(to.magic))
        codes = np.where(small, sums, codes)
    if int(result.max()) >= word.inf:
        np.copyto(codes, row.inf_code or 0, where=result == word.inf)
        np.copyto(codes, (row.nan_codes or (0, 0))[0], where=result > word.inf)
    codes |= sign >> (8 * codes.itemsize - row.bits)
    return codes


def power_codes(x: Array, word: Word, rounding: str, overflow: str, seed: int) -> Array:
    """Codes of e8m0, which has neither sign nor zero: what is not positive becomes NaN. ``x`` is flat.

    To nearest, ties go up to the larger power of two (1.5 -> 2), and what lies between 2^-127 and 2^-126 becomes
    2^-126: so does ml_dtypes, as all 2^32 patterns of float32 show. Downward, what is below 2^-127 becomes that.
    """
    out, rng, patterns = np.empty(x.shape, np.uint8), generator(seed), x.view(word.code)
    last = 254 if overflow == "saturate" else 255
    for start in range(0, x.size, BLOCK):
        a = patterns[start : start + BLOCK]
        result = a + _power_carry(a, word, rounding, rng)
        result >>= word.mantissa
        tiny = a < word.pattern(2.0**-126)
        result = np.where(tiny, (a > word.pattern(2.0**-127)) & (rounding != "rz"), result - (word.bias - 127))
        np.minimum(result, last, out=result)
        unknown = (a - word.code(1)) >= word.inf
        out[start : start + BLOCK] = np.where(unknown, 255, result)
    return out


def _power_carry(a: Array, word: Word, rounding: str, rng: Random) -> Any:
    if rounding == "stochastic":
        return rng.integers(0, 1 << word.mantissa, a.shape, a.dtype)
    return 0 if rounding == "rz" else 1 << (word.mantissa - 1)
