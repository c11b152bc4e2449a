"""Energy of arithmetic in any number format, from the few operations that a source states for a node.

The rows of an energy table that no source has are made here when it is read (``derived_energy``). The model counts
the cells of textbook circuits and fits what a cell costs through the stated rows of the same node, so a stated row
comes out as stated. With s = mantissa bits + 1 (significand), e = exponent bits, w = energy of adding a bit:

* integer addition: linear in the bits between the stated widths, proportional below the smallest;
* integer multiplication: one cell per pair of bits (``scaling.multiply_energy``);
* float multiplication: w e + a s + b s^2, exponent addition, rounding and the s x s array of the significands;
* float addition: w e + a s + b s log2 s, exponent comparison, adder and the two shifters.

a and b go through fp16 and fp32. bf16 is left out of the fit: what the model says for it checks it (within
10 % of the rows of both nodes, see tests/unit/spec/test_arithmetic_energy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from accelsim.errors import UsageError
from accelsim.formats import table
from accelsim.formats.table import Format
from accelsim.spec.names import nearest_format, operand_formats
from accelsim.spec.scaling import multiply_energy

POPCOUNT_BITS = 32
"""Bits of a word of binary products that are counted together before the count is added to the int32 sum."""


@dataclass(frozen=True)
class Stated:
    """Energies that sources state for one node, in J (or any one unit) by format.

    ``multiply`` has at least int8, int32, fp16 and fp32; ``add`` too. Both may have more: such a row is used
    as it stands. Files of ``hwspecs/arithmetic`` hold them, each with its source.
    """

    multiply: Mapping[str, float]
    add: Mapping[str, float]

    @property
    def per_bit(self) -> float:
        """Energy of a full adder: an int8 addition has eight."""
        return self.add["int8"] / 8


def add_energy(name: str, stated: Stated) -> float:
    """Energy of one addition in a format, which is what a vector operation is counted as.

    Raises UsageError for what is no float, integer or binary format, and for a pair.
    """
    (fmt,) = _operands(name, most=1)
    if fmt.name in stated.add:
        return stated.add[fmt.name]
    if fmt.kind != "float":
        return _integer_addition(fmt.bits, stated)
    width = fmt.mantissa + 1
    line, shifts = _fit(stated, stated.add, log2)
    return stated.per_bit * fmt.exponent + line * width + shifts * width * log2(width)


def _integer_addition(bits: int, stated: Stated) -> float:
    """Straight lines through the origin and the stated widths, the last one prolonged."""
    widths = sorted((fmt.bits, fmt.name) for fmt in map(table.get, stated.add) if fmt.kind == "int")
    lines = list(pairwise([(0, ""), *widths]))
    (small, below), (large, above) = next((line for line in lines if bits <= line[1][0]), lines[-1])
    low, high = stated.add[below] if below else 0.0, stated.add[above]
    return low + (high - low) * (bits - small) / (large - small)


def product_energy(name: str, stated: Stated) -> float:
    """Energy of one multiplication in a format, or in a pair of integers or of floats (int4xint8).

    Raises UsageError for what is no such format.
    """
    if name in stated.multiply:
        return stated.multiply[name]
    one, other = (_operands(name) * 2)[:2]
    if one.kind != "float":
        return multiply_energy(one.bits, other.bits, stated.multiply["int8"], stated.multiply["int32"])
    widths = one.mantissa + 1, other.mantissa + 1
    line, cell = _fit(stated, stated.multiply, float)
    exponents = stated.per_bit * max(one.exponent, other.exponent)
    return exponents + line * sum(widths) / 2 + cell * widths[0] * widths[1]


def _fit(stated: Stated, column: Mapping[str, float], growth: Callable[[float], float]) -> tuple[float, float]:
    """(a, b) of E = w e + s (a + b growth(s)) through fp16 and fp32."""
    points = []
    for fmt in table.get("fp16"), table.get("fp32"):
        width = fmt.mantissa + 1
        points.append((growth(width), (column[fmt.name] - stated.per_bit * fmt.exponent) / width))
    (x16, y16), (x32, y32) = points
    slope = (y32 - y16) / (x32 - x16)
    return y16 - slope * x16, slope


def sum_format(name: str) -> str:
    """Format in which products are summed up: int32 behind integers, fp32 behind floats, fp64 behind fp64."""
    kinds = _operands(name)
    if kinds[0].kind != "float":
        return "int32"
    return "fp64" if any(fmt.name == "fp64" for fmt in kinds) else "fp32"


def mac_energy(name: str, stated: Stated) -> float:
    """Energy of a multiply-accumulate: one product and one addition in ``sum_format``.

    int1 is XNOR and population count: a cell of the multiplier, and the share of one bit in counting a word
    of ``POPCOUNT_BITS`` (a full adder) and in adding the count to the sum. Raises UsageError for what is no
    such format.
    """
    addition = add_energy(sum_format(name), stated)
    if [fmt.kind for fmt in _operands(name)] == ["binary"]:
        return product_energy(name, stated) + stated.add["int32"] / 32 + addition / POPCOUNT_BITS
    return product_energy(name, stated) + addition


def _operands(name: str, most: int = 2) -> tuple[Format, ...]:
    """The formats of at most so many operands: all floats, or all integers (binary is one)."""
    formats = operand_formats(name) or ()
    kinds = {"int" if fmt.kind == "binary" else fmt.kind for fmt in formats[: most + 1]}
    if len(formats) <= most and kinds in ({"float"}, {"int"}):
        return formats
    expected = "a float, an integer" + (", or a pair of floats or of integers" if most > 1 else "")
    raise UsageError(f"no energy of {name!r}", "", expected, nearest_format(name))
