"""The mapping that a run takes where not all of it is pinned: the best by the array and by the memory.

``mapper`` goes through all legal mappings, which takes seconds for filters of 1 x 1: that is the effort 'best', and
what is done where a part is pinned. The effort 'fast' tries few: their blocks are even (of all sizes that make equally
many blocks the least), chains fill at least half of their places (or a power of two of them), and of the filters as
many are in the global buffer as there is room for. So many seconds: those first, then all others while there is time.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Table
from itertools import product
from typing import Any

import numpy as np

from accelsim.engines.row_stationary.laws import ceil, ifmap_banks, legal
from accelsim.engines.row_stationary.mapper import Costs, Least, Legal, Objective, least, least_clocks
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mappings
from accelsim.types import Ints


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
    return least(
        conv, array, Legal(conv, array, Objective(slower, least_clocks), pinned, few), effort, leaders
    )


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
    """The least size of blocks for each number of them, up to ``most``, by size."""
    sizes = {-(-total // blocks) for blocks in range(1, min(total, 2 * most) + 1)} | {1}
    return sorted(size for size in sizes if size <= most) + ([most] if most < total else [])


def _sets(places: int) -> list[int]:
    """Sets over filters: those that fill at least half of the places, and powers of two for fewer filters."""
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
