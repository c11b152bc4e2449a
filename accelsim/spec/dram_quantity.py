"""Field types that only DRAM files have: widths and densities in bits, and times that may be given in clocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from accelsim import units

FS_PER_S = 10**15
_CLOCKS = re.compile(r"\s*(\d+)\s*tCK\s*$")
_BITS = re.compile(r"\s*(\d+)\s*([KMGT]?)(?:i?)bit\s*$")
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


MOST_CLOCKS, MOST_S = 10**9, 1
"""Longest timing parameter, clocks and s."""


def _span(text: Any) -> Span:
    """'22 tCK' or '13.75 ns'."""
    expected = "whole clocks such as '22 tCK', or a time such as '13.75 ns'"
    if not isinstance(text, str):
        raise ValueError(f"{text!r} has no unit; expected {expected}")
    match = _CLOCKS.match(text)
    if match:
        if int(match[1]) > MOST_CLOCKS:
            raise ValueError(f"{text!r} is out of range; expected at most {MOST_CLOCKS:,} clocks")
        return Span(count=int(match[1]))
    try:
        seconds = units.parse_exact(text, "s")
    except ValueError as error:
        raise ValueError(f"{str(error).partition(';')[0]}; expected {expected}") from error
    if not 0 <= seconds <= MOST_S:
        raise ValueError(f"{text!r} is out of range; expected 0 to {MOST_S} s")
    return Span(fs=round(seconds * FS_PER_S))


def _bits(example: str) -> Callable[[Any], int]:
    def validate(text: Any) -> int:
        match = _BITS.match(text) if isinstance(text, str) else None
        if match is None or int(match[1]) == 0:
            raise ValueError(f"{text!r} is no number of bits; expected a text such as {example!r}")
        return int(match[1]) << (10 * _POWERS[match[2]])

    return validate


def spell_bits(bits: int) -> str:
    """Bits with the largest prefix that leaves a whole number: '8 Gbit'."""
    prefix = next((p for p in "TGMK" if bits % (1 << (10 * _POWERS[p])) == 0), "")
    return f"{bits >> (10 * _POWERS[prefix])} {prefix}bit"


def _schema(pattern: str, what: str, example: str, unit: str) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "string", "pattern": pattern, "description": what, "examples": [example], "unit": unit}
    )


Clocks = Annotated[
    Span,
    PlainValidator(_span),
    PlainSerializer(str, return_type=str, when_used="json"),
    _schema(r"^\s*[0-9.]+\s*(tCK|[munpf]?s)\s*$", "clocks, or a time", "22 tCK", "tCK or s"),
]
"""Clocks ('22 tCK') or a time ('13.75 ns'), a :class:`Span`."""
Bits = Annotated[
    int,
    PlainValidator(_bits("8 Gbit")),
    PlainSerializer(spell_bits, return_type=str, when_used="json"),
    _schema(r"^\s*[0-9]+\s*[KMGT]?i?bit\s*$", "a number of bits", "8 Gbit", "bit"),
]
"""Bits, a positive int: '64 bit', '8 Gbit'. K, M, G are powers of 1024, as JEDEC writes densities."""
