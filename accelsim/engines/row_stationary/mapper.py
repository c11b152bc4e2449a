"""All legal mappings of a convolution, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.row_stationary.counts import Counts, layer_counts
from accelsim.engines.row_stationary.laws import active_pes, ceil, legal, refusals
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.engines.row_stationary.timing import layer_clocks
from accelsim.errors import Infeasible
from accelsim.mapping.search import solve_listed
from accelsim.types import Floats, Ints


@dataclass(frozen=True)
class Costs:
    """Costs of many mappings: ``clocks`` int64 [k] and ``counts`` of int64 [k]."""

    clocks: Ints
    counts: Counts[Ints]


class Objective(NamedTuple):
    """``keys``: what shall be least, the first before the second. ``bound``: what the first key is at least."""

    keys: Callable[[Costs], tuple[Ints, ...]]
    bound: Callable[[Conv, Geometry, Mappings], Ints]


def least_clocks(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """All PEs work in every clock but those in which filters come; or psums leave in every clock."""
    window = maps.q * conv.S
    work = conv.macs * (window + 1) // (active_pes(conv, maps) * window)
    filters = conv.G * conv.M * conv.C * conv.R * conv.S * ceil(conv.N + 0 * maps.n, maps.n)
    loads = filters * ceil(conv.E + 0 * maps.e, maps.e) // array.filter_words
    least: Ints = np.maximum(work + loads, _psums(conv, maps) // array.psum_words)
    return least


def _psums(conv: Conv, maps: Mappings) -> Ints:
    return conv.N * conv.G * conv.M * conv.E * conv.F * ceil(conv.C + 0 * maps.r, maps.q * maps.r)


CHUNK = 4096
"""Mappings whose costs are worked out at once."""


class Least(NamedTuple):
    """The best mappings, best first, and how many were compared: their costs, or a bound of them."""

    mappings: list[Mapping]
    compared: int

    @property
    def mapping(self) -> Mapping:
        """The best."""
        return self.mappings[0]


class Legal:
    """Legal mappings as a listing of ``mapping.listed``: rows of the fields of ``Mapping``. ``few`` gives those that
    are likely, all where there are none."""

    def __init__(
        self,
        conv: Conv,
        array: Geometry,
        objective: Objective,
        pinned: Table[str, Any] | None = None,
        few: Callable[[Conv, Geometry], Iterator[Mappings]] | None = None,
    ) -> None:
        self._conv, self._array, self._objective = conv, array, objective
        self._pinned, self._few = pinned, few

    def likely(self) -> Iterator[Ints]:
        """Return those that are worth little effort."""
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
        """See ``mapping.leaders.Costly``."""
        maps = Mappings(*np.ascontiguousarray(choices.T))
        near = np.flatnonzero(self._bound(maps) <= limit)
        keys = self._objective.keys(costs(self._conv, self._array, maps.where(near)))
        found = np.full((len(choices), len(keys)), np.inf)
        found[near] = np.stack(keys, axis=1)
        return found, len(near)

    def _bound(self, maps: Mappings) -> Ints:
        return self._objective.bound(self._conv, self._array, maps)


def costs(conv: Conv, array: Geometry, maps: Mappings) -> Costs:
    """Clocks and accesses of many legal mappings."""
    return Costs(layer_clocks(conv, array, maps), layer_counts(conv, maps))


@lru_cache(maxsize=4096)
def _blocks(filters: int, pass_filters: int) -> Ints:
    even = np.unique(ceil(np.full(filters, filters, dtype=np.int64), np.arange(1, filters + 1)))
    whole = np.minimum(ceil(even, pass_filters) * pass_filters, filters)
    return np.unique(np.concatenate([even, whole]))


def mappings(conv: Conv, array: Geometry, pinned: Table[str, Any] | None = None) -> Iterator[Mappings]:
    """Every legal mapping, chunk by chunk; ``pinned``: with these fields.

    Of the ``m`` that cut the filters into equally many blocks, two are tried: the least, which makes the blocks equal,
    and that rounded up to whole passes. Those between run passes that come out less even, larger ones take more of
    the buffer for nothing.
    """
    pins = pinned or {}

    def values(axis: str, most: int) -> Ints:
        """1 to ``most``, or the pinned one of them."""
        every = np.arange(1, most + 1)
        return every[every == pins[axis]] if axis in pins else every

    sets = values("r", min(array.rows // conv.R, conv.C)).tolist()
    channels = values("q", min(array.ifmap_pad // conv.S, conv.C)).tolist()
    for q, n, r in product(channels[::-1], values("n", conv.N).tolist()[::-1], sets):
        lanes = array.rows // (conv.R * r) * array.cols
        most = min(array.psum_pad, array.filter_pad // (q * conv.S), conv.M)
        axes = values("e", min(lanes, conv.E)), values("t", min(lanes, conv.M)), values("p", most)
        e, t, p = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        kept = (t * e <= lanes) & (p <= -(-conv.M // t))
        chunk = _with_blocks(conv, n, q, r, e[kept], p[kept], t[kept], pins.get("m"))
        chunk = chunk.where(legal(conv, array, chunk))
        if len(chunk.m):
            yield chunk


def _with_blocks(conv: Conv, n: int, q: int, r: int, e: Ints, p: Ints, t: Ints, filters: int | None) -> Mappings:
    """Each of many (e, p, t) with each size of the blocks of filters, or with so many ``filters``."""
    sizes = {
        taken: _blocks(conv.M, taken) if filters is None else np.array([filters], np.int64)
        for taken in np.unique(p * t).tolist()
    }
    lists = [sizes[taken] for taken in (p * t).tolist()]
    times = np.array([len(each) for each in lists], dtype=np.int64)
    m = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int64)
    e, p, t = (np.repeat(axis, times) for axis in (e, p, t))
    return Mappings(m, np.full_like(m, n), e, p, np.full_like(m, q), np.full_like(m, r), t)


def least(conv: Conv, array: Geometry, legal_ones: Legal, effort: str | float = "best", leaders: int = 1) -> Least:
    """Return the legal mappings with the lowest objective, so many; the first of equals. ``effort``: see
    ``mapping.listed.solve_listed``. Raises Infeasible where there is none."""
    solved = solve_listed(legal_ones, effort, leaders=leaders)
    if not solved.leaders:
        raise Infeasible(f"a convolution of {conv.R} x {conv.S}", "the array", 0, 0, "of one row", _why(conv, array))
    return Least([Mapping(*leader.choices) for leader in solved.leaders], solved.tried)


def _why(conv: Conv, array: Geometry) -> str:
    return "; ".join(map(str, refusals(conv, array, Mapping(1, 1, 1, 1, 1, 1, 1))))
