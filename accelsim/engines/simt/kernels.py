"""Kernels of nodes: which tile a product is computed with, how long its blocks take, what they move.

How long a product takes is worked out in :mod:`accelsim.engines.simt.products` for all tiles and cuts of K at a time;
the one with the least estimated time is taken, as a library's heuristic does it. What it reads from DRAM is a matter of
:mod:`accelsim.engines.simt.panels`.

**Everything else** is a kernel that is bound by what it moves, by the lanes, or by the units for special functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.convolutions import CHANNELS
from accelsim.engines.simt.panels import Panel, Product, panel_for, read_B, room_B, smallest
from accelsim.engines.simt.products import (
    FEWEST_PIECES,
    MOST_PIECES,
    POINT,
    STRIDED,
    Candidates,
    ChipRates,
    Products,
    block_work,
    candidates,
    cut,
    ragged,
    shapes,
    slowed,
    timed,
)
from accelsim.engines.simt.spec import Simt, TileShape
from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.errors import Infeasible, Problem, UsageError
from accelsim.program.mapping import Pins, ProductMapping
from accelsim.spec.multiplying import operands_B, storage_B
from accelsim.workload.ops.base import Conv, find

SPECIAL_FAMILIES = frozenset({"powers", "trigonometry", "softmaxes"})
SPECIAL = frozenset({"Sigmoid", "Tanh", "Gelu", "Silu", "Softplus", "Elu", "Selu", "Mish", "Div"})
"""Functions that need a special function for each element, at the least: families of operators, and other operators."""

DIRECT = "direct"
"""The algorithm of convolutions whose groups have few channels: on the lanes, whatever the format."""


@dataclass(frozen=True)
class Blocks(ProductMapping):
    """Launch of a kernel: each block has ``threads`` and makes ``m`` rows and ``n`` columns of the result; ``splits``
    blocks share a tile along K."""

    m: int
    n: int
    threads: int
    splits: int


class Kernel(NamedTuple):
    """A product as a kernel: tile, parts of K that blocks of their own compute, grid; its clocks without launch, with
    those of the kernel that ``adds`` up sums; the panel in which operands come, and about so many bytes of them from
    DRAM; estimated seconds with its launch; the ``algorithm`` of a convolution, '' where no other is faster than the
    product, and the share of the multiplications of the product that it does."""

    tile: TileShape
    splits: int
    grid: Grid
    clocks: int
    adds: int
    panel: Panel
    read_B: int
    seconds: float
    algorithm: str = ""
    multiplied: Fraction = Fraction(1)

    @property
    def mapping(self) -> Blocks:
        """Return what was chosen of it."""
        return Blocks(self.tile.m, self.tile.n, self.tile.threads, self.splits)


def part_of_k(spec: Simt, tile: TileShape, name: str, depth: int, splits: int = 1) -> int:
    """Return what one of ``splits`` blocks computes of ``depth`` of K: whole steps of the loop."""
    step = step_of(spec, tile, name)
    return ceil(depth / step / splits) * step


def step_of(spec: Simt, tile: TileShape, name: str) -> int:
    """Return the step of the loop over K."""
    return tile.step or spec.formats[name].step


def block_l2_B(tile: TileShape, product: Product, depth: int) -> tuple[int, int]:
    """Bytes that a block reads from the L2 cache for ``depth`` of K: its rows and its columns, once.

    Of sparse weights those that are kept, each with its place among ``m``.
    """
    (a_B, b_B), (n, m) = operands_B(product.format), product.sparse
    stored_B = n * (b_B + Fraction((m - 1).bit_length(), 8)) / m
    return ceil(depth * tile.m * a_B), ceil(depth * tile.n * stored_B)


def sums_B(spec: Simt, tile: TileShape, name: str) -> int:
    """Bytes of the sums of a tile."""
    return ceil(tile.m * tile.n * storage_B(spec.formats[name].accumulate))


def columns(spec: Simt, product: Product) -> Products:
    """Return a product as columns of one row."""
    gemm, (n, m) = product.gemm, product.sparse
    kind, depth = (0, gemm.K) if gemm.conv is None or gemm.groups > 1 else _of_convolution(spec, product)
    sides_B = sum(side.nbytes for side in product.sides)
    row_B = 0.0 if gemm.conv else gemm.K * max(map(float, operands_B(product.format)))
    values = (
        gemm.groups, gemm.M, gemm.N, depth, product.a.nbytes, product.b.nbytes, product.y.nbytes + sides_B, row_B,
        0, product.lane_clocks, product.special, n / m, 1, 0, kind,
    )  # fmt: skip
    rows = Products(*[np.array([float(value)]) for value in values])
    if gemm.conv:
        return rows
    return rows._replace(ragged=ragged(rows.k, rows.n, max(map(float, operands_B(product.format)))))


def is_of_filters(conv: Conv) -> bool:
    """Return whether a convolution is the gradient of filters: with more places of the filter, which are those of the
    results of the forward pass, than results of its own."""
    return prod(conv.kernel) > prod(conv.out)


def _of_convolution(spec: Simt, product: Product) -> tuple[int, int]:
    """The kind of a convolution of one group, and its K with what channels are filled up to. A gradient of filters is a
    plain product: its K, places of all images one after the other, is cut and not filled up."""
    gemm, conv, form = product.gemm, product.gemm.conv, spec.formats[product.format]
    assert conv is not None
    if is_of_filters(conv):
        return 0, gemm.K
    strides, filled = max(conv.stride) > 1, conv.channels
    if form.convolution and form.unit == "tensor":
        wide = form.convolution.channels
        filled = ceil(filled / wide) * wide if filled >= CHANNELS else form.step
    beyond = conv.kernel == (1, 1) and (strides or any(conv.pad))
    return 1 + POINT * beyond + STRIDED * strides, gemm.K // conv.channels * filled


def fitting_kernels(
    spec: Simt, rates: ChipRates, product: Product, found: Candidates, streams: bool = False
) -> Iterator[Kernel]:
    """Yield the candidates that the L2 cache has room for, by their seconds, of several those that stand first in the
    spec. ``streams``: slices of their operands need not fit into the cache, see ``panel_for``."""
    name = product.format
    shape = shapes(spec, rates, name, columns(spec, product), found)
    cost, work = timed(spec, rates, name, shape), block_work(spec, rates, name, shape)
    moved_B = product.y.nbytes + sum(side.nbytes for side in product.sides)
    for index in np.argsort(cost.seconds, kind="stable").tolist():
        tile, splits = spec.tiles[found.tile[index]], int(found.splits[index])
        residents, blocks = int(shape.residents[index]), int(shape.blocks[index])
        step = step_of(spec, tile, name)
        slices = -(-FEWEST_PIECES // ceil(product.gemm.K / step))
        wave = max(1, min(spec.multiprocessors, blocks // slices) // splits)
        panel = panel_for(product, (tile.m, tile.n), step, wave, rates.l2_B, streams)
        if panel is None:
            continue
        times = Times(spec.prologue, ceil(work.block[index]), spec.epilogue + ceil(shape.fused[index]))
        grid = Grid(blocks, spec.multiprocessors, residents, times, spec.softness)
        computed = clocks(grid) + float(work.exposed[index])
        far, activity, busy = (
            float(each) for each in (shape.far[index], shape.activity[index], work.ideal[index] / computed)
        )
        taken = slowed(spec, rates, name, computed / rates.clock_Hz, far, activity, busy)
        adds, read = ceil(float(cost.adding[index]) * rates.clock_Hz), read_B(product, panel)
        moving = (read + moved_B) / rates.dram_Bps
        pieces = min(max(taken * rates.clock_Hz / float(work.single[index]), FEWEST_PIECES), MOST_PIECES)
        core = max(taken, moving) + min(taken, moving) / pieces
        seconds = spec.dispatch + spec.launch + core + adds / rates.clock_Hz
        yield Kernel(tile, splits, grid, ceil(taken * rates.clock_Hz) + adds, adds, panel, read, seconds)


class Chosen(NamedTuple):
    """The best kernels, best first, and how many were compared."""

    kernels: list[Kernel]
    compared: int

    @property
    def best(self) -> Kernel:
        """Return the best kernel."""
        return self.kernels[0]


def choose(
    spec: Simt, rates: ChipRates, product: Product, name: str, cache: str, pinned: Pins | None = None, leaders: int = 1
) -> Chosen:
    """Return the ``leaders`` kernels with the least estimated time, of equals the first in the table of tiles. Operands
    stream through the cache where no tile has room for slices of them.

    Raises Infeasible, about the node ``name`` and the buffer ``cache``, where no tile fits into the cache; UsageError
    where no tile of the spec has the fields of ``Blocks`` that are ``pinned``.
    """
    row = columns(spec, product)
    tiles = spec.tiles_of(product.format, product.gemm.groups > 1)
    if pinned:
        tiles = _pinned(spec, product, pinned, name)
        found = cut(spec, product.format, row, tiles, int(pinned.get("splits", 0)))
    elif product.gemm.conv is not None and product.gemm.groups > 1:
        tiles = spec.tiles_of(product.format)  # of a library of its own
        found = cut(spec, product.format, row, tiles)
    else:
        found = candidates(spec, product.format, row)
    for streams in (False, True):
        best = list(islice(fitting_kernels(spec, rates, product, found, streams), leaders))
        if best:
            return Chosen(best, len(found.row))
    raise _too_large(spec, rates, product, name, cache, tiles)


def _too_large(
    spec: Simt, rates: ChipRates, product: Product, name: str, cache: str, tiles: Iterable[TileShape]
) -> Infeasible:
    """Return what the tile that needs the least lacks: room for the steps in flight."""
    steps = [((tile.m, tile.n), step_of(spec, tile, product.format)) for tile in tiles]
    panels = [smallest(product, shape, step)._replace(depth=min(step, product.gemm.K)) for shape, step in steps]
    needs = [room_B(product, panel, step) for panel, (_, step) in zip(panels, steps, strict=True)]
    least = min(range(len(needs)), key=needs.__getitem__)
    panel = panels[least]
    return Infeasible(name, cache, needs[least], rates.l2_B, f"{panel.rows}x{panel.cols}x{panel.depth}")


def _pinned(spec: Simt, product: Product, pinned: Pins, name: str) -> list[TileShape]:
    """The tiles that have the fields that are pinned."""
    tiles = [tile for tile in spec.tiles if spec.residents(tile, product.format)]
    steps = ceil(product.gemm.K / spec.formats[product.format].step)
    kept = [
        tile
        for tile in tiles
        if all(getattr(tile, field) == value for field, value in pinned.items() if field != "splits")
    ]
    problems = []
    if not kept:
        asked = ", ".join(f"{field} {value}" for field, value in pinned.items() if field != "splits")
        shown = ", ".join(f"{tile.m} x {tile.n} of {tile.threads} threads" for tile in tiles)
        problems.append(Problem(f"no tile has {asked}", f"mapping of {name}", shown))
    if int(pinned.get("splits", 1)) > steps:
        problems.append(
            Problem(f"splits {pinned['splits']}", f"mapping of {name}", f"at most the {steps:,} steps over K")
        )
    UsageError.raise_for(problems)
    return kept


def _is_special(op: str) -> bool:
    row = find(op)
    return op in SPECIAL or (row is not None and row.family in SPECIAL_FAMILIES)


def lanes_clocks(
    spec: Simt, rates: ChipRates, functions: Iterable[tuple[str, int]], moved_B: int, rows: int = 0
) -> int:
    """Clocks of a kernel of functions on so many elements each, (op, elements), that moves so many bytes through L2.

    ``rows``: clocks of a multiprocessor for the rows of all of them.
    """
    parts = list(functions)
    plain = sum(elements * spec.functions.get(op, 1) for op, elements in parts)
    special = sum(elements for op, elements in parts if _is_special(op))
    computed = on_lanes(spec, plain, special, spec.multiprocessors)
    moved = ceil(moved_B / rates.l2_width_B)
    return spec.prologue + max(1, computed, moved) + ceil(rows / spec.multiprocessors) + spec.epilogue


def on_lanes(spec: Simt, plain: int, special: int, multiprocessors: int) -> int:
    """Return the clocks of ``plain`` lane clocks and ``special`` functions, which run side by side."""
    return max(-(-plain // (spec.lanes * multiprocessors)), -(-special // (spec.special * multiprocessors)))


def epilogue_paces(spec: Simt, ops: Iterable[str]) -> tuple[int, int]:
    """Return the lane clocks and special functions per element of functions one after the other."""
    names = list(ops)
    return sum(spec.functions.get(op, 1) for op in names), sum(map(_is_special, names))
