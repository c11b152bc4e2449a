"""Closed forms of a mapping, vectorised over thousands of candidates: a lower bound of what the machine will take.

Each candidate is bounded by several paths, of which the longest is the estimate: the array with all its folds, every
port with all its bytes, the vector unit with all its results. Law: estimate <= machine for one step alone; equal where
one path dominates throughout, as when all operands are on the chip or there is one tile.
All times are clocks of the array (float64, exact below 2^53).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.array.timing import FoldTiming, fold_timing
from accelsim.compiler.mapping import Mapping, Order
from accelsim.compiler.roles import Roles
from accelsim.compiler.tiles import b_elements, b_extent, channel_visits, most_channels, slabs
from accelsim.spec.models import Attachment
from accelsim.workload.ops.base import Gemm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Traffic = dict[str, Floats]

EXPOSED = 0.125
"""Share of the fill and drain of a step that the search counts; the neighbours hide the rest."""


@dataclass(frozen=True)
class Shape:
    """What is the same for all candidates of one step. Bytes are per element; counts in words."""

    gemm: Gemm
    a_B: float
    b_B: float
    y_B: float
    sum_B: float
    cycles_per_row: int
    results_share: float  # result elements per sum (below 1 behind a pooling)
    functions: tuple[int, ...]  # clocks per element and lane of each fused function
    sides: int  # side operands that are streamed
    side_B: float
    parameters_B: int
    b_streamed: bool


@dataclass(frozen=True)
class Homes:
    """Memories from which the operands come and to which results go; ``a_to_load``: A is not on the chip yet."""

    a: str
    b: str
    y: str
    a_to_load: bool

    def path_name(self, memory: str) -> str:
        """What a memory's inbound traffic is, in words."""
        if self.a == self.b:
            return f"traffic of {memory}"
        return f"weight fetch from {memory}" if memory == self.b else f"activations from {memory}"


@dataclass(frozen=True)
class Candidates:
    """Columns of equal length; ``order`` is one loop order for all of them, so are the residency flags."""

    order: Order
    a_resident: bool
    a_whole_k: bool
    y_resident: bool
    a_slots: int
    tg: Ints
    tm: Ints
    tn: Ints
    tk: Ints

    def __len__(self) -> int:
        return len(self.tm)

    def keep(self, mask: NDArray[np.bool_]) -> Candidates:
        """The rows where ``mask`` holds."""
        return replace(self, tg=self.tg[mask], tm=self.tm[mask], tn=self.tn[mask], tk=self.tk[mask])

    def mapping(self, index: int) -> Mapping:
        """One row as a mapping."""
        return Mapping(
            self.order, int(self.tm[index]), int(self.tn[index]), int(self.tk[index]), int(self.tg[index]),
            a_resident=self.a_resident, a_whole_k=self.a_whole_k, y_resident=self.y_resident, a_slots=self.a_slots,
        )  # fmt: skip


def count(extent: int, tile: Ints) -> Ints:
    """Tiles along one dimension."""
    return -(-extent // tile)


def over_tiles(extent: int, tile: Ints, f: Callable[[Any], Any]) -> Ints:
    """Sum of ``f`` over the tiles of one dimension, the last one smaller."""
    full = count(extent, tile) - 1
    total: Ints = full * f(tile) + f(extent - full * tile)
    return total


def open_sums(gemm: Gemm, c: Candidates) -> Ints:
    """Accumulator slots that are open at once."""
    inner = {"nkm": count(gemm.M, c.tm), "mkn": count(gemm.N, c.tn)}.get(c.order)
    one = np.ones_like(c.tm)
    return one if inner is None else np.where(c.tk >= gemm.K, one, inner)


def fetches(gemm: Gemm, c: Candidates) -> tuple[Ints, Ints]:
    """How often all of A and all of B pass through their ports, when a tile is kept only while the next is the same."""
    counts = {"m": count(gemm.M, c.tm), "n": count(gemm.N, c.tn), "k": count(gemm.K, c.tk)}
    return _passes(c.order, counts, "n", "m" if c.a_whole_k else "mk"), _passes(c.order, counts, "m", "nk")


def _passes(order: str, counts: dict[str, Ints], foreign: str, key: str) -> Ints:
    """Times that a tile comes again: once per round of every loop it does not depend on, unless nothing it depends
    on turns inside that loop (then the tile is still there)."""
    total = np.ones_like(counts["m"])
    for axis in (foreign, *(axis for axis in "mnk" if axis not in key and axis != foreign)):
        inside = order[order.index(axis) + 1 :]
        turning = np.ones_like(total)
        for other in inside:
            if other in key:
                turning = turning * counts[other]
        total = np.where(turning > 1, total * counts[axis], total)
    return total


def a_words(gemm: Gemm, c: Candidates) -> tuple[Ints, Ints]:
    """Words of all activation tiles of one pass, and of the largest tile (a convolution's rows overlap)."""
    if gemm.conv is None:
        tile_k = np.full_like(c.tk, gemm.K) if c.a_whole_k else np.minimum(c.tk, gemm.K)
        return np.full_like(c.tm, gemm.groups * gemm.M * gemm.K), c.tg * np.minimum(c.tm, gemm.M) * tile_k
    conv = gemm.conv
    by_tile = {int(tm): slabs(conv, gemm.M, int(tm)) for tm in np.unique(c.tm)}
    pixels = np.array([by_tile[int(tm)] for tm in c.tm], np.int64).reshape(-1, 3)
    tk = np.full_like(c.tk, gemm.K) if c.a_whole_k else np.minimum(c.tk, gemm.K)
    words = gemm.groups * channel_visits(conv, tk) * pixels[:, 0]
    return words, c.tg * most_channels(conv, tk) * pixels[:, 1]


@dataclass(frozen=True)
class Bounds:
    """Clocks of each path by name, clocks of the busiest resource, and the bytes that leave or enter the chip."""

    paths: dict[str, Floats]
    busiest: Floats
    offchip_B: Floats

    def total(self) -> Floats:
        """The estimate: the longest path."""
        longest: Floats = np.maximum.reduce(list(self.paths.values()))
        return longest

    def score(self) -> Floats:
        """What the search compares: in a network most of a step's fill and drain hides behind its neighbours."""
        return self.busiest + EXPOSED * (self.total() - self.busiest)

    def binds(self, index: int) -> str:
        """Name of the longest path of one candidate."""
        return max(self.paths, key=lambda name: self.paths[name][index])


class Estimator:
    """Closed forms for one chip."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._unit = roles, roles.matrix
        self._clock = float(self._unit.clock or roles.chip.clock)
        vector = roles.chip.vector
        self._vector_ratio = self._clock / float((vector.clock if vector else None) or roles.chip.clock)

    def _clocks(self, memory: str, size_B: Any) -> Any:
        """Data clocks of so many bytes through the port of a memory."""
        attached = self._roles.memory(memory)
        return size_B / _bandwidth(attached) * self._clock

    def _latency(self, memory: str) -> float:
        attached = self._roles.memory(memory)
        return (attached.memory.latency + (attached.link.latency if attached.link else 0.0)) * self._clock

    def _timing(self, rows: Ints, shape: Shape) -> FoldTiming[Ints]:
        unit = self._unit
        return fold_timing(
            np.asarray(unit.rows), np.asarray(unit.cols), unit.dataflow, unit.schedule, unit.shadow_load,
            rows * shape.cycles_per_row, unit.load_rows_per_clock, unit.min_interval * shape.cycles_per_row,
        )  # fmt: skip

    def array(self, shape: Shape, c: Candidates) -> tuple[Floats, Floats, Floats]:
        """From the first streamed row of the step to its last sum, of its last fold alone, and the shift before."""
        gemm, unit = shape.gemm, self._unit
        dims = {"ws": ("k", "n", "m"), "os": ("m", "n", "k"), "is": ("k", "m", "n")}[unit.dataflow]
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": (gemm.K, c.tk)}
        rows, cols, streamed = (size[axis] for axis in dims)
        passes = over_tiles(*rows, lambda t: -(-t // unit.rows)) * over_tiles(
            *cols, lambda t: -(-t // unit.cols)
        )
        steps = over_tiles(*streamed, lambda t: self._timing(t, shape).step)
        extent, tile = streamed
        final = extent - (count(extent, tile) - 1) * tile
        end = self._timing(final, shape)
        alone = final * shape.cycles_per_row + end.drain + unit.accumulator_latency
        total = gemm.groups * passes * steps - end.step + alone
        return total.astype(np.float64), alone.astype(np.float64), (end.load + 0 * alone).astype(np.float64)

    def bounds(self, shape: Shape, c: Candidates, homes: Homes) -> Bounds:
        """All paths of all candidates."""
        array, alone, shift = self.array(shape, c)
        loads, first = self._inbound(shape, c, homes)
        ready = np.zeros(len(c))
        for memory, size_B in first.items():
            ready = np.maximum(ready, self._latency(memory) + self._clocks(memory, size_B))
        vector_all, vector_last = self._vector(shape, c)
        stores, out_last = self._outbound(shape, c, homes, loads)
        tail = vector_last + out_last
        if not c.a_resident and c.a_slots == 1:  # nothing streams while the next activation tile arrives
            all_a, first_a = self._streamed_a(shape, c)
            array = array + self._clocks(homes.a, all_a - first_a)
        busiest = np.maximum(array - alone, vector_all)
        paths = {
            "compute": ready + shift + array + tail,
            "vector unit": ready + shift + alone + vector_all + out_last,
        }
        for memory in dict.fromkeys((*loads, *stores)):
            inbound, outbound = loads.get(memory, 0 * ready), stores.get(memory, 0 * ready)
            shared = not self._full_duplex(memory)
            both = inbound + outbound if shared else np.maximum(inbound, outbound)
            busiest = np.maximum(busiest, self._clocks(memory, both))
            arriving = self._latency(memory) + self._clocks(memory, inbound)
            paths[homes.path_name(memory)] = arriving + shift + alone + tail
            if memory in stores:
                begin = self._latency(memory) if shared else ready + alone
                leaving = self._clocks(memory, both if shared else outbound)
                paths[f"results to {memory}"] = begin + leaving
        moved = sum(loads.values(), 0 * ready) + sum(stores.values(), 0 * ready)
        return Bounds({name: path + 1 for name, path in paths.items()}, busiest, moved)

    def _inbound(self, shape: Shape, c: Candidates, homes: Homes) -> tuple[Traffic, Traffic]:
        """Bytes that come in from each memory: in all, and before the first fold can start."""
        gemm, none = shape.gemm, np.zeros(len(c))
        loads: Traffic = defaultdict(lambda: none)
        first: Traffic = defaultdict(lambda: none)
        b_passes = fetches(gemm, c)[1]

        def arrive(memory: str, all_B: Any, first_B: Any) -> None:
            loads[memory] = loads[memory] + all_B
            first[memory] = first[memory] + first_B

        if shape.parameters_B:
            arrive(homes.b, shape.parameters_B, shape.parameters_B)
        if shape.b_streamed:
            unit = self._unit
            tile = b_elements(unit, c.tg, c.tn, c.tk)
            columns = over_tiles(gemm.N, c.tn, lambda tn: b_extent(unit, tn, 1)[0])
            words = columns * over_tiles(gemm.K, c.tk, lambda tk: b_extent(unit, 1, tk)[1])
            arrive(homes.b, b_passes * gemm.groups * words * shape.b_B, tile * shape.b_B)
        if c.a_resident and homes.a_to_load:
            arrive(homes.a, whole_a(gemm) * shape.a_B, whole_a(gemm) * shape.a_B)
        elif not c.a_resident:
            arrive(homes.a, *self._streamed_a(shape, c))
        return loads, first

    def _streamed_a(self, shape: Shape, c: Candidates) -> tuple[Floats, Floats]:
        """Bytes of all streamed activation tiles, each as often as it comes, and of the first."""
        passes = fetches(shape.gemm, c)[0]
        all_B, first_B = passes * a_words(shape.gemm, c)[0] * shape.a_B, self._first_a(shape.gemm, c) * shape.a_B
        return all_B.astype(np.float64), first_B.astype(np.float64)

    def _outbound(self, shape: Shape, c: Candidates, homes: Homes, loads: Traffic) -> tuple[Traffic, Floats]:
        """Bytes that leave to each memory, and clocks until the last result tile is out; adds streamed side operands
        to ``loads``."""
        gemm, none = shape.gemm, np.zeros(len(c))
        sums = gemm.groups * gemm.M * gemm.N
        if shape.sides:
            loads[homes.y] = loads[homes.y] + sums * shape.sides * shape.side_B
        if c.y_resident:
            return {}, none
        last_B = self._last_tile(gemm, c) * shape.results_share * shape.y_B
        leaving = self._latency(homes.y) + self._clocks(homes.y, last_B)
        return {homes.y: none + sums * shape.results_share * shape.y_B}, leaving

    def _first_a(self, gemm: Gemm, c: Candidates) -> Ints:
        """Words of the first activation tile."""
        tile_k = gemm.K if c.a_whole_k else np.minimum(c.tk, gemm.K)
        if gemm.conv is None:
            return c.tg * np.minimum(c.tm, gemm.M) * tile_k
        conv = gemm.conv
        pixels = np.array([slabs(conv, gemm.M, int(tm))[2] for tm in c.tm], np.int64)
        words: Ints = c.tg * pixels * (-(-tile_k // (conv.kernel[0] * conv.kernel[1])))
        return words

    def _last_tile(self, gemm: Gemm, c: Candidates) -> Ints:
        """Sums of the last tile."""
        m = gemm.M - (count(gemm.M, c.tm) - 1) * c.tm
        n = gemm.N - (count(gemm.N, c.tn) - 1) * c.tn
        g = gemm.groups - (count(gemm.groups, c.tg) - 1) * c.tg
        sums: Ints = g * m * n
        return sums

    def _vector(self, shape: Shape, c: Candidates) -> tuple[Floats, Floats]:
        """Clocks of all results and of the last tile in the vector unit (none where results bypass it)."""
        vector = self._roles.chip.vector
        if vector is None or not self._unit.epilogue:
            return np.zeros(len(c)), np.zeros(len(c))
        per_lane = [*shape.functions] or [1]
        pace = max(per_lane) if vector.chained else sum(per_lane)
        sums = shape.gemm.groups * shape.gemm.M * shape.gemm.N
        last: Floats = (
            np.maximum(1, -(-self._last_tile(shape.gemm, c) // vector.lanes) * pace) + vector.latency
        )
        whole = -(-sums // vector.lanes) * pace
        return np.maximum(whole, last) * self._vector_ratio, last * self._vector_ratio

    def _full_duplex(self, memory: str) -> bool:
        link = self._roles.memory(memory).link
        return link is not None and link.duplex == "full"


def _bandwidth(attached: Attachment) -> float:
    memory = attached.memory
    rate = memory.bandwidth * memory.channels * memory.efficiency
    return min(rate, attached.link.bandwidth) if attached.link else rate


def whole_a(gemm: Gemm) -> int:
    """Words of the whole activation operand as it lies in memory."""
    if gemm.conv is None:
        return gemm.groups * gemm.M * gemm.K
    conv = gemm.conv
    return conv.batch * gemm.groups * conv.channels * conv.height * conv.width
