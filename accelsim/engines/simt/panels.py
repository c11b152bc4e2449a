"""Panels: what a wave of blocks computes and reads, a rectangle of the result and a slice of K at a time.

Operands come from DRAM into the L2 cache step by step of the loop over K, ``SLOTS`` steps of each in flight, and all
blocks of a wave read them there. An operand that is *kept* comes once and stays in the cache until the kernel ends; one
that is not comes again for every panel that needs it. Of the rectangles that a wave can be, and of what can be kept,
the panel is the one with the fewest bytes from DRAM. Sums are in registers, and results stream out.

Commands are coarser than steps: one loads a slice of K, many steps of it, which streams through its share of the cache.
Slices of a convolution are whole channels. In the gradient of a filter a channel is an image, as long as the results of
one sample are many: where a cache is too small for ``SLOTS`` of these, only the steps in flight have to fit (see
:func:`room_B`), and images stream through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from accelsim.program.tiles import DENSE, a_elements, most_channels, slabs
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Gemm

PIECES = 4
"""Pieces into which a kernel is cut at least, where it has so many steps: what is moved and what is computed overlap by
pieces, so that about a quarter of the shorter of both does not, and less of kernels of many waves."""

SLOTS = 4
"""Tiles of an operand that are in flight: loads run ahead of the loop, and do not wait for results that leave."""

STREAMED = 2
"""Slices of K of operands that have no room in the cache with all of K."""

Kept = Literal["", "a", "b"]
KEPT: tuple[Kept, ...] = ("", "a", "b")


@dataclass(frozen=True)
class Product:
    """A product, the format that it is multiplied in, its operands and result, and what its epilogue does.

    ``sides``: operands of the epilogue with values of their own for every result. ``lane_clocks``, ``special``: clocks
    of a lane and special functions per result. ``sparse``: (n, m) where only n of m weights are stored and multiplied.
    """

    gemm: Gemm
    format: str
    a: Tensor
    b: Tensor
    y: Tensor
    sides: tuple[Tensor, ...] = ()
    lane_clocks: int = 0
    special: int = 0
    sparse: tuple[int, int] = DENSE


class Panel(NamedTuple):
    """A piece of a product: groups, rows, columns of the result and depth along K; the operand that is kept."""

    groups: int
    rows: int
    cols: int
    depth: int
    kept: Kept = ""


def a_B(product: Product, panel: Panel) -> int:
    """Bytes of the largest tile of A."""
    gemm, rows, depth = product.gemm, min(panel.rows, product.gemm.M), min(panel.depth, product.gemm.K)
    if gemm.conv is None:
        return product.a.size_B(panel.groups * a_elements(gemm, 1, 0, rows, 0, depth))
    channels = int(most_channels(gemm.conv, np.array(depth)))
    return product.a.size_B(panel.groups * channels * slabs(gemm.conv, gemm.M, rows)[1])


def b_B(product: Product, panel: Panel) -> int:
    """Bytes of the largest tile of B."""
    gemm = product.gemm
    return product.b.size_B(panel.groups * min(panel.cols, gemm.N) * min(panel.depth, gemm.K))


def whole_B(product: Product, panel: Panel) -> tuple[int, int]:
    """Bytes of all tiles of A and of B, each once; of a convolution, input rows that two tiles need count twice."""
    gemm = product.gemm
    a = gemm.groups * gemm.M * gemm.K
    if gemm.conv is not None:
        a = gemm.groups * gemm.conv.channels * slabs(gemm.conv, gemm.M, min(panel.rows, gemm.M))[0]
    return product.a.size_B(a), product.b.size_B(gemm.groups * gemm.K * gemm.N)


def room_B(product: Product, panel: Panel, step: int = 0) -> int:
    """Bytes of cache that a kernel with this panel needs: of what is kept all tiles, of the other ``SLOTS``, and a byte
    for each of those that stream out or beside the sums. ``step``: of the loop over K, where slices stream through; of
    0 whole slices have room."""
    all_a, all_b = whole_B(product, panel)
    one_a = _step_of_a_B(product, panel, step) if step else a_B(product, panel)
    a = all_a if panel.kept == "a" else SLOTS * one_a
    b = all_b if panel.kept == "b" else SLOTS * b_B(product, panel._replace(depth=step or panel.depth))
    return a + b + SLOTS * (1 + len(product.sides))


def _step_of_a_B(product: Product, panel: Panel, step: int) -> int:
    """Bytes of A that the blocks of a panel multiply in a step of the loop."""
    gemm = product.gemm
    return product.a.size_B(panel.groups * min(panel.rows, gemm.M) * min(step, gemm.K))


def read_B(product: Product, panel: Panel) -> int:
    """Estimate the bytes of both operands that come from DRAM; tiles of a convolution overlap a little more or less."""
    gemm, (a, b) = product.gemm, whole_B(product, panel)
    whole, wide = panel.depth >= gemm.K, panel.cols >= gemm.N
    along_n = 1 if whole or panel.kept == "a" else ceil(gemm.N / panel.cols)  # A stays while the panels go along N
    along_m = 1 if (whole and wide) or panel.kept == "b" else ceil(gemm.M / panel.rows)
    return a * along_n + b * along_m


def panels(gemm: Gemm, panel: Panel) -> int:
    """Return how many panels a product has, not counting slices of K."""
    return ceil(gemm.groups / panel.groups) * ceil(gemm.M / panel.rows) * ceil(gemm.N / panel.cols)


def panel_for(
    product: Product, shape: tuple[int, int], step: int, wave: int, l2_B: int, streams: bool = False
) -> Panel | None:
    """Return the panel for blocks of ``shape`` (rows, columns), ``wave`` blocks at a time, with K in steps
    of ``step``; None if not even one block fits into the cache. ``streams``: of its slices only the
    steps in flight have to fit."""
    while wave:
        fitting = [
            panel
            for panel in _candidates(product, shape, _depth_step(product.gemm, step), wave)
            if room_B(product, panel, step if streams else 0) <= l2_B
        ]
        if fitting:
            best = min(fitting, key=lambda panel: (read_B(product, panel), panel.kept, panels(product.gemm, panel)))
            return _deepest(product, best, l2_B)
        wave //= 2
    return None


def smallest(product: Product, shape: tuple[int, int], step: int) -> Panel:
    """Return the panel of one block and one step."""
    return next(_candidates(product, shape, _depth_step(product.gemm, step), 1))


def _depth_step(gemm: Gemm, step: int) -> int:
    """Return what slices of K are multiples of: steps of the loop, of a convolution whole channels."""
    taps = gemm.conv.kernel[0] * gemm.conv.kernel[1] if gemm.conv else 1
    return ceil(step / taps) * taps


def _candidates(product: Product, shape: tuple[int, int], step: int, wave: int) -> Iterator[Panel]:
    """Panels of at most ``wave`` blocks, as shallow as can be."""
    gemm, (tm, tn) = product.gemm, shape
    rows, cols = ceil(gemm.M / tm), ceil(gemm.N / tn)
    if gemm.groups > 1 and rows * cols <= wave // 2:
        groups = min(wave // (rows * cols), ceil(gemm.groups / PIECES))
        yield Panel(groups, gemm.M, gemm.N, min(step, gemm.K))
    heights = {min(rows, wave), max(1, min(rows, wave // cols)), *(2**i for i in range(wave.bit_length()))}
    for high in sorted(height for height in heights if height <= rows):
        tall, wide = min(gemm.M, high * tm), min(gemm.N, min(cols, wave // high) * tn)
        for kept in KEPT:
            yield Panel(1, tall, wide, min(step, gemm.K), kept)


def _deepest(product: Product, panel: Panel, l2_B: int) -> Panel:
    """Cut K of a panel into up to ``PIECES`` slices.

    Slices count over the product, or over the kept operand, whose first slice nothing hides. There are several where
    the whole of K has no room in the L2 cache (parts of a channel where K is one step): streamed data has left the
    cache when the next panel needs it.
    """
    gemm, step = product.gemm, panel.depth
    steps = ceil(gemm.K / step)
    tiles = {"": panels(gemm, panel), "a": ceil(gemm.M / panel.rows), "b": ceil(gemm.N / panel.cols)}
    stays = room_B(product, panel._replace(depth=gemm.K)) <= l2_B
    if steps == 1 and not stays and tiles[""] > 1:
        step, steps = ceil(step / STREAMED), STREAMED
    slices = min(steps, max(1 if stays else STREAMED, ceil(PIECES / tiles[panel.kept])))
    return panel._replace(depth=min(gemm.K, ceil(steps / slices) * step))
