"""Dot products as a Tensor Core forms them: aligned to the largest exponent, truncated, added exactly, rounded once.

The rule was found by probing GPUs: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ
CS 7:e330 (2021); Khattak, Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004. Per block of K:

1. products are exact and stay un-normalised: their exponent is the sum of those of their factors;
2. products and the accumulator c are aligned to the largest exponent among them and truncated to F fraction bits;
3. they are added exactly, normalised once, and rounded to the output, which is the c of the next block.

All of it is exact in float64: a product has at most 22 bits, a truncated term at most F + 2, a sum of 33 terms F + 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.formats.loops import compiled
from accelsim.types import Array, Floats

F64 = Floats

TILE = 8192
"""Elements of an output tile: its few temporaries of 64 KiB stay in the second-level cache."""
MANTISSA, FLOAT_FRACTION = 52, 23
EXPONENT_BITS = np.int64(0x7FF << MANTISSA)
TOP = 2.0**128
"""First power of two beyond FP32; the exponent that infinity and NaN count with."""
LEAST_NORMAL = -126
FLOATS = {"fp32": np.float32, "fp16": np.float16}
"""Output format -> its NumPy type."""
NO_FLOOR = -300
"""Below every exponent that a product of two float operands can have."""

BIAS = 1023
OF_ZERO = -4096
"""Exponent of a zero: below that of every product."""
NARROW_EXPONENT = 40
NARROW_MOST = 2.0**NARROW_EXPONENT
"""Largest power of an operand of ``_Narrow``, and its inverse the least: products and their scaling stay normal."""
NARROW_TOP, NARROW_LEAST, NARROW_LEAST_EXPONENT = 2.0**90, 2.0**-90, -90
"""Between these a sum and its scaling stay normal in FP32."""


@dataclass(frozen=True)
class Block:
    """Rule by which one GPU multiplies and adds one input format.

    ``size`` products are added at once, with ``fraction`` bits after the largest exponent; an FP32 result keeps
    ``result`` fraction bits (truncated; an FP16 result is rounded to nearest even). ``floor`` is the least exponent
    that terms are aligned to. With ``apart`` c stays out of the block and is added after it in the output format,
    rounded to nearest even. With ``turns`` a block is added in so many turns: pair k // 2 of its products belongs to
    turn k // 2 mod ``turns``, and a turn begins with the result of the one before. With ``promote`` the sum of every
    so many products (whole blocks) begins at zero, and FP32 lanes add it to c, rounded to nearest even.
    """

    size: int
    fraction: int
    floor: int = NO_FLOOR
    result: int = 23
    apart: bool = False
    turns: int = 1
    promote: int = 0

    def parts(self, K: int) -> Iterator[tuple[slice | NDArray[np.intp], ...]]:
        """Return for each block of ``K`` products the indices of each of its turns."""
        for first in range(0, K, self.size):
            if self.turns == 1:
                yield (slice(first, first + self.size),)
                continue
            k = np.arange(first, min(first + self.size, K))
            turn = (k - first) // 2 % self.turns
            yield tuple(k[turn == each] for each in range(self.turns))


@dataclass(frozen=True)
class Factors:
    """One operand in float64, with the power of two of the exponent of each value (0 for zeros); both also as what
    ``_Narrow`` computes with."""

    values: F64
    powers: F64
    narrow: NDArray[np.float32]
    exponents: NDArray[np.int16]

    def at(self, where: tuple[slice | NDArray[np.intp], ...]) -> Factors:
        """Return the factors at an index of the array."""
        return Factors(self.values[where], self.powers[where], self.narrow[where], self.exponents[where])


def aligned_product(
    a: Array, b: Array, c: Array, block: Block, out: str, least: tuple[float, float]
) -> NDArray[np.float32]:
    """``c + a @ b`` for a [B, M, K], b [B, K, N], c [B, M, N], block by block along K.

    ``least`` are the smallest normal values of the formats of ``a`` and of ``b``: the exponent of a subnormal.
    """
    if c.shape[1] > c.shape[2]:  # a product of two values has no order, and long rows are the faster ones
        y, x, start = (np.swapaxes(each, 1, 2) for each in (b, a, c))
        return np.swapaxes(aligned_product(y, x, start, block, out, (least[1], least[0])), 1, 2)
    if out == "fp32" and (found := _compiled(a, b, c, block, least)) is not None:
        return found
    left, right = _factors(a, least[0]), _factors(b, least[1])
    kind = _Narrow if _are_narrow(block, left, right, c) else _Tile
    result = np.empty(c.shape, np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for batch, rows, columns in _tiles(c.shape, kind.wider * TILE):
            tile = kind(block, out, c[batch, rows, columns].astype(np.float64))
            for turns in block.parts(a.shape[2]):
                tile.add([_chosen(left, right, (batch, rows, columns), k) for k in turns])
            result[batch, rows, columns] = tile.c
    return result


def _compiled(a: Array, b: Array, c: Array, block: Block, least: tuple[float, float]) -> NDArray[np.float32] | None:
    """Compute with the loops that numba compiles. None where it is not installed, or where ``_Narrow``
    would not be exact or an accumulator leaves its range."""
    loops = compiled("dot_compiled")
    if loops is None or block.size > loops.MOST or {a.dtype, b.dtype} != {np.dtype(np.float32)}:
        return None
    sums = np.array(c, np.float32, order="C")
    if not loops.within(sums.reshape(-1), NARROW_LEAST, NARROW_TOP):
        return None
    factors, bits = [], 0
    for each, smallest in zip((a, b), least, strict=True):
        values = np.ascontiguousarray(each)
        exponents = np.empty(values.shape, np.int16)
        lowest = int(np.frexp(smallest)[1]) - 1
        top, bottom, fractions = loops.factored(
            values.reshape(-1).view(np.int32), exponents.reshape(-1), lowest, OF_ZERO
        )
        if top > NARROW_EXPONENT or bottom < -NARROW_EXPONENT:
            return None
        factors += [values, exponents]
        bits += _fraction_bits(fractions)
    if bits > 24 or (4 * block.size + 2) << block.fraction >= 1 << 31:
        return None
    fits = loops.add_blocks(
        *factors, sums, block.size, block.turns, block.fraction, block.floor, NARROW_LEAST_EXPONENT,
        -(1 << (FLOAT_FRACTION - block.result)), block.apart, NARROW_LEAST, NARROW_TOP,
    )  # fmt: skip
    return sums if fits else None


class _Tile:
    """Accumulators of one tile of the output, and the memory that a block needs."""

    wider = 1
    """Tiles of the output are so many times ``TILE``: the shorter a number, the more of them."""

    def __init__(self, block: Block, out: str, c: F64) -> None:
        self.block, self.out, self.c = block, out, c
        self.floor = 2.0**block.floor
        self.sum = self.c
        self.total, self.term, self.power = np.empty_like(c), np.empty_like(c), np.empty_like(c)

    def add(self, turns: Iterable[tuple[Factors, Factors]]) -> None:
        """One block on top of c, turn by turn: a [B, M, k] times b [B, k, N]."""
        self.sum = np.zeros_like(self.c) if self.block.apart else self.c
        for a, b in turns:
            self.sum = self._turn(a, b)
        if self.block.apart:
            kind = FLOATS[self.out]
            self.sum = (self.c.astype(kind) + self.sum.astype(kind)).astype(np.float64)
        self.c = self.sum

    def _turn(self, a: Factors, b: Factors) -> F64:
        """``sum`` and the products, added and rounded."""
        unit = 2.0**-self.block.fraction
        self._largest(a.powers, b.powers)
        quantum = np.multiply(self.power, unit, out=self.power)
        scale = 1 / quantum
        self.total[...] = np.trunc(self.sum * scale) + 0.0  # the sum of zeros is +0
        for k in range(a.values.shape[2]):
            np.multiply(a.values[:, :, k, None], b.values[:, None, k, :], out=self.term)
            np.multiply(self.term, scale, out=self.term)
            np.trunc(self.term, out=self.term)
            np.add(self.total, self.term, out=self.total)
        value = np.multiply(self.total, quantum, out=self.total)
        return self._rounded(value, float(quantum.min()), float(quantum.max()))

    def _largest(self, a: F64, b: F64) -> None:
        """``power``: 2 to the largest exponent of the products and of what they are added to."""
        self.power[...] = np.maximum(_powers(self.sum), self.floor)
        for k in range(a.shape[2]):
            np.multiply(a[:, :, k, None], b[:, None, k, :], out=self.term)
            np.maximum(self.power, self.term, out=self.power)

    def _rounded(self, value: F64, finest: float, coarsest: float) -> F64:
        """To the output format; values are whole multiples of a quantum between ``finest`` and ``coarsest``."""
        if self.out == "fp16":
            return value.astype(np.float16).astype(np.float64)
        kept = self.block.result
        cut = (value.view(np.int64) & -(1 << (MANTISSA - kept))).view(np.float64)
        subnormal = 2.0 ** (LEAST_NORMAL - kept)
        if finest < subnormal:
            small = np.abs(value) < 2.0**LEAST_NORMAL
            cut = np.where(small, np.trunc(value / subnormal) * subnormal, cut)
        if coarsest * 2.0**self.block.fraction * 4 * (self.block.size + 1) >= TOP:
            cut = np.where(np.abs(value) >= TOP, np.copysign(np.inf, value), cut)
        return cut


class _Narrow(_Tile):
    """Compute operands whose products are exact in FP32 and sums exact in int32, in half the memory."""

    wider = 4

    def __init__(self, block: Block, out: str, c: F64) -> None:
        super().__init__(block, out, c)
        terms = (-(-block.size // block.turns), *c.shape)
        self.products, self.whole = np.empty(terms, np.float32), np.empty(terms, np.int32)
        self.exponents, self.largest = np.empty(terms, np.int16), np.empty(c.shape, np.int16)
        self.sums = np.empty(c.shape, np.int32)

    def _turn(self, a: Factors, b: Factors) -> F64:
        """``sum`` and the products, added and rounded."""
        first = np.abs(self.sum)
        if np.any((first >= NARROW_TOP) | ((first < NARROW_LEAST) & (first > 0))):
            return super()._turn(a, b)
        quantum = self._quantum(a, b)
        scale = 1 / quantum
        left, right = _crossed(a.narrow, b.narrow)
        products, whole = self.products[: len(left)], self.whole[: len(left)]
        np.multiply(left, right, out=products)
        np.multiply(products, scale.astype(np.float32), out=products)
        np.copyto(whole, products, casting="unsafe")  # truncates
        np.add.reduce(whole, axis=0, out=self.sums)
        self.sums += np.multiply(self.sum, scale, out=self.total).astype(np.int32)
        value = np.multiply(self.sums, quantum, out=self.total)
        return self._rounded(value, float(quantum.min()), float(quantum.max()))

    def _quantum(self, a: Factors, b: Factors) -> F64:
        """The weight of the last bit that is kept: 2 to the largest exponent of products and sum, less the fraction."""
        bits = (self.sum.view(np.int64) >> MANTISSA).astype(np.int16) & 0x7FF
        self.largest[...] = np.maximum(bits - BIAS, self.block.floor, out=bits)
        left, right = _crossed(a.exponents, b.exponents)
        exponents = np.add(left, right, out=self.exponents[: len(left)])
        np.maximum(self.largest, np.maximum.reduce(exponents, axis=0), out=self.largest)
        np.maximum(self.largest, NARROW_LEAST_EXPONENT, out=self.largest)  # below are zeros alone
        exact = (self.largest.astype(np.int64) + (BIAS - self.block.fraction)) << MANTISSA
        return exact.view(np.float64)


def _crossed(a: Array, b: Array) -> tuple[Array, Array]:
    """a [B, M, k] and b [B, k, N] as [k, B, M, 1] and [k, B, 1, N]: every product of a block."""
    return a.transpose(2, 0, 1)[..., None], b.transpose(1, 0, 2)[:, :, None]


def _are_narrow(block: Block, a: Factors, b: Factors, c: Array) -> bool:
    """Return whether ``_Narrow`` is exact: finite operands of few bits and small exponents, and few enough terms."""
    ends = [(each.powers[each.powers > 0], each) for each in (a, b)]
    if any(powers.size and (powers.max() > NARROW_MOST or powers.min() < 1 / NARROW_MOST) for powers, _ in ends):
        return False
    if any(not np.array_equal(each.narrow, each.values) for _, each in ends) or not np.isfinite(c).all():
        return False
    bits = [_significant(each.narrow) for _, each in ends]
    return sum(bits) <= 24 and (4 * block.size + 2) << block.fraction < 1 << 31


def _significant(values: NDArray[np.float32]) -> int:
    """The most bits that any of the values has from its first to its last one."""
    fraction = int(np.bitwise_or.reduce(values.view(np.int32), axis=None)) & ((1 << 23) - 1)
    return _fraction_bits(fraction)


def _fraction_bits(fractions: int) -> int:
    """Bits of a value whose fraction has these bits, with the one before them."""
    return FLOAT_FRACTION + 2 - (fractions & -fractions).bit_length() if fractions else 1


def _factors(values: Array, least: float) -> Factors:
    """An operand and the powers of its exponents, where a subnormal has the exponent of ``least``."""
    wide = np.ascontiguousarray(values, np.float64)
    powers = _powers(wide, least)
    exponents = (powers.view(np.int64) >> MANTISSA).astype(np.int16) - np.int16(BIAS)
    exponents[powers == 0] = OF_ZERO
    return Factors(wide, powers, wide.astype(np.float32), exponents)


def _chosen(
    a: Factors, b: Factors, tile: tuple[slice, slice, slice], k: slice | NDArray[np.intp]
) -> tuple[Factors, Factors]:
    """The factors of the products ``k`` of a tile."""
    batch, rows, columns = tile
    left, right = (batch, rows, k), (batch, k, columns)
    return a.at(left), b.at(right)


def _powers(values: F64, least: float = 2.0**LEAST_NORMAL) -> F64:
    """2 to the exponent of each value, at least ``least``; 0 for zeros, ``TOP`` for infinities and NaN."""
    powers = (values.view(np.int64) & EXPONENT_BITS).view(np.float64)
    return np.where(values == 0, 0.0, np.clip(powers, least, TOP))


def _tiles(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Slices of an output [B, M, N] into tiles of at most ``most`` elements."""
    batches, rows, columns = shape
    width = max(1, min(columns, most))
    height = max(1, min(rows, most // width))
    depth = max(1, min(batches, most // (width * height)))
    for batch in range(0, batches, depth):
        for row in range(0, rows, height):
            for column in range(0, columns, width):
                yield slice(batch, batch + depth), slice(row, row + height), slice(column, column + width)
