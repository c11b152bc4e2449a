"""The types of spec fields that count something: whole numbers, each with a least and a most.

Beyond the most lies a slip of the pen; the compiler and the machine multiply these numbers in 64 bits.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, TypeVar

from accelsim.errors import brief
from accelsim.spec.declaring import NAME, AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

MOST_SIDE, MOST_LANES, MOST_CLOCKS, MOST_PARTS, MOST_CORES = 65_536, 2**20, 1_000_000, 65_536, 1024
"""Rows and columns of an array, lanes of a vector unit, clocks of anything, parts of a memory, cores of a chip."""
MOST_DEVICES = 131_072
"""Devices of the largest cluster: each has a label, wires and, in a run, a clock of its own."""
MOST_ARRAYS = 256
"""Arrays of a core."""

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
Side = Annotated[int, Field(ge=1, le=MOST_SIDE)]
"""Rows or columns of an array, 1 to 65,536."""
Lanes = Annotated[int, Field(ge=1, le=MOST_LANES)]
"""Elements side by side, 1 to 1,048,576."""
Clocks = Annotated[int, Field(ge=0, le=MOST_CLOCKS)]
"""Clocks of a delay, 0 to 1,000,000."""
Pace = Annotated[int, Field(ge=1, le=MOST_CLOCKS)]
"""Clocks that one of something takes, 1 to 1,000,000."""


def _pace(value: object) -> object:
    """A whole number as it is; '1/2' as the fraction that it is. ValueError with what was expected."""
    if not isinstance(value, str | Fraction):
        return value
    found = re.fullmatch(r"([0-9]{1,7})(?:/([0-9]{1,7}))?", str(value).strip())
    over, under = (int(found[1]), int(found[2] or 1)) if found else (0, 0)
    if not over or not under or not Fraction(1, MOST_RATE) <= Fraction(over, under) <= MOST_CLOCKS:
        raise ValueError(
            f"{brief(str(value))} is no pace; expected a whole number of clocks from 1 to {MOST_CLOCKS}, or a "
            "fraction of one such as 1/2"
        )
    pace = Fraction(over, under)
    return int(pace) if pace.denominator == 1 else pace


MOST_RATE = 1024
"""No more of anything goes into one clock."""
FractionalPace = Annotated[
    Pace | Annotated[Fraction, PlainSerializer(str, return_type=str)],
    BeforeValidator(_pace),
    WithJsonSchema(
        {
            "words": f"whole number, 1 to {MOST_CLOCKS:,}, or a fraction such as `1/2`",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST_CLOCKS},
                {"type": "string", "pattern": r"^[0-9]{1,7}/[0-9]{1,7}$"},
            ],
        }
    ),
]
"""Clocks that one of something takes, or a fraction of a clock where several go into one: 1/2 is double rate."""
Parts = Annotated[int, Field(ge=1, le=MOST_PARTS)]
"""Number of things in a part of the chip, 1 to 65,536."""
Cores = Annotated[int, Field(ge=1, le=MOST_CORES)]
"""Cores of a chip, 1 to 1,024: each has queues and commands of its own."""
Arrays = Annotated[int, Field(ge=1, le=MOST_ARRAYS)]
"""Arrays of a core side by side, 1 to 256: each has a queue of its own."""
Hop = Annotated[int, Field(ge=0, le=1000)]
"""Clocks of a step on the way through a network, 0 to 1,000."""
Queues = Annotated[int, Field(ge=1, le=64)]
"""Queues at an input of a router, 1 to 64."""
Flits = Annotated[int, Field(ge=1, le=4096)]
"""Flits that a queue of a router holds, 1 to 4,096."""
Share = Annotated[float, Field(ge=0.001, le=1)]
"""Usable share of a peak, 0.001 to 1."""
Words = Annotated[str, Field(max_length=200)]
"""A title or the name of a kind: text for a table, up to 200 characters."""
Name = Annotated[str, Field(pattern=NAME, max_length=100)]
"""Name in files and on the command line: small letters, digits, '_', '.', '-'."""

T = TypeVar("T")


def _once(items: list[T]) -> list[T]:
    """A list whose items differ; ValueError with those that come twice."""
    twice = [item for index, item in enumerate(items) if item in items[:index]]
    if twice:
        raise ValueError(f"{brief(twice[0])} is given twice; expected each once")
    return items


once = AfterValidator(_once)
"""Refuses a list in which something comes twice."""
