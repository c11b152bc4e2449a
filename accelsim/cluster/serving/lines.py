"""Something that is simulated at a few places, and lies on straight lines between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
Figure = Callable[[T], float]

MOST = 17
"""Places that are simulated at the most."""
CLOSE = 0.002
"""Between two places nothing more is simulated when the one in the middle is so near to the line between."""


@dataclass(frozen=True)
class Line(Generic[T]):
    """What was simulated at ``places``, in order, of the ``count`` places from the first on. ``error``: how far off the
    line was at the middles that were looked at last, as a share."""

    places: tuple[int, ...]
    found: tuple[T, ...]
    count: int
    error: float

    @property
    def last(self) -> T | None:
        """Return the value at the last place; None where there is none."""
        return self.found[-1] if self.found else None

    def along(self, figure: Figure[T]) -> list[float]:
        """A figure at every place."""
        if not self.found:
            return []
        return [self.at(place, figure) for place in range(self.places[0], self.places[0] + self.count)]

    def at(self, place: int, figure: Figure[T]) -> float:
        """A figure at a place: simulated, or on the line between its neighbours that were."""
        index = bisect_left(self.places, place)
        right = figure(self.found[index])
        if self.places[index] == place:
            return right
        left, before = figure(self.found[index - 1]), self.places[index - 1]
        return left + (place - before) / (self.places[index] - before) * (right - left)


def along(
    simulate: Callable[[int], T],
    first: int,
    count: int,
    figures: Sequence[Figure[T]],
    told: Callable[[float], None] = lambda share: None,
) -> Line[T]:
    """``count`` places from ``first`` on: both ends, then middles, the worst first, until lines are ``CLOSE``."""
    known: dict[int, T] = {}

    def at(place: int) -> T:
        if place not in known:
            told(min(1.0, len(known) / min(count, MOST)))
            known[place] = simulate(place)
        return known[place]

    def off(left: int, middle: int, right: int) -> float:
        ends = Line((left, right), (at(left), at(right)), right - left + 1, 0.0)
        return max(abs(ends.at(middle, each) / each(at(middle)) - 1) for each in figures)

    waiting, error = [(-inf, first, first + count - 1)] if count > 1 else [], 0.0
    if count:
        at(first), at(first + count - 1)
    while waiting and len(known) < MOST:
        _, left, right = heappop(waiting)
        middle = (left + right) // 2
        if middle == left:
            continue
        found = off(left, middle, right)
        if found <= CLOSE:
            error = max(error, found)
            continue
        for half in ((left, middle), (middle, right)):
            heappush(waiting, (-found, *half))
    error = max([error, *(-each for each, *_ in waiting if each > -inf)])
    places = tuple(sorted(known))
    return Line(places, tuple(known[place] for place in places), count, error)
