"""Where every tensor is while the program is written: home in an off-chip memory, place on the chip, rings of slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

from accelsim.errors import Infeasible, Problem, SpecError
from accelsim.program.actions import READ, WRITE, Action
from accelsim.program.commands import Effect, Region, Transfer
from accelsim.program.roles import HOST, Roles
from accelsim.program.writing.allocator import Ring, Space
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.entries import transfer_actions
from accelsim.program.writing.sides import EpilogueReads, epilogue_reads
from accelsim.spec.levels import levels_before
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import is_product, readers_behind_views

STAGING = "dma"
"""Buffer of the DMA engines, through which a tensor passes on its way from one memory to another."""


@dataclass
class Place:
    """Regions that hold a tensor now: in an off-chip memory, on the chip; None where it is not."""

    home: int | None = None
    chip: int | None = None


@dataclass
class Layout:
    """Places, buffers and rings of one core. Raises SpecError for fixed slots in a buffer of several roles."""

    graph: Graph
    roles: Roles
    builder: Builder
    core: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    spaces: dict[str, Space] = field(
        default_factory=dict
    )  # of buffers, and of levels that the compiler manages
    rings: dict[str, Ring] = field(default_factory=dict)
    presets: dict[int, tuple[str, int]] = field(default_factory=dict)
    makers: dict[str, int] = field(default_factory=dict)  # tensor -> index of the step that made it
    _entries: dict[tuple[str, str, str, int, bool], tuple[Action, ...]] = field(default_factory=dict)
    _whole: list[tuple[int, str, int]] = field(default_factory=list)
    """Heap of (-bytes, tensor, region): tensors that were given room in the activation buffer as a whole."""
    tile_costs: dict[Hashable, Any] = field(default_factory=dict)
    """What the tiles of steps cost that are alike, see ``TileCosts``."""
    _epilogues: dict[int, EpilogueReads] = field(default_factory=dict)  # by id of the node
    _homes: dict[str, str] = field(default_factory=dict)  # next value of a state -> its memory
    _behind: dict[str, int] = field(default_factory=dict)  # shared buffer -> where the next slots lie
    spills: int = 0  # tensors that had to make room

    def __post_init__(self) -> None:
        self._consumers, self.staying = self.graph.consumers(), self.graph.staying
        self.readers = {
            name: [n for n in nodes if n.engine != HOST] for name, nodes in self._consumers.items()
        }
        self._roots: dict[str, str] = {}
        for node in self.graph.nodes:
            if node.engine == "alias":
                self._roots[node.writes[0]] = self._roots.get(node.reads[0], node.reads[0])
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
                raise SpecError(Problem(what, where, "no slots, or a buffer per role"))
        self._levels = levels_before(self.roles.chip, self.roles.activations_home)
        for name in self._levels:
            free = Space(name, self.roles.memory(name).memory.capacity)
            self.spaces[name] = self.builder.shared.setdefault(name, free)
        own = self.roles.activations
        if own and self.roles.buffer(own).slot_capacity and self.roles.fixed_slots(own):
            size, count = self.slot_shape(own)  # first of all: what else lies there comes beside them
            self.rings[own] = Ring(
                self._row_of_slots(own, "slot", size, count, self.roles.chip.name, "slots")
            )

    @property
    def roots(self) -> Mapping[str, str]:
        """View of a tensor -> the tensor whose bytes it shows."""
        return self._roots

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
            found.append(other)
        return found

    def anew(self, builder: Builder) -> Layout:
        """Return the same graph on the same chip with nothing placed yet; what tiles and transfers cost is shared."""
        other = copy(self)
        other.builder, other.spills = builder, 0
        other.places, other.spaces, other.rings, other.presets = {}, {}, {}, {}
        other.makers, other._whole, other._behind = {}, [], {}
        other._empty()
        return other

    def made(self, node: Node, step: int | None) -> None:
        """Note which step made what ``node`` writes; None for tensors that no step makes."""
        if step is not None:
            self.makers |= dict.fromkeys(node.writes, step)

    def activations(self, node: Node) -> list[str]:
        """Return what a node reads that is no constant."""
        return [name for name in node.reads if not self.graph.tensors[name].is_constant]

    def constants(self, node: Node) -> list[str]:
        """The constants that a node reads."""
        return [name for name in node.reads if self.graph.tensors[name].is_constant]

    def epilogue_reads(self, node: Node) -> EpilogueReads:
        """``sides.epilogue_reads`` of a node of the graph, worked out once."""
        found = self._epilogues.get(id(node))
        if found is None:
            found = self._epilogues[id(node)] = epilogue_reads(self.graph, node)
        return found

    def only_leaves(self, tensor: str) -> bool:
        """Return whether nobody on the chip reads a tensor: it is a result of the graph, or only the host needs it."""
        return not self.readers.get(tensor)

    def place(self, tensor: str) -> Place:
        """Return where a tensor is; constants and graph inputs start in their home."""
        if tensor not in self.places:
            entry = self.graph.tensors[tensor]
            home = self.roles.weights_home if entry.is_constant else self.input_home(entry)
            region = self.off_chip(home, tensor, self.room_B(entry))
            self.presets[region] = (tensor, self.core)
            self.places[tensor] = Place(home=region)
        return self.places[tensor]

    def input_home(self, tensor: Tensor) -> str:
        """Graph inputs arrive at the host; states stay where they are used, see ``state_home``."""
        late = self.graph.states.get(tensor.name)
        return self.roles.host_home if late is None else self.state_home(late)

    def state_home(self, late: str) -> str:
        """Memory of a state, given as its next value: where the weights are; of a cache that only the host reads, that
        of the host.
        """
        if self.graph.trains:
            return self.roles.weights_home
        if late not in self._homes:
            readers = {node.engine for node in readers_behind_views(self._consumers, late)}
            self._homes[late] = self.roles.host_home if readers == {HOST} else self.roles.weights_home
        return self._homes[late]

    def room_B(self, tensor: Tensor) -> int:
        """Bytes to reserve for a tensor: of a state that grows in place, those that it will have."""
        later = self.graph.tensors[self.graph.states.get(tensor.name, tensor.name)]
        return max(tensor.nbytes, later.nbytes)

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
        home, size_B = self.roles.activations_home, self.room_B(self.graph.tensors[tensor])
        readers = {node.engine for node in readers_behind_views(self._consumers, tensor)}
        if tensor in self.staying or (readers <= {HOST} and self.roles.host_home == home):
            return home
        return next((name for name in self._levels if self.spaces[name].place(size_B) is not None), home)

    def result(self, tensor: str) -> int:
        """A new region for a result there."""
        return self.off_chip(self.result_home(tensor), tensor, self.room_B(self.graph.tensors[tensor]))

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
        """A new region in a buffer, through which larger pieces may stream; None when there is no room."""
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
        """The Load of a tensor into the room that was reserved for it."""
        place = self.place(tensor)
        assert place.home is not None and place.chip is not None
        effect = Effect("copy", operands=((tensor, place.home),), tensor=tensor)
        self.load(op, place.home, place.chip, tensor, self.graph.tensors[tensor].nbytes, effect)

    def load(
        self, op: int, source: int, target: int, tensor: str, size_B: int, effect: Effect, offset_B: int = 0,
        needs: Sequence[int] = (), times: int = 1,
    ) -> int:  # fmt: skip
        """A Load of ``size_B`` bytes of a home region (from ``offset_B`` on, if it is no tile) into one on the chip.

        ``needs``: regions that say what to load. ``times``: how often ``size_B`` has the bytes of the tile.
        """
        memory, buffer = self.builder.regions[source].memory, self.builder.regions[target].memory
        return self.builder.emit(
            "Load", self.roles.load_engine(memory), op, f"load {tensor}",
            Transfer(memory, size_B, False, offset_B, times), effect,
            [(region, "src") for region in (source, *needs)], [(target, "whole")],
            self._moved(memory, buffer, tensor, size_B, False),
        )  # fmt: skip

    def _moved(self, memory: str, buffer: str, tensor: str, size_B: int, write: bool) -> tuple[Action, ...]:
        """Ledger entries of a transfer between an off-chip memory and a buffer; equal transfers share them."""
        key = (memory, buffer, tensor, size_B, write)
        if key not in self._entries:
            entries = transfer_actions(self.roles, memory, tensor, size_B, write)
            if buffer != STAGING:
                entries.append(Action(buffer, READ if write else WRITE, tensor, size_B))
            self._entries[key] = tuple(entries)
        return self._entries[key]

    def load_parameters(self, op: int, sources: list[int], target: int, memory: str, size_B: int) -> int:
        """One Load of the constants that a vector unit keeps in registers of its own."""
        actions = transfer_actions(self.roles, memory, "parameters", size_B, False)
        return self.builder.emit(
            "Load", self.roles.load_engine(memory), op, "load parameters", Transfer(memory, size_B, False),
            Effect("none"), [(source, "src") for source in sources], [(target, "whole")], actions,
        )  # fmt: skip

    def store(
        self, op: int, source: int, target: int, tensor: str, size_B: int, effect: Effect, role: str = "whole",
        offset_B: int = 0,
    ) -> int:  # fmt: skip
        """A Store of ``size_B`` bytes from the chip into (a part of) a home region."""
        memory, buffer = self.builder.regions[target].memory, self.builder.regions[source].memory
        return self.builder.emit(
            "Store", self.roles.store_engine(memory), op, f"store {tensor}",
            Transfer(memory, size_B, True, offset_B), effect,
            [(source, "acc" if effect.what == "epilogue" else "src")], [(target, role)],
            self._moved(memory, buffer, tensor, size_B, True),
        )  # fmt: skip

    def source(self, op: int, tensor: str) -> int:
        """A region from which a tensor can be stored: on the chip, or in the buffer of the DMA engines."""
        place = self.place(tensor)
        if place.chip is not None:
            return place.chip
        return self._fetch(op, tensor, place.home, self.graph.tensors[tensor].nbytes)

    def store_whole(self, op: int, tensor: str, memory: str) -> int:
        """Make sure that a tensor is in an off-chip memory; returns its region there."""
        place = self.place(tensor)
        if place.home is not None and self.builder.regions[place.home].memory == memory:
            return place.home
        size = self.graph.tensors[tensor].nbytes
        source = self.source(op, tensor)
        target = self.off_chip(memory, tensor, size)
        self.store(
            op, source, target, tensor, size, Effect("copy", operands=((tensor, source),), tensor=tensor)
        )
        self._leave_level(place)
        place.home = target
        return target

    def store_away(self, op: int, tensor: str) -> int:
        """Make sure that a tensor is somewhere behind the buffers; returns its region there."""
        home = self.place(tensor).home
        return self.store_whole(op, tensor, self.result_home(tensor)) if home is None else home

    def _fetch(self, op: int, tensor: str, home: int | None, size_B: int) -> int:
        """From one off-chip memory to another a tensor passes a buffer of the DMA engines: read here, written there."""
        assert home is not None
        staging = self.off_chip(STAGING, tensor, size_B)
        self.load(
            op, home, staging, tensor, size_B, Effect("copy", operands=((tensor, home),), tensor=tensor)
        )
        return staging

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
        place is none of ``kept``, by their ``id``; None when there is none.
        """
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
        return [
            entry for entry in self._whole if any(space.holds(entry[2]) for space in self.spaces.values())
        ]

    def shared_offsets(self) -> Hashable:
        """Return where the next slots lie in buffers that roles share."""
        return tuple(sorted(self._behind.items()))

    def relabel(
        self, later: Callable[[int], int], named: Callable[[str], str], regions: Sequence[Region]
    ) -> None:
        """Slots, rooms and whole tensors become ``later`` regions of the same bytes, of tensors ``named`` otherwise."""
        whole = sorted((size, named(name), later(region)) for size, name, region in self.whole_tensors())
        for ring in self.rings.values():
            ring.slots = [later(region) for region in ring.slots]
        for space in self.spaces.values():
            space.relabel(later, regions)
        self._whole = whole

    def _note_whole(self, name: str, region: int) -> None:
        """Remember that a tensor lies in the activation buffer, by the name that it was made under."""
        root = self._roots.get(name, name)
        if root != name and self.places.get(root) is self.places.get(name):
            name = root
        heappush(self._whole, (-self.graph.tensors[name].nbytes, name, region))

    def arrange(self, rows: Iterable[tuple[str, int]]) -> None:
        """Let the slots of a step, (buffer, bytes) each, lie side by side where several roles share a buffer: behind
        those of the step before, if there is room, so that neither waits for the other.
        """
        sizes: Counter[str] = Counter()
        for buffer, size_B in rows:
            sizes[buffer] += size_B
        for buffer, size_B in sizes.items():
            start = self.spaces[buffer].place(size_B, self._behind.pop(buffer, 0))
            if start is not None and len(self.roles.buffer(buffer).holds) > 1:
                self._behind[buffer] = start

    def slots(
        self, buffer: str, op: str, name: str, tile_B: int, count: int, tile: str, parted: bool = True
    ) -> tuple[Ring, list[int]]:
        """Slots for tiles in flight: the buffer's own fixed ring, or ``count`` new ones side by side (for the step to
        give back); these always when not ``parted``. Raises Infeasible when a tile, or that many, do not fit.
        """
        if not parted or self.roles.fixed_slots(buffer) is None:
            regions = self._row_of_slots(buffer, name, tile_B, count, op, tile)
            return Ring(regions), regions
        size, fixed = self.slot_shape(buffer)
        if tile_B > size:
            raise Infeasible(op, f"one slot of {buffer}", tile_B, size, tile)
        if buffer not in self.rings:
            self.rings[buffer] = Ring(self._row_of_slots(buffer, "slot", size, fixed, op, tile))
        return self.rings[buffer], []

    def slot_shape(self, buffer: str) -> tuple[int, int]:
        """Bytes and number of the fixed slots of a buffer.

        A slot of stated capacity holds one stationary tile of 1-byte weights; wider weights take several slots each.
        """
        spec, unit = self.roles.buffer(buffer), self.roles.matrix
        assert spec.slots is not None
        if spec.slot_capacity is None:
            return spec.capacity // spec.slots, spec.slots
        tile_B = int(unit.rows * unit.cols * self.weight_B) if "weights" in spec.holds else 0
        together = max(1, -(-tile_B // spec.slot_capacity))
        return spec.slot_capacity * together, max(1, spec.slots // together)

    @cached_property
    def weight_B(self) -> float:
        """Bytes of one weight: those of the widest constant operand of a matrix node."""
        nodes = [node for node in self.graph.nodes if is_product(node) and len(node.inputs) > 1]
        tensors = [self.graph.tensors[node.inputs[1]] for node in nodes]
        return max((tensor.element_B for tensor in tensors if tensor.is_constant), default=1.0)

    def _row_of_slots(self, buffer: str, name: str, size_B: int, count: int, op: str, tile: str) -> list[int]:
        space = self.spaces[buffer]
        start = space.place(size_B * count, self._behind.get(buffer, 0))
        if start is None:
            raise Infeasible(op, buffer, size_B * count, space.free_B(), tile)
        if buffer in self._behind:
            self._behind[buffer] = start + size_B * count
        found = [
            self.builder.region(self.roles.engine(buffer), f"{name} {i}", size_B, space, start + i * size_B)
            for i in range(count)
        ]
        return [region for region in found if region is not None]
