"""Lowering of one matrix step: the tiles of its mapping become Load, MatMul, Vector and Store commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.tilings import slots_in_use
from accelsim.engines.systolic.merging import A_AXES, B_AXES, MOST, merged, passes, pieces, sizes, tiles_along
from accelsim.engines.systolic.pace import b_elements
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.tile_costs import Results, Streams, TileCosts, check_matrix, matrix_commands
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
    loop,
    most_channels,
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
    """Tiles of an operand that are on the chip, key -> region: those of this strip of arrays, and of the one before.
    ``passing``: nothing stays from strip to strip."""

    passing: bool = False
    now: dict[tuple[int, ...], int] = field(default_factory=dict)
    before: dict[tuple[int, ...], int] = field(default_factory=dict)

    def turn(self) -> None:
        """A new strip begins."""
        self.now, self.before = {}, {} if self.passing else self.now

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
    what of it, all without. ``runs``: the mapping whose tiles are those of the commands, runs of tiles where there are
    too many (see ``merging``)."""

    layout: Layout
    op: int
    node: Node
    gemm: Gemm
    mapping: Mapping
    dtype: str
    part: Part | None = None
    result: Result = field(default_factory=Result)
    taken: list[tuple[str, list[int]]] = field(default_factory=list)
    _result_tiles: dict[tuple[int, int, int], Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        queues = len(self.layout.roles.arrays)
        self.arrays = queues if self.mapping.split != "none" else 1
        self.tiles, seen = self.part or Part(whole(self.gemm), self.gemm)
        self.seen = in_strips(seen, self.mapping.tq)

    def lower(self) -> None:
        """Emit all commands. Raises Infeasible when the tiles do not fit."""
        self._prepare()
        most = Tile(0, self.runs.tg, 0, self.runs.tm, 0, self.runs.tn, 0, self.runs.tk)
        along = tiles_along(most, self.mapping)
        a_held = Held(any(along[axis] > 1 for axis in self._a_axes))
        b_held = Held(any(along[axis] > 1 for axis in B_AXES))
        sums: dict[tuple[int, int, int], list[int]] = {}
        for step in loop(self.tiles, self.runs, self.arrays):
            tile, array = step.tile, array_of(step.tile, self.runs, self.arrays, self.tiles)
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

    @property
    def note(self) -> str:
        """Return that runs of tiles are one command, '' where they are not."""
        if self.runs is self.mapping:
            return ""
        longest = prod(tiles_along(whole(self.seen), self.mapping).values())
        runs = prod(tiles_along(whole(self.seen), self.runs).values())
        return (
            f"{self.node.name}: up to {-(-longest // runs):,} alike tiles are one command, as its {longest:,} tiles "
            f"would take more than {MOST:,} commands"
        )

    @property
    def _a_axes(self) -> str:
        return "gm" if self.mapping.a_whole_k else A_AXES

    def _merge(self) -> Mapping:
        """Return the tiles of commands. TooLarge when all of them are more commands than the limits allow."""
        stored = self.layout.places[self.out.name].chip is None
        streamed = sum(not self._on_chip(region) for region in self.sides.values())
        epilogue = self.layout.roles.matrix.epilogue
        writes = 1 + (epilogue and stored)
        streams = Streams(
            not self._on_chip(self.a_region), not self._on_chip(self.b_region), streamed * epilogue, writes, self.arrays
        )
        runs, count = self.mapping, matrix_commands(self.seen, self.mapping, streams)
        if count > MOST:
            each, per_result = 1 + streams.a + streams.b, writes + streams.sides
            runs, count = merged(self.seen, self.mapping, self.arrays, each, per_result)
        check_matrix(self.node.name, runs, count, self.layout.builder.written)
        return runs

    def _held(self, held: Held, key: tuple[int, ...], tile: Tile, load: Callable[[Tile], int]) -> int:
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
        sides = layout.facts.epilogue_reads(self.node).sides
        self.sides = {name: self._operand(name, False, prefer_chip=True) for name in sides}
        self.costs = TileCosts(
            roles, self.dtype, self.node, self.gemm, layout.graph.tensors, self._on_chip(self.b_region),
            layout.tile_costs, self.mapping, self.arrays,
        )  # fmt: skip
        self._load_parameters()
        tm, tn, tk, tg = (
            min(x, y)
            for x, y in zip(
                (mapping.tm, mapping.tn, mapping.tk, mapping.tg),
                (self.seen.M, self.seen.N, self.seen.K, self.seen.groups),
                strict=True,
            )
        )
        self.shape = f"{tg}x{tm}x{tn}x{tk}"
        self.runs = self._merge()
        self._take_slots(roles.matrix, tg * tm * tn, b_elements(roles.matrix, tg, tn, tk))

    def _take_slots(self, unit: MatrixUnit, sums: int, weights: int) -> None:
        """Slots for what is in flight: weight tiles, activation tiles, sums, side operands, results on their way out.

        Where they share a buffer, those that a step needs first lie where the step before it is done first.
        """
        roles, mapping = self.layout.roles, self.mapping
        sum_format = unit.formats[self.dtype].accumulate
        wanted: dict[str, _Slots] = {}
        working, needed = slots_in_use(self.seen, mapping, self.arrays)
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
        self.layout.slots.arrange((slots.buffer, slots.size_B * slots.tiles) for slots in wanted.values())
        self.rings = {name: self._slots(name, slots) for name, slots in wanted.items()}
        there = len(self.rings["sums"].slots)
        if self.runs is not mapping:
            _, open_runs = slots_in_use(self.seen, self.runs, self.arrays)
            used = {"weights": 2 * each_b, "tiles": 2 * each_a, "sums": max(open_runs, there * open_runs // needed)}
            self.rings = {name: self._windows(ring, used.get(name, 2)) for name, ring in self.rings.items()}
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
                raise Infeasible(
                    self.node.name,
                    buffer,
                    self._tensor(tensor).nbytes,
                    self.layout.spaces[buffer].free_B(),
                    f"all of {tensor}",
                )
            assert place.chip is not None
            return place.chip
        return self.layout.store_away(self.op, tensor)

    def _on_chip(self, region: int) -> bool:
        return self.layout.in_buffer(region)

    def _load_parameters(self) -> None:
        """One Load of everything constant that the epilogue needs."""
        layout, self.parameter_region = self.layout, -1
        constants = layout.facts.epilogue_reads(self.node).parameters
        if not constants:
            return
        memory = layout.roles.weights_home
        sources = [layout.place(name).home for name in constants]
        size = sum(self._tensor(name).nbytes for name in constants)
        unit = layout.roles.functions_behind(self.node)
        self.parameter_region = layout.off_chip(layout.roles.engine(unit.name), f"{self.node.name} parameters", size)
        layout.transfers.load_parameters(
            self.op, [s for s in sources if s is not None], self.parameter_region, memory, size
        )

    def _slots(self, name: str, slots: _Slots) -> Ring:
        ring, regions = self.layout.slots.ring(
            slots.buffer, self.node.name, name, slots.size_B, slots.tiles, self.shape, name in PARTED
        )
        self.taken.append((slots.buffer, regions))
        return ring

    def _windows(self, ring: Ring, count: int) -> Ring:
        """Return so many of the slots, through which larger runs of tiles pass."""
        regions = self.layout.builder.regions
        for region in ring.slots[:count]:
            regions[region] = regions[region]._replace(streams=True)
        return Ring(ring.slots[:count])

    def _largest_a(self) -> int:
        """Bytes of the largest streamed activation tile (a convolution's rows differ at the border)."""
        gemm, m = self.seen, self.mapping
        tg, tk = min(m.tg, gemm.groups), gemm.K if m.a_whole_k else min(m.tk, gemm.K)
        a = self._tensor(gemm.a)
        if gemm.conv is None:
            return a.size_B(a_elements(gemm, tg, 0, min(m.tm, gemm.M), 0, tk))
        channels = int(most_channels(gemm.conv, np.array(tk)))
        return a.size_B(tg * channels * slabs(gemm.conv, gemm.M, m.tm)[1])

    def _passes(self, tile: Tile, axes: str) -> int:
        return 1 if self.runs is self.mapping else passes(tiles_along(tile, self.mapping), self.mapping, axes)

    def _a_B(self, tile: Tile) -> int:
        """Bytes of the activation tiles of a run, of each once."""
        gemm, mapping, size_B = self.gemm, self.mapping, self._tensor(self.gemm.a).size_B
        k0, k1 = (0, gemm.K) if mapping.a_whole_k else (tile.k0, tile.k1)
        if self.runs is mapping:
            return size_B(a_elements(gemm, tile.g1 - tile.g0, tile.m0, tile.m1, k0, k1))
        along_m = pieces(tile.m0, tile.m1, mapping.tm)
        along_k = pieces(k0, k1, gemm.K if mapping.a_whole_k else mapping.tk)
        words = Counter(a_elements(gemm, 1, *m, *k) for m, k in product(along_m, along_k))
        groups = sizes(tile.g1 - tile.g0, mapping.tg)
        return sum(size_B(tg * each) * n * often for (tg, n), (each, often) in product(groups, words.items()))

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
        times = self._passes(tile, self._a_axes)
        k = (0, self.gemm.K) if self.mapping.a_whole_k else (tile.k0, tile.k1)
        effect = Effect("load_a", tile._replace(k0=k[0], k1=k[1]), ((self.gemm.a, self.a_region),))
        return self._load_tile("tiles", self.a_region, self.gemm.a, self._a_B(tile), effect, times=times)

    def _b(self, tile: Tile) -> int:
        if self._on_chip(self.b_region):
            return self.b_region
        size = self.costs.weights_B(tile)
        effect = Effect("load_b", tile, ((self.gemm.b, self.b_region), *self.chosen.items()))
        times = self._passes(tile, B_AXES)
        return self._load_tile("weights", self.b_region, self.gemm.b, size, effect, [*self.chosen.values()], times)

    def _load_tile(
        self, ring: str, source: int, tensor: str, size: int, effect: Effect, needs: Sequence[int] = (), times: int = 1
    ) -> int:
        slot = self.rings[ring].take()
        self.layout.transfers.load(self.op, source, slot, tensor, size * times, effect, needs=needs, times=times)
        return slot

    def _product(self, step: Exec, array: int, a: int, b: int, acc: int) -> None:
        tile, (role_a, role_b) = step.tile, self._operand_roles
        work, actions = self.costs.product(tile, step.first, array)
        self.layout.builder.emit(
            "MatMul",
            self.layout.roles.arrays[array],
            self.op,
            self.node.name,
            work,
            Effect("product", tile, ((self.gemm.a, a), (self.gemm.b, b))),
            [(b, role_b), (a, role_a)],
            [(acc, PIECE[step.first, step.last])],
            actions,
        )

    @cached_property
    def _operand_roles(self) -> tuple[str, str]:
        a, b = self.layout.roles.matrix.flow.a_and_b("a", "w")
        return a, b

    def _finish(self, tile: Tile, sums: list[int]) -> None:
        """The sums of a tile are complete: through the vector unit into a buffer, or straight out.

        ``sums``: their slots, several where arrays shared the reduction.
        """
        layout, roles = self.layout, self.layout.roles
        role, last = self._piece(tile)
        place = layout.places[self.out.name]
        out_B = sum(size_B * often for _, size_B, often in self._results(tile))
        effect = Effect("epilogue", tile, tuple(self.sides.items()), self.out.name, last)
        if not roles.matrix.epilogue:
            assert place.home is not None
            (acc,) = sums
            layout.transfers.store(self.op, acc, place.home, self.out.name, out_B, effect, role)
            return
        if self.sides:
            sides = tuple((name, self._side(name, region, tile)) for name, region in self.sides.items())
            effect = effect._replace(operands=sides)
        if place.chip is not None:
            self._vector(tile, sums, place.chip, role, effect)
            return
        assert place.home is not None
        slot = self.rings["results"].take()
        self._vector(tile, sums, slot, "whole", effect)
        store = Effect("store", tile, ((self.out.name, slot),), self.out.name, last)
        layout.transfers.store(self.op, slot, place.home, self.out.name, out_B, store, role)

    @property
    def _out_rows(self) -> int:
        return self.out.elements // (self.gemm.groups * self.gemm.N)

    def _results(self, tile: Tile) -> Results:
        """Return the tiles of the result in a run."""
        extents = (tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0)
        if extents not in self._result_tiles:
            mapping, rows, all_rows = self.mapping, self._out_rows, self.gemm.M
            each = product(*map(sizes, extents, (mapping.tg, mapping.tm, mapping.tn)))
            self._result_tiles[extents] = tuple(
                (tg * tm * tn, self.out.size_B(tg * (tm * rows // all_rows) * tn), g * m * n)
                for (tg, g), (tm, m), (tn, n) in each
            )
        return self._result_tiles[extents]

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
        effect = Effect("load_side", tile, ((name, region),))
        size = sum(self.costs.side_B(name, sums) * often for sums, _, often in self._results(tile))
        return self._load_tile(f"side {name}", region, name, size, effect)

    def _vector(self, tile: Tile, sums: list[int], target: int, role: str, effect: Effect) -> None:
        names = [name for name, _ in effect.operands]
        work, actions = self.costs.epilogue(self._results(tile), names, len(sums))
        reads = [*((acc, "acc") for acc in sums), *((region, "src") for _, region in effect.operands)]
        if self.parameter_region >= 0:
            reads.append((self.parameter_region, "src"))
        self.layout.builder.emit(
            "Vector", self._functions, self.op, self.node.name, work, effect, reads, [(target, role)], actions
        )

    @cached_property
    def _functions(self) -> str:
        roles = self.layout.roles
        return roles.engine(roles.functions_behind(self.node).name)

    def _complete(self) -> None:
        for buffer, regions in self.taken:
            self.layout.release(buffer, regions)
