"""Times of ops: numbers, or tables by stage, chunk and microbatch, brought to whole ticks of one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from accelsim.errors import Problem, UsageError

Number = int | Fraction
Cost = Number | Sequence["Cost"]
"""One number for all, or one entry per stage; such an entry is a number or one entry per chunk; such an entry is a
number or one number per microbatch."""

LEVELS = ("stage", "chunk", "microbatch")


def leaves(cost: Cost) -> Iterable[Number]:
    """All numbers of a cost."""
    if isinstance(cost, Sequence):
        for entry in cost:
            yield from leaves(entry)
    else:
        yield cost


def problems_of(
    name: str, cost: Cost, sizes: tuple[int, ...], levels: tuple[str, ...] = LEVELS
) -> list[Problem]:
    """Return what is wrong with a cost: ``sizes`` of each level; numbers that are negative, or no int or Fraction."""
    if isinstance(cost, Sequence):
        if not sizes:
            return [Problem("too many levels of tables", name, f"at most by {', '.join(LEVELS)}")]
        if len(cost) != sizes[0]:
            return [Problem(f"{len(cost)} entries", name, f"{sizes[0]}, one per {levels[0]}")]
        return [
            problem for index, entry in enumerate(cost)
            for problem in problems_of(f"{name}[{index}]", entry, sizes[1:], levels[1:])
        ]  # fmt: skip
    if not isinstance(cost, int | Fraction) or cost < 0:
        return [Problem(f"{cost!r}", name, "an int or a Fraction from 0: simulated time holds no floats")]
    return []


def ticks_per_unit(costs: Iterable[Cost]) -> int:
    """The least number of ticks into which a unit must be cut for all costs to be whole."""
    return lcm(*{Fraction(number).denominator for cost in costs for number in leaves(cost)}, 1)


def scaled(cost: Cost, ticks: int) -> Cost:
    """The cost in ticks."""
    if isinstance(cost, Sequence):
        return [scaled(entry, ticks) for entry in cost]
    return int(cost * ticks)


def entry(cost: Cost, *indices: int) -> Cost:
    """Return what a cost says at some indices, from the outermost level in: a number, or what is left of a table."""
    for index in indices:
        if not isinstance(cost, Sequence):
            return cost
        cost = cost[index]
    return cost


def by_microbatch(cost: Cost, stage: int, chunk: int, microbatches: int) -> list[int]:
    """Ticks of each microbatch of one chunk."""
    found = entry(cost, stage, chunk)
    return [int(one) for one in leaves(found)] if isinstance(found, Sequence) else [int(found)] * microbatches


def whole(cost: Cost, ticks: int, *indices: int) -> int:
    """One number of a cost in ticks."""
    found = entry(cost, *indices)
    assert not isinstance(found, Sequence)
    return int(found * ticks)


class Given(NamedTuple):
    """A cost that was given: its name, and how long its tables must be, from the outermost in."""

    name: str
    cost: Cost
    sizes: tuple[int, ...]


def checked(costs: Iterable[Given]) -> None:
    """UsageError with everything that is wrong with the costs."""
    problems = [problem for given in costs for problem in problems_of(*given)]
    if problems:
        raise UsageError(problems)
