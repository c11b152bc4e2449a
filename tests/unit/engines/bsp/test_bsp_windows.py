"""Pixels and channels that a part of a convolution needs, against its windows counted one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from accelsim.engines.bsp.windows import block_cuts, channels_seen, cuts, pixels, pixels_seen
from accelsim.workload.ops.base import Conv


@st.composite
def convolutions(draw: st.DrawFn) -> Conv:
    def upto(most: int, least: int = 1) -> int:
        return draw(st.integers(least, most))

    kernel, stride, dilation = (upto(3), upto(3)), (upto(3), upto(3)), (upto(2), upto(2))
    pad = (upto(1, 0), upto(1, 0), upto(1, 0), upto(1, 0))
    height, width = upto(9, 3), upto(9, 3)
    size = [height + pad[0] + pad[2], width + pad[1] + pad[3]]
    out = tuple((size[i] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(2))
    assume(min(out) > 0)
    return Conv(upto(3), upto(4), height, width, kernel, stride, pad, dilation, out)


def taps(conv: Conv, row: int) -> set[tuple[int, int, int]]:
    """(image, y, x) under the window of one output pixel, padding left out."""
    image, at = divmod(row, conv.out[0] * conv.out[1])
    p, q = divmod(at, conv.out[1])
    found = set()
    for r in range(conv.kernel[0]):
        for s in range(conv.kernel[1]):
            y = p * conv.stride[0] - conv.pad[0] + r * conv.dilation[0]
            x = q * conv.stride[1] - conv.pad[1] + s * conv.dilation[1]
            if 0 <= y < conv.height and 0 <= x < conv.width:
                found.add((image, y, x))
    return found


@given(convolutions(), st.data())
def test_all_pixels_under_the_windows_are_counted(conv, data):
    M = conv.batch * conv.out[0] * conv.out[1]
    m0 = data.draw(st.integers(0, M - 1))
    m1 = data.draw(st.integers(m0 + 1, M))
    seen = set().union(*(taps(conv, row) for row in range(m0, m1)))
    found = int(pixels(conv, np.array([m0]), np.array([m1]))[0])
    assert len(seen) <= found <= conv.batch * conv.height * conv.width


@given(convolutions())
def test_dense_windows_within_a_row_are_counted_exactly(conv):
    assume(conv.dilation == (1, 1) and conv.stride[1] <= conv.kernel[1])
    M, width = conv.batch * conv.out[0] * conv.out[1], conv.out[1]
    for m0 in range(M):
        m1 = min(m0 + 3, m0 - m0 % width + width)
        seen = set().union(*(taps(conv, row) for row in range(m0, m1)))
        assert int(pixels(conv, np.array([m0]), np.array([m1]))[0]) == len(seen)


@given(convolutions(), st.integers(1, 7), st.integers(1, 5), st.integers(1, 9))
def test_most_and_all_of_the_parts(conv, block, k_parts, m_parts):
    M, kernel = conv.batch * conv.out[0] * conv.out[1], conv.kernel[0] * conv.kernel[1]
    K = conv.channels * kernel
    k_parts, m_parts = min(k_parts, -(-K // block)), min(m_parts, M)
    ends = block_cuts(K, block, k_parts)
    channels = [len({k // kernel for k in range(a, b)}) for a, b in pairwise(ends)]
    assert channels_seen(conv, block, k_parts) == (max(channels), sum(channels))
    ends = cuts(M, m_parts)
    found = [int(pixels(conv, ends[i : i + 1], ends[i + 1 : i + 2])[0]) for i in range(m_parts)]
    assert pixels_seen(conv, M, m_parts) == (max(found), sum(found))


def test_images_between_the_first_and_the_last_are_whole() -> None:
    conv = Conv(4, 1, 5, 5, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), (3, 3))
    assert pixels(conv, np.array([0]), np.array([36])) == 4 * 25
    assert (
        pixels(conv, np.array([3]), np.array([33])) == (4 + 5 + 5 + 4) * 5
    )  # without a row of the first and of the last
