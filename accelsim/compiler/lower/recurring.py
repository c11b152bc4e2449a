"""Compiler state after a block of the model, in a form that can be compared with the state after another block.

Whatever the next commands depend on is in it: where tensors that somebody still needs lie, what is free, the slots
whose turn it is, who wrote and read what last. Names are told by the part that they play for the block, numbers of
regions, commands and steps are kept apart. Two states are one where they differ only in numbers that moved on by as
much as there are in between; what is older, and did not move, stays as it is in all blocks to come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from accelsim.program.repeated import Chains
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout


class Counts(NamedTuple):
    """Numbers of regions, commands and steps written so far."""

    regions: int
    commands: int
    steps: int


class Fixed(NamedTuple):
    """State that stays from block to block: regions with the versions that each got in between, commands,
    tensor names."""

    regions: dict[int, int]
    commands: frozenset[int]
    names: frozenset[str]


@dataclass
class Snapshot:
    """Compiler state before a block: ``shape`` is all but numbers; these follow in the order in which they were met."""

    counts: Counts
    block: int
    spills: int
    shape: list[object] = field(default_factory=list)
    regions: list[int] = field(default_factory=list)
    commands: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)

    def since(self, before: Snapshot, chains: Chains) -> Fixed | None:
        """Return what stayed the same since an equivalent earlier state; None if the states are not equivalent."""
        if self.shape != before.shape or not self._follow(before, chains):
            return None
        moved = [now - then for now, then in zip(self.counts, before.counts, strict=True)]
        regions = _pairs(before.regions, self.regions, moved[0])
        commands = _pairs(before.commands, self.commands, moved[1])
        if regions is None or commands is None or _pairs(before.steps, self.steps, moved[2]) is None:
            return None
        fixed = {}
        for old, new in regions.items():
            more = self.versions.get(new, 0) - before.versions.get(old, 0)
            if old == new:
                fixed[old] = more
            elif more:
                return None
        return Fixed(
            fixed,
            frozenset(old for old, new in commands.items() if old == new),
            frozenset(old for old, new in zip(before.names, self.names, strict=True) if old == new),
        )

    def _follow(self, before: Snapshot, chains: Chains) -> bool:
        """Return whether each name is the one that was there before, or its image in the blocks in between."""
        ahead = self.block - before.block
        return all(
            old == new or chains.follows(old, new, ahead) for old, new in zip(before.names, self.names, strict=True)
        )


def _pairs(before: Sequence[int], now: Sequence[int], moved: int) -> dict[int, int] | None:
    """Old number -> new one, each the same or moved on by ``moved``; None where that does not hold throughout."""
    found = dict(zip(before, now, strict=True))
    if any(found[old] != new or new - old not in (0, moved) for old, new in zip(before, now, strict=True)):
        return None
    return found if len(set(found.values())) == len(found) else None


class Recorder:
    """Records the compiler state between blocks as snapshots that can be compared."""

    def __init__(self, builder: Builder, chains: Chains) -> None:
        self._builder, self._chains = builder, chains

    def take(
        self, layouts: Sequence[Layout], steps: int, block: int, needed: Sequence[Callable[[str], bool]]
    ) -> Snapshot:
        """Record the state before block ``block``; ``steps``: how many are written. ``needed``: per layout, whether a
        tensor is still read."""
        builder = self._builder
        found = Snapshot(
            Counts(len(builder.regions), len(builder.commands), steps), block, sum(layout.spills for layout in layouts)
        )
        for layout, wanted in zip(layouts, needed, strict=True):
            self._places(found, layout, wanted)
            for space in layout.spaces.values():
                form, regions = space.state()
                found.shape += form
                found.regions += regions
            for name, ring in layout.slots.rings.items():
                found.shape.append((name, ring.next % len(ring.slots)))
                found.regions += ring.slots
            found.shape.append(layout.slots.offsets())
            self._whole(found, layout)
        self._histories(found)
        return found

    def _places(self, found: Snapshot, layout: Layout, wanted: Callable[[str], bool]) -> None:
        places: dict[int, int] = {}

        def order(name: str) -> tuple[int, int, str, int]:
            place = layout.places[name]
            ids = [-1 if region is None else region for region in (place.chip, place.home)]
            return ids[0], ids[1], *self._chains.key(name)

        for name in sorted((name for name in layout.places if wanted(name)), key=order):
            place, maker = layout.places[name], layout.makers.get(name)
            seen = places.setdefault(id(place), len(places))
            found.names.append(name)
            found.shape.append((seen, place.home is None, place.chip is None, maker is None))
            found.regions += [region for region in (place.home, place.chip) if region is not None]
            found.steps += [] if maker is None else [maker]

    def _whole(self, found: Snapshot, layout: Layout) -> None:
        for size, name, region in sorted(layout.whole_tensors(), key=lambda entry: (entry[0], entry[2])):
            place = layout.places.get(name)
            if place is not None and place.chip == region:
                found.shape.append(size)
                found.names.append(name)
                found.regions.append(region)

    def _histories(self, found: Snapshot) -> None:
        """Take in the histories of all regions so far and of those whose bytes they have."""
        regions, builder = list(dict.fromkeys(found.regions)), self._builder
        for region in regions:
            overlaps = builder.regions[region].overlaps
            found.shape.append((builder.regions[region].memory, len(overlaps)))
            found.regions += overlaps
        for region in dict.fromkeys(found.regions):
            history = builder.histories[region]
            found.versions[region] = history.version
            readers = tuple((key, phase) for key, (_, phase) in history.readers.items())
            found.shape.append((history.version > 0, history.writer is None, readers))
            found.commands += [] if history.writer is None else [history.writer]
            found.commands += [reader for reader, _ in history.readers.values()]
