"""Field types that only DRAM files have: widths and densities in bits, and times that may be given in clocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, NamedTuple

from accelsim import units
from accelsim.errors import brief, given
from accelsim.spec.declaring import PlainSerializer, PlainValidator, WithJsonSchema
from accelsim.time import FS_PER_S

_CLOCKS = re.compile(r"\s*([0-9]+)\s*tCK\s*$")
_BITS = re.compile(r"\s*([0-9]+)\s*([KMGT]?)(?:i?)bit\s*$")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class Span:
    """A timing parameter as it stands in the file: so many clocks, or a time in femtoseconds; the other is None."""

    count: int | None = None
    fs: int | None = None

    def clocks(self, clock_fs: int) -> int:
        """Whole clocks of ``clock_fs``; a time is rounded up, as a controller must."""
        return self.count if self.count is not None else -(-(self.fs or 0) // clock_fs)

    def __str__(self) -> str:
        """The text that reads back the same."""
        return f"{self.count} tCK" if self.count is not None else units.spell((self.fs or 0) / FS_PER_S, "s")


class Longest(NamedTuple):
    """The most that a timing parameter may be, in clocks and in seconds."""

    clocks: int
    seconds: Fraction

    def __str__(self) -> str:
        return f"0 to {self.clocks:,} tCK or {units.show(float(self.seconds), 's')}"


DELAY = Longest(100_000, Fraction(1, 10**4))
"""Longest delay between commands: 100 us."""
REFRESH = Longest(10_000_000, Fraction(1, 10**2))
"""Longest time that refreshes wait or take: 10 ms."""


def _span(longest: Longest) -> Callable[[object], Span]:
    """Reads '22 tCK' or '13.75 ns'; ValueError for anything else, and beyond ``longest``."""
    expected = "whole clocks such as '22 tCK', or a time such as '13.75 ns'"

    def validate(text: object) -> Span:
        if not isinstance(text, str):
            raise ValueError(f"{given(text)} has no unit; expected {expected}")
        match = _CLOCKS.match(text)
        if match:
            if len(match[1]) > units.MOST_DIGITS or int(match[1]) > longest.clocks:
                raise ValueError(f"{brief(text)} is out of range; expected {longest}")
            return Span(count=int(match[1]))
        try:
            seconds = units.parse_exact(text, "s")
        except ValueError as error:
            raise ValueError(f"{str(error).partition(';')[0]}; expected {expected}") from error
        if not 0 <= seconds <= longest.seconds:
            raise ValueError(f"{brief(text)} is out of range; expected {longest}")
        return Span(fs=round(seconds * FS_PER_S))

    return validate


MOST_BITS = 2**50
"""Largest density or width, bit."""


def _bits(example: str) -> Callable[[object], int]:
    def validate(text: object) -> int:
        match = _BITS.match(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"{brief(text)} is no number of bits; expected a text such as {example!r}")
        bits = int(match[1]) << (10 * _POWERS[match[2]]) if len(match[1]) <= units.MOST_DIGITS else 0
        if not 1 <= bits <= MOST_BITS:
            raise ValueError(f"{brief(text)} is out of range; expected 1 bit to {spell_bits(MOST_BITS)}")
        return bits

    return validate


def spell_bits(bits: int) -> str:
    """Bits with the largest prefix that leaves a whole number: '8 Gbit'."""
    prefix = next((p for p in "TGMK" if bits % (1 << (10 * _POWERS[p])) == 0), "")
    return f"{bits >> (10 * _POWERS[prefix])} {prefix}bit"


def _read_as(
    reader: Callable[[object], object],
    writer: Callable[[object], str],
    pattern: str,
    what: str,
    example: str,
    unit: str,
    limits: list[str],
) -> tuple[object, ...]:
    schema = {"type": "string", "pattern": pattern, "description": what, "examples": [example], "unit": unit}
    written = PlainSerializer(writer, return_type=str, when_used="json")
    return PlainValidator(reader), written, WithJsonSchema(schema | {"range": limits})


def _span_read_as(longest: Longest, example: str) -> tuple[object, ...]:
    pattern, most = r"^\s*[0-9.]+\s*(tCK|[munpf]?s)\s*$", str(longest).removeprefix("0 to ")
    return _read_as(_span(longest), str, pattern, "clocks, or a time", example, "tCK or s", ["0", most])


Clocks = Annotated[Span, *_span_read_as(DELAY, "22 tCK")]
"""Clocks ('22 tCK') or a time ('13.75 ns') of a delay between commands, a :class:`Span` within ``DELAY``."""
Interval = Annotated[Span, *_span_read_as(REFRESH, "12480 tCK")]
"""Clocks or a time between refreshes, a :class:`Span` within ``REFRESH``."""
Bits = Annotated[
    int,
    *_read_as(
        _bits("8 Gbit"),
        spell_bits,
        r"^\s*[0-9]+\s*[KMGT]?i?bit\s*$",
        "a number of bits",
        "8 Gbit",
        "bit",
        ["1 bit", spell_bits(MOST_BITS)],
    ),
]
"""Bits, a positive int: '64 bit', '8 Gbit'. K, M, G are powers of 1024, as JEDEC writes densities."""
