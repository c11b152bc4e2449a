"""Slots for tiles in flight: rings of regions in the buffers of one core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from accelsim.errors import Infeasible
from accelsim.program.roles import Roles
from accelsim.program.writing.allocator import Ring, Space
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.facts import GraphFacts


class Slots:
    """Takes slots in ``spaces``. ``rings``: the fixed slots of buffers that have them."""

    def __init__(self, facts: GraphFacts, roles: Roles, builder: Builder, spaces: Mapping[str, Space]) -> None:
        self.facts, self.roles, self.builder, self.spaces = facts, roles, builder, spaces
        self.rings: dict[str, Ring] = {}
        self._next: dict[str, int] = {}  # shared buffer -> where the next slots lie
        own = roles.activations
        if own and roles.buffer(own).slot_capacity and roles.fixed_slots(own):
            size, count = self.shape(own)  # first of all: what else lies there comes beside them
            self.rings[own] = Ring(self._row_of_slots(own, "slot", size, count, roles.chip.name, "slots"))

    def arrange(self, rows: Iterable[tuple[str, int]]) -> None:
        """Let the slots of a step, (buffer, bytes) each, lie side by side where several roles share a buffer: behind
        those of the step before, if there is room, so that neither waits for the other.
        """
        sizes: Counter[str] = Counter()
        for buffer, size_B in rows:
            sizes[buffer] += size_B
        for buffer, size_B in sizes.items():
            start = self.spaces[buffer].place(size_B, self._next.pop(buffer, 0))
            if start is not None and len(self.roles.buffer(buffer).holds) > 1:
                self._next[buffer] = start

    def ring(
        self, buffer: str, op: str, name: str, tile_B: int, count: int, tile: str, parted: bool = True
    ) -> tuple[Ring, list[int]]:
        """Slots for tiles in flight: the buffer's own fixed ring, or ``count`` new ones side by side (for the step to
        give back); these always when not ``parted``. Raises Infeasible when a tile, or that many, do not fit.
        """
        if not parted or self.roles.fixed_slots(buffer) is None:
            regions = self._row_of_slots(buffer, name, tile_B, count, op, tile)
            return Ring(regions), regions
        size, fixed = self.shape(buffer)
        if tile_B > size:
            raise Infeasible(op, f"one slot of {buffer}", tile_B, size, tile)
        if buffer not in self.rings:
            self.rings[buffer] = Ring(self._row_of_slots(buffer, "slot", size, fixed, op, tile))
        return self.rings[buffer], []

    def shape(self, buffer: str) -> tuple[int, int]:
        """Bytes and number of the fixed slots of a buffer.

        A slot of stated capacity holds one stationary tile of 1-byte weights; wider weights take several slots each.
        """
        spec, unit = self.roles.buffer(buffer), self.roles.matrix
        assert spec.slots is not None
        if spec.slot_capacity is None:
            return spec.capacity // spec.slots, spec.slots
        tile_B = int(unit.rows * unit.cols * self.facts.weight_B) if "weights" in spec.holds else 0
        together = max(1, -(-tile_B // spec.slot_capacity))
        return spec.slot_capacity * together, max(1, spec.slots // together)

    def _row_of_slots(self, buffer: str, name: str, size_B: int, count: int, op: str, tile: str) -> list[int]:
        space = self.spaces[buffer]
        start = space.place(size_B * count, self._next.get(buffer, 0))
        if start is None:
            raise Infeasible(op, buffer, size_B * count, space.free_B(), tile)
        if buffer in self._next:
            self._next[buffer] = start + size_B * count
        found = [
            self.builder.region(self.roles.engine(buffer), f"{name} {i}", size_B, space, start + i * size_B)
            for i in range(count)
        ]
        return [region for region in found if region is not None]

    def offsets(self) -> Hashable:
        """Return where the next slots lie in buffers that roles share."""
        return tuple(sorted(self._next.items()))
