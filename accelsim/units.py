"""Text with a unit -> SI number, and back. QuantiPhy knows all prefixes; it is loaded for what is rare.

A dimension is named by its SI unit: B, B/s, Hz, J, J/B, W, s, op/s, m², T/s, A, V; of money USD, USD/h, USD/kWh and
USD/kW-month; of CO2 g/kWh. Arithmetic is exact (the digits as they are written, times the prefix), so
``parse("0.9 pJ/B", "J/B")`` is the float nearest to 9e-13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from sys import float_info
from typing import TYPE_CHECKING

from accelsim.errors import Problem, UsageError, brief

if TYPE_CHECKING:
    from quantiphy import Quantity


@dataclass(frozen=True)
class Dimension:
    """Name of a dimension, spellings of its unit, and an example.

    ``spellings`` maps the unit without prefix to its worth in SI units; ``power`` is 2 for an area, whose
    prefix is squared; ``binary`` prefers KiB, MiB, GiB where the number is then whole; ``least`` and ``most`` bound
    what a spec may state other than 0: beyond them lies a slip of the pen, a time in fs would not fit into 64 bits, or
    an energy times a count into a float.
    """

    unit: str
    what: str
    example: str
    spellings: dict[str, int | Fraction]
    power: int = 1
    binary: bool = False
    least: float = 0.0
    most: float = float_info.max


_BIT = Fraction(1, 8)
DIMENSIONS: dict[str, Dimension] = {
    row.unit: row
    for row in (
        Dimension(
            "B",
            "a number of bytes",
            "24 MiB",
            {"B": 1, "byte": 1, "bytes": 1, "bit": _BIT},
            binary=True,
            least=1,
            most=2**60,
        ),
        Dimension("B/s", "a bandwidth", "34 GB/s", {"B/s": 1, "bit/s": _BIT}, least=1, most=1e15),
        Dimension("Hz", "a frequency", "1.41 GHz", {"Hz": 1}, least=1e3, most=1e15),
        Dimension("J", "an energy", "0.9 pJ", {"J": 1}, least=1e-18, most=1),
        Dimension("J/B", "an energy per byte", "0.9 pJ/B", {"J/B": 1, "J/byte": 1, "J/bit": 8}, least=1e-18, most=1),
        Dimension("W", "a power", "28 W", {"W": 1}, least=1e-12, most=1e6),
        Dimension("s", "a time", "40 ns", {"s": 1}, least=1e-15, most=1),
        Dimension(
            "op/s",
            "an arithmetic rate (a multiply-add counts as two)",
            "92 TOPS",
            dict.fromkeys(("op/s", "OP/s", "OPS", "FLOP/s", "FLOPS"), 1),
            least=1e3,
            most=1e21,
        ),
        Dimension("m²", "an area", "331 mm2", {"m2": 1, "m^2": 1, "m²": 1}, power=2, least=1e-12, most=1),
        Dimension("T/s", "a rate of transfers per pin", "3200 MT/s", {"T/s": 1}, least=1e6, most=1e12),
        Dimension("A", "a current", "57 mA", {"A": 1}, least=1e-9, most=1e3),
        Dimension("V", "a voltage", "1.2 V", {"V": 1}, least=1e-2, most=100),
        Dimension("USD", "a price", "270000 USD", {"USD": 1, "$": 1}, least=0.01, most=1e12),
        Dimension("USD/h", "a price by the hour", "32.77 USD/h", {"USD/h": 1, "$/h": 1}, least=1e-6, most=1e6),
        Dimension("USD/kWh", "a price of energy", "0.12 USD/kWh", {"USD/kWh": 1, "$/kWh": 1}, least=1e-4, most=100),
        Dimension(
            "USD/kW-month",
            "a rent by power",
            "184.06 USD/kW-month",
            {"USD/kW-month": 1, "$/kW-month": 1},
            1,
            False,
            0.01,
            1e5,
        ),
        Dimension("g/kWh", "grams of CO2 per energy", "400 g/kWh", {"g/kWh": 1}, least=1e-3, most=1e4),
    )
}
"""Every dimension, by its SI unit."""

_NUMBER = re.compile(r"\s*([+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?)\s*(\S*)\s*$")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_PREFIXES = "PTGMkmunpfa"
MONEY = "USD"
"""Begin of the units of prices: no prefix, since nobody pays millidollars; commas part thousands, read and shown."""
MOST_DIGITS = 400
"""Digits of a number, and powers of ten behind its e, that are too many for any float."""
MOST_CHARACTERS = 1000
"""Characters of a number with its unit, spaces included."""


_USUAL = dict(zip(range(-6, 6), [*"afpnum", "", *"kMGTP"], strict=True))
"""Power of a thousand -> the prefix that we write."""
_WORTH = {prefix: Fraction(1000) ** power for power, prefix in _USUAL.items()} | {
    f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGT", 1)
}
"""Prefixes that need no QuantiPhy."""


@cache
def _quantity() -> type[Quantity]:
    """QuantiPhy with the prefixes that we write; a class of its own keeps other users' preferences alone."""
    from quantiphy import Quantity

    class Ours(Quantity):
        pass

    Ours.set_prefs(output_sf=_PREFIXES, spacer=" ", unity_sf="")
    return Ours


def dimension(unit: str) -> Dimension:
    """The row of ``DIMENSIONS`` for ``unit``; KeyError when there is none."""
    return DIMENSIONS[unit]


def expected(unit: str) -> str:
    """Return what a text of this dimension looks like, for error messages."""
    row = DIMENSIONS[unit]
    return f"{row.what} in {unit}, such as '{row.example}'"


@lru_cache(maxsize=4096)  # the same figures are read for chip after chip
def parse_exact(text: str, unit: str) -> Fraction:
    """``text`` in SI units of ``unit``, exactly. ValueError as for ``parse``."""
    if isinstance(text, str) and len(text) > MOST_CHARACTERS:
        raise ValueError(f"{brief(text)} is beyond what a number can be; expected {expected(unit)}")
    digits = _THOUSANDS.sub("", text) if isinstance(text, str) and unit.startswith(MONEY) else text
    match = _NUMBER.match(digits) if isinstance(digits, str) else None
    if match is None:
        raise ValueError(f"{brief(text)} is not a number with a unit; expected {expected(unit)}")
    number, exponent, suffix = match.groups()
    if not suffix:
        raise ValueError(f"{brief(text)} has no unit; expected {expected(unit)}")
    scale = _scale(suffix, unit)
    if scale is None:
        raise ValueError(f"{brief(text)} has the wrong unit {brief(suffix)}; expected {expected(unit)}")
    if max(len(number), abs(int(exponent or 0))) < MOST_DIGITS:
        value = Fraction(Decimal(number.replace("_", ""))) * scale
        if abs(value) <= float_info.max:
            return value
    raise ValueError(f"{brief(text)} is beyond what a number can be; expected {expected(unit)}")


def parse(text: str, unit: str) -> float:
    """The number in SI units of ``unit`` (a key of ``DIMENSIONS``) that ``text`` states.

    ``parse("24 MiB", "B") == 25165824``, ``parse("20 pJ/bit", "J/B") == 1.6e-10``, ``parse("331 mm2", "m²")
    == 331e-6``. Raises ValueError (saying what was expected) for a bare number, a wrong unit, or what is no
    number.
    """
    return float(parse_exact(text, unit))


@lru_cache(maxsize=1024)
def _scale(suffix: str, unit: str) -> Fraction | None:
    """SI units per ``suffix`` ('GB/s' -> 10**9), None when it is no unit of this dimension."""
    row = DIMENSIONS[unit]
    for spelling, worth in sorted(row.spellings.items(), key=lambda item: -len(item[0])):
        if suffix.endswith(spelling):
            prefix = _prefix(suffix.removesuffix(spelling))
            if prefix is not None:
                return prefix**row.power * worth
    return None


def _prefix(prefix: str) -> Fraction | None:
    """Worth of an SI or binary prefix ('' is 1), None when QuantiPhy does not know it."""
    if prefix in _WORTH:
        return _WORTH[prefix]
    from quantiphy import QuantiPhyError, Quantity

    try:
        quantity = Quantity(f"1 {prefix}g", binary=True)
    except QuantiPhyError:
        return None
    return Fraction(Decimal(repr(float(quantity)))) if quantity.units == "g" else None


def show(value: float, unit: str, digits: int = 4, binary: bool = False) -> str:
    """``value`` (SI units of ``unit``, any text for one) with a prefix, to ``digits`` digits: '34 GB/s'.

    ``binary`` uses KiB, MiB, GiB instead (capacities).
    """
    if unit == "m²":
        return f"{value * 1e6:.{digits}g} mm²"
    if unit.startswith(MONEY):
        return f"{value:,.10g} {unit}"
    text = _whole_binary(value, unit) if binary else _engineering(float(value), unit, digits)
    if text:
        return text
    quantity = _quantity()(value, units=unit)
    if binary:
        return str(quantity.binary(prec=digits - 1, strip_zeros=True))
    return str(quantity.render(prec=digits - 1, strip_zeros=True))


def _whole_binary(value: float, unit: str) -> str:
    """Return '24 MiB' for a number of at most two digits before its binary prefix, '' for any other."""
    for prefix in ("", "Ki", "Mi", "Gi", "Ti"):
        count, rest = divmod(value, int(_WORTH[prefix]))
        if not rest and 1 <= count < 100 and unit:
            return f"{int(count)} {prefix}{unit}"
    return ""


def _engineering(value: float, unit: str, digits: int) -> str:
    """Return what QuantiPhy renders, '' for what has no prefix of ours: 0, an infinity, 1e30."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power, places = divmod(int(exponent or -99), 3)
    if not value or power not in _USUAL:
        return ""
    sign, figures = "-" * (value < 0), mantissa.lstrip("-").replace(".", "").ljust(places + 1, "0")
    rest = figures[places + 1 :].rstrip("0")
    number = f"{sign}{figures[: places + 1]}{'.' * bool(rest)}{rest}"
    return f"{number}{' ' * bool(unit)}{_USUAL[power]}{unit}"


def spell(value: float, unit: str) -> str:
    """``value`` with all its digits and a prefix: ``parse(spell(value, unit), unit) == value``, always."""
    exact = Decimal(value) if isinstance(value, int) else Decimal(repr(float(value)))
    if DIMENSIONS[unit].binary:
        return _spell_binary(value)
    prefix = "m" if unit == "m²" else "" if unit.startswith(MONEY) else _best_prefix(value)
    scale = _scale(prefix + unit, unit)
    assert scale is not None
    digits = exact * scale.denominator / scale.numerator
    text = format(digits.normalize(), "f" if abs(digits.adjusted()) < 18 else "g")
    spelled = f"{text} {prefix}{unit}"
    return spelled if parse(spelled, unit) == value else f"{value!r} {unit}"


def _spell_binary(value: float) -> str:
    """Bytes with the largest binary prefix that leaves a whole number: '24 MiB'."""
    for prefix in ("Ti", "Gi", "Mi", "Ki"):
        scale = _scale(prefix + "B", "B")
        if scale is not None and value >= scale and value % int(scale) == 0:
            return f"{int(value) // int(scale)} {prefix}B"
    return f"{value} B"


def _best_prefix(value: float) -> str:
    """The prefix that leaves one to three digits before the point."""
    if value == 0:
        return ""
    text = show(abs(value), "g", 3)
    prefix = text.rsplit(" ", 1)[-1].removesuffix("g")
    return prefix if prefix in _PREFIXES else ""


def byte_sizes(texts: Sequence[str], named: str = "--size") -> tuple[int, ...]:
    """Return the bytes of sizes such as '64 MiB' (of the option ``named``). Raises UsageError with all invalid ones."""
    sizes, problems = [], []
    for text in texts:
        if text.lstrip().startswith("-"):
            problems.append(Problem(f"{brief(text)} is negative", named, "1 B or more"))
            continue
        try:
            size = amount(text, "B", named)
        except UsageError as error:
            problems += error.problems
            continue
        if size < 1 or size.denominator != 1:
            problems.append(Problem(f"{text!r} is no whole number of bytes", named, "1 B or more"))
        sizes.append(int(size))
    UsageError.raise_for(problems)
    return tuple(sizes)


def amount(text: str, unit: str, named: str) -> Fraction:
    """Return a number with its unit, exact. Raises UsageError for a text of the option ``named`` that is none."""
    try:
        return parse_exact(text, unit)
    except ValueError as error:
        what, _, expected = str(error).partition("; expected ")
        raise UsageError(what, named, expected) from error
