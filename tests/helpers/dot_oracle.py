"""An exact oracle of Tensor Core dot products in whole numbers and fractions, and values of any float format."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accelsim.formats.dot import RULES, operands
from accelsim.formats.dot_block import Block
from accelsim.formats.table import Format

F32 = NDArray[np.float32]


def block_of(name: str, fmt: str, out: str) -> Block:
    found = RULES[name].block(operands(fmt), out)
    assert found is not None
    return found


def exponent(value: Fraction, least: int) -> int:
    """Exponent of a value whose subnormals have the exponent ``least``."""
    found = value.numerator.bit_length() - value.denominator.bit_length()
    size = abs(value)
    while size >= Fraction(2) ** (found + 1):
        found += 1
    while size < Fraction(2) ** found:
        found -= 1
    return max(found, least)


def cut(value: Fraction, quantum: Fraction) -> Fraction:
    """Truncated toward zero to a multiple of ``quantum``."""
    whole = abs(value) // quantum
    return (whole if value >= 0 else -whole) * quantum


def to_output(value: Fraction, out: str, kept: int) -> float:
    """FP32: truncated to ``kept`` fraction bits; FP16: to nearest even. Beyond the range: infinity."""
    if value == 0:
        return 0.0
    if out == "fp32":
        quantum = Fraction(2) ** (exponent(value, -126) - kept)
        result = cut(value, quantum)
        return math.copysign(math.inf, value) if abs(result) >= Fraction(2) ** 128 else math.copysign(result, value)
    quantum = Fraction(2) ** (exponent(value, -14) - 10)
    rounded = round(value / quantum) * quantum
    return math.copysign(math.inf, value) if abs(rounded) >= 65536 else math.copysign(rounded, value)


def turn(a: list[float], b: list[float], c: float, name: str, fmt: str, out: str) -> float:
    """Products on top of c: non-finite as IEEE, else exact in fractions. Knows only the parameters of the rule."""
    block, (first, second) = block_of(name, fmt, out), operands(fmt)
    terms = [x * y for x, y in zip(a, b, strict=True)] + [c]
    if not all(map(math.isfinite, terms)):
        return sum(terms)
    left, right = [Fraction(x) for x in a], [Fraction(y) for y in b]
    addends = [
        (x * y, exponent(x, 1 - first.bias) + exponent(y, 1 - second.bias))
        for x, y in zip(left, right, strict=True)
        if x and y
    ]
    if c:
        addends.append((Fraction(c), exponent(Fraction(c), -126)))
    largest = max([e for _, e in addends] + [block.floor])
    total = sum((cut(value, Fraction(2) ** (largest - block.fraction)) for value, _ in addends), Fraction(0))
    return to_output(total, out, block.result)


def rounded_sum(left: float, right: float, out: str) -> float:
    """The exact sum of two numbers of the output format, rounded once to nearest even; non-finite as IEEE."""
    if not (math.isfinite(left) and math.isfinite(right)):
        return left + right
    value = Fraction(left) + Fraction(right)
    if value == 0:
        return left + right  # exact, with the sign of zero that IEEE gives
    fraction, least, top = (10, -14, Fraction(65536)) if out == "fp16" else (23, -126, Fraction(2) ** 128)
    quantum = Fraction(2) ** (exponent(value, least) - fraction)
    total = round(value / quantum) * quantum
    return math.copysign(math.inf, value) if abs(total) >= top else float(total)


def oracle_block(a: list[float], b: list[float], c: float, name: str, fmt: str, out: str) -> float:
    """One block, turn by turn; what stays apart is rounded to the output and added behind it."""
    block = block_of(name, fmt, out)
    total = 0.0 if block.apart else c
    for each in range(block.turns):
        mine = [k for k in range(len(a)) if k // 2 % block.turns == each]
        total = turn([a[k] for k in mine], [b[k] for k in mine], total, name, fmt, out)
    return rounded_sum(total, c, out) if block.apart else total


def oracle(a: F32, b: F32, c: float, name: str, fmt: str, out: str) -> float:
    """A dot product, block by block."""
    block = block_of(name, fmt, out)
    if c and out == "fp16" and block.apart and math.isfinite(c):
        c = to_output(Fraction(c), out, 10)
    outside, total = c, 0.0 if block.promote else c
    for first in range(0, len(a), block.size):
        part = slice(first, first + block.size)
        total = oracle_block(a[part].tolist(), b[part].tolist(), total, name, fmt, out)
        if block.promote and (part.stop % block.promote == 0 or part.stop >= len(a)):
            outside, total = rounded_sum(outside, total, out), 0.0
    return outside if block.promote else total


def values(row: Format, rng: np.random.Generator, shape: tuple[int, ...], spread: int) -> F32:
    """Values of a float format, exponents anywhere within ``spread`` of a random one; zeros and subnormals too."""
    fraction = rng.integers(0, 1 << row.mantissa, shape)
    low, high = 1 - row.bias, row.emax
    middle = int(rng.integers(low, high + 1))
    exponents = np.clip(middle + rng.integers(-spread, spread + 1, shape), low - 1, high)
    normal = exponents >= low
    significand = fraction + normal * (1 << row.mantissa)
    result = np.ldexp(significand.astype(np.float64), np.maximum(exponents, low) - row.mantissa)
    result = np.where(rng.random(shape) < 0.1, 0.0, np.minimum(result, row.max))
    return np.asarray(result * rng.choice([-1.0, 1.0], shape), np.float32)
