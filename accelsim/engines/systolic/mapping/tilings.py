"""Candidate mappings by the thousand, as columns, and what each of them counts: tiles, passes, words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.program.mapping import ORDERS, Mapping, Split
from accelsim.program.tiles import channel_visits, in_strips, most_channels, slabs
from accelsim.types import Ints
from accelsim.workload.ops.base import Gemm


@dataclass(frozen=True)
class Candidates:
    """Columns of equal length, ``order`` as indices of ``ORDERS``; the residency flags are one for all of them, so is
    the axis that is split over ``arrays`` side by side (1 where none is), and the ``strip`` of a convolution.

    ``y_slots``: accumulator slots, None before it is known how many fit.
    """

    order: Ints
    a_resident: bool
    a_whole_k: bool
    y_resident: bool
    a_slots: int
    tg: Ints
    tm: Ints
    tn: Ints
    tk: Ints
    y_slots: Ints | None = None
    split: Split = "none"
    arrays: int = 1
    strip: int = 0

    @classmethod
    def of(cls, mapping: Mapping, arrays: int = 1) -> Candidates:
        """One row: a mapping, on so many arrays where it splits an axis."""
        tiles = (mapping.tg, mapping.tm, mapping.tn, mapping.tk)
        order, tg, tm, tn, tk = (np.array([x], np.int64) for x in (ORDERS.index(mapping.order), *tiles))
        return cls(
            order, mapping.a_resident, mapping.a_whole_k, mapping.y_resident, mapping.a_slots, tg, tm, tn, tk,
            split=mapping.split, arrays=1 if mapping.split == "none" else arrays, strip=mapping.tq,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.tm)

    def keep(self, mask: NDArray[np.bool_] | Ints) -> Candidates:
        """The rows where ``mask`` holds, or of these indices."""
        slots = None if self.y_slots is None else self.y_slots[mask]
        return replace(
            self,
            order=self.order[mask],
            tg=self.tg[mask],
            tm=self.tm[mask],
            tn=self.tn[mask],
            tk=self.tk[mask],
            y_slots=slots,
        )

    def mapping(self, index: int) -> Mapping:
        """One row as a mapping."""
        y_slots = 2 if self.y_slots is None else int(self.y_slots[index])
        tm, tn, tk, tg = (int(column[index]) for column in (self.tm, self.tn, self.tk, self.tg))
        return Mapping(
            ORDERS[self.order[index]], tm, tn, tk, tg,
            a_resident=self.a_resident, a_whole_k=self.a_whole_k, y_resident=self.y_resident, a_slots=self.a_slots,
            y_slots=y_slots, split=self.split, tq=self.strip,
        )  # fmt: skip


def count(extent: int, tile: Ints) -> Ints:
    """Tiles along one dimension."""
    return -(-extent // tile)


def lanes(gemm: Gemm, c: Candidates) -> Ints:
    """Arrays that have work: no more than there are tiles along the axis that is split."""
    extents = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": (gemm.K, c.tk)}
    extent, tile = extents.get(c.split, (1, np.ones_like(c.tm)))
    return np.minimum(c.arrays, count(extent, tile))


def over_tiles(extent: int, tile: Ints, f: Callable[[Any], Any]) -> Ints:
    """Sum of ``f`` over the tiles of one dimension, the last one smaller."""
    full = count(extent, tile) - 1
    total: Ints = full * f(tile) + f(extent - full * tile)
    return total


def innermost(c: Candidates, axis: str) -> NDArray[np.bool_]:
    """Where ``axis`` is the innermost loop."""
    found: NDArray[np.bool_] = np.array([order[-1] == axis for order in ORDERS])[c.order]
    return found


def inner_tiles(gemm: Gemm, c: Candidates) -> Ints:
    """Tiles of sums that are open together: those of the innermost loop where it is not that of the reduction and
    comes back for each tile of it; else 1."""
    tiles = np.where(innermost(c, "m"), count(gemm.M, c.tm), count(gemm.N, c.tn))
    return np.where(innermost(c, "k") | (c.tk >= gemm.K), 1, tiles)


def open_sums(gemm: Gemm, c: Candidates) -> Ints:
    """Accumulator slots that are open at once; one for each array that works."""
    working, tiles = lanes(gemm, c), inner_tiles(gemm, c)
    along = innermost(c, c.split) & ~innermost(c, "k") & (c.tk < gemm.K)
    return np.where(along, tiles, tiles * working)


def fetches(gemm: Gemm, c: Candidates, reuse: bool = True) -> tuple[Ints, Ints]:
    """How often all of A and all of B pass through their ports, when a tile is kept only while the next is the same
    (without ``reuse`` not even then). What arrays take side by side are then one tile.
    """
    counts = {"m": count(gemm.M, c.tm), "n": count(gemm.N, c.tn), "k": count(gemm.K, c.tk)}
    if reuse and c.split != "none":
        counts[c.split] = -(-counts[c.split] // c.arrays)
    if not reuse:
        return counts["n"] * (counts["k"] if c.a_whole_k else 1), counts["m"]
    a = [_passes(order, counts, "n", "m" if c.a_whole_k else "mk") for order in ORDERS]
    b = [_passes(order, counts, "m", "nk") for order in ORDERS]
    return np.choose(c.order, a), np.choose(c.order, b)


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
    if (conv := in_strips(gemm, c.strip).conv) is None:
        tile_k = np.full_like(c.tk, gemm.K) if c.a_whole_k else np.minimum(c.tk, gemm.K)
        return np.full_like(c.tm, gemm.groups * gemm.M * gemm.K), c.tg * np.minimum(c.tm, gemm.M) * tile_k
    by_tile = {int(tm): slabs(conv, gemm.M, int(tm)) for tm in np.unique(c.tm)}
    pixels = np.array([by_tile[int(tm)] for tm in c.tm], np.int64).reshape(-1, 3)
    tk = np.full_like(c.tk, gemm.K) if c.a_whole_k else np.minimum(c.tk, gemm.K)
    words = gemm.groups * channel_visits(conv, tk) * pixels[:, 0]
    return words, c.tg * most_channels(conv, tk) * pixels[:, 1]


def first_a(gemm: Gemm, c: Candidates) -> Ints:
    """Words of the first activation tile."""
    tile_k = gemm.K if c.a_whole_k else np.minimum(c.tk, gemm.K)
    if (conv := in_strips(gemm, c.strip).conv) is None:
        return c.tg * np.minimum(c.tm, gemm.M) * tile_k
    pixels = np.array([slabs(conv, gemm.M, int(tm))[2] for tm in c.tm], np.int64)
    words: Ints = c.tg * pixels * (-(-tile_k // (conv.kernel[0] * conv.kernel[1])))
    return words


def last(extent: int, tile: Ints) -> Ints:
    """Extent of the last tile along one dimension."""
    return extent - (count(extent, tile) - 1) * tile


def whole_a(gemm: Gemm) -> int:
    """Words of the whole activation operand as it lies in memory."""
    if gemm.conv is None:
        return gemm.groups * gemm.M * gemm.K
    conv = gemm.conv
    return conv.batch * gemm.groups * conv.channels * conv.height * conv.width
