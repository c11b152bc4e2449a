"""Times of kernels of products, in closed form, for any number of products, tiles and cuts of K at a time.

A block computes a tile of ``m x n`` results. Its loop over K takes, per step, the multiplications of the tile at the
sustained rate of the format (on lanes that could fill every slot of their schedulers, what the loads of operands leave
of these), and longer for tiles that reuse operands less: ``feed`` says how many multiplications an
operand's way from shared memory is worth. It is never faster than the L2 cache, which all multiprocessors share, brings
the operands. K, M and N are rounded up to whole steps and tiles. Blocks, rounds and the last wave are those of
:mod:`accelsim.engines.simt.waves`. Two effects make the multiprocessors slower as a whole: the clock falls in long
kernels (``droop``), and rows that lie far apart cost a page each (``stride``). Rows that do not begin at multiples of
16 B are loaded by small pieces, which Tensor Cores wait for (``ragged``).

Operands come from DRAM wave by wave while the wave before is computed. So a kernel takes the longer of computing and
moving, and a ``pieces``-th of the shorter, which is what the first wave waits for and the last one leaves behind.
``pieces`` is the time of computing over that of a block, 4 at the least, 16 at the most. Blocks that share a tile along
K add up their sums in a kernel of its own.

The device needs ``launch`` until it begins. What a framework's host does before and beside that is the same for kernels
of functions (:mod:`accelsim.engines.simt.functions`).

Source of the form: waves, the feed that scales with the rate, the choice of the tile and cuts of K carry measured times
of products from Pascal to Hopper; docs/gpu-kernels.md says how far off it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from accelsim.engines.simt.drawn import shipped
from accelsim.engines.simt.spec import Simt, TileShape
from accelsim.spec.multiplying import operands_B, storage_B
from accelsim.types import Bools, Floats, Ints

F = TypeVar("F", float, Floats)

FEWEST_PIECES, MOST_PIECES = 4, 16
"""Into how many pieces, at least and at most, a kernel is cut, so that moving and computing overlap."""
ALIGNED_B = 16
"""Bytes that a thread, or the copy engine of tiles, moves at once, B."""
STRIDE_B = 24_000
"""Bytes of a row of an operand along K from which its rows count as far apart, B."""
MOST_WHOLE, MOST_CUT = 1, 4
"""Tiles per multiprocessor beyond which loops over K are not cut, and blocks to which they are cut at the most: a
library cuts where tiles leave multiprocessors idle, and not for the sake of the last wave. With these and cuts by
powers of two (``SPLITS``) products of H100 and A100 in FP16 and FP32 are up to half a point nearer than with twice as
many of each and cuts by 3, 6, 12 and 24; those of a V100 0.2 points farther."""
SHORTEST_CUT = 512
"""Length of K below which a part is not worth a block of its own. Gradients of filters, whose K grows with the images,
may be cut into more parts of this length, the last ones empty: so fewer images never take longer."""
KEPT = 1.0
"""An operand of no more than this share of the L2 cache stays there while the other streams."""


class ChipRates(NamedTuple):
    """Rates of a chip: clock of its multiprocessors (Hz), L2 cache (bytes, bytes per clock), usable DRAM (B/s);
    ``power``: format -> what multiplying on all multiprocessors draws at the stated clock, as a share of the power that
    they may have; {} where nothing is known."""

    clock_Hz: float
    l2_B: int
    l2_width_B: Fraction
    dram_Bps: float
    power: Mapping[str, float] = {}

    def droops(self, spec: Simt, name: str, busy: F, activity: F) -> F:
        """Return by how much longer long kernels of a format take; below 0 where its multiplications leave power over.

        ``busy``: share of the multiplications of all multiprocessors that is done; ``activity``: what one draws beside
        others.
        """
        stated, drawn = spec.droops(name), self.power.get(name, 1.0) * busy
        if stated is None:
            return power_slowdown(drawn * activity)
        if spec.formats[name].unit != "lanes" or max(self.power.values(), default=0.0) <= 1:
            return activity * (1 + stated) - 1
        cool = shipped().clock.cool
        warm = _positive(drawn - (1 - cool)) / max(cool, stated)
        return activity * (1 + stated * (warm - _positive(warm - 1))) - 1


def power_slowdown(drawn: F) -> F:
    """Return the relative slowdown of a long kernel that would draw ``drawn`` times the available power; below 0 where
    power is left."""
    over = _positive(drawn - 1)
    found: F = (1 + over) ** (1 / shipped().clock.falls) - 1 + drawn - 1 - over
    return found


class Products(NamedTuple):
    """Products as columns, one row each: ``groups`` products of ``m x k`` by ``k x n``; bytes of both operands and of
    the results in memory, and of a row of them along K (0 where rows do not lie apart); 1 where the rows of the first
    lie along K (``transposed``), else 0; what the epilogue does to each result, in clocks of a lane and special
    functions; the share of weights that is multiplied; what a multiplication draws beside others, for its operands; how
    raggedly rows of operands or results begin, 0 to 1 (``ragged``); the ``kind`` of the product, a row of
    :class:`Kinds`."""

    groups: Floats
    m: Floats
    n: Floats
    k: Floats
    a_B: Floats
    b_B: Floats
    y_B: Floats
    row_B: Floats
    transposed: Floats
    lane_clocks: Floats
    special: Floats
    density: Floats
    activity: Floats
    ragged: Floats
    kind: Floats


def ragged(k: Floats, n: Floats, element_B: float) -> Floats:
    """0 where rows along K and N, of so many bytes an element, begin at multiples of ``ALIGNED_B``, 1 where at any
    multiple of 2 B, between them in steps of powers of two."""
    found = np.full(len(k), float(ALIGNED_B))
    for size in (8.0, 4.0, 2.0):
        found[(k * element_B % (2 * size) != 0) | (n * element_B % (2 * size) != 0)] = size
    steps: Floats = np.log2(ALIGNED_B / found) / np.log2(ALIGNED_B / 2)
    return steps


class Kinds(NamedTuple):
    """Constants by kind of product: plain products, convolutions, strided convolutions, 1 x 1 filters with padding, 1 x
    1 filters with stride. ``rate``: the share of the rate of products; ``tile``: results of the smallest tile;
    ``behind``: blocks in whose time operands arrive that nothing hides."""

    rate: Floats
    tile: Floats
    behind: Floats


POINT, STRIDED = 2, 1
"""Numbers added to the kind of a convolution (1) for 1 x 1 filters and for steps above 1."""


def kinds(spec: Simt, name: str) -> Kinds | None:
    """Return the kinds of a format; None where all are alike."""
    of = spec.formats[name].convolution
    if of is None:
        return None
    share, tile, strided = of.sustained, of.tile, of.strided
    point = share * of.pointwise
    return Kinds(
        np.array([1.0, share, share, point, point]),
        np.array([1.0, tile, tile, tile, tile]),
        np.array([0.0, 0.0, strided, 0.0, strided]),
    )


def dense(name: str, groups: Floats, m: Floats, n: Floats, k: Floats) -> Products:
    """Return dense products with operands of one format, results of the same size, and no epilogue."""
    a_B, b_B = map(float, operands_B(name))
    wide_B, none = max(a_B, b_B), np.zeros(len(m))
    return Products(
        groups, m, n, k, groups * m * k * a_B, groups * k * n * b_B, groups * m * n * wide_B, k * wide_B,
        none, none, none, none + 1, none + 1, ragged(k, n, wide_B), none,
    )  # fmt: skip


class Candidates(NamedTuple):
    """Kernels for products, one row each, those of a product together: ``row`` of the product, ``tile`` in the table of
    the spec, ``splits`` of K; ``starts``: where those of each product begin."""

    row: Ints
    tile: Ints
    splits: Ints
    starts: Ints

    def kept(self, mask: Bools) -> Candidates:
        """Return the candidates that a mask selects; each product must keep one."""
        return _grouped(self.row[mask], self.tile[mask], self.splits[mask])


def _grouped(row: Ints, tile: Ints, splits: Ints) -> Candidates:
    order = np.argsort(row, kind="stable")
    row = row[order]
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    return Candidates(row, tile[order], splits[order], starts)


def candidates(spec: Simt, name: str, products: Products) -> Candidates:
    """Every tile of the library for a product, with the cuts of K that are worth a trial, in the order of the spec. One
    product may be asked for as several are."""
    one, every = np.flatnonzero(products.groups == 1), np.arange(len(products.m))
    others = np.flatnonzero(products.groups > 1)
    plain = bool(products.row_B.all())  # and no convolution
    rows = {None: every, False: one, True: every if plain else others}
    parts = [_cuts(spec, name, products, rows[tile.batched], tile) for tile in spec.tiles_of(name)]
    return _joined(parts)


def cut(spec: Simt, name: str, products: Products, tiles: Iterable[TileShape], splits: int = 0) -> Candidates:
    """Return candidates that combine each product with each tile, and with ``splits`` cuts of K or those worth a trial
    (0)."""
    every = np.arange(len(products.m))
    return _joined([_cuts(spec, name, products, every, tile, splits) for tile in tiles])


def _cuts(spec: Simt, name: str, products: Products, rows: Ints, tile: TileShape, given: int = 0) -> list[Ints]:
    """Rows, tile and cuts of candidates with one tile, three columns."""
    blocks = products.groups[rows] * np.ceil(products.m[rows] / tile.m) * np.ceil(products.n[rows] / tile.n)
    whole = (products.groups[rows] == 1) & (blocks <= MOST_WHOLE * spec.multiprocessors)
    if spec.formats[name].convolution is not None:
        whole &= products.kind[rows] == 0
    splits = np.array([given] if given else spec.splits)[:, None]
    least = np.where(products.row_B[rows] == 0, splits / 2, splits)
    useful = whole & (products.k[rows] >= SHORTEST_CUT * least)
    useful &= blocks * splits <= MOST_CUT * spec.multiprocessors
    cuts, kept = np.nonzero(useful | (splits == 1) | bool(given))
    return [rows[kept], np.full(len(kept), spec.tiles.index(tile)), splits[cuts, 0]]


def _joined(parts: list[list[Ints]]) -> Candidates:
    row, tile, splits = (np.concatenate([part[column] for part in parts]) for column in range(3))
    return _grouped(row, tile, splits)


class Shapes(NamedTuple):
    """Candidates as columns, one row a candidate; none depends on the fitted constants."""

    m: Floats
    n: Floats
    splits: Floats
    residents: Floats
    depth: Floats
    blocks: Floats
    reuse: Floats
    best_reuse: Floats
    moved_B: Floats
    turned_B: Floats
    added_B: Floats
    far: Floats
    density: Floats
    fused: Floats
    activity: Floats
    ragged: Floats
    kind: Ints


def shapes(spec: Simt, rates: ChipRates, name: str, products: Products, found: Candidates) -> Shapes:
    """Return the geometry of candidates and the bytes that they move, which depend on no fitted constant."""
    table, row = spec.tiles, found.row
    m, n = (np.array([getattr(tile, side) for tile in table], float)[found.tile] for side in ("m", "n"))
    residents = np.array([spec.residents(tile, name) for tile in table], float)[found.tile]
    step = np.array([tile.step or spec.formats[name].step for tile in table], float)[found.tile]
    splits, k = found.splits.astype(float), products.k[row]
    shortest = np.where((products.row_B[row] == 0) & (splits > 1), np.ceil(SHORTEST_CUT / step) * step, 0.0)
    depth = np.maximum(np.ceil(k / step / splits) * step, shortest)
    blocks = products.groups[row] * np.ceil(products.m[row] / m) * np.ceil(products.n[row] / n) * splits
    best = np.array([_best_reuse(spec, name, several) for several in (False, True)])
    reuse = 1 / m + 1 / n
    sum_B = float(storage_B(spec.formats[name].accumulate))
    results = products.groups[row] * products.m[row] * products.n[row]
    added = np.where(found.splits > 1, 2 * splits * results * sum_B / 3, 0.0)
    moved = products.y_B[row] + _read_B(spec, rates, products, row, (m, n), 1 / splits)
    lanes = m * n * np.maximum(products.lane_clocks[row] / spec.lanes, products.special[row] / spec.special)
    return Shapes(
        m, n, splits, residents, depth, blocks, reuse, np.minimum(best[(products.groups > 1).astype(int)][row], reuse),
        moved, (products.transposed * products.a_B)[row], added, _far(products)[row], products.density[row], lanes,
        products.activity[row], products.ragged[row], products.kind[row].astype(int),
    )  # fmt: skip


def _best_reuse(spec: Simt, name: str, batched: bool) -> float:
    """Operands per multiplication of the tile that reuses them most."""
    return float(min((tile.reuse for tile in spec.tiles_of(name, batched)), default=Fraction(1)))


def _far(products: Products) -> Floats:
    """Return the fraction of a row of operands (0 to 1) beyond ``STRIDE_B``."""
    found: Floats = np.maximum(0.0, 1 - STRIDE_B / np.maximum(1.0, products.row_B))
    return found


def _read_B(
    spec: Simt, rates: ChipRates, products: Products, row: Ints, tile: tuple[Floats, Floats], wave: Floats
) -> Floats:
    """Bytes of both operands that come from DRAM: each once where one of them may stay in the L2 cache, else again for
    each wave, a rectangle of the result about as high as wide."""
    a, b = products.a_B[row], products.b_B[row]
    side = np.sqrt(np.maximum(1, wave * spec.multiprocessors) * tile[0] * tile[1])
    along_n = np.ceil(products.n[row] / np.minimum(side, products.n[row]))
    along_m = np.ceil(products.m[row] / np.minimum(side, products.m[row]))
    groups = products.groups[row]
    stays = np.minimum(a, b) / groups <= KEPT * rates.l2_B
    return np.where(stays, a + b, a * along_n + b * along_m)


class Timed(NamedTuple):
    """Seconds of candidates: of the multiprocessors, of memory, of the kernel that adds up sums, all together without
    launch and dispatch; waves of blocks."""

    computing: Floats
    moving: Floats
    adding: Floats
    seconds: Floats
    waves: Floats


class Work(NamedTuple):
    """Clocks of candidates: of the unit for one block (its loop over K, or those in which the L2 cache brings the
    operands of all); those in which operands come that nothing hides; of all multiprocessors if no loop ever waited;
    of a block that has a multiprocessor for itself."""

    block: Floats
    exposed: Floats
    ideal: Floats
    single: Floats


def block_work(spec: Simt, rates: ChipRates, name: str, shape: Shapes) -> Work:
    """Return the clocks of the blocks of candidates."""
    loop, of = _loop(spec, name, shape), kinds(spec, name)
    a_B, b_B = map(float, operands_B(name))
    active = shape.blocks / busiest(spec, shape)
    operands = active * shape.depth * (shape.m * a_B + shape.n * b_B * shape.density)
    return Work(
        np.maximum(1.0, np.maximum(loop, operands / float(rates.l2_width_B))),
        np.zeros(len(shape.kind)) if of is None else of.behind[shape.kind] * loop,
        shape.blocks / spec.multiprocessors * loop,
        np.maximum(1.0, loop + spec.prologue + spec.epilogue + shape.fused),
    )


def timed(spec: Simt, rates: ChipRates, name: str, shape: Shapes) -> Timed:
    """Return the times of candidates."""
    work = block_work(spec, rates, name, shape)
    ends = spec.prologue + spec.epilogue + shape.fused
    rounds = np.ceil(np.ceil(shape.blocks / spec.multiprocessors) / shape.residents)
    clocks = busiest(spec, shape) * work.block + work.exposed + rounds * ends
    seconds, busy = clocks / rates.clock_Hz, work.ideal / clocks
    computing = slowed(spec, rates, name, seconds, shape.far, shape.activity, busy)
    moving = (shape.moved_B + spec.transposed * shape.turned_B) / rates.dram_Bps
    pieces = np.clip(computing * rates.clock_Hz / work.single, FEWEST_PIECES, MOST_PIECES)
    adding = np.where(shape.splits > 1, spec.reduction + shape.added_B / rates.dram_Bps, 0.0)
    core = np.maximum(computing, moving) + np.minimum(computing, moving) / pieces
    return Timed(computing, moving, adding, core + adding, shape.blocks / spec.multiprocessors)


def slowed(spec: Simt, rates: ChipRates, name: str, seconds: F, far: F, activity: F, busy: F) -> F:
    """Seconds of the multiprocessors with rows that lie apart, under a clock that falls.

    ``activity``: what a multiplication draws, as a multiple of that which the droop is of, and ``busy``: the share of
    their multiplications that is done. The clock falls by the power that there is not enough of. Where much is left,
    the board runs above its stated clock, but not above its peak.
    """
    over = rates.droops(spec, name, busy, activity)
    most = 1 / spec.formats[name].sustained - 1
    clock = shipped().clock
    faster = clock.above * _positive(-clock.left - over)
    faster = faster - _positive(faster - most)
    seconds = seconds * (1 + spec.stride * far) / (1 + faster)
    return seconds * (1 + _positive(over) * seconds / (seconds + clock.half_droop))


def _positive(number: F) -> F:
    """The larger of a number (or column) and 0."""
    return (number + abs(number)) / 2


def busiest(spec: Simt, shape: Shapes) -> Floats:
    """Return the blocks of the busiest multiprocessor, with a partial last wave counted by ``softness``."""
    each = shape.blocks / spec.multiprocessors
    whole = np.ceil(each)
    left = np.where((each > 1) & (whole > each), 1 - (each - np.floor(each)), 0.0)
    found: Floats = whole - (1 - spec.softness) * left
    return found


def _loop(spec: Simt, name: str, shape: Shapes) -> Floats:
    """Clocks of the loop over K of a block."""
    form = spec.formats[name]
    feed = (1 + form.feed * shape.reuse) / (1 + form.feed * shape.best_reuse)
    of, results = kinds(spec, name), shape.m * shape.n
    if of is not None:
        results = np.maximum(results, of.tile[shape.kind]) / of.rate[shape.kind]
    macs = shape.depth * shape.density * results
    narrow = 1 + spec.ragged * spec.pace(name) * shape.ragged if form.unit == "tensor" else 1.0
    found: Floats = macs * spec.clocks_of_product(name) / form.sustained * feed * narrow
    return found


def best(found: Candidates, seconds: Floats) -> Ints:
    """Return the candidate of each product with the least time, the first of equals."""
    least = np.minimum.reduceat(seconds, found.starts)
    hit = np.flatnonzero(seconds == np.repeat(least, np.diff(np.r_[found.starts, len(seconds)])))
    first = np.searchsorted(hit, found.starts)
    chosen: Ints = hit[first]
    return chosen
