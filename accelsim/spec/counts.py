"""The types of spec fields that count something: whole numbers, each with a least and a most.

Beyond the most lies a slip of the pen; the compiler and the machine multiply these numbers in 64 bits.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from accelsim.errors import brief

MOST_SIDE, MOST_LANES, MOST_CLOCKS, MOST_PARTS, MOST_CORES = 65_536, 2**20, 1_000_000, 65_536, 1024
"""Rows and columns of an array, lanes of a vector unit, clocks of anything, parts of a memory, cores of a chip."""

Side = Annotated[int, Field(ge=1, le=MOST_SIDE)]
"""Rows or columns of an array, 1 to 65,536."""
Lanes = Annotated[int, Field(ge=1, le=MOST_LANES)]
"""Elements side by side, 1 to 1,048,576."""
Clocks = Annotated[int, Field(ge=0, le=MOST_CLOCKS)]
"""Clocks of a delay, 0 to 1,000,000."""
Pace = Annotated[int, Field(ge=1, le=MOST_CLOCKS)]
"""Clocks that one of something takes, 1 to 1,000,000."""
Parts = Annotated[int, Field(ge=1, le=MOST_PARTS)]
"""How many of something a part of the chip has, 1 to 65,536."""
Cores = Annotated[int, Field(ge=1, le=MOST_CORES)]
"""Cores of a chip, 1 to 1,024: each has queues and commands of its own."""
Hop = Annotated[int, Field(ge=0, le=1000)]
"""Clocks of a step on the way through a network, 0 to 1,000."""
Queues = Annotated[int, Field(ge=1, le=64)]
"""Queues at an input of a router, 1 to 64."""
Flits = Annotated[int, Field(ge=1, le=4096)]
"""Flits that a queue of a router holds, 1 to 4,096."""
Share = Annotated[float, Field(ge=0.001, le=1)]
"""Usable share of a peak, 0.001 to 1."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that is neither infinite nor undefined."""
Words = Annotated[str, Field(max_length=200)]
"""A title or the name of a kind: text for a table, up to 200 characters."""

T = TypeVar("T")


def _once(items: list[T]) -> list[T]:
    """A list whose items differ; ValueError with those that come twice."""
    twice = [item for index, item in enumerate(items) if item in items[:index]]
    if twice:
        raise ValueError(f"{brief(twice[0])} is given twice; expected each once")
    return items


once = AfterValidator(_once)
"""Refuses a list in which something comes twice."""
