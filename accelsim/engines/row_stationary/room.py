"""What lies in the global buffer while a product is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelsim.engines.row_stationary.choosing import side_B
from accelsim.engines.row_stationary.costing import Costing
from accelsim.errors import Infeasible
from accelsim.program.writing.allocator import Ring
from accelsim.program.writing.layout import Layout
from accelsim.workload.graph import Tensor


@dataclass
class Room:
    """Slots of one step. ``parts``: ifmaps of a pass that come on their own, 1 where all come at once.

    ``psums``: for each block of filters of an output tile, a region for each part.
    """

    layout: Layout
    step: str
    tile: str
    parts: int = 1
    psums: list[list[int]] = field(default_factory=list)
    sides: dict[str, Ring] = field(default_factory=dict)
    ifmaps: Ring = field(default_factory=lambda: Ring([]))
    filters: Ring = field(default_factory=lambda: Ring([]))
    taken: list[tuple[str, list[int]]] = field(default_factory=list)

    def ring(self, buffer: str, name: str, size_B: int, count: int = 1) -> Ring:
        """Return so many new slots. Raises Infeasible where there is no room."""
        ring, regions = self.layout.slots(buffer, self.step, name, size_B, count, self.tile, parted=False)
        self.taken.append((buffer, regions))
        return ring

    def release(self) -> None:
        """Give everything back."""
        for buffer, regions in self.taken:
            self.layout.release(buffer, regions)


def take_room(layout: Layout, step: str, costing: Costing, sides: list[Tensor]) -> Room:
    """Psums of an output tile, a tile of each side, filters of two passes, and ifmaps of two passes or as many as there
    is room for. Raises Infeasible where those of one pass do not fit."""
    roles, conv, maps = layout.roles, costing.conv, costing.mapping
    glb, weights = roles.activations, roles.weights
    room = Room(layout, step, str(maps))
    pixels, channels = maps.e * conv.F, min(maps.q * maps.r, conv.C)
    of_pass = min(maps.p * maps.t, maps.m)
    left_B = roles.buffer(glb).capacity - costing.sums_B(maps.n * maps.m * pixels) - side_B(conv, maps, sides)
    image_B = costing.a.size_B(int(channels * conv.rows(maps.e) * conv.W))
    whole = maps.n == 1 or (maps.e == conv.E and 2 * maps.n * image_B <= left_B)
    room.parts, slab_B = (1, maps.n * image_B) if whole else (maps.n, image_B)
    slabs = min(2 * room.parts, left_B // slab_B)
    if slabs < room.parts:
        raise Infeasible(step, glb, room.parts * slab_B, max(0, left_B), str(maps))
    for start in range(0, maps.m, of_pass):
        filters = min(of_pass, maps.m - start)
        size_B = costing.sums_B(maps.n // room.parts * filters * pixels)
        room.psums.append([room.ring(glb, "psums", size_B).slots[0] for _ in range(room.parts)])
    room.ifmaps = room.ring(glb, "ifmaps", slab_B, slabs)
    for side in sides:
        room.sides[side.name] = room.ring(glb, f"side {side.name}", side_B(conv, maps, [side]))
    size_B = costing.b.size_B(of_pass * channels * conv.R * conv.S)
    room.filters = room.ring(
        weights, "filters", size_B, max(1, min(2, roles.buffer(weights).capacity // size_B))
    )
    return room
