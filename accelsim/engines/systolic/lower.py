"""Lowering of one matrix step: the tiles of its mapping become Load, MatMul, Vector and Store commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.stationary_tiles import b_elements
from accelsim.engines.systolic.tile_costs import Streams, TileCosts, check_matrix
from accelsim.errors import Infeasible
from accelsim.program.commands import Effect, Tile
from accelsim.program.mapping import Mapping
from accelsim.program.tiles import (
    Exec,
    a_elements,
    a_key,
    array_of,
    b_key,
    depends,
    in_strips,
    lanes,
    loop,
    most_channels,
    open_sums,
    slabs,
    whole,
)
from accelsim.program.writing.allocator import Ring
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.entries import nbytes
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Gemm

PARTED = ("weights", "tiles", "sums")
"""Tiles for which a buffer may have fixed slots; what comes and goes beside them has slots of its own."""


@dataclass
class Held:
    """Tiles of an operand that are on the chip, key -> region: those of this strip of arrays, and of the one before."""

    now: dict[tuple[int, ...], int] = field(default_factory=dict)
    before: dict[tuple[int, ...], int] = field(default_factory=dict)

    def turn(self) -> None:
        """A new strip begins."""
        self.now, self.before = {}, self.now

    def find(self, key: tuple[int, ...]) -> int | None:
        """Return where a tile lies, None when it must be loaded."""
        return self.now.get(key, self.before.get(key))


class _Slots(NamedTuple):
    """Tiles in flight: in which buffer, bytes of the largest, how many."""

    buffer: str
    size_B: int
    tiles: int


class Part(NamedTuple):
    """What a core does of a product: its ``tiles``, and these as a product of their own (``seen``), no smaller than any
    other core's."""

    tiles: Tile
    seen: Gemm


@dataclass
class Result:
    """What all cores that share a node write: its region in their memory, and how many of the sums have left so far."""

    home: int | None = None
    written: int = 0


@dataclass
class MatrixStep:
    """One matrix node while its commands are written; ``gemm``: with the rows in the order of the mapping; ``part``:
    what of it, all without."""

    layout: Layout
    op: int
    node: Node
    gemm: Gemm
    mapping: Mapping
    dtype: str
    part: Part | None = None
    result: Result = field(default_factory=Result)
    taken: list[tuple[str, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        queues = len(self.layout.roles.arrays)
        self.arrays = queues if self.mapping.split != "none" else 1
        self.tiles, seen = self.part or Part(whole(self.gemm), self.gemm)
        self.seen = in_strips(seen, self.mapping.tq)

    def lower(self) -> None:
        """Emit all commands. Raises Infeasible when the tiles do not fit."""
        self._prepare()
        self._check_size()
        a_held, b_held = Held(), Held()
        sums: dict[tuple[int, int, int], list[int]] = {}
        for step in loop(self.tiles, self.mapping, self.arrays):
            tile, array = step.tile, array_of(step.tile, self.mapping, self.arrays, self.tiles)
            if not array:
                a_held.turn()
                b_held.turn()
            b = self._held(b_held, b_key(tile), tile, self._b)
            a = self._held(a_held, a_key(tile, self.mapping), tile, self._a)
            slots = sums.setdefault((tile.g0, tile.m0, tile.n0), [])
            if step.first:
                slots.append(self.rings["sums"].take())
            self._product(step, array, a, b, slots[array if self.mapping.split == "k" else 0])
            if tile.k1 == self.tiles.k1:
                self._finish(tile, sums.pop((tile.g0, tile.m0, tile.n0)))
        self._complete()

    def _check_size(self) -> None:
        """TooLarge before the first tile is written, when all of them are more commands than the limits allow."""
        stored = self.layout.places[self.out.name].chip is None
        streamed = sum(not self._on_chip(region) for region in self.sides.values())
        epilogue = self.layout.roles.matrix.epilogue
        writes = 1 + (epilogue and stored)
        streams = Streams(
            not self._on_chip(self.a_region),
            not self._on_chip(self.b_region),
            streamed * epilogue,
            writes,
            self.arrays,
        )
        check_matrix(self.node.name, self.seen, self.mapping, streams, self.layout.builder.written)

    def _held(self, held: Held, key: tuple[int, ...], tile: Tile, load: Callable[[Tile], int]) -> int:
        """The region of a tile that is there already, or of the one that is loaded now."""
        region = held.find(key) if self.mapping.reuse else None
        held.now[key] = load(tile) if region is None else region
        return held.now[key]

    def _tensor(self, name: str) -> Tensor:
        return self.layout.graph.tensors[name]

    def _prepare(self) -> None:
        """Operands where the mapping wants them, slots for what is streamed, a place for the result."""
        layout, mapping, roles = self.layout, self.mapping, self.layout.roles
        self.out = self._tensor(self.node.writes[0])
        self.a_to_fetch = mapping.a_resident and layout.place(self.gemm.a).chip is None
        self.a_region = self._operand(self.gemm.a, mapping.a_resident)
        resident_b = not self._tensor(self.gemm.b).is_constant and mapping.b_resident
        self.b_region = self._operand(self.gemm.b, resident_b)
        self._place_result()
        # which experts: their weights cannot be loaded before it is known
        self.chosen = {name: self._operand(name, False, prefer_chip=True) for name in self.node.inputs[2:]}
        sides = layout.epilogue_reads(self.node).sides
        self.sides = {name: self._operand(name, False, prefer_chip=True) for name in sides}
        self.costs = TileCosts(
            roles, self.dtype, self.node, self.gemm, layout.graph.tensors, self._on_chip(self.b_region),
            layout.tile_costs, self.arrays,
        )  # fmt: skip
        self._load_parameters()
        tm, tn, tk, tg = (min(x, y) for x, y in zip(
            (mapping.tm, mapping.tn, mapping.tk, mapping.tg),
            (self.seen.M, self.seen.N, self.seen.K, self.seen.groups), strict=True))  # fmt: skip
        self.shape = f"{tg}x{tm}x{tn}x{tk}"
        self._take_slots(roles.matrix, tg * tm * tn, b_elements(roles.matrix, tg, tn, tk))

    def _take_slots(self, unit: MatrixUnit, sums: int, weights: int) -> None:
        """Slots for what is in flight: weight tiles, activation tiles, sums, side operands, results on their way out.

        Where they share a buffer, those that a step needs first lie where the step before it is done first.
        """
        roles, mapping = self.layout.roles, self.mapping
        sum_format = unit.formats[self.dtype].accumulate
        wanted: dict[str, _Slots] = {}
        working = lanes(self.seen, mapping, self.arrays)
        each_a, each_b = (working if own else 1 for own in depends(mapping.split, mapping.a_whole_k))
        if not self._on_chip(self.b_region):
            size_B = self._tensor(self.gemm.b).size_B(weights)
            wanted["weights"] = _Slots(roles.weights, size_B, each_b * mapping.w_slots)
        if not self._on_chip(self.a_region):
            wanted["tiles"] = _Slots(roles.activations, self._largest_a(), each_a * mapping.a_slots)
        wanted["sums"] = _Slots(roles.sums, nbytes(sum_format, sums), mapping.y_slots)
        streamed = [name for name, region in self.sides.items() if not self._on_chip(region)]
        for name in streamed:
            wanted[f"side {name}"] = _Slots(roles.activations, self._tensor(name).size_B(sums), 2)
        if unit.epilogue and not mapping.y_resident:
            wanted["results"] = _Slots(roles.activations, self.out.size_B(sums), 2)
        self.layout.arrange((slots.buffer, slots.size_B * slots.tiles) for slots in wanted.values())
        self.rings = {name: self._slots(name, slots) for name, slots in wanted.items()}
        needed, there = open_sums(self.seen, mapping, self.arrays), len(self.rings["sums"].slots)
        if needed > there:
            why = f"loop order {mapping.order} keeps {needed} sums open, there are {there} accumulator slots"
            raise Infeasible(self.node.name, roles.sums, needed, there, self.shape, why)

    def _operand(self, tensor: str, resident: bool, prefer_chip: bool = False) -> int:
        """Region to read an operand from: on the chip when resident, otherwise its home."""
        place = self.layout.place(tensor)
        if prefer_chip and place.chip is not None:
            return place.chip
        if resident:
            if place.chip is None and not self.layout.reserve(tensor):
                buffer = self.layout.roles.activations
                raise Infeasible(self.node.name, buffer, self._tensor(tensor).nbytes,
                                 self.layout.spaces[buffer].free_B(), f"all of {tensor}")  # fmt: skip
            assert place.chip is not None
            return place.chip
        return self.layout.store_away(self.op, tensor)

    def _on_chip(self, region: int) -> bool:
        return self.layout.in_buffer(region)

    def _load_parameters(self) -> None:
        """One Load of everything constant that the epilogue needs."""
        layout, self.parameter_region = self.layout, -1
        constants = layout.epilogue_reads(self.node).parameters
        if not constants:
            return
        memory = layout.roles.weights_home
        sources = [layout.place(name).home for name in constants]
        size = sum(self._tensor(name).nbytes for name in constants)
        unit = layout.roles.functions_behind(self.node)
        self.parameter_region = layout.off_chip(
            layout.roles.engine(unit.name), f"{self.node.name} parameters", size
        )
        layout.load_parameters(
            self.op, [s for s in sources if s is not None], self.parameter_region, memory, size
        )

    def _slots(self, name: str, slots: _Slots) -> Ring:
        ring, regions = self.layout.slots(
            slots.buffer, self.node.name, name, slots.size_B, slots.tiles, self.shape, name in PARTED
        )
        self.taken.append((slots.buffer, regions))
        return ring

    def _largest_a(self) -> int:
        """Bytes of the largest streamed activation tile (a convolution's rows differ at the border)."""
        gemm, m = self.seen, self.mapping
        tg, tk = min(m.tg, gemm.groups), gemm.K if m.a_whole_k else min(m.tk, gemm.K)
        a = self._tensor(gemm.a)
        if gemm.conv is None:
            return a.size_B(a_elements(gemm, tg, 0, min(m.tm, gemm.M), 0, tk))
        channels = int(most_channels(gemm.conv, np.array(tk)))
        return a.size_B(tg * channels * slabs(gemm.conv, gemm.M, m.tm)[1])

    def _a_elements(self, tile: Tile) -> int:
        k0, k1 = (0, self.gemm.K) if self.mapping.a_whole_k else (tile.k0, tile.k1)
        return a_elements(self.gemm, tile.g1 - tile.g0, tile.m0, tile.m1, k0, k1)

    def _place_result(self) -> None:
        """Room for the whole result: before the slots, in the order in which the search counted it."""
        layout, roles, out = self.layout, self.layout.roles, self.out
        place = layout.places.setdefault(out.name, Place())
        if not self.mapping.y_resident:
            if self.result.home is None:
                self.result.home = layout.result(out.name)
            place.home = self.result.home
            return
        place.chip = layout.on_chip(roles.activations, out.name, out.nbytes)
        if place.chip is None:
            free = layout.spaces[roles.activations].free_B()
            raise Infeasible(self.node.name, roles.activations, out.nbytes, free, f"all of {out.name}")

    def _a(self, tile: Tile) -> int:
        if self.a_to_fetch:  # not before: the weights need not wait in its queue until somebody has made it
            self.a_to_fetch = False
            self.layout.fetch(self.op, self.gemm.a)
        if self._on_chip(self.a_region):
            return self.a_region
        size = self._tensor(self.gemm.a).size_B(self._a_elements(tile))
        k = (0, self.gemm.K) if self.mapping.a_whole_k else (tile.k0, tile.k1)
        effect = Effect("load_a", tile._replace(k0=k[0], k1=k[1]), ((self.gemm.a, self.a_region),))
        return self._load_tile("tiles", self.a_region, self.gemm.a, size, effect)

    def _b(self, tile: Tile) -> int:
        if self._on_chip(self.b_region):
            return self.b_region
        size = self.costs.weights_B(tile)
        effect = Effect("load_b", tile, ((self.gemm.b, self.b_region), *self.chosen.items()))
        return self._load_tile("weights", self.b_region, self.gemm.b, size, effect, [*self.chosen.values()])

    def _load_tile(
        self, ring: str, source: int, tensor: str, size: int, effect: Effect, needs: Sequence[int] = ()
    ) -> int:
        slot = self.rings[ring].take()
        self.layout.load(self.op, source, slot, tensor, size, effect, needs=needs)
        return slot

    def _product(self, step: Exec, array: int, a: int, b: int, acc: int) -> None:
        tile, (role_a, role_b) = step.tile, self._operand_roles
        work, actions = self.costs.product(tile, step.first, array)
        self.layout.builder.emit(
            "MatMul", self.layout.roles.arrays[array], self.op, self.node.name, work,
            Effect("product", tile, ((self.gemm.a, a), (self.gemm.b, b))),
            [(b, role_b), (a, role_a)], [(acc, PIECE[step.first, step.last])], actions,
        )  # fmt: skip

    @cached_property
    def _operand_roles(self) -> tuple[str, str]:
        """Roles of the activations and of the weights in a MatMul."""
        a, b = self.layout.roles.matrix.flow.a_and_b("a", "w")
        return a, b

    def _finish(self, tile: Tile, sums: list[int]) -> None:
        """The sums of a tile are complete: through the vector unit into a buffer, or straight out.

        ``sums``: their slots, several where arrays shared the reduction.
        """
        layout, roles = self.layout, self.layout.roles
        role, last = self._piece(tile)
        place = layout.places[self.out.name]
        out_B = self.out.size_B(self._out_elements(tile))
        effect = Effect("epilogue", tile, tuple(self.sides.items()), self.out.name, last)
        if not roles.matrix.epilogue:
            assert place.home is not None
            (acc,) = sums
            layout.store(self.op, acc, place.home, self.out.name, out_B, effect, role)
            return
        if self.sides:
            sides = tuple((name, self._side(name, region, tile)) for name, region in self.sides.items())
            effect = effect._replace(operands=sides)
        if place.chip is not None:
            self._vector(tile, sums, place.chip, role, out_B, effect)
            return
        assert place.home is not None
        slot = self.rings["results"].take()
        self._vector(tile, sums, slot, "whole", out_B, effect)
        store = Effect("store", tile, ((self.out.name, slot),), self.out.name, last)
        layout.store(self.op, slot, place.home, self.out.name, out_B, store, role)

    def _out_elements(self, tile: Tile) -> int:
        """Elements of a result tile (not those of its sums when a pooling is fused, which takes whole images)."""
        rows = self.out.elements // (self.gemm.groups * self.gemm.N)
        first, last = (m * rows // self.gemm.M for m in (tile.m0, tile.m1))
        return (tile.g1 - tile.g0) * (last - first) * (tile.n1 - tile.n0)

    def _piece(self, tile: Tile) -> tuple[str, bool]:
        """Return whether this tile begins or ends the result, and is the last one."""
        result = self.result
        first = result.written == 0
        result.written += (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        last = result.written == self.gemm.groups * self.gemm.M * self.gemm.N
        return PIECE[first, last], last

    def _side(self, name: str, region: int, tile: Tile) -> int:
        if self._on_chip(region):
            return region
        count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        effect = Effect("load_side", tile, ((name, region),))
        side = self._tensor(name)  # one that broadcasts has fewer elements than the tile
        size = side.size_B(min(count, side.elements))
        return self._load_tile(f"side {name}", region, name, size, effect)

    def _vector(
        self, tile: Tile, sums: list[int], target: int, role: str, out_B: int, effect: Effect
    ) -> None:
        count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        work, actions = self.costs.epilogue(count, out_B, [name for name, _ in effect.operands], len(sums))
        reads = [*((acc, "acc") for acc in sums), *((region, "src") for _, region in effect.operands)]
        if self.parameter_region >= 0:
            reads.append((self.parameter_region, "src"))
        self.layout.builder.emit(
            "Vector", self._functions, self.op, self.node.name, work, effect, reads, [(target, role)], actions
        )

    @cached_property
    def _functions(self) -> str:
        """The engine that results pass; only asked for where there is one."""
        roles = self.layout.roles
        return roles.engine(roles.functions_behind(self.node).name)

    def _complete(self) -> None:
        for buffer, regions in self.taken:
            self.layout.release(buffer, regions)
