"""The loop nest of a mapping, and the bytes that its tiles need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from accelsim.compiler.mapping import Mapping
from accelsim.compiler.program import Folds, Tile
from accelsim.spec.models import MatrixUnit
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


def folds(unit: MatrixUnit, groups: int, tm: int, tn: int, tk: int, cycles_per_row: int) -> Folds:
    """Array work of one tile, see ``array.timing``."""
    rows, cols = unit.rows, unit.cols
    by_dataflow = {
        "ws": (-(-tk // rows) * -(-tn // cols), tm),
        "os": (-(-tm // rows) * -(-tn // cols), tk),
        "is": (-(-tk // rows) * -(-tm // cols), tn),
    }
    count, streamed = by_dataflow[unit.dataflow]
    return Folds(groups * count, streamed, cycles_per_row)


def a_key(tile: Tile, mapping: Mapping) -> tuple[int, ...]:
    """Identity of the activation tile of an Exec."""
    return (tile.g0, tile.m0) if mapping.a_whole_k else (tile.g0, tile.m0, tile.k0)


def b_key(tile: Tile) -> tuple[int, ...]:
    """Identity of the weight tile of an Exec."""
    return (tile.g0, tile.n0, tile.k0)


def a_elements(gemm: Gemm, groups: int, m0: int, m1: int, k0: int, k1: int) -> int:
    """Elements of an activation tile as they lie in memory: of a convolution the input rows it touches, once."""
    if gemm.conv is None:
        return groups * (m1 - m0) * (k1 - k0)
    kernel = gemm.conv.kernel[0] * gemm.conv.kernel[1]
    channels = -(-k1 // kernel) - k0 // kernel
    return groups * channels * _input_pixels(gemm.conv, m0, m1)


@lru_cache(maxsize=65536)
def _input_pixels(conv: Conv, m0: int, m1: int) -> int:
    """Input pixels under the output pixels [m0, m1), whole rows, padding left out."""
    rows_out, width_out = conv.out
    per_image = rows_out * width_out
    total = 0
    for image in range(m0 // per_image, (m1 - 1) // per_image + 1):
        first = max(m0 - image * per_image, 0) // width_out
        last = (min(m1 - image * per_image, per_image) - 1) // width_out
        top = max(first * conv.stride[0] - conv.pad[0], 0)
        bottom = last * conv.stride[0] - conv.pad[0] + (conv.kernel[0] - 1) * conv.dilation[0]
        total += max(0, min(bottom, conv.height - 1) - top + 1) * conv.width
    return total
