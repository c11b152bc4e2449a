"""Dot products that need no alignment: BLAS, sequential FP32, FP16 accumulators, integers, BF16 in several passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.types import Array

F32 = NDArray[np.float32]


def blas(a: F32, b: F32, c: F32) -> F32:
    """``a @ b + c`` in FP32: the order of additions is that of the linear algebra library."""
    return np.asarray(np.matmul(a, b) + c, np.float32)


def sequential(a: F32, b: F32, c: F32) -> F32:
    """Along K, one product after the other is added to c; product and sum are each rounded to FP32 (RNE)."""
    total = np.array(c, np.float32)
    term = np.empty_like(total)
    for k in range(a.shape[-1]):
        np.multiply(a[..., :, k, None], b[..., None, k, :], out=term)
        np.add(total, term, out=total)
    return total


def half(a: F32, b: F32, c: F32) -> F32:
    """Sum as :func:`sequential`, with every product and every sum rounded to FP16 (RNE, overflow to infinity).

    FP32 has more than twice the bits of FP16 and two, so rounding twice is rounding once (Figueroa 1995).
    """
    total = to_half(np.asarray(c, np.float32))
    for k in range(a.shape[-1]):
        total = to_half(total + to_half(a[..., :, k, None] * b[..., None, k, :]))
    return total


def whole(a: Array, b: Array, c: Array) -> NDArray[np.int32]:
    """Integers with an INT32 accumulator that wraps around.

    Products and sums are exact in float64 while K * max|a| * max|b| stays below 2^53: for int16 up to K = 2^23.
    """
    exact = np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64)).astype(np.int64)
    return np.asarray((exact + np.asarray(c, np.int64)).astype(np.int32))


def bf16_1(a: F32, b: F32, c: F32) -> F32:
    """Operands rounded to BF16, FP32 accumulate: one pass."""
    return blas(to_bf16(a), to_bf16(b), c)


def bf16_3(a: F32, b: F32, c: F32) -> F32:
    """FP32 operands split in two BF16 parts; three of the four products, the small ones first."""
    return _passes(split(a, 2), split(b, 2), ((1, 0), (0, 1), (0, 0)), c)


def bf16_6(a: F32, b: F32, c: F32) -> F32:
    """FP32 operands split in three BF16 parts; the six products that matter, the small ones first."""
    return _passes(split(a, 3), split(b, 3), ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)), c)


def split(x: F32, parts: int) -> list[F32]:
    """``x`` as a sum of BF16 values, each what the ones before it leave; three parts hold a normal FP32 exactly.

    Infinities and NaN stay in the first part, the others are 0.
    """
    found: list[F32] = []
    rest = np.asarray(x, np.float32)
    with np.errstate(invalid="ignore"):
        for _ in range(parts):
            found.append(to_bf16(rest))
            left = rest - found[-1]
            rest = np.where(np.isfinite(left), left, np.float32(0))
    return found


def to_half(x: F32) -> F32:
    """Values of FP16 (RNE) in float32."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def to_bf16(x: F32) -> F32:
    """Values of BF16 (RNE) in float32."""
    import ml_dtypes

    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def _passes(a: list[F32], b: list[F32], pairs: tuple[tuple[int, int], ...], c: F32) -> F32:
    total = np.asarray(0, np.float32)
    for left, right in pairs:
        total = np.matmul(a[left], b[right]) + total
    return np.asarray(total + c, np.float32)
