"""Kernels of nodes: which tile a product is computed with, how long its blocks take, what they move.

**Products.** A block computes a tile of ``m x n`` results. Its loop over K takes, per step, the multiplications of the
tile at the sustained rate of the format, and longer for tiles that reuse operands less: ``feed`` says how many
multiplications an operand's way from shared memory is worth. It is never faster than the L2 cache, which all
multiprocessors share, brings the operands. K, M and N are rounded up to whole steps and tiles. The tile is the one
with the least estimated time, as a library's heuristic does it.

**Everything else** is a kernel that is bound by what it moves, by the lanes, or by the units for special functions.

A kernel takes ``launch + max(clocks, DRAM bytes / bandwidth)`` by this estimate: the loops of many blocks hide the time
of memory. What it reads from DRAM is a matter of :mod:`accelsim.engines.simt.panels`.

Source of the form: waves, the feed of operands that scales with the rate, and the choice of the tile are what carries
measured times of products from V100 to H100; see docs/engine-simt.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.simt.panels import Panel, Product, panel_for, read_B, room_B, smallest
from accelsim.engines.simt.spec import Simt, TileShape, operands_B, storage_B
from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.errors import Infeasible, Problem, UsageError
from accelsim.mapping.listed import solve_listed
from accelsim.program.mapping import ProductMapping
from accelsim.program.tiles import kept
from accelsim.spec.names import FAMILIES
from accelsim.types import Floats, Ints

SPECIAL = frozenset(
    {
        *FAMILIES["powers"], *FAMILIES["trigonometry"], *FAMILIES["softmaxes"],
        *("Sigmoid", "Tanh", "Gelu", "Silu", "Softplus", "Elu", "Selu", "Mish", "Div"),
    }
)  # fmt: skip
"""Functions that need a special function for each element, at the least."""


MOST_CUT = 16
"""Blocks per multiprocessor beyond which loops over K are not cut: the last wave is then a small part of the time.

Chosen on the rows that the constants of a100-80-sxm are fitted on: 4, 8 and 16 leave a mean error of 6.6, 6.3, 6.0 %.
"""


@dataclass(frozen=True)
class Blocks(ProductMapping):
    """What a kernel is launched with: blocks of ``m`` rows and ``n`` columns of the result, of so many ``threads``, and
    ``splits`` of them that share a tile along K."""

    m: int
    n: int
    threads: int
    splits: int


class Around(NamedTuple):
    """What is around the multiprocessors: their clock (Hz), L2 cache (bytes, bytes per clock), usable DRAM (B/s)."""

    clock_Hz: float
    l2_B: int
    l2_width_B: Fraction
    dram_Bps: float


class Kernel(NamedTuple):
    """A product as a kernel: tile, parts of K that blocks of their own compute, grid, its clocks without launch; the
    panel in which operands come, and about so many bytes of them from DRAM; estimated seconds with its launch."""

    tile: TileShape
    splits: int
    grid: Grid
    clocks: int
    panel: Panel
    read_B: int
    seconds: float

    @property
    def mapping(self) -> Blocks:
        """What was chosen of it."""
        return Blocks(self.tile.m, self.tile.n, self.tile.threads, self.splits)


def part_of_k(spec: Simt, tile: TileShape, name: str, depth: int, splits: int = 1) -> int:
    """What one of ``splits`` blocks computes of ``depth`` of K: whole steps of the loop."""
    step = step_of(spec, tile, name)
    return ceil(depth / step / splits) * step


def step_of(spec: Simt, tile: TileShape, name: str) -> int:
    """Step of the loop over K."""
    return tile.step or spec.formats[name].step


def loop_clocks(spec: Simt, tile: TileShape, name: str, depth: int) -> Fraction:
    """Clocks of the unit for a loop over ``depth`` of K, in whole steps, whatever the L2 cache can bring."""
    form = spec.formats[name]
    feed = Fraction(form.feed)
    best = min(other.reuse for other in spec.tiles if spec.residents(other, name))
    more = (1 + feed * tile.reuse) / (1 + feed * min(best, tile.reuse))
    return depth * tile.m * tile.n / form.rate / Fraction(form.sustained) * more


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


def grid_of(spec: Simt, around: Around, product: Product, tile: TileShape, splits: int = 1) -> Grid:
    """The grid of a product with this tile, which must fit a multiprocessor.

    Blocks that share a tile along K write their sums to the L2 cache and read those of the others, which takes another
    epilogue and the time of the cache.
    """
    gemm, name = product.gemm, product.format
    blocks = splits * gemm.groups * -(-gemm.M // tile.m) * -(-gemm.N // tile.n)
    active, depth = min(blocks, spec.multiprocessors), part_of_k(spec, tile, name, gemm.K, splits)
    loop = loop_clocks(spec, tile, name, kept(product.sparse, depth))
    brought = active * sum(block_l2_B(tile, product, depth)) / around.l2_width_B
    results = tile.m * tile.n
    ends = spec.epilogue + on_lanes(spec, results * product.lane_clocks, results * product.special, 1)
    if splits > 1:
        ends += spec.epilogue + ceil(2 * active * sums_B(spec, tile, name) / around.l2_width_B)
    times = Times(spec.prologue, max(1, ceil(max(loop, brought))), ends)
    return Grid(blocks, spec.multiprocessors, spec.residents(tile, name), times)


def kernel(spec: Simt, around: Around, product: Product, tile: TileShape, splits: int = 1) -> Kernel | None:
    """The kernel of a product with a tile that fits a multiprocessor; None where the cache is too small for it, or K
    for so many splits."""
    if splits > ceil(product.gemm.K / step_of(spec, tile, product.format)):
        return None
    grid = grid_of(spec, around, product, tile, splits)
    wave = max(1, grid.multiprocessors * grid.residents // splits)
    panel = panel_for(product, (tile.m, tile.n), step_of(spec, tile, product.format), wave, around.l2_B)
    if panel is None:
        return None
    taken, read = clocks(grid), read_B(product, panel)
    moved = read + product.y.nbytes + sum(side.nbytes for side in product.sides)
    seconds = spec.launch + max(taken / around.clock_Hz, moved / around.dram_Bps)
    return Kernel(tile, splits, grid, taken, panel, read, seconds)


class Kernels:
    """The kernels of a product as a listing of ``mapping.listed``: rows of an index of ``tiles`` and splits of K,
    which may be pinned."""

    def __init__(self, spec: Simt, around: Around, product: Product, tiles: list[TileShape],
                 splits: int | None = None) -> None:  # fmt: skip
        self._spec, self._around, self._product, self._tiles = spec, around, product, tiles
        self._splits = splits

    def every(self) -> Iterator[Ints]:
        """All of them: they are few."""
        rows = [(index, splits) for index, tile in enumerate(self._tiles) for splits in self._useful(tile)]
        yield np.array(rows, np.int64).reshape(-1, 2)

    likely = every

    def _useful(self, tile: TileShape) -> list[int]:
        """Splits of K that are worth a trial: while there are few blocks for each multiprocessor."""
        if self._splits is not None:
            return [self._splits]
        gemm = self._product.gemm
        blocks = gemm.groups * -(-gemm.M // tile.m) * -(-gemm.N // tile.n)
        most = MOST_CUT * self._spec.multiprocessors
        return [splits for splits in self._spec.splits if splits == 1 or splits * blocks <= most]

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """Seconds, then clocks; see ``mapping.leaders.Costly``."""
        made = [self.made(choice) for choice in choices.tolist()]
        costs = [(each.seconds, each.clocks) if each is not None else (inf, inf) for each in made]
        return np.array(costs, np.float64).reshape(-1, 2), len(made)

    def made(self, choice: Sequence[int]) -> Kernel | None:
        """A row as a kernel; None where it does not fit."""
        return kernel(self._spec, self._around, self._product, self._tiles[choice[0]], choice[1])


class Chosen(NamedTuple):
    """The best kernels, best first, and how many were compared."""

    kernels: list[Kernel]
    compared: int

    @property
    def best(self) -> Kernel:
        """The first."""
        return self.kernels[0]


def choose(
    spec: Simt,
    around: Around,
    product: Product,
    name: str,
    cache: str,
    pinned: Mapping[str, Any] | None = None,
    leaders: int = 1,
) -> Chosen:
    """The kernels, so many, with the least estimated time, of several those with the fewest clocks, then the first in
    the table of tiles.

    Raises Infeasible, about the node ``name`` and the buffer ``cache``, where no tile fits into the cache; UsageError
    where no tile of the spec has the fields of ``Blocks`` that are ``pinned``.
    """
    fitting = [tile for tile in spec.tiles if spec.residents(tile, product.format)]
    if pinned:
        fitting = _pinned(fitting, pinned, name, ceil(product.gemm.K / spec.formats[product.format].step))
    listed = Kernels(spec, around, product, fitting, (pinned or {}).get("splits"))
    solved = solve_listed(listed, leaders=leaders)
    if not solved.leaders:
        least = min(
            (smallest(product, (tile.m, tile.n), step_of(spec, tile, product.format)) for tile in fitting),
            key=lambda panel: room_B(product, panel),
        )
        shape = f"{least.rows}x{least.cols}x{least.depth}"
        raise Infeasible(name, cache, room_B(product, least), around.l2_B, shape)
    found = [listed.made(leader.choices) for leader in solved.leaders]
    return Chosen([each for each in found if each is not None], solved.tried)


def _pinned(tiles: list[TileShape], pinned: Mapping[str, Any], name: str, steps: int) -> list[TileShape]:
    """The tiles that have the fields that are pinned."""
    kept = [
        tile
        for tile in tiles
        if all(getattr(tile, field) == value for field, value in pinned.items() if field != "splits")
    ]
    problems = []
    if not kept:
        asked = ", ".join(f"{field} {value}" for field, value in pinned.items() if field != "splits")
        shapes = ", ".join(f"{tile.m} x {tile.n} of {tile.threads} threads" for tile in tiles)
        problems.append(Problem(f"no tile has {asked}", f"mapping of {name}", shapes))
    if pinned.get("splits", 1) > steps:
        problems.append(
            Problem(f"splits {pinned['splits']}", f"mapping of {name}", f"at most the {steps:,} steps over K")
        )
    if problems:
        raise UsageError(problems)
    return kept


def lanes_clocks(spec: Simt, around: Around, functions: Iterable[tuple[str, int]], moved_B: int) -> int:
    """Clocks of a kernel of functions on so many elements each, (op, elements), that moves so many bytes through L2."""
    parts = list(functions)
    plain = sum(elements * spec.functions.get(op, 1) for op, elements in parts)
    special = sum(elements for op, elements in parts if op in SPECIAL)
    computed = on_lanes(spec, plain, special, spec.multiprocessors)
    moved = ceil(moved_B / around.l2_width_B)
    return spec.prologue + max(1, computed, moved) + spec.epilogue


def on_lanes(spec: Simt, plain: int, special: int, multiprocessors: int) -> int:
    """Clocks of so many lane clocks and special functions, which run side by side."""
    return max(-(-plain // (spec.lanes * multiprocessors)), -(-special // (spec.special * multiprocessors)))


def paces(spec: Simt, ops: Iterable[str]) -> tuple[int, int]:
    """Lane clocks and special functions per element of functions one after the other."""
    names = list(ops)
    return sum(spec.functions.get(op, 1) for op in names), sum(op in SPECIAL for op in names)
