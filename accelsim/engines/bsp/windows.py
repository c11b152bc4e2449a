"""Operand A that a part of a product needs: rows and columns, or the pixels under the windows of a convolution."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.types import Ints
from accelsim.workload.ops.base import Conv


def cuts(extent: int, parts: int) -> Ints:
    """Return the boundaries of ``parts`` parts of ``0..extent``; the first are one longer where it does not divide."""
    whole, more = divmod(extent, parts)
    sizes = np.full(parts, whole, np.int64)
    sizes[:more] += 1
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def block_cuts(extent: int, block: int, parts: int) -> Ints:
    """Return the boundaries of parts of whole blocks; the last block may be shorter."""
    return np.minimum(cuts(-(-extent // block), parts) * block, extent)


class Seen(NamedTuple):
    """Parts along one axis: what the largest sees, and what all see together."""

    most: int
    all: int


@lru_cache(maxsize=65536)
def pixels_seen(conv: Conv, M: int, parts: int) -> Seen:
    """Pixels of one channel under the windows of each part of the ``M`` rows of a product.

    A part within one row of the image sees a box; a part of several rows sees all columns of these; none sees more than
    its windows have pixels.
    """
    ends = cuts(M, parts)
    found = pixels(conv, ends[:-1], ends[1:])
    return Seen(int(found.max()), int(found.sum()))


def pixels(conv: Conv, m0: Ints, m1: Ints) -> Ints:
    """Pixels of one channel under the windows of the output pixels [m0, m1), int64 like both; padding is left out."""
    height, width = conv.out
    first, last = m0 // width, (m1 - 1) // width
    image, image_last = first // height, last // height
    top, bottom = first - image * height, last - image_last * height
    one = _span(conv, 0, top, bottom)
    several = _span(conv, 0, top, height - 1 + 0 * top) + _span(conv, 0, 0 * top, bottom)
    between = int(_span(conv, 0, np.int64(0), np.int64(height - 1)))  # type: ignore[arg-type]
    rows = np.where(image == image_last, one, several + (image_last - image - 1) * between)
    columns = np.where(first == last, _span(conv, 1, m0 - first * width, m1 - 1 - last * width), conv.width)
    found: Ints = np.minimum(rows * columns, (m1 - m0) * conv.kernel[0] * conv.kernel[1])
    return found


def _span(conv: Conv, axis: int, first: Ints, last: Ints) -> Ints:
    """Input rows (axis 0) or columns (1) between the first tap of an output and the last tap of another."""
    begin = first * conv.stride[axis] - conv.pad[axis]
    end = last * conv.stride[axis] - conv.pad[axis] + (conv.kernel[axis] - 1) * conv.dilation[axis]
    extent = (conv.height, conv.width)[axis]
    span: Ints = np.maximum(0, np.minimum(end, extent - 1) - np.maximum(begin, 0) + 1)
    return span


@lru_cache(maxsize=65536)
def channels_seen(conv: Conv, block: int, parts: int) -> Seen:
    """Channels that each part of the reduction reads; one whose taps are cut belongs to both."""
    taps = conv.kernel[0] * conv.kernel[1]
    ends = block_cuts(conv.channels * taps, block, parts)
    found = -(-ends[1:] // taps) - ends[:-1] // taps
    return Seen(int(found.max()), int(found.sum()))
