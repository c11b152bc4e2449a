"""Where things lie on the chip: an allocator per buffer, and rings of slots for tiles in flight."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.compiler.program import Region


class Space:
    """The bytes of one buffer. First fit, or next fit behind the last allocation (``rotate``)."""

    def __init__(self, name: str, capacity_B: int, rotate: bool = False) -> None:
        self.name, self.capacity_B = name, capacity_B
        self._rotate = rotate
        self._next = 0
        self._live: dict[int, tuple[int, int]] = {}  # region -> (offset, size)
        self._past: list[Region] = []  # regions whose bytes nobody has overwritten wholly

    def free_B(self) -> int:
        """The largest block that can be allocated, bytes."""
        return max((size for _, size in self._gaps()), default=0)

    def _gaps(self) -> list[tuple[int, int]]:
        gaps, end = [], 0
        for offset, size in sorted(self._live.values()):
            if offset > end:
                gaps.append((end, offset - end))
            end = max(end, offset + size)
        if end < self.capacity_B:
            gaps.append((end, self.capacity_B - end))
        return gaps

    def place(self, size_B: int, behind: int = 0) -> int | None:
        """Offset for a block of that size, if possible not before ``behind``; None when there is no room."""
        behind = self._next if self._rotate else behind
        gaps = [(offset, offset + size) for offset, size in self._gaps() if size >= size_B]
        starts = [start for offset, end in gaps if (start := max(offset, behind)) + size_B <= end]
        return min(starts or [offset for offset, _ in gaps], default=None)

    def fits(self, sizes_B: list[int]) -> bool:
        """Whether blocks of these sizes can be placed one after the other, first fit."""
        return self.room_after(sizes_B) is not None

    def room_after(self, sizes_B: list[int]) -> int | None:
        """The largest block left when blocks of these sizes have been placed, None when they do not fit."""
        gaps = [size for _, size in self._gaps()]
        for size in sizes_B:
            index = next((i for i, gap in enumerate(gaps) if gap >= size), None)
            if index is None:
                return None
            gaps[index] -= size
        return max(gaps, default=0)

    def add(self, region: Region) -> tuple[int, ...]:
        """Take the bytes of a region; returns the older regions that it overlaps."""
        start, end = region.offset, region.offset + region.size_B
        overlapped = [past for past in self._past if past.offset < end and start < past.offset + past.size_B]
        covered = {
            past.id for past in overlapped if start <= past.offset and past.offset + past.size_B <= end
        }
        self._past = [past for past in self._past if past.id not in covered]
        self._past.append(region)
        self._live[region.id] = (start, region.size_B)
        self._next = end
        return tuple(past.id for past in overlapped)

    def release(self, region: int) -> None:
        """Give the bytes back (what reads them still delays whoever writes there next)."""
        del self._live[region]


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
