"""Places of all tensors while the program is written: home in a memory, place on the chip, rings of slots."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from accelsim.errors import SpecError
from accelsim.program.commands import Effect, Region
from accelsim.program.roles import HOST, Roles
from accelsim.program.writing.allocator import Space
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.facts import GraphFacts
from accelsim.program.writing.slots import Slots
from accelsim.program.writing.transfers import STAGING, Transfers
from accelsim.spec.levels import levels_before
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import readers_behind_views


@dataclass
class Place:
    """Regions that hold a tensor now: in an off-chip memory, on the chip; None where it is not."""

    home: int | None = None
    chip: int | None = None


@dataclass
class Layout:
    """Places of tensors on one core. ``facts``: properties of tensors that follow from the graph; ``transfers`` writes
    their loads and stores, ``slots`` holds tiles in flight. Raises SpecError for fixed slots in a buffer of several
    roles."""

    graph: Graph
    roles: Roles
    builder: Builder
    core: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)  # of buffers, and of levels that the compiler manages
    presets: dict[int, tuple[str, int]] = field(default_factory=dict)
    makers: dict[str, int] = field(default_factory=dict)  # tensor -> index of the step that made it
    _whole: list[tuple[int, str, int]] = field(default_factory=list)
    """Heap of (-bytes, tensor, region): tensors that were given room in the activation buffer as a whole."""
    tile_costs: dict[Hashable, Any] = field(default_factory=dict)
    """Costs of the tiles of steps that are alike, see ``TileCosts``."""
    spills: int = 0  # tensors that had to make room

    def __post_init__(self) -> None:
        self.facts = GraphFacts(self.graph, self.roles)
        self.transfers = Transfers(self.roles, self.builder)
        self._empty()

    def _empty(self) -> None:
        """Buffers, and slots that come before all else."""
        for name, buffer in self.roles.chip.buffers.items():
            alone = len(buffer.holds) == 1
            # beside other tiles, sums that turn could leave no block as large as the search has counted
            self.spaces[name] = Space(name, buffer.capacity, rotate=name == self.roles.sums and alone)
            if buffer.slots is not None and not alone:
                what = f"fixed slots for {' and '.join(buffer.holds)} together"
                where = f"{self.roles.chip.name}: {self.roles.chip.called(name)}.slots"
                raise SpecError(what, where, "no slots, or a buffer per role")
        self._levels = levels_before(self.roles.chip, self.roles.activations_home)
        for name in self._levels:
            free = Space(name, self.roles.memory(name).memory.capacity)
            self.spaces[name] = self.builder.shared.setdefault(name, free)
        self.slots = Slots(self.facts, self.roles, self.builder, self.spaces)

    def streams(self) -> list[Layout]:
        """One for each stream of kernels: tensors are where they are for all of them; queues, and an equal part of the
        buffer of the activations, are its own. The layout itself where there is one stream."""
        count, buffer = self.roles.streams, self.roles.activations
        if count == 1:
            return [self]
        share_B = self.roles.buffer(buffer).capacity // count
        found = []
        for stream in range(count):
            other = copy(self)
            other.roles = replace(self.roles, stream=stream)
            part = Space(buffer, (stream + 1) * share_B, start_B=stream * share_B)
            other.spaces = self.spaces | {buffer: part}
            other.transfers, other.slots = copy(self.transfers), copy(self.slots)
            other.transfers.roles = other.slots.roles = other.roles
            other.slots.spaces = other.spaces
            found.append(other)
        return found

    def anew(self, builder: Builder) -> Layout:
        """Return an empty layout for the same graph and chip, which shares the costs of tiles and transfers."""
        other = copy(self)
        other.builder, other.spills = builder, 0
        other.places, other.spaces, other.presets, other.makers, other._whole = {}, {}, {}, {}, []
        other.transfers = copy(self.transfers)
        other.transfers.builder = builder
        other._empty()
        return other

    def made(self, node: Node, step: int | None) -> None:
        """Note which step made what ``node`` writes; None for tensors that no step makes."""
        if step is not None:
            self.makers |= dict.fromkeys(node.writes, step)

    def place(self, tensor: str) -> Place:
        """Return where a tensor is; constants and graph inputs start in their home."""
        if tensor not in self.places:
            entry = self.graph.tensors[tensor]
            home = self.roles.weights_home if entry.is_constant else self.facts.input_home(entry)
            region = self.off_chip(home, tensor, self.facts.room_B(entry))
            self.presets[region] = (tensor, self.core)
            self.places[tensor] = Place(home=region)
        return self.places[tensor]

    def off_chip(self, memory: str, tensor: str, size_B: int) -> int:
        """A new region for a tensor in an off-chip memory, or in a level with room for it."""
        space = self.spaces[memory] if memory in self._levels else None
        region = self.builder.region(memory, tensor, size_B, space, -1 if space is None else None)
        assert region is not None
        return region

    def result_home(self, tensor: str) -> str:
        """Memory to which a result goes that leaves the buffers: the nearest level with room for it, if somebody reads
        it again before it has to be where states or the operands of the host live; else the home of activations.
        """
        home, size_B = self.roles.activations_home, self.facts.room_B(self.graph.tensors[tensor])
        readers = {node.engine for node in readers_behind_views(self.facts.consumers, tensor)}
        if tensor in self.facts.staying or (readers <= {HOST} and self.roles.host_home == home):
            return home
        return next((name for name in self._levels if self.spaces[name].place(size_B) is not None), home)

    def result(self, tensor: str) -> int:
        """A new region for a result there."""
        return self.off_chip(self.result_home(tensor), tensor, self.facts.room_B(self.graph.tensors[tensor]))

    def in_buffer(self, region: int) -> bool:
        """Return whether a region lies in a buffer, where engines reach it without a transfer."""
        entry = self.builder.regions[region]
        return entry.offset >= 0 and entry.memory not in self._levels

    def leave(self, place: Place) -> None:
        """Nobody needs any more what lies at a place: its bytes in the buffer and in a level are free."""
        if place.chip is not None:
            self.release(self.roles.activations, [place.chip])
            place.chip = None
        self._leave_level(place)

    def _leave_level(self, place: Place) -> None:
        memory = "" if place.home is None else self.builder.regions[place.home].memory
        if place.home is not None and memory in self._levels:
            self.spaces[memory].release(place.home)
            place.home = None

    def on_chip(self, buffer: str, name: str, size_B: int, streams: bool = False) -> int | None:
        """Reserve a region in a buffer, None without room; with ``streams`` larger data may pass through it."""
        space = self.spaces[buffer]
        region = self.builder.region(self.roles.engine(buffer), name, size_B, space, None, streams)
        if region is not None and buffer == self.roles.activations and name in self.graph.tensors:
            self._note_whole(name, region)
        return region

    def release(self, buffer: str, regions: list[int]) -> None:
        """Give back what a step took in a buffer."""
        for region in regions:
            self.spaces[buffer].release(region)

    def load_whole(self, op: int, tensor: str) -> bool:
        """Bring a tensor onto the chip as a whole, unless it is there. False when it does not fit."""
        if self.place(tensor).chip is not None:
            return True
        if not self.reserve(tensor):
            return False
        self.fetch(op, tensor)
        return True

    def reserve(self, tensor: str) -> bool:
        """Room for a tensor that is not on the chip yet, to ``fetch`` it later. False when there is none."""
        place, buffer = self.place(tensor), self.roles.activations
        place.chip = self.on_chip(buffer, tensor, self.graph.tensors[tensor].nbytes) if buffer else None
        return place.chip is not None

    def fetch(self, op: int, tensor: str) -> None:
        """Write the Load of a tensor into the room that was reserved for it."""
        place = self.place(tensor)
        assert place.home is not None and place.chip is not None
        effect = Effect("copy", operands=((tensor, place.home),), tensor=tensor)
        self.transfers.load(op, place.home, place.chip, tensor, self.graph.tensors[tensor].nbytes, effect)

    def source(self, op: int, tensor: str) -> int:
        """Return a region from which a tensor can be stored: on the chip, or in the buffer of the DMA engines, into
        which it is loaded from its memory."""
        place, size_B = self.place(tensor), self.graph.tensors[tensor].nbytes
        if place.chip is not None:
            return place.chip
        assert place.home is not None
        staging = self.off_chip(STAGING, tensor, size_B)
        effect = Effect("copy", operands=((tensor, place.home),), tensor=tensor)
        self.transfers.load(op, place.home, staging, tensor, size_B, effect)
        return staging

    def store_whole(self, op: int, tensor: str, memory: str) -> int:
        """Make sure that a tensor is in an off-chip memory; returns its region there."""
        place = self.place(tensor)
        if place.home is not None and self.builder.regions[place.home].memory == memory:
            return place.home
        size = self.graph.tensors[tensor].nbytes
        source = self.source(op, tensor)
        target = self.off_chip(memory, tensor, size)
        self.transfers.store(
            op, source, target, tensor, size, Effect("copy", operands=((tensor, source),), tensor=tensor)
        )
        self._leave_level(place)
        place.home = target
        return target

    def store_away(self, op: int, tensor: str) -> int:
        """Make sure that a tensor is somewhere behind the buffers; returns its region there."""
        home = self.place(tensor).home
        return self.store_whole(op, tensor, self.result_home(tensor)) if home is None else home

    def spill(self, op: int, keep: Sequence[str]) -> bool:
        """Send the largest tensor of the activation buffer that is not in ``keep`` to its memory, to make room.

        False when there is none.
        """
        tensor = self._largest({id(self.places[name]) for name in keep if name in self.places})
        if tensor is None:
            return False
        place = self.places[tensor]
        self.store_away(op, tensor)
        assert place.chip is not None
        self.release(self.roles.activations, [place.chip])
        place.chip = None
        self.spills += 1
        return True

    def _largest(self, kept: set[int]) -> str | None:
        """The largest tensor that lies in the activation buffer as a whole (of several the first by name) and whose
        place is none of ``kept``, by their ``id``; None when there is none."""
        space, passed, found = self.spaces[self.roles.activations], list[tuple[int, str, int]](), None
        while self._whole and found is None:
            entry = heappop(self._whole)
            _, name, region = entry
            if not space.holds(region):
                continue
            place = self.places.get(name)
            if place is not None and place.chip == region and id(place) not in kept:
                found = name
            else:
                passed.append(entry)
        for entry in passed:
            heappush(self._whole, entry)
        return found

    def whole_tensors(self) -> list[tuple[int, str, int]]:
        """(-bytes, tensor, region) of what lies in the activation buffer as a whole."""
        return [entry for entry in self._whole if any(space.holds(entry[2]) for space in self.spaces.values())]

    def relabel(self, later: Callable[[int], int], named: Callable[[str], str], regions: Sequence[Region]) -> None:
        """Slots, rooms and whole tensors become ``later`` regions of the same bytes, of tensors ``named`` otherwise."""
        whole = sorted((size, named(name), later(region)) for size, name, region in self.whole_tensors())
        for ring in self.slots.rings.values():
            ring.slots = [later(region) for region in ring.slots]
        for space in self.spaces.values():
            space.relabel(later, regions)
        self._whole = whole

    def _note_whole(self, name: str, region: int) -> None:
        """Remember that a tensor lies in the activation buffer, by the name that it was made under."""
        root = self.facts.roots.get(name, name)
        if root != name and self.places.get(root) is self.places.get(name):
            name = root
        heappush(self._whole, (-self.graph.tensors[name].nbytes, name, region))
