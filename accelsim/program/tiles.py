"""The loop nest of a mapping, and the bytes that its tiles need."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from accelsim.program.commands import Folds, Tile
from accelsim.program.mapping import Mapping
from accelsim.spec.models import MatrixUnit
from accelsim.types import Ints
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Conv, Gemm


class Exec(NamedTuple):
    """One pass of the innermost loop body: a tile, and whether it opens and closes its sums."""

    tile: Tile
    first: bool
    last: bool


def loop(gemm: Gemm, mapping: Mapping) -> Iterator[Exec]:
    """All tiles in loop order, groups outside."""
    extents = {"m": (gemm.M, mapping.tm), "n": (gemm.N, mapping.tn), "k": (gemm.K, mapping.tk)}
    ranges = {axis: _cut(*extents[axis]) for axis in extents}
    outer, middle, inner = mapping.order
    last_k = ranges["k"][-1]
    for g0, g1 in _cut(gemm.groups, mapping.tg):
        for x in ranges[outer]:
            for y in ranges[middle]:
                for z in ranges[inner]:
                    at = {outer: x, middle: y, inner: z}
                    yield Exec(Tile(g0, g1, *at["m"], *at["n"], *at["k"]), at["k"][0] == 0, at["k"] == last_k)


def _cut(extent: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, extent)) for start in range(0, extent, step)]


def open_sums(gemm: Gemm, mapping: Mapping) -> int:
    """Accumulator slots that are open at once."""
    if mapping.order in ("nmk", "mnk") or mapping.tk >= gemm.K:
        return 1
    extent, tile = (gemm.M, mapping.tm) if mapping.order == "nkm" else (gemm.N, mapping.tn)
    return -(-extent // tile)


DENSE = (1, 1)


def sparsity(node: Node) -> tuple[int, int]:
    """(n, m) when the unit skips all but n of m multiplications of this node, ``DENSE`` otherwise."""
    found: tuple[int, int] = node.attrs.get("sparse", DENSE)
    return found


def kept(sparse: tuple[int, int], k: Any) -> Any:
    """Multiplications along a reduction of ``k`` that the unit carries out; integers or int64 arrays."""
    n, m = sparse
    return -(-k * n // m)


def packs(unit: MatrixUnit, groups: Any, tn: Any, tk: Any) -> Any:
    """Stationary tiles that so many small groups need: side by side on the diagonal of one, zeros elsewhere.

    Only weights that stay in place ('ws') can be packed; a group that fills more than half of the rows or columns has a
    tile of its own. Takes integers or int64 arrays.
    """
    if unit.dataflow != "ws":
        return groups
    together = np.maximum(1, np.minimum(unit.rows // np.asarray(tk), unit.cols // np.asarray(tn)))
    return -(-groups // together)


def folds(unit: MatrixUnit, groups: int, tm: int, tn: int, tk: int, cycles_per_row: int | Fraction) -> Folds:
    """Array work of one tile, see ``engines.systolic.timing``. Rows that enter together count as one."""
    rows, cols = unit.rows, unit.cols
    by_dataflow = {
        "ws": (-(-tk // rows) * -(-tn // cols), tm),
        "os": (-(-tm // rows) * -(-tn // cols), tk),
        "is": (-(-tk // rows) * -(-tm // cols), tn),
    }
    count, streamed = by_dataflow[unit.dataflow]
    if not isinstance(cycles_per_row, int):
        streamed, cycles_per_row = ceil(streamed * cycles_per_row), 1
    return Folds(int(packs(unit, groups, tn, tk)) * count, streamed, cycles_per_row)


def a_key(tile: Tile, mapping: Mapping) -> tuple[int, ...]:
    """Identity of the activation tile of an Exec."""
    return (tile.g0, tile.m0) if mapping.a_whole_k else (tile.g0, tile.m0, tile.k0)


def b_key(tile: Tile) -> tuple[int, ...]:
    """Identity of the weight tile of an Exec."""
    return (tile.g0, tile.n0, tile.k0)


def b_elements(unit: MatrixUnit, groups: Any, tn: Any, tk: Any) -> Any:
    """Elements of a weight tile as it lies in memory: whole stationary tiles where the unit wants them padded."""
    if unit.padded_tiles and unit.dataflow == "ws":
        groups = packs(unit, groups, tn, tk)
    tn, tk = b_extent(unit, tn, tk)
    return groups * tn * tk


def b_extent(unit: MatrixUnit, tn: Any, tk: Any) -> tuple[Any, Any]:
    """Columns and rows that a weight tile takes in memory."""
    if unit.padded_tiles and unit.dataflow == "ws":
        return -(-tn // unit.cols) * unit.cols, -(-tk // unit.rows) * unit.rows
    return tn, tk


def a_elements(gemm: Gemm, groups: int, m0: int, m1: int, k0: int, k1: int) -> int:
    """Elements of an activation tile as they lie in memory: of a convolution the input rows it touches, once."""
    if gemm.conv is None:
        return groups * (m1 - m0) * (k1 - k0)
    kernel = gemm.conv.kernel[0] * gemm.conv.kernel[1]
    channels = -(-k1 // kernel) - k0 // kernel
    return groups * channels * int(input_pixels(gemm.conv, np.array([m0]), np.array([m1]))[0])


def most_channels(conv: Conv, tk: Ints) -> Ints:
    """Channels that a tile of ``tk`` along K touches at the most; one whose K is cut belongs to both tiles."""
    kernel = conv.kernel[0] * conv.kernel[1]
    touched = np.where(tk % kernel == 0, tk // kernel, (tk + kernel - 2) // kernel + 1)
    return np.minimum(touched, conv.channels)


def channel_visits(conv: Conv, tk: Ints) -> Ints:
    """Channels that all tiles of ``tk`` along K touch together: all, and again each whose K is cut."""
    kernel = conv.kernel[0] * conv.kernel[1]
    cuts = -(-conv.channels * kernel // tk) - 1
    visits: Ints = conv.channels + cuts - cuts // (kernel // np.gcd(tk, kernel))
    return visits


@lru_cache(maxsize=4096)
def slabs(conv: Conv, M: int, tm: int) -> tuple[int, int, int]:
    """Input pixels under row tiles of ``tm``: of all tiles together, of the largest, of the first."""
    starts = np.arange(0, M, tm)
    pixels = input_pixels(conv, starts, np.minimum(starts + tm, M))
    return int(pixels.sum()), int(pixels.max()), int(pixels[0])


def input_pixels(conv: Conv, m0: Ints, m1: Ints) -> Ints:
    """Input pixels under the output pixels [m0, m1), whole rows, padding left out."""
    per_image, width = conv.out[0] * conv.out[1], conv.out[1]
    first, last = m0 // per_image, (m1 - 1) // per_image
    top, bottom = (m0 - first * per_image) // width, (m1 - 1 - last * per_image) // width
    end = conv.out[0] - 1
    within = _input_rows(conv, top, bottom)
    across = _input_rows(conv, top, end) + _input_rows(conv, 0 * top, bottom)
    across = across + (last - first - 1) * _input_rows(conv, 0 * top, end + 0 * top)
    pixels: Ints = np.where(first == last, within, across) * conv.width
    return pixels


def _input_rows(conv: Conv, first: Ints, last: Ints | int) -> Ints:
    """Input rows that the output rows first..last read."""
    top = np.maximum(first * conv.stride[0] - conv.pad[0], 0)
    bottom = last * conv.stride[0] - conv.pad[0] + (conv.kernel[0] - 1) * conv.dilation[0]
    rows: Ints = np.maximum(0, np.minimum(bottom, conv.height - 1) - top + 1)
    return rows
