"""Places on the chip: an allocator per buffer, and rings of slots for tiles in flight."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import NamedTuple

from accelsim.program.commands import Region


class Space:
    """The bytes of one buffer, or its part from ``start_B`` to ``capacity_B``. First fit, or next fit behind the last
    allocation (``rotate``).

    ``span``: a buffer of any capacity from its first number to below its second would have given the same answers so
    far, but for ``room_after``, whose caller tells by ``needed`` how much room made a difference.

    Gaps are kept sorted, and regions of the past by their size, so that a buffer with many small tensors is not gone
    through for each new one.
    """

    def __init__(self, name: str, capacity_B: int, rotate: bool = False, start_B: int = 0) -> None:
        self.name, self.capacity_B = name, capacity_B
        self._rotate = rotate
        self._next = 0
        self._live: dict[int, tuple[int, int]] = {}  # region -> (offset, size)
        self._gaps: list[tuple[int, int]] = (
            [(start_B, capacity_B)] if capacity_B > start_B else []
        )  # (offset, end), sorted
        self._past = _Past()  # regions whose bytes nobody has overwritten wholly
        self.span: tuple[float, float] = (0, inf)

    def holds(self, region: int) -> bool:
        """Return whether a region has bytes now."""
        return region in self._live

    def free_B(self) -> int:
        """The largest block that can be allocated, bytes."""
        self.needed(self.capacity_B + 1, 0)
        return self.room_after([]) or 0

    def needed(self, need_B: int, room_B: int) -> None:
        """Note that a ``room_B`` that was found made no difference as long as it was ``need_B`` or more."""
        least, beyond = self.span
        if room_B >= need_B:
            self.span = max(least, self.capacity_B - (room_B - need_B)), beyond
        else:
            self.span = self.capacity_B, self.capacity_B + 1

    def _ends(self, *ends: int) -> None:
        """Note that it was asked whether blocks end within the capacity."""
        least, beyond = self.span
        inside = [end for end in ends if end <= self.capacity_B]
        self.span = max([least, *inside]), min([beyond, *(end for end in ends if end > self.capacity_B)])

    @property
    def _top(self) -> int:
        """Begin of the gap at the end of the buffer, B."""
        return self._gaps[-1][0] if self._gaps and self._gaps[-1][1] == self.capacity_B else self.capacity_B

    def place(self, size_B: int, behind: int = 0) -> int | None:
        """Offset for a block of that size, if possible not before ``behind``; None when there is no room."""
        behind = self._next if self._rotate else behind
        first, top = None, self._top
        for offset, end in self._gaps:
            if offset == top:
                break
            if end - offset >= size_B:
                if max(offset, behind) + size_B <= end:
                    return max(offset, behind)
                first = offset if first is None else first
        if top == self.capacity_B:
            self._ends(top + max(size_B, 1))
            return first
        self._ends(top + size_B, max(top, behind) + size_B)
        if max(top, behind) + size_B <= self.capacity_B:
            return max(top, behind)
        return top if first is None and top + size_B <= self.capacity_B else first

    def fits(self, sizes_B: list[int]) -> bool:
        """Return whether blocks of these sizes can be placed one after the other, first fit."""
        return self.room_after(sizes_B) is not None

    def room_after(self, sizes_B: list[int]) -> int | None:
        """The largest block left when blocks of these sizes are placed, None when they do not fit (``needed``)."""
        gaps, there = [end - offset for offset, end in self._gaps], self._top < self.capacity_B
        for size in sizes_B:
            index = next((i for i, gap in enumerate(gaps) if gap >= size), None)
            if index is None:
                self._ends(self.capacity_B - (gaps[-1] if there else 0) + max(size, 1))
                return None
            if there and index == len(gaps) - 1:
                self._ends(self.capacity_B - gaps[-1] + size)
            gaps[index] -= size
        return max(gaps, default=0)

    def add(self, region: Region) -> tuple[int, ...]:
        """Reserve the free bytes of a region; return the older regions whose bytes it overwrites."""
        start, end = region.offset, region.offset + region.size_B
        if start == end:
            self._live[region.id] = (start, 0)
            return ()
        overlapped = self._past.within(start, end)
        for past in overlapped:
            self._past.overwrite(past, start, end)
        self._past.add(region)
        self._live[region.id] = (start, region.size_B)
        self._take(start, end)
        self._next = end
        return tuple(past.id for past in overlapped)

    def _take(self, start: int, end: int) -> None:
        index = bisect_right(self._gaps, (start, self.capacity_B)) - 1
        offset, last = self._gaps[index]
        left = [(offset, start)] if offset < start else []
        self._gaps[index : index + 1] = [*left, (end, last)] if end < last else left

    def state(self) -> tuple[list[Hashable], list[int]]:
        """Whatever decides where later blocks lie and whom they replace: its form, and the regions in it, in order."""
        live = sorted(self._live.items())
        form: list[Hashable] = [(self.name, tuple(self._gaps), self._next, tuple(at for _, at in live))]
        regions = [region for region, _ in live]
        for bits, entries in self._past.by_size():
            form.append((bits, tuple((each.offset, each.region.size_B, each.left) for each in entries)))
            regions += [each.id for each in entries]
        return form, regions

    def relabel(self, later: Callable[[int], int], regions: Sequence[Region]) -> None:
        """Replace the regions by ``later`` ones with the same bytes."""
        self._live = {later(region): at for region, at in self._live.items()}
        for _, entries in self._past.by_size():
            entries[:] = [each._replace(id=later(each.id), region=regions[later(each.id)]) for each in entries]

    def release(self, region: int) -> None:
        """Give the bytes back (what reads them still delays whoever writes there next)."""
        start, size = self._live.pop(region)
        end = start + size
        if not size:
            return
        index = last = bisect_right(self._gaps, (start, self.capacity_B))
        if index and self._gaps[index - 1][1] == start:
            index -= 1
            start = self._gaps[index][0]
        if last < len(self._gaps) and self._gaps[last][0] == end:
            end = self._gaps[last][1]
            last += 1
        self._gaps[index:last] = [(start, end)]


class _Former(NamedTuple):
    """A region of the past, and the ranges of its bytes (begin, end) that nobody has overwritten."""

    offset: int
    id: int
    region: Region
    left: tuple[tuple[int, int], ...]


class _Past:
    """Regions by the power of two that holds their size, each class sorted by offset: those that overlap a range are
    found without going through all."""

    def __init__(self) -> None:
        self._classes: dict[int, list[_Former]] = {}

    def by_size(self) -> list[tuple[int, list[_Former]]]:
        """(class, its entries) of those that have any."""
        return sorted((bits, entries) for bits, entries in self._classes.items() if entries)

    def add(self, region: Region) -> None:
        """Remember a region."""
        entries = self._classes.setdefault(region.size_B.bit_length(), [])
        whole = (region.offset, region.offset + region.size_B)
        insort(entries, _Former(region.offset, region.id, region, (whole,)))

    def overwrite(self, region: Region, start: int, end: int) -> None:
        """A range of bytes has somebody else's: a region that has none left is forgotten, however many overwrote it.

        Else one that two others share would be known for ever, and with each block of a model one more.
        """
        entries = self._classes[region.size_B.bit_length()]
        index = bisect_left(entries, (region.offset, region.id))
        pieces = (
            ((low, min(high, start)) for low, high in entries[index].left),
            ((max(low, end), high) for low, high in entries[index].left),
        )
        left = tuple(sorted(piece for side in pieces for piece in side if piece[0] < piece[1]))
        if left:
            entries[index] = entries[index]._replace(left=left)
        else:
            del entries[index]

    def within(self, start: int, end: int) -> list[Region]:
        """Regions that have bytes of a range, oldest first."""
        found = []
        for bits, entries in self._classes.items():
            for index in range(bisect_left(entries, (start - (1 << bits), -1)), len(entries)):
                offset, ident, region, _ = entries[index]  # a slice would copy all that lie behind
                if offset >= end:
                    break
                if start < offset + region.size_B:
                    found.append((ident, region))
        return [region for _, region in sorted(found, key=itemgetter(0))]


@dataclass
class Ring:
    """Slots that are used round robin."""

    slots: list[int]  # region ids
    next: int = 0

    def take(self) -> int:
        """The region of the next slot."""
        region = self.slots[self.next % len(self.slots)]
        self.next += 1
        return region
