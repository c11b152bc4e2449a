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
) -> Callable[[Any], float]:
    """Text -> number of ``unit``; ValueError when it has no unit, the wrong one, or is out of range.

    ``within``: least and most, other than those of the dimension.
    """
    row = units.dimension(unit)
    least, most = (Fraction(repr(bound)) for bound in within or (row.least, row.most))

    def validate(text: Any) -> float:
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


def _spell(unit: str) -> Any:
    """Writes the field to JSON as a text that reads back the same; Python dumps keep the number."""
    return PlainSerializer(lambda value: units.spell(value, unit), return_type=str, when_used="json")


Bytes = Annotated[
    int, PlainValidator(_validator("B", positive=True, whole=True)), _spell("B"), WithJsonSchema(_schema("B"))
]
"""Bytes, a positive int: '24 MiB', '64 B'."""
_WIDTH = (1, 2**20)
Width = Annotated[
    int,
    PlainValidator(_validator("B", positive=True, whole=True, within=_WIDTH)),
    _spell("B"),
    WithJsonSchema(_schema("B", _WIDTH)),
]
"""Bytes that move at a time, a positive int of at most a mebibyte: '64 B'."""
BytesPerSecond = Annotated[
    float, PlainValidator(_validator("B/s", positive=True)), _spell("B/s"), WithJsonSchema(_schema("B/s"))
]
"""Bandwidth, B/s, positive: '34 GB/s'."""
Hertz = Annotated[float, PlainValidator(_validator("Hz", positive=True)), _spell("Hz"), WithJsonSchema(_schema("Hz"))]
"""Frequency, Hz, positive, an int when whole: '700 MHz'."""
Joules = Annotated[float, PlainValidator(_validator("J")), _spell("J"), WithJsonSchema(_schema("J"))]
"""Energy, J, not negative: '0.3 pJ'."""
JoulesPerByte = Annotated[float, PlainValidator(_validator("J/B")), _spell("J/B"), WithJsonSchema(_schema("J/B"))]
"""Energy per byte, J/B, not negative: '0.9 pJ/B', '4.0 pJ/bit'."""
OpsPerSecond = Annotated[
    float, PlainValidator(_validator("op/s", positive=True)), _spell("op/s"), WithJsonSchema(_schema("op/s"))
]
"""Arithmetic rate, op/s, positive, a multiply-add counts as two: '92 TOPS'."""
Seconds = Annotated[float, PlainValidator(_validator("s")), _spell("s"), WithJsonSchema(_schema("s"))]
"""Time, s, not negative: '40 ns'."""
_PERIOD = (1e-12, 1e-6)
Period = Annotated[
    float,
    PlainValidator(_validator("s", positive=True, within=_PERIOD)),
    _spell("s"),
    WithJsonSchema(_schema("s", _PERIOD)),
]
"""Period of a clock, s, 1 ps to 1 us: '0.625 ns'."""
SquareMetres = Annotated[
    float, PlainValidator(_validator("m²", positive=True)), _spell("m²"), WithJsonSchema(_schema("m²"))
]
"""Area, m², positive: '331 mm2'."""
Watts = Annotated[float, PlainValidator(_validator("W")), _spell("W"), WithJsonSchema(_schema("W"))]
"""Power, W, not negative: '28 W'."""
TransfersPerSecond = Annotated[
    float, PlainValidator(_validator("T/s", positive=True)), _spell("T/s"), WithJsonSchema(_schema("T/s"))
]
"""Transfers per second and pin, T/s, positive: '3200 MT/s'."""
Amperes = Annotated[float, PlainValidator(_validator("A")), _spell("A"), WithJsonSchema(_schema("A"))]
"""Current, A, not negative: '57 mA'."""
Volts = Annotated[float, PlainValidator(_validator("V", positive=True)), _spell("V"), WithJsonSchema(_schema("V"))]
"""Voltage, V, positive: '1.2 V'."""
