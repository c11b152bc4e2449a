"""The inner loops of ``dot_block`` for FP32 results, compiled by numba (extra ``fast``): equal to the NumPy ones.

For operands of which ``dot_block`` says that products are exact in FP32 and sums of a block in int32. Rows of the
second operand are taken in pieces that stay in the first-level cache, four of them at a time; a zero of the first
operand adds nothing and is left out. Every number has 32 bits or 16: vectors of a processor hold as many as there can
be.
"""

from __future__ import annotations

import numba
import numpy as np

from accelsim.types import Array

if getattr(numba.config, "DISABLE_JIT", False):
    raise ImportError("NUMBA_DISABLE_JIT is set")  # plain loops in Python would take hours

COLUMNS, ROWS, MOST = 1600, 32, 64
"""Tile of results whose accumulators stay in the second-level cache; most products of a block."""
LANES = 16
"""Numbers of 32 bits in the widest vectors of a processor."""
FRACTION, BIAS = 23, 127
"""Bits of FP32."""
NOTHING = -4096
"""Exponent of a zero."""
compiled = numba.njit(cache=True, error_model="numpy", boundscheck=False)


@compiled
def factored(values: Array, exponents: Array, least: int, of_zero: int) -> tuple[int, int, int]:
    """Write the exponent of each value, at the least ``least`` and ``of_zero`` for zeros. Returns the largest and the
    least of those of values that are not 0, and the bits that any fraction has. ``values``: float32 as int32, one axis.
    """
    top, bottom, fractions = -(1 << 14), 1 << 14, 0
    for index in range(values.size):
        bits = values[index] & 0x7FFFFFFF
        exponent = max((bits >> FRACTION) - BIAS, least)
        fractions |= bits & ((1 << FRACTION) - 1)
        if bits:
            top, bottom = max(top, exponent), min(bottom, exponent)
        exponents[index] = exponent if bits else of_zero
    return top, bottom, fractions


@compiled
def within(values: Array, low: float, high: float) -> bool:
    """Return whether the size of each value (one axis) is 0, or at least ``low`` and below ``high``: no NaN is."""
    outside = 0
    for index in range(values.size):
        size = abs(values[index])
        outside += not (size == 0 or (size >= low and size < high))
    return outside == 0


@compiled
def _widest(largest: Array, exponents: Array, rows: Array, mine: Array, count: int, n0: int, width: int) -> None:
    """The largest exponents with those of the products of some ``rows``, a multiple of four."""
    for at in range(0, count, 4):
        a, b = exponents[rows[at], n0 : n0 + width], exponents[rows[at + 1], n0 : n0 + width]
        c, d = exponents[rows[at + 2], n0 : n0 + width], exponents[rows[at + 3], n0 : n0 + width]
        ea, eb, ec, ed = mine[at], mine[at + 1], mine[at + 2], mine[at + 3]
        for n in range(width):
            first, second = np.int16(ea + a[n]), np.int16(eb + b[n])
            third, fourth = np.int16(ec + c[n]), np.int16(ed + d[n])
            left = first if first > second else second
            right = third if third > fourth else fourth
            both = left if left > right else right
            largest[n] = both if both > largest[n] else largest[n]


@compiled
def _added(
    total: Array, scale: Array, values: Array, rows: Array, mine: Array, count: int, n0: int, width: int
) -> None:
    """The products of some ``rows``, a multiple of four, in units of the last bit that is kept, truncated and added."""
    for at in range(0, count, 4):
        a, b = values[rows[at], n0 : n0 + width], values[rows[at + 1], n0 : n0 + width]
        c, d = values[rows[at + 2], n0 : n0 + width], values[rows[at + 3], n0 : n0 + width]
        va, vb, vc, vd = mine[at], mine[at + 1], mine[at + 2], mine[at + 3]
        for n in range(width):
            left = np.int32((va * a[n]) * scale[n]) + np.int32((vb * b[n]) * scale[n])
            right = np.int32((vc * c[n]) * scale[n]) + np.int32((vd * d[n]) * scale[n])
            total[n] += left + right


@compiled
def _chosen(
    values: Array, exponents: Array, first: int, last: int, turns: int, turn: int, into: tuple[Array, Array, Array]
) -> int:
    """Rows, factors and exponents of the products of one turn of a block whose factor is not 0; how many, a multiple of
    four, the last of them zeros."""
    rows, factors, tops = into
    count = 0
    for k in range(first, last):
        if values[k] != 0 and (turns == 1 or ((k - first) // 2) % turns == turn):
            rows[count], factors[count], tops[count] = k, values[k], exponents[k]
            count += 1
    while count % 4:
        rows[count], factors[count], tops[count] = first, np.float32(0.0), np.int16(NOTHING)
        count += 1
    return count


@compiled
def _rounded(own: Array, total: Array, quantum: Array, mask: int, width: int) -> None:
    """Sums truncated to the bits that FP32 keeps, and to those of ``mask``."""
    bits = own.view(np.int32)
    for n in range(width):
        size = np.int32(abs(total[n]))
        own[n] = np.float32(size)
        above = np.int32(1) if np.int32(own[n]) > size else np.int32(0)
        bits[n] = np.int32(bits[n] - above) & np.int32(mask)
        value = own[n] * quantum[n]
        own[n] = -value if total[n] < 0 else value


@compiled
def add_blocks(
    a: Array, ea: Array, b: Array, eb: Array, c: Array, size: int, turns: int, fraction: int,
    floor: int, least: int, mask: int, apart: bool, low: float, high: float,
) -> bool:  # fmt: skip
    """Add ``a @ b`` to ``c``, block by block: a, ea [B, M, K], b, eb [B, K, N], c [B, M, N] float32, in place.

    ``ea``, ``eb``: exponents, int16. ``floor``, ``least``: least exponents that terms, and sums, are aligned to;
    ``mask``: the bits of FP32 that a result keeps; ``low``, ``high``: what an accumulator must lie between, or be 0.
    False where one does not: ``c`` is of no use then.
    """
    batches, rows, depth = a.shape
    columns = b.shape[2]
    largest, total = np.empty(COLUMNS, np.int16), np.empty(COLUMNS, np.int32)
    scale, quantum, own = (np.empty(COLUMNS, np.float32), np.empty(COLUMNS, np.float32), np.empty(COLUMNS, np.float32))
    scale_bits, quantum_bits, own_bits = scale.view(np.int32), quantum.view(np.int32), own.view(np.int32)
    into = (np.empty(MOST, np.int64), np.empty(MOST, np.float32), np.empty(MOST, np.int16))
    lowest, outside = np.int16(max(floor, -(1 << 14))), 0
    pieces = max(1, -(-columns // COLUMNS))  # of about one width: a short one costs nearly as much
    piece = max(1, -(-columns // (pieces * LANES))) * LANES
    for batch in range(batches):
        for n0 in range(0, columns, piece):
            width = min(piece, columns - n0)
            for m0 in range(0, rows, ROWS):
                for first in range(0, depth, size):
                    last = min(first + size, depth)
                    for m in range(m0, min(m0 + ROWS, rows)):
                        here = c[batch, m, n0 : n0 + width]
                        for n in range(width):
                            own[n] = np.float32(0.0) if apart else here[n]
                        for turn in range(turns):
                            count = _chosen(a[batch, m], ea[batch, m], first, last, turns, turn, into)
                            for n in range(width):
                                top = np.int16(((own_bits[n] >> FRACTION) & 0xFF) - BIAS)
                                largest[n] = top if top > lowest else lowest
                            _widest(largest, eb[batch], into[0], into[2], count, n0, width)
                            for n in range(width):
                                shown = np.int32(max(largest[n], least))
                                scale_bits[n] = (np.int32(fraction + BIAS) - shown) << FRACTION
                                quantum_bits[n] = (shown + np.int32(BIAS - fraction)) << FRACTION
                                total[n] = np.int32(own[n] * scale[n])
                            _added(total, scale, b[batch], into[0], into[1], count, n0, width)
                            _rounded(own, total, quantum, mask, width)
                        for n in range(width):
                            value = here[n] + own[n] if apart else own[n]
                            here[n] = value
                            near = abs(value)
                            outside += near >= high or (near < low and near > 0)
                    if outside:
                        return False
    return True
