"""Places of a tile's elements in its tensor: nests of strides, counted in elements.

Tensors are row-major. A matrix product sees them as A [M, K], B [K, N] and Y [M, N] per group; a convolution's input is
[image, group, channel, row, column], its weights [group, N, K], its result [image, group, N, row, column].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accelsim.program.commands import Tile
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Conv, Gemm

Dims = tuple[tuple[int, int], ...]


class Nest(NamedTuple):
    """``length`` elements from ``start``, again at each combination of ``dims``: (stride, count), outermost first.

    A stride of 0 reads the same elements again: an operand that broadcasts over the groups of a product.
    """

    start: int
    length: int
    dims: Dims = ()

    @property
    def elements(self) -> int:
        """Elements of the whole nest, those that are read again counted again."""
        count = self.length
        for _, often in self.dims:
            count *= often
        return count


def nest(start: int, length: int, dims: Dims) -> Nest:
    """The shortest nest of these elements in this order: what is contiguous is one piece."""
    left = [(stride, count) for stride, count in dims if count != 1]
    while left and left[-1][0] == length:
        length *= left.pop()[1]
    merged: list[tuple[int, int]] = []
    for stride, count in left:
        if merged and merged[-1][0] == stride * count:
            merged[-1] = (stride, count * merged[-1][1])
        else:
            merged.append((stride, count))
    return Nest(start, length, tuple(merged))


def a_nests(gemm: Gemm, node: Node, tensor: Tensor, tile: Tile) -> list[Nest]:
    """The streamed operand under a tile; of a convolution the input rows that it touches, channel by channel: whole
    ones, or of each strip the columns that it needs."""
    if gemm.conv is not None:
        return list(_slabs(gemm, gemm.conv, tile))
    if node.op == "ExpertMatMul":
        return _rows_of_experts(gemm, tensor, tile)
    rows, columns = (tile.m0, tile.m1), (tile.k0, tile.k1)
    if node.attrs.get("transA") and not gemm.batch:
        return _matrix(gemm, tensor, tile, (gemm.K, gemm.M), columns, rows)
    return _matrix(gemm, tensor, tile, (gemm.M, gemm.K), rows, columns)


def _rows_of_experts(gemm: Gemm, tensor: Tensor, tile: Tile) -> list[Nest]:
    """Return nests with as many elements as the tile has, one after the other; again for each expert of a
    token. Which rows an expert takes, only values know."""
    count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.k1 - tile.k0)
    start = (tile.g0 * gemm.M + tile.m0) * gemm.K
    times, rest = divmod(count, tensor.elements)
    found = [nest(0, tensor.elements, ((0, times),))] if times else []
    return found + ([Nest(min(start, tensor.elements - rest), rest)] if rest else [])


def b_nests(gemm: Gemm, node: Node, tensor: Tensor, tile: Tile) -> list[Nest]:
    """Elements of the stationary operand under a tile."""
    n, k = (tile.n0, tile.n1), (tile.k0, tile.k1)
    if gemm.conv is not None:
        start = (tile.g0 * gemm.N + n[0]) * gemm.K + k[0]
        dims = ((gemm.N * gemm.K, tile.g1 - tile.g0), (gemm.K, n[1] - n[0]))
        return [nest(start, k[1] - k[0], dims)]
    if node.attrs.get("transB"):
        return _matrix(gemm, tensor, tile, (gemm.N, gemm.K), n, k)
    return _matrix(gemm, tensor, tile, (gemm.K, gemm.N), k, n)


def y_nests(gemm: Gemm, rows: int, tile: Tile) -> list[Nest]:
    """A result tile in a tensor of ``rows`` rows per group: fewer than M where a pooling is fused."""
    first, last = tile.m0 * rows // gemm.M, tile.m1 * rows // gemm.M
    groups, columns = tile.g1 - tile.g0, tile.n1 - tile.n0
    if (conv := gemm.conv) is None:
        start = (tile.g0 * rows + first) * gemm.N + tile.n0
        return [nest(start, columns, ((rows * gemm.N, groups), (gemm.N, last - first)))]
    positions = rows // conv.batch
    channel = tile.g0 * gemm.N + tile.n0
    image = gemm.groups * gemm.N * positions
    return [
        nest(
            at * image + channel * positions + line * conv.out[1] + left + begin,
            end - begin,
            ((image, images), (gemm.N * positions, groups), (positions, columns), (conv.out[1], lines)),
        )
        for at, images, left, width, top, bottom in _strips(conv, first, last, positions)
        for line, lines, begin, end in _pieces(top, bottom, width if conv.strip else positions)
    ]


def _pieces(first: int, last: int, positions: int) -> Iterator[tuple[int, int, int, int]]:
    """The range [first, last) of (row, position) as (row, rows, first position, end): at most three pieces."""
    row, end = first // positions, last // positions
    begin, left = first % positions, last % positions
    if row == end:
        yield row, 1, begin, left
        return
    if begin:
        yield row, 1, begin, positions
        row += 1
    if end > row:
        yield row, end - row, 0, positions
    if left:
        yield end, 1, 0, left


def _strips(conv: Conv, first: int, last: int, positions: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """The rows [first, last) of a product, ``positions`` per image, strip by strip: (image, images, first column,
    columns, first position in the strip, end); whole images where there are no strips."""
    if not conv.strip:
        for image, images, begin, end in _pieces(first, last, positions):
            yield image, images, 0, conv.out[1], begin, end
    while conv.strip and first < last:
        image, within = divmod(first, positions)
        strip, begin = divmod(within, conv.strip * conv.out[0])
        left = strip * conv.strip
        width = min(conv.strip, conv.out[1] - left)
        end = min(begin + last - first, width * conv.out[0])
        yield image, 1, left, width, begin, end
        first += end - begin


def _slabs(gemm: Gemm, conv: Conv, tile: Tile) -> Iterator[Nest]:
    kernel, plane = conv.kernel[0] * conv.kernel[1], conv.height * conv.width
    c0, c1 = tile.k0 // kernel, -(-tile.k1 // kernel)
    for image, images, at, width, begin, end in _strips(conv, tile.m0, tile.m1, conv.out[0] * conv.out[1]):
        top, bottom = _read(conv, 0, begin // width, (end - 1) // width)
        left, right = _read(conv, 1, at, at + width - 1) if conv.strip else (0, conv.width)
        if bottom > top and right > left:
            start = ((image * gemm.groups + tile.g0) * conv.channels + c0) * plane + top * conv.width + left
            dims = (
                (gemm.groups * conv.channels * plane, images),
                (conv.channels * plane, tile.g1 - tile.g0),
                (plane, c1 - c0),
                (conv.width, bottom - top),
            )
            yield nest(start, right - left, dims)


def _read(conv: Conv, axis: int, first: int, last: int) -> tuple[int, int]:
    begin = max(first * conv.stride[axis] - conv.pad[axis], 0)
    end = last * conv.stride[axis] - conv.pad[axis] + (conv.kernel[axis] - 1) * conv.dilation[axis]
    return begin, min(end, (conv.height, conv.width)[axis] - 1) + 1


def _matrix(
    gemm: Gemm, tensor: Tensor, tile: Tile, shape: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]
) -> list[Nest]:
    """A block of the matrices [rows, columns] of the groups of a tile."""
    within = rows[0] * shape[1] + columns[0]
    lines = (shape[1], rows[1] - rows[0])
    return [
        nest(start + within, columns[1] - columns[0], ((stride, count), lines))
        for start, stride, count in _groups(gemm, tensor, tile, shape[0] * shape[1])
    ]


def _groups(gemm: Gemm, tensor: Tensor, tile: Tile, matrix: int) -> list[tuple[int, int, int]]:
    """Starts of the matrices of a tile's groups, as (start, stride, count); those that broadcast begin at one
    place."""
    if not gemm.batch:
        return [(tile.g0 * matrix, matrix, tile.g1 - tile.g0)]
    axes = tensor.shape[: max(len(tensor.shape) - 2, 0)]
    position = np.unravel_index(np.arange(tile.g0, tile.g1), gemm.batch)
    starts, stride = np.zeros(tile.g1 - tile.g0, np.int64), matrix
    for at, extent in zip(position[::-1], axes[::-1], strict=False):
        starts += (at if extent > 1 else 0) * stride
        stride *= extent
    return _progressions(starts)


def _progressions(starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int, int]]:
    """Numbers in order as (start, stride, count), each as long as possible."""
    found: list[tuple[int, int, int]] = []
    for value in starts.tolist():
        start, stride, count = found[-1] if found else (0, 0, 0)
        if count == 1:
            found[-1] = (start, value - start, 2)
        elif count and value == start + stride * count:
            found[-1] = (start, stride, count + 1)
        else:
            found.append((value, 0, 1))
    return found
