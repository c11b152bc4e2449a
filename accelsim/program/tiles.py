"""The loop nest of a mapping, and the bytes that its tiles need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from accelsim.program.commands import Tile, record
from accelsim.program.mapping import Mapping, Split
from accelsim.types import Int, Ints
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Conv, Gemm

Range = tuple[int, int]


class Exec(NamedTuple):
    """One iteration of the tile loop: a tile, and whether it is the first and the last to add to its sums."""

    tile: Tile
    first: bool
    last: bool


def whole(gemm: Gemm) -> Tile:
    """Return the tile that is all of a product."""
    return Tile(0, gemm.groups, 0, gemm.M, 0, gemm.N, 0, gemm.K)


def loop(part: Tile, mapping: Mapping, arrays: int = 1) -> Iterator[Exec]:
    """All tiles of a part of a product in loop order, groups outside; inside, those that ``arrays`` take side by side
    (see ``array_of``).

    An array opens and closes its own sums: of a reduction that is split there are several of one tile.
    """
    extents = {
        "g": (part.g0, part.g1, mapping.tg),
        "m": (part.m0, part.m1, mapping.tm),
        "n": (part.n0, part.n1, mapping.tn),
        "k": (part.k0, part.k1, mapping.tk),
    }
    axes = ("g", *mapping.order)
    strips = [_strips(_cut(*extents[axis]), arrays if axis == mapping.split else 1) for axis in axes]
    own, depth = arrays if mapping.split == "k" else 1, part.k1 - part.k0
    first_to = part.k0 + own * mapping.tk
    last_from = part.k0 + (-(-depth // mapping.tk) - own) * mapping.tk
    for place in product(*strips):
        at = dict(zip(axes, place, strict=True))
        for g, m, n, k in product(at["g"], at["m"], at["n"], at["k"]):
            yield record(Exec, (record(Tile, (*g, *m, *n, *k)), k[0] < first_to, k[0] >= last_from))


def array_of(tile: Tile, mapping: Mapping, arrays: int, part: Tile) -> int:
    """Return which of the arrays side by side takes a tile of a part; 0 where a strip of them begins."""
    if mapping.split == "none":
        return 0
    start, step = {
        "m": (tile.m0 - part.m0, mapping.tm),
        "n": (tile.n0 - part.n0, mapping.tn),
        "k": (tile.k0 - part.k0, mapping.tk),
    }[mapping.split]
    return start // step % arrays


def _strips(ranges: list[Range], length: int) -> list[list[Range]]:
    return [ranges[start : start + length] for start in range(0, len(ranges), length)]


def _cut(first: int, end: int, step: int) -> list[Range]:
    return [(start, min(start + step, end)) for start in range(first, end, step)]


DENSE = (1, 1)


def sparsity(node: Node) -> tuple[int, int]:
    """(n, m) when the unit skips all but n of m multiplications of this node, ``DENSE`` otherwise."""
    found: tuple[int, int] = node.attrs.get("sparse", DENSE)
    return found


def kept(sparse: tuple[int, int], k: Int) -> Int:
    """Multiplications along a reduction of ``k`` that the unit carries out; integers or int64 arrays."""
    n, m = sparse
    return -(-k * n // m)


def a_key(tile: Tile, mapping: Mapping) -> tuple[int, ...]:
    """Key that is equal for equal activation tiles of two loop iterations."""
    return (tile.g0, tile.m0) if mapping.a_whole_k else (tile.g0, tile.m0, tile.k0)


def depends(split: Split, a_whole_k: bool) -> tuple[bool, bool]:
    """Return whether arrays side by side have tiles of their own of A, of B; else they share each. See ``Mapping``."""
    return split == "m" or (split == "k" and not a_whole_k), split in ("n", "k")


def b_key(tile: Tile) -> tuple[int, ...]:
    """Key that is equal for equal weight tiles of two loop iterations."""
    return (tile.g0, tile.n0, tile.k0)


def a_elements(gemm: Gemm, groups: int, m0: int, m1: int, k0: int, k1: int) -> int:
    """Elements of an activation tile as they lie in memory: of a convolution the input rows it touches, once (of each
    strip of the image that it is in, the columns that it needs)."""
    if gemm.conv is None:
        return groups * (m1 - m0) * (k1 - k0)
    kernel = gemm.conv.kernel[0] * gemm.conv.kernel[1]
    channels = -(-k1 // kernel) - k0 // kernel
    return groups * channels * _pixels(gemm.conv, m0, m1)


@lru_cache(maxsize=1 << 16)
def _pixels(conv: Conv, m0: int, m1: int) -> int:
    return int(input_pixels(conv, np.array([m0]), np.array([m1]))[0])


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
    """Input pixels under the rows [m0, m1) of a product, padding left out: whole rows, or of each strip that they are
    in a block of rows x columns."""
    strips = _of_image(conv)
    (first, top), (last, bottom) = (_strip_and_row(conv, strips, m) for m in (m0, m1 - 1))
    begin, end = 0 * top, conv.out[0] - 1 + 0 * top
    columns = strips.columns[first % len(strips.lefts)]
    within = _read(conv, 0, top, bottom) * columns
    across = _read(conv, 0, top, end) * columns
    across += _read(conv, 0, begin, bottom) * strips.columns[last % len(strips.lefts)]
    across += _read(conv, 0, begin, end) * (strips.until(last) - strips.until(first + 1))
    pixels: Ints = np.where(first == last, within, across)
    return pixels


class _Strips(NamedTuple):
    """Strips of an image: their first columns of the output, how many these have, the columns of the input that each
    reads, and those of all before it (and of all)."""

    lefts: Ints
    widths: Ints
    columns: Ints
    before: Ints

    def until(self, strip: Ints) -> Ints:
        """Columns of the input before a strip, counted over all images."""
        images, within = np.divmod(strip, len(self.lefts))
        columns: Ints = images * self.before[-1] + self.before[within]
        return columns


@lru_cache(maxsize=256)
def _of_image(conv: Conv) -> _Strips:
    lefts = np.arange(0, conv.out[1], conv.strip or conv.out[1])
    rights = np.append(lefts[1:], conv.out[1])
    columns = _read(conv, 1, lefts, rights - 1) if conv.strip else np.array([conv.width])
    return _Strips(lefts, rights - lefts, columns, np.append(0, np.cumsum(columns)))


def _strip_and_row(conv: Conv, strips: _Strips, m: Ints) -> tuple[Ints, Ints]:
    """Strip, counted over all images, and row of the output in which rows of the product lie."""
    image, within = np.divmod(m, conv.out[0] * conv.out[1])
    strip = within // (strips.widths[0] * conv.out[0])
    row = (within - strips.lefts[strip] * conv.out[0]) // strips.widths[strip]
    return image * len(strips.lefts) + strip, row


def _read(conv: Conv, axis: int, first: Ints, last: Ints) -> Ints:
    """Input rows (axis 0) or columns (1) that the output's first..last read."""
    begin = np.maximum(first * conv.stride[axis] - conv.pad[axis], 0)
    end = last * conv.stride[axis] - conv.pad[axis] + (conv.kernel[axis] - 1) * conv.dilation[axis]
    read: Ints = np.maximum(0, np.minimum(end, (conv.height, conv.width)[axis] - 1) - begin + 1)
    return read


def in_strips(gemm: Gemm, columns: int) -> Gemm:
    """A convolution with the rows of its product in strips of so many columns of the output (0: in whole rows)."""
    if gemm.conv is None or gemm.conv.strip == columns:
        return gemm
    return replace(gemm, conv=replace(gemm.conv, strip=columns))
