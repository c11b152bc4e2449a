"""Candidate mappings by the thousand, as columns, and what each of them counts: tiles, passes, words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from accelsim.program.mapping import ORDERS, Mapping, Split
from accelsim.program.tiles import channel_visits, depends, in_strips, most_channels, slabs
from accelsim.types import Bools, Ints
from accelsim.workload.ops.base import Conv, Gemm


@dataclass(frozen=True)
class Candidates:
    """Columns of equal length, ``order`` as indices of ``ORDERS``; what is resident is one for all of them, so is the
    axis that is split over ``arrays`` side by side (1 where none is), and the ``strip`` of a convolution.

    ``y_slots``: accumulator slots, None before it is known how many fit.
    """

    order: Ints
    a_resident: bool
    a_whole_k: Bools
    y_resident: bool
    a_slots: Ints
    tg: Ints
    tm: Ints
    tn: Ints
    tk: Ints
    y_slots: Ints | None = None
    split: Split = "none"
    arrays: int = 1
    strip: int = 0

    @classmethod
    def from_mapping(cls, mapping: Mapping, arrays: int = 1) -> Candidates:
        """Make one row of a mapping, on ``arrays`` arrays if it splits an axis."""
        numbers = (ORDERS.index(mapping.order), mapping.a_slots, mapping.tg, mapping.tm, mapping.tn, mapping.tk)
        order, a_slots, tg, tm, tn, tk = (np.array([number], np.int64) for number in numbers)
        return cls(
            order, mapping.a_resident, np.array([mapping.a_whole_k]), mapping.y_resident, a_slots, tg, tm, tn, tk,
            split=mapping.split, arrays=1 if mapping.split == "none" else arrays, strip=mapping.tq,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.tm)

    @property
    def own(self) -> tuple[bool, bool]:
        """Return whether each array takes tiles of its own of A, of B. Where K is split, all or none have
        ``a_whole_k``."""
        return depends(self.split, bool(self.a_whole_k.all()))

    def keep(self, mask: NDArray[np.bool_] | Ints) -> Candidates:
        """Select rows by a mask or by indices."""
        slots = None if self.y_slots is None else self.y_slots[mask]
        return replace(
            self,
            order=self.order[mask],
            a_whole_k=self.a_whole_k[mask],
            a_slots=self.a_slots[mask],
            tg=self.tg[mask],
            tm=self.tm[mask],
            tn=self.tn[mask],
            tk=self.tk[mask],
            y_slots=slots,
        )

    def mapping(self, index: int) -> Mapping:
        """One row as a mapping."""
        y_slots = 2 if self.y_slots is None else int(self.y_slots[index])
        columns = (self.tm, self.tn, self.tk, self.tg, self.a_slots)
        tm, tn, tk, tg, a_slots = (int(column[index]) for column in columns)
        return Mapping(
            ORDERS[self.order[index]], tm, tn, tk, tg,
            a_resident=self.a_resident, a_whole_k=bool(self.a_whole_k[index]), y_resident=self.y_resident,
            a_slots=a_slots, y_slots=y_slots, split=self.split, tq=self.strip,
        )  # fmt: skip


def count(extent: int, tile: Ints) -> Ints:
    """Number of tiles along one dimension."""
    return -(-extent // tile)


def lanes(gemm: Gemm, c: Candidates) -> Ints:
    """Arrays that have work: no more than there are tiles along the axis that is split."""
    extents = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": (gemm.K, c.tk)}
    extent, tile = extents.get(c.split, (1, np.ones_like(c.tm)))
    return np.minimum(c.arrays, count(extent, tile))


def over_tiles(extent: int, tile: Ints, f: Callable[[Ints], Ints | int]) -> Ints:
    """Sum of ``f`` over the tiles of one dimension, the last one smaller."""
    if extent == 1:
        return np.zeros_like(tile) + f(tile)
    full = count(extent, tile) - 1
    total: Ints = full * f(tile) + f(extent - full * tile)
    return total


def innermost(c: Candidates, axis: str) -> NDArray[np.bool_]:
    """Return where ``axis`` is the innermost loop."""
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


@lru_cache(maxsize=4096)
def slots_in_use(gemm: Gemm, mapping: Mapping, arrays: int) -> tuple[int, int]:
    """Return how many arrays have work under a mapping, and how many accumulator slots are open at once."""
    c = Candidates.from_mapping(mapping, arrays)
    return int(lanes(gemm, c)[0]), int(open_sums(gemm, c)[0])


def fetches(gemm: Gemm, c: Candidates, reuse: bool = True) -> tuple[Ints, Ints]:
    """Return how often all of A and all of B pass through their ports, when a tile is kept only while the next is the
    same (without ``reuse`` not even then). What arrays take side by side are then one tile.
    """
    counts = {"m": count(gemm.M, c.tm), "n": count(gemm.N, c.tn), "k": count(gemm.K, c.tk)}
    if reuse and c.split != "none":
        counts[c.split] = -(-counts[c.split] // c.arrays)
    if not reuse:
        return counts["n"] * np.where(c.a_whole_k, counts["k"], 1), counts["m"]
    a = _in_order(c, counts, "n", "mk")
    if c.a_whole_k.any():
        a = np.where(c.a_whole_k, _in_order(c, counts, "n", "m"), a)
    return a, _in_order(c, counts, "m", "nk")


def _in_order(c: Candidates, counts: dict[str, Ints], foreign: str, key: str) -> Ints:
    return np.choose(c.order, [_passes(order, counts, foreign, key) for order in ORDERS])


def _passes(order: str, counts: dict[str, Ints], foreign: str, key: str) -> Ints:
    """Times that a tile comes again: once per round of every loop it does not depend on, unless nothing it depends
    on turns inside that loop (then the tile is still there)."""
    total: Ints | None = None
    for axis in (foreign, *(axis for axis in "mnk" if axis not in key and axis != foreign)):
        inside = [counts[other] for other in order[order.index(axis) + 1 :] if other in key]
        if inside:
            turning = inside[0] if len(inside) == 1 else inside[0] * inside[1]
            own = np.where(turning > 1, counts[axis], 1)
            total = own if total is None else total * own
    return np.ones_like(counts["m"]) if total is None else total


def a_words(gemm: Gemm, c: Candidates) -> tuple[Ints, Ints]:
    """Words of all activation tiles of one pass, and of the largest tile (a convolution's rows overlap)."""
    tile_k = _tile_k(gemm, c)
    if (conv := in_strips(gemm, c.strip).conv) is None:
        return np.full_like(c.tm, gemm.groups * gemm.M * gemm.K), c.tg * np.minimum(c.tm, gemm.M) * tile_k
    pixels = _pixels(conv, gemm, c)
    words = gemm.groups * channel_visits(conv, tile_k) * pixels[:, 0]
    return words, c.tg * most_channels(conv, tile_k) * pixels[:, 1]


def first_a(gemm: Gemm, c: Candidates) -> Ints:
    """Words of the first activation tile, per candidate."""
    tile_k = _tile_k(gemm, c)
    if (conv := in_strips(gemm, c.strip).conv) is None:
        return c.tg * np.minimum(c.tm, gemm.M) * tile_k
    words: Ints = c.tg * _pixels(conv, gemm, c)[:, 2] * (-(-tile_k // (conv.kernel[0] * conv.kernel[1])))
    return words


def _tile_k(gemm: Gemm, c: Candidates) -> Ints:
    return np.where(c.a_whole_k, gemm.K, np.minimum(c.tk, gemm.K))


def _pixels(conv: Conv, gemm: Gemm, c: Candidates) -> Ints:
    """Return what ``slabs`` tells of each candidate's tiles along M, [N, 3]."""
    extents, which = np.unique(c.tm, return_inverse=True)
    pixels = np.array([slabs(conv, gemm.M, tm) for tm in extents.tolist()], np.int64).reshape(-1, 3)
    found: Ints = pixels[which]
    return found


def last(extent: int, tile: Ints) -> Ints:
    """Extent of the last tile along one dimension."""
    return extent - (count(extent, tile) - 1) * tile


def whole_a(gemm: Gemm) -> int:
    """Words of the whole activation operand as it lies in memory."""
    if gemm.conv is None:
        return gemm.groups * gemm.M * gemm.K
    conv = gemm.conv
    return conv.batch * gemm.groups * conv.channels * conv.height * conv.width
