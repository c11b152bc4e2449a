"""The mapping of a convolution: all legal ones, likely ones, and the best that leaves room for what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.row_stationary.counts import Counts, layer_counts
from accelsim.engines.row_stationary.laws import active_pes, ceil, ifmap_banks, legal, psum_banks, refusals, require
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings, pinned_mapping
from accelsim.engines.row_stationary.timing import layer_clocks
from accelsim.engines.tuning import Writer, choose_mapping
from accelsim.errors import Infeasible
from accelsim.mapping.search import solve_listed
from accelsim.program.mapping import Pins
from accelsim.types import Floats, Ints
from accelsim.workload.graph import Tensor

CHUNK = 4096
"""Mappings whose costs are worked out at once."""


class Costs(NamedTuple):
    """Costs of many mappings: ``clocks`` int64 [k] and ``counts`` of int64 [k]."""

    clocks: Ints
    counts: Counts[Ints]


class Objective(NamedTuple):
    """``keys``: what shall be least, the first before the second. ``bound``: what the first key is at least."""

    keys: Callable[[Costs], tuple[Ints, ...]]
    bound: Callable[[Conv, Geometry, Mappings], Ints]


class Least(NamedTuple):
    """The best mappings, best first, and how many were compared: their costs, or a bound of them."""

    mappings: list[Mapping]
    compared: int


def mapping_of(step: Lowering, conv: Conv, array: Geometry, write: Writer[Mapping]) -> tuple[Mapping, int]:
    """Return the mapping of a step, whose commands ``write`` writes, and how many were compared; alike steps choose
    once. Raises UsageError for a pinned one that breaks a law, Infeasible where none fits."""
    if step.pinned.keys() == set(Mappings._fields):
        mapping = pinned_mapping(step.pinned)
        require(conv, array, mapping)
        return mapping, 1
    tensors = step.layout.graph.tensors
    sides = [tensors[name] for name in step.layout.facts.epilogue_reads(step.node).sides]
    pins = tuple(sorted(step.pinned.items()))
    key = (type(step.unit.spec).__name__, conv, array, tuple(side.size_B(1) for side in sides), pins)

    def chosen() -> tuple[Mapping, int]:
        best = _best(step, conv, array, sides)
        return choose_mapping(step, key, best.mappings, write), best.compared

    return step.once(key, chosen)


def side_B(conv: Conv, mapping: Mapping, sides: list[Tensor]) -> int:
    """Return the bytes of the tiles of operands that follow a product: those that meet the psums of one pass."""
    words = mapping.n * min(mapping.p * mapping.t, mapping.m) * mapping.e * conv.F
    return sum(side.size_B(min(words, side.elements)) for side in sides)


def _best(step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor]) -> Least:
    """The best mappings, of all banks of the global buffer or of as many as leave room for a tile of each side."""
    roles, spec = step.layout.roles, step.unit.spec
    rates = [roles.memory(name).rate_Bps for name in (roles.weights_home, roles.activations_home)]
    clocks_per_word = float(spec.clock or roles.chip.clock) * array.word_B / min(rates)
    for banks in range(array.glb_banks, 0, -1):
        smaller = replace(array, glb_banks=banks)
        try:
            found = choose(conv, smaller, clocks_per_word, step.search, step.pinned, step.leaders)
        except Infeasible:
            break
        if beside := [each for each in found.mappings if _leaves_room(conv, array, each, sides)]:
            return Least(beside, found.compared)
    smallest = pinned_mapping(step.pinned)
    require(conv, array, smallest)
    needed_B, capacity_B = side_B(conv, smallest, sides), array.glb_banks * array.glb_bank_B
    raise Infeasible(step.node.name, roles.activations, needed_B, capacity_B, f"of {smallest}")


def _leaves_room(conv: Conv, array: Geometry, mapping: Mapping, sides: list[Tensor]) -> bool:
    maps = mapping.many()
    taken = int((ifmap_banks(conv, array, maps) + psum_banks(conv, array, maps))[0])
    return side_B(conv, mapping, sides) <= (array.glb_banks - taken) * array.glb_bank_B


def choose(
    conv: Conv,
    array: Geometry,
    clocks_per_word: float,
    effort: str | float = "fast",
    pinned: Pins | None = None,
    leaders: int = 1,
) -> Least:
    """Return the mappings, so many, whose array or memory, whichever is slower, needs the fewest clocks; of equal ones
    that with the fewer clocks of the array, then words of DRAM.

    ``clocks_per_word``: of the array, for a word to or from DRAM. ``effort``: see ``mapping.search.solve_listed``.
    ``pinned``: fields that are given. Raises Infeasible where no mapping is legal.
    """

    def slower(found: Costs) -> tuple[Ints, ...]:
        words = found.counts.level("dram")
        memory = np.ceil(words * clocks_per_word).astype(np.int64)
        return np.maximum(found.clocks, memory), found.clocks, words

    few = None if pinned else candidates
    return least(conv, array, Legal(conv, array, Objective(slower, least_clocks), pinned, few), effort, leaders)


def least(conv: Conv, array: Geometry, legal_ones: Legal, effort: str | float = "best", leaders: int = 1) -> Least:
    """Return the legal mappings with the lowest objective, so many; the first of equals. ``effort``: see
    ``mapping.search.solve_listed``. Raises Infeasible where there is none."""
    solved = solve_listed(legal_ones, effort, leaders=leaders)
    if not solved.leaders:
        why = "; ".join(map(str, refusals(conv, array, pinned_mapping({}))))
        raise Infeasible(f"a convolution of {conv.R} x {conv.S}", "the array", 0, 0, "of one row", why)
    return Least([Mapping(*leader.choices) for leader in solved.leaders], solved.tried)


def least_clocks(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Return a bound of the clocks: all PEs work in every clock but those in which filters come; or psums leave in
    every clock."""
    window = maps.q * conv.S
    work = conv.macs * (window + 1) // (active_pes(conv, maps) * window)
    filters = conv.G * conv.M * conv.C * conv.R * conv.S * ceil(conv.N + 0 * maps.n, maps.n)
    loads = filters * ceil(conv.E + 0 * maps.e, maps.e) // array.filter_words
    psums = conv.N * conv.G * conv.M * conv.E * conv.F * ceil(conv.C + 0 * maps.r, maps.q * maps.r)
    least: Ints = np.maximum(work + loads, psums // array.psum_words)
    return least


class Legal:
    """Legal mappings as a listing of ``mapping.search``: rows of the fields of ``Mapping``. ``few`` gives those that
    are likely, all where there are none."""

    def __init__(
        self,
        conv: Conv,
        array: Geometry,
        objective: Objective,
        pinned: Pins | None = None,
        few: Callable[[Conv, Geometry], Iterator[Mappings]] | None = None,
    ) -> None:
        self._conv, self._array, self._objective = conv, array, objective
        self._pinned, self._few = pinned, few

    def likely(self) -> Iterator[Ints]:
        """Mappings that a search with little effort tries."""
        return self._rows(self._few(self._conv, self._array)) if self._few else self.every()

    def every(self) -> Iterator[Ints]:
        """Return all legal mappings."""
        return self._rows(mappings(self._conv, self._array, self._pinned))

    def _rows(self, chunks: Iterable[Mappings]) -> Iterator[Ints]:
        """Yield the least bounds of each chunk first, which rule out many of the rest."""
        for chunk in chunks:
            order = np.argsort(self._bound(chunk), kind="stable")
            for start in range(0, len(order), CHUNK):
                yield np.stack(chunk.where(order[start : start + CHUNK]), axis=1)

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """See ``mapping.search.Costly``."""
        maps = Mappings(*np.ascontiguousarray(choices.T))
        near = np.flatnonzero(self._bound(maps) <= limit)
        keys = self._objective.keys(costs(self._conv, self._array, maps.where(near)))
        found = np.full((len(choices), len(keys)), np.inf)
        found[near] = np.stack(keys, axis=1)
        return found, len(near)

    def _bound(self, maps: Mappings) -> Ints:
        return self._objective.bound(self._conv, self._array, maps)


def costs(conv: Conv, array: Geometry, maps: Mappings) -> Costs:
    """Return the clocks and accesses of many legal mappings."""
    return Costs(layer_clocks(conv, array, maps), layer_counts(conv, maps))


@lru_cache(maxsize=4096)
def _blocks(filters: int, pass_filters: int) -> Ints:
    even = np.unique(ceil(np.full(filters, filters, dtype=np.int64), np.arange(1, filters + 1)))
    whole = np.minimum(ceil(even, pass_filters) * pass_filters, filters)
    return np.unique(np.concatenate([even, whole]))


def mappings(conv: Conv, array: Geometry, pinned: Pins | None = None) -> Iterator[Mappings]:
    """Yield every legal mapping, chunk by chunk; ``pinned``: with these fields.

    Of the ``m`` that cut the filters into equally many blocks, two are tried: the least, which makes the blocks equal,
    and that rounded up to whole passes. Those between run passes that come out less even, larger ones take more of
    the buffer for nothing.
    """
    pins = pinned or {}

    def values(axis: str, most: int) -> Ints:
        """1 to ``most``, or the pinned one of them."""
        every = np.arange(1, most + 1)
        return every[every == int(pins[axis])] if axis in pins else every

    sets = values("r", min(array.rows // conv.R, conv.C)).tolist()
    channels = values("q", min(array.ifmap_pad // conv.S, conv.C)).tolist()
    for q, n, r in product(channels[::-1], values("n", conv.N).tolist()[::-1], sets):
        lanes = array.rows // (conv.R * r) * array.cols
        most = min(array.psum_pad, array.filter_pad // (q * conv.S), conv.M)
        axes = values("e", min(lanes, conv.E)), values("t", min(lanes, conv.M)), values("p", most)
        e, t, p = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        kept = (t * e <= lanes) & (p <= -(-conv.M // t))
        chunk = _with_blocks(conv, n, q, r, e[kept], p[kept], t[kept], int(pins.get("m", 0)))
        chunk = chunk.where(legal(conv, array, chunk))
        if len(chunk.m):
            yield chunk


def _with_blocks(conv: Conv, n: int, q: int, r: int, e: Ints, p: Ints, t: Ints, filters: int) -> Mappings:
    """Each of many (e, p, t) with each size of the blocks of filters, or with so many ``filters`` (0: each)."""
    sizes = {
        taken: np.array([filters], np.int64) if filters else _blocks(conv.M, taken)
        for taken in np.unique(p * t).tolist()
    }
    lists = [sizes[taken] for taken in (p * t).tolist()]
    times = np.array([len(each) for each in lists], dtype=np.int64)
    m = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int64)
    e, p, t = (np.repeat(axis, times) for axis in (e, p, t))
    return Mappings(m, np.full_like(m, n), e, p, np.full_like(m, q), np.full_like(m, r), t)


def candidates(conv: Conv, array: Geometry) -> Iterator[Mappings]:
    """Yield likely legal mappings, chunk by chunk: those with the longest chains first."""
    bands = sorted({min(array.rows // (conv.R * k), conv.C) for k in range(1, array.rows // conv.R + 1)})
    for r, n in product(bands[::-1], _even(conv.N, conv.N)[::-1]):
        lanes = array.rows // (conv.R * r) * array.cols
        for q in _even(-(-conv.C // r), array.ifmap_pad // conv.S)[::-1]:
            chunk = _with_filters(conv, array, q, r, n, lanes)
            chunk = chunk.where(legal(conv, array, chunk))
            if len(chunk.m):
                yield chunk


def _even(total: int, most: int) -> list[int]:
    sizes = {-(-total // blocks) for blocks in range(1, min(total, 2 * most) + 1)} | {1}
    return sorted(size for size in sizes if size <= most) + ([most] if most < total else [])


def _sets(places: int) -> list[int]:
    few = [1 << bits for bits in range(places.bit_length()) if 1 << bits <= places // 2]
    return [*range(places // 2 + 1, places + 1), *few[::-1]]


def _with_filters(conv: Conv, array: Geometry, q: int, r: int, n: int, lanes: int) -> Mappings:
    """Strips, sets and filters of a PE, with as many filters in the global buffer as go in, in whole passes."""
    most = min(array.psum_pad, array.filter_pad // (q * conv.S))
    rows = []
    for strip in _even(conv.E, min(lanes, conv.E)):
        for sets in _sets(min(lanes // strip, conv.M)):
            rows += [(strip, sets, p) for p in _even(-(-conv.M // sets), most)[::-1]] if most else []
    e, t, p = (np.array(rows, dtype=np.int64).reshape(-1, 3)[:, axis] for axis in range(3))
    maps = Mappings(np.ones_like(e), np.full_like(e, n), e, p, np.full_like(e, q), np.full_like(e, r), t)
    words = (array.glb_banks - ifmap_banks(conv, array, maps)) * (array.glb_bank_B // array.word_B)
    room = np.minimum(words // (n * e * conv.F), conv.M)
    maps = maps.where(room > 0)
    room = room[room > 0]
    even = ceil(np.full_like(room, conv.M), ceil(np.full_like(room, conv.M), room))
    whole = np.minimum(ceil(even, maps.p * maps.t) * maps.p * maps.t, conv.M)
    return maps._replace(m=np.where(whole <= room, whole, even))
