"""Kernels of nodes: which tile a product is computed with, how its blocks go over the chip, what they move.

**Products.** A block computes a tile of ``m x n`` results. Its loop over K takes, per step, the multiplications of the
tile at the sustained rate of the format, and longer for tiles that reuse operands less: ``feed`` says how many
multiplications an operand's way from shared memory is worth. It is never faster than the L2 cache, which all
multiprocessors share, brings the operands. K, M and N are rounded up to whole steps and tiles. The tile is the one
with the least estimated time, as a library's heuristic does it.

**DRAM.** Each operand is read once, if one of the two (of a group) fits into half of the L2 cache; else a wave of
blocks lies as a rectangle over the result, and each rectangle reads its rows and columns anew. Results are written
once. Nothing stays in the cache between two kernels.

**Everything else** is a kernel that is bound by what it moves, by the lanes, or by the units for special functions.

A kernel takes ``launch + max(clocks, DRAM bytes / bandwidth)``: the loops of many blocks hide the time of memory.

Source of the form and of its constants: waves, the feed of operands that scales with the rate, and the choice of the
tile are what carries measured times of GEMMs from V100 to H100; see docs/engine-simt.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from accelsim.engines.simt.spec import Simt, TileShape, operands_B
from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.errors import Infeasible
from accelsim.spec.names import FAMILIES

SPECIAL = frozenset(
    {
        *FAMILIES["powers"], *FAMILIES["trigonometry"], *FAMILIES["softmaxes"],
        *("Sigmoid", "Tanh", "Gelu", "Silu", "Softplus", "Elu", "Selu", "Mish", "Div"),
    }
)  # fmt: skip
"""Functions that need a special function for each element, at the least."""


class Around(NamedTuple):
    """What is around the multiprocessors: their clock (Hz), L2 cache (bytes, bytes per clock), usable DRAM (B/s)."""

    clock_Hz: float
    l2_B: int
    l2_width_B: int
    dram_Bps: float


class Product(NamedTuple):
    """``groups`` products of [M, K] and [K, N] in a format, bytes of both operands and of the result in memory.

    ``paces``: clocks of a lane per result for what is fused behind the sums, and special functions per result.
    """

    groups: int
    M: int
    N: int
    K: int
    format: str
    a_B: int
    b_B: int
    y_B: int
    paces: tuple[int, int] = (0, 0)


class Kernel(NamedTuple):
    """A product as a kernel: tile, grid, its clocks; blocks of a wave as (rows, columns); bytes read from and written
    to DRAM, bytes read from L2; estimated seconds with its launch."""

    tile: TileShape
    grid: Grid
    clocks: int
    wave: tuple[int, int]
    read_B: int
    write_B: int
    l2_B: int
    seconds: float


def loop_clocks(spec: Simt, tile: TileShape, name: str, depth: int) -> Fraction:
    """Clocks of the unit for a loop over ``depth`` of K, whatever the L2 cache can bring."""
    form = spec.formats[name]
    feed = Fraction(form.feed)
    best = min(other.reuse for other in spec.tiles if spec.residents(other, name))
    more = (1 + feed * tile.reuse) / (1 + feed * min(best, tile.reuse))
    steps = -(-depth // _step(spec, tile, name)) * _step(spec, tile, name)
    return steps * tile.m * tile.n / form.rate / Fraction(form.sustained) * more


def _step(spec: Simt, tile: TileShape, name: str) -> int:
    return tile.step or spec.formats[name].step


def block_l2_B(spec: Simt, tile: TileShape, name: str, depth: int) -> int:
    """Bytes that a block reads from the L2 cache: its rows and columns, once."""
    a_B, b_B = operands_B(name)
    steps = -(-depth // _step(spec, tile, name)) * _step(spec, tile, name)
    return ceil(steps * (tile.m * a_B + tile.n * b_B))


def grid_of(spec: Simt, around: Around, product: Product, tile: TileShape) -> Grid:
    """The grid of a product with this tile, which must fit a multiprocessor."""
    blocks = product.groups * -(-product.M // tile.m) * -(-product.N // tile.n)
    active = min(blocks, spec.multiprocessors)
    loop = loop_clocks(spec, tile, product.format, product.K)
    brought = Fraction(active * block_l2_B(spec, tile, product.format, product.K), around.l2_width_B)
    fused = _on_lanes(spec, tile.m * tile.n * product.paces[0], tile.m * tile.n * product.paces[1], 1)
    times = Times(spec.prologue, max(1, ceil(max(loop, brought))), spec.epilogue + fused)
    return Grid(blocks, spec.multiprocessors, spec.residents(tile, product.format), times)


def read_B(
    around: Around, product: Product, tile: TileShape, wave_blocks: int
) -> tuple[int, tuple[int, int]]:
    """Bytes read from DRAM, and the rectangle of blocks of a wave for which they are least."""
    rows, cols = -(-product.M // tile.m), -(-product.N // tile.n)
    smaller = min(product.a_B, product.b_B)
    if 2 * smaller <= around.l2_B * product.groups or rows * cols <= wave_blocks:
        high = min(rows, wave_blocks)
        return product.a_B + product.b_B, (high, max(1, min(cols, wave_blocks // high)))
    found = []
    for high in range(1, min(rows, wave_blocks) + 1):
        wide = min(cols, wave_blocks // high)
        again = product.a_B * -(-cols // wide) + product.b_B * -(-rows // high)
        found.append((again, (high, wide)))
    return min(found)


def kernel(spec: Simt, around: Around, product: Product, tile: TileShape) -> Kernel:
    """The kernel of a product with a tile that fits a multiprocessor."""
    grid = grid_of(spec, around, product, tile)
    taken = clocks(grid)
    moved, wave = read_B(around, product, tile, grid.multiprocessors * grid.residents)
    l2_B = grid.blocks * block_l2_B(spec, tile, product.format, product.K)
    memory = (moved + product.y_B) / around.dram_Bps
    seconds = spec.launch + max(taken / around.clock_Hz, memory)
    return Kernel(tile, grid, taken, wave, moved, product.y_B, l2_B, seconds)


def choose(spec: Simt, around: Around, product: Product, name: str = "product") -> Kernel:
    """The kernel with the least estimated time, of several the one with the fewest clocks, then the first in the table.

    Raises Infeasible where no tile fits a multiprocessor (a spec with such a format is refused before).
    """
    fitting = [tile for tile in spec.tiles if spec.residents(tile, product.format)]
    if not fitting:
        tile = spec.tiles[0]
        needed = spec.needs(tile, product.format).registers_B
        raise Infeasible(name, "registers", needed, spec.registers, f"{tile.m}x{tile.n}")
    return min(
        (kernel(spec, around, product, tile) for tile in fitting),
        key=lambda found: (found.seconds, found.clocks),
    )


def lanes_clocks(spec: Simt, around: Around, functions: Iterable[tuple[str, int]], moved_B: int) -> int:
    """Clocks of a kernel of functions on so many elements each, (op, elements), that moves so many bytes through L2."""
    parts = list(functions)
    plain = sum(elements * spec.functions.get(op, 1) for op, elements in parts)
    special = sum(elements for op, elements in parts if op in SPECIAL)
    computed = _on_lanes(spec, plain, special, spec.multiprocessors)
    moved = -(-moved_B // around.l2_width_B)
    return spec.prologue + max(1, computed, moved) + spec.epilogue


def _on_lanes(spec: Simt, plain: int, special: int, multiprocessors: int) -> int:
    """Clocks of so many lane clocks and special functions, which run side by side."""
    return max(-(-plain // (spec.lanes * multiprocessors)), -(-special // (spec.special * multiprocessors)))


def paces(spec: Simt, ops: Iterable[str]) -> tuple[int, int]:
    """Lane clocks and special functions per element of functions one after the other."""
    names = list(ops)
    return sum(spec.functions.get(op, 1) for op in names), sum(op in SPECIAL for op in names)
