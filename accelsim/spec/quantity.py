"""The types of spec fields with a dimension: in a file a text with its unit, in Python an SI number.

``Bytes`` is an int. The others are floats, except that a whole number stays an int, so that a clock of 700
MHz is exactly 700000000 and every period is an exact rational.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from accelsim import units
from accelsim.errors import brief, given
from accelsim.spec.declaring import PlainSerializer, PlainValidator, WithJsonSchema


def _validator(
    unit: str, positive: bool = False, whole: bool = False, within: tuple[float, float] | None = None
) -> Callable[[object], float]:
    """Text -> number of ``unit``; ValueError when it has no unit, the wrong one, or is out of range.

    ``within``: least and most, other than those of the dimension.
    """
    row = units.dimension(unit)
    least, most = (Fraction(repr(bound)) for bound in within or (row.least, row.most))

    def validate(text: object) -> float:
        if not isinstance(text, str):
            raise ValueError(f"{given(text)} has no unit; expected {units.expected(unit)}")
        exact = units.parse_exact(text, unit)
        if exact < 0 or (positive and exact == 0):
            bound = "more than zero" if positive else "zero or more"
            raise ValueError(f"{brief(text)} is out of range; expected {bound}")
        if whole and exact.denominator != 1:
            raise ValueError(f"{brief(text)} is not a whole number of {unit}; expected {units.expected(unit)}")
        if exact and not least <= exact <= most:
            expected = range_text(unit, positive, within)
            raise ValueError(f"{brief(text)} is out of range; expected {expected}")
        if exact.denominator == 1:
            return exact.numerator
        return float(exact)

    return validate


def range_text(unit: str, positive: bool, within: tuple[float, float] | None = None) -> str:
    """'1 kHz to 1 PHz'; where zero is allowed besides: '0 s, or 1 fs to 1 s'."""
    row = units.dimension(unit)
    least, most = (units.show(bound, unit, binary=row.binary) for bound in within or (row.least, row.most))
    return f"{least} to {most}" if positive else f"0 {unit}, or {least} to {most}"


def _schema(unit: str, within: tuple[float, float] | None = None) -> dict[str, Any]:
    """JSON schema of a field: a text, its unit, an example, and a range where it is not that of the dimension."""
    row = units.dimension(unit)
    spellings = "|".join(name.replace("^", r"\^") for name in row.spellings)
    pattern = rf"^\s*\+?[0-9._]+([eE][+-]?[0-9]+)?\s*[A-Za-zµ]*?({spellings})\s*$"
    return {
        "type": "string",
        "pattern": pattern,
        "description": f"{row.what} in {unit}",
        "examples": [row.example],
        "unit": unit,
    } | ({"range": [units.show(bound, unit, binary=row.binary) for bound in within]} if within else {})


def _read_as(
    unit: str, positive: bool = False, whole: bool = False, within: tuple[float, float] | None = None
) -> tuple[object, ...]:
    """Declare a number of ``unit``: its text in files and in JSON, which reads back the same; Python dumps keep it."""
    spell = PlainSerializer(lambda value: units.spell(value, unit), return_type=str, when_used="json")
    return PlainValidator(_validator(unit, positive, whole, within)), spell, WithJsonSchema(_schema(unit, within))


Bytes = Annotated[int, *_read_as("B", positive=True, whole=True)]
"""Bytes, a positive int: '24 MiB', '64 B'."""
Width = Annotated[int, *_read_as("B", positive=True, whole=True, within=(1, 2**20))]
"""Bytes that move at a time, a positive int of at most a mebibyte: '64 B'."""
BytesPerSecond = Annotated[float, *_read_as("B/s", positive=True)]
"""Bandwidth, B/s, positive: '34 GB/s'."""
Hertz = Annotated[float, *_read_as("Hz", positive=True)]
"""Frequency, Hz, positive, an int when whole: '700 MHz'."""
Joules = Annotated[float, *_read_as("J")]
"""Energy, J, not negative: '0.3 pJ'."""
JoulesPerByte = Annotated[float, *_read_as("J/B")]
"""Energy per byte, J/B, not negative: '0.9 pJ/B', '4.0 pJ/bit'."""
OpsPerSecond = Annotated[float, *_read_as("op/s", positive=True)]
"""Arithmetic rate, op/s, positive, a multiply-add counts as two: '92 TOPS'."""
Seconds = Annotated[float, *_read_as("s")]
"""Time, s, not negative: '40 ns'."""
Period = Annotated[float, *_read_as("s", positive=True, within=(1e-12, 1e-6))]
"""Period of a clock, s, 1 ps to 1 us: '0.625 ns'."""
SquareMetres = Annotated[float, *_read_as("m²", positive=True)]
"""Area, m², positive: '331 mm2'."""
Watts = Annotated[float, *_read_as("W")]
"""Power, W, not negative: '28 W'."""
TransfersPerSecond = Annotated[float, *_read_as("T/s", positive=True)]
"""Transfers per second and pin, T/s, positive: '3200 MT/s'."""
Amperes = Annotated[float, *_read_as("A")]
"""Current, A, not negative: '57 mA'."""
Volts = Annotated[float, *_read_as("V", positive=True)]
"""Voltage, V, positive: '1.2 V'."""
BilledSeconds = Annotated[float, *_read_as("s", within=(1, 86_400))]
"""Time by which a provider bills, s, 0 or a second to a day: '60 s'."""
DollarsPerHour = Annotated[float, *_read_as("USD/h")]
"""Price of an hour, USD/h, not negative: '32.77 USD/h'."""
Dollars = Annotated[float, *_read_as("USD", positive=True)]
"""Price paid once, USD, positive: '270000 USD'."""
DollarsPerKWh = Annotated[float, *_read_as("USD/kWh")]
"""Price of energy, USD/kWh, not negative: '0.12 USD/kWh'."""
DollarsPerKWMonth = Annotated[float, *_read_as("USD/kW-month")]
"""Rent of a place by the power that it supplies, USD/kW-month, not negative: '184.06 USD/kW-month'."""
