"""Room for a product on arrays: regions of its operands and result, and slots for what is in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.tilings import slots_in_use
from accelsim.engines.systolic.merging import FEW, MANY, MOST, SHORT, merged
from accelsim.engines.systolic.pace import b_elements
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.tile_costs import Results, StreamedData, TileCosts, check_matrix, matrix_commands
from accelsim.errors import Infeasible
from accelsim.program.commands import Tile
from accelsim.program.mapping import Mapping
from accelsim.program.tiles import a_elements, depends, in_strips, most_channels, slabs, whole
from accelsim.program.writing.allocator import Ring
from accelsim.program.writing.entries import nbytes
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Gemm

PARTED = ("weights", "tiles", "sums")
"""Tiles for which a buffer may have fixed slots; what comes and goes beside them has slots of its own."""


class _Slots(NamedTuple):
    """Tiles in flight: in which buffer, bytes of the largest, how many."""

    buffer: str
    size_B: int
    tiles: int


class CoreShare(NamedTuple):
    """A core's share of a product: its ``tiles``, and the largest share of any core as a product (``seen``)."""

    tiles: Tile
    seen: Gemm


@dataclass
class Result:
    """Result that the cores of a node write together: its region in memory, and the sums written so far."""

    home: int | None = None
    written: int = 0


@dataclass
class PlacedStep:
    """Room for one matrix node: where its operands, sums and results lie, and the slots for what is streamed.

    ``gemm``: with the rows in the order of the mapping; ``part``: what of it, all without. ``runs``: the mapping whose
    tiles are those of the commands, runs of tiles where there are too many (see ``merging``).
    """

    layout: Layout
    op: int
    node: Node
    gemm: Gemm
    mapping: Mapping
    dtype: str
    part: CoreShare | None = None
    result: Result = field(default_factory=Result)
    taken: list[tuple[str, list[int]]] = field(default_factory=list)
    _result_tiles: dict[tuple[int, int, int], Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        queues = len(self.layout.roles.arrays)
        self.arrays = queues if self.mapping.split != "none" else 1
        self.tiles, seen = self.part or CoreShare(whole(self.gemm), self.gemm)
        self.seen = in_strips(seen, self.mapping.tq)

    def _merge(self) -> Mapping:
        """Return the tiles of commands. TooLarge when all of them are more commands than the limits allow."""
        stored = self.layout.places[self.out.name].chip is None
        streamed = sum(not self._on_chip(region) for region in self.sides.values())
        epilogue = self.layout.roles.matrix.epilogue
        writes = 1 + (epilogue and stored)
        streams = StreamedData(
            not self._on_chip(self.a_region), not self._on_chip(self.b_region), streamed * epilogue, writes, self.arrays
        )
        runs, count = self.mapping, matrix_commands(self.seen, self.mapping, streams)
        most = max(FEW, MOST // self._alike)
        if count > most:
            each, per_result = 1 + streams.a + streams.b, writes + streams.sides
            few = max(FEW, most // 4, min(count // SHORT, MOST // 4))
            runs, count = merged(self.seen, self.mapping, self.arrays, each, per_result, few)
        check_matrix(self.node.name, runs, count, self.layout.builder.written)
        return runs

    @property
    def _alike(self) -> int:
        """Return how many layers count together, so that all of them need few commands."""
        alike = self.layout.facts.alike_products(self.node)
        return alike if alike >= MANY else 1

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
        self._take_slots(roles.matrix, tg * tm * tn, int(b_elements(roles.matrix, tg, tn, tk)))

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
