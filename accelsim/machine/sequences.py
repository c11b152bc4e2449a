"""Sequences of a run that was replayed: what is not copied is there, copies are made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from accelsim.program.lazy import Item, Lazy
from accelsim.program.repeated import Span


class Repeated(Lazy[Item]):
    """What each command has in a run that was replayed: as it is ``before`` the copies and behind them, and
    as ``later`` makes it of that of the unit written last."""

    def __init__(
        self,
        items: Sequence[Item],
        span: Span,
        later: Callable[[Item, int], Item],
        behind: Callable[[Item], Item],
    ) -> None:
        self._items, self._span, self._later, self._moved = items, span, later, behind

    def __len__(self) -> int:
        return len(self._items) + self._span.size * self._span.times

    def at(self, index: int) -> Item:
        """Return what is there, later for a copy and what is behind the copies."""
        template, copy = self._span.copy_of(index)
        if copy:
            return self._later(self._items[template], copy)
        if index < self._span.end:
            return self._items[index]
        return self._moved(self._items[self._span.short(index)])

    @property
    def before(self) -> Sequence[Item]:
        """Return what comes before the copies, with what they are copies of."""
        return self._items[: self._span.end]

    def copy(self, number: int) -> Iterator[Item]:
        """A copy, counted from 1."""
        unit = self._items[self._span.end - self._span.size : self._span.end]
        return (self._later(item, number) for item in unit)

    @property
    def behind(self) -> Iterator[Item]:
        """Return what comes behind the copies."""
        return map(self._moved, self._items[self._span.end :])

    def __iter__(self) -> Iterator[Item]:
        yield from self.before
        for number in range(1, self._span.times + 1):
            yield from self.copy(number)
        yield from self.behind


class Numbers(Set[int]):
    """Numbers of commands: those ``short`` of a run without copies, in the whole run."""

    def __init__(self, short: Set[int], span: Span) -> None:
        self._short, self._span = short, span
        self._unit = sum(number in short for number in span.unit)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        template, copy = self._span.copy_of(number)
        return (template if copy else self._span.short(number)) in self._short

    def __iter__(self) -> Iterator[int]:
        for number in self._short:
            yield self._span.long(number)
            if number in self._span.unit:
                yield from (number + copy * self._span.size for copy in range(1, self._span.times + 1))

    def __len__(self) -> int:
        return len(self._short) + self._unit * self._span.times
