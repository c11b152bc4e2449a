"""The mapping of a step of a program: the one that is pinned, else the best that leaves room for what follows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Mapping as Table
from dataclasses import fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.row_stationary.laws import ceil, ifmap_banks, legal, psum_banks, require
from accelsim.engines.row_stationary.mapper import Costs, Least, Legal, Objective, least, least_clocks
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.engines.tuning import Writer, choose_mapping
from accelsim.errors import Infeasible
from accelsim.types import Ints
from accelsim.workload.graph import Tensor

FIELDS = tuple(field.name for field in fields(Mapping))


class Chosen(NamedTuple):
    """The mapping of a step, and how many were compared."""

    mapping: Mapping
    compared: int


def mapping_of(step: Lowering, conv: Conv, array: Geometry, write: Writer[Mapping]) -> Chosen:
    """The mapping of a step, whose commands ``write`` writes. Raises UsageError for a pinned one that breaks a law,
    Infeasible where none fits."""
    if step.pinned.keys() == set(FIELDS):
        mapping = Mapping(**step.pinned)
        require(conv, array, mapping)
        return Chosen(mapping, 1)
    tensors = step.layout.graph.tensors
    sides = [tensors[name] for name in step.layout.facts.epilogue_reads(step.node).sides]
    return _chosen(step, conv, array, sides, write)


def side_B(conv: Conv, mapping: Mapping, sides: list[Tensor]) -> int:
    """Bytes of the tiles of operands that follow a product: those that meet the psums of one pass."""
    words = mapping.n * min(mapping.p * mapping.t, mapping.m) * mapping.e * conv.F
    return sum(side.size_B(min(words, side.elements)) for side in sides)


def _chosen(step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor], write: Writer[Mapping]) -> Chosen:
    """The best mapping whose psums and ifmaps leave room for a tile of each side; alike steps choose once."""
    pins = tuple(sorted(step.pinned.items()))
    key: Hashable = (type(step.unit.spec).__name__, conv, array, tuple(side.size_B(1) for side in sides), pins)
    known: list[Chosen] = step.memo.setdefault(key, [])
    if not known:
        best = _best(step, conv, array, sides)
        known.append(Chosen(choose_mapping(step, key, best.mappings, write), best.compared))
    return known[0]


def _best(step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor]) -> Least:
    """The best mappings, of all banks of the global buffer or of as many as leave room for the sides."""
    roles, spec = step.layout.roles, step.unit.spec
    rates = [roles.memory(name).rate_Bps for name in (roles.weights_home, roles.activations_home)]
    clocks_per_word = float(spec.clock or roles.chip.clock) * array.word_B / min(rates)
    leaders = step.tuner.leaders if step.tuner else 1
    for banks in range(array.glb_banks, 0, -1):
        smaller = replace(array, glb_banks=banks)
        try:
            found = choose(conv, smaller, clocks_per_word, step.search, step.pinned, leaders)
        except Infeasible:
            break
        if beside := [each for each in found.mappings if _leaves_room(conv, array, each, sides)]:
            return Least(beside, found.compared)
    smallest = Mapping(**dict.fromkeys(FIELDS, 1) | dict(step.pinned))
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
    pinned: Table[str, Any] | None = None,
    leaders: int = 1,
) -> Least:
    """The mappings, so many, whose array or memory, whichever is slower, needs the fewest clocks; of equal ones that
    with the fewer clocks of the array, then words of DRAM.

    ``clocks_per_word``: of the array, for a word to or from DRAM. ``effort``: see ``mapping.listed.solve_listed``.
    ``pinned``: fields that are given. Raises Infeasible where no mapping is legal.
    """

    def slower(found: Costs) -> tuple[Ints, ...]:
        memory = np.ceil(found.counts.dram * clocks_per_word).astype(np.int64)
        return np.maximum(found.clocks, memory), found.clocks, found.counts.dram

    few = None if pinned else candidates
    return least(conv, array, Legal(conv, array, Objective(slower, least_clocks), pinned, few), effort, leaders)


def candidates(conv: Conv, array: Geometry) -> Iterator[Mappings]:
    """Legal mappings, chunk by chunk: those with the longest chains first."""
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
