"""Words that a systolic array reads from its buffers at each clock.

A pattern gives byte addresses as an array of clocks x lanes; a lane is a port of the array, -1 says that it asks
for nothing (the array fills or drains, or the operand is padding). All addresses are those of a tile that begins at
``start_B``. With ``skewed`` the buffer feeds port r one clock after port r - 1, as the array needs it; without, it
reads for all ports at once and delay registers at the edge of the array make the skew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Problem, UsageError, nearest
from accelsim.types import Bools, Ints

IDLE = -1
LARGEST, LARGEST_STRIDE_B, LARGEST_IMAGE_B = 1 << 24, 1 << 36, 1 << 60
"""Sizes, bytes from row to row, and bytes of an image, at most: every address is then far below 2^63."""


@dataclass(frozen=True)
class Pattern:
    """``at(clocks)`` gives int64 byte addresses, clocks x lanes; ``writes``: per lane, whether it writes."""

    name: str
    clocks: int
    element_B: int
    writes: Bools
    at: Callable[[Ints], Ints]


def feed(
    dataflow: str, rows: int, length: int, stride_B: int, element_B: int = 1, *, skewed: bool = True, start_B: int = 0
) -> Pattern:
    """The row ports of an array of ``rows``: ``length`` steps of the matrix that streams.

    Row ports sample A[time, port] in ws (the port is the reduction), A[port, time] in os, B[port, time] in is.

    ``stride_B``: bytes from a row of that matrix to the next. UsageError for an unknown dataflow, sizes below 1, or
    a stride of no whole number of elements.
    """
    if dataflow not in DATAFLOWS:
        expected, near = ", ".join(DATAFLOWS), nearest(dataflow, DATAFLOWS)
        raise UsageError(f"no dataflow {dataflow!r}", "dataflow", expected, near)
    _check(rows=rows, length=length, element_B=element_B)
    _whole(stride_B, element_B)
    by_row = DATAFLOWS[dataflow].advances_by_row
    time_B, port_B = (stride_B, element_B) if by_row else (element_B, stride_B)
    ports = np.arange(rows)

    def at(clocks: Ints) -> Ints:
        step = clocks[:, None] - skewed * ports
        return np.where((step >= 0) & (step < length), start_B + step * time_B + ports * port_B, IDLE)

    return Pattern(f"{dataflow} feed", length + skewed * (rows - 1), element_B, np.zeros(rows, dtype=bool), at)


def im2col(
    rows: int, height: int, width: int, channels: int, kernel: int, stride: int = 1, element_B: int = 1, *,
    first: int = 0, skewed: bool = True, start_B: int = 0,
) -> Pattern:  # fmt: skip
    """The row ports in ws when a convolution (``kernel`` x ``kernel``, no padding) is read in place, without a copy.

    The input lies as height x width x channels; port r takes index ``first`` + r of the reduction (kernel row,
    kernel column, channel), time steps through the output pixels. UsageError for sizes below 1 or a kernel that
    exceeds the input.
    """
    _check(rows=rows, height=height, width=width, channels=channels, kernel=kernel, stride=stride, element_B=element_B)
    if kernel > min(height, width):
        raise UsageError(f"a kernel of {kernel} exceeds {height} x {width}", "kernel")
    if height * width * channels * element_B > LARGEST_IMAGE_B:
        what = f"an input of {height} x {width} x {channels} elements of {element_B} B"
        raise UsageError(what, "", f"at most {LARGEST_IMAGE_B:,} B")
    out_width, out_height = (width - kernel) // stride + 1, (height - kernel) // stride + 1
    pixels, ports = out_width * out_height, np.arange(rows)
    across, channel = np.divmod(first + ports, channels)
    down, right = np.divmod(across, kernel)
    live = first + ports < kernel * kernel * channels

    def at(clocks: Ints) -> Ints:
        pixel = clocks[:, None] - skewed * ports
        y, x = np.divmod(pixel, out_width)
        place = ((y * stride + down) * width + x * stride + right) * channels + channel
        return np.where(live & (pixel >= 0) & (pixel < pixels), start_B + place * element_B, IDLE)

    return Pattern("im2col", pixels + skewed * (rows - 1), element_B, np.zeros(rows, dtype=bool), at)


def accumulate(
    cols: int,
    length: int,
    stride_B: int,
    element_B: int = 4,
    *,
    latency: int = 1,
    skewed: bool = True,
    start_B: int = 0,
) -> Pattern:
    """The columns of an array that add to sums in a memory: each reads a sum and writes it ``latency`` clocks later.

    Column c meets row t - c of the ``length`` rows of sums at clock t; ``stride_B``: bytes from row to row.
    UsageError for sizes below 1 or a stride of no whole number of elements.
    """
    _check(cols=cols, length=length, element_B=element_B, latency=latency)
    _whole(stride_B, element_B)
    columns, late = np.tile(np.arange(cols), 2), np.repeat([0, latency], cols)

    def at(clocks: Ints) -> Ints:
        row = clocks[:, None] - skewed * columns - late
        return np.where((row >= 0) & (row < length), start_B + row * stride_B + columns * element_B, IDLE)

    return Pattern("accumulate", length + skewed * (cols - 1) + latency, element_B, late > 0, at)


def pattern_named(
    pattern: str, rows: int, length: int, stride: int | None, element: int, delay_registers: bool, **image: int
) -> tuple[Pattern, int]:
    """Return a pattern by its name (a dataflow, im2col, accumulate), and the bytes between rows of its matrix.

    ``stride``: these bytes, None for those of ``rows`` elements of ``element`` bytes; ``image``: sizes of im2col
    (image, channels, kernel, conv_stride). Raises UsageError as each pattern does.
    """
    row_B, skewed = stride or rows * element, not delay_registers
    if pattern == "im2col":
        side, channels, kernel, step = (image[name] for name in ("image", "channels", "kernel", "conv_stride"))
        return im2col(rows, side, side, channels, kernel, step, element, skewed=skewed), side * channels * element
    if pattern == "accumulate":
        return accumulate(rows, length, row_B, element, skewed=skewed), row_B
    return feed(pattern, rows, length, row_B, element, skewed=skewed), row_B


def strided(lanes: int, stride_B: int, clocks: int = 1, step_B: int = 0, element_B: int = 1) -> Pattern:
    """``lanes`` reads that are ``stride_B`` (>= 0) apart at each of ``clocks``, from clock to clock ``step_B``
    further."""
    _check(lanes=lanes, clocks=clocks, element_B=element_B)
    _whole(stride_B, element_B)
    _whole(step_B, element_B)
    offsets = np.arange(lanes) * stride_B
    return Pattern("strided", clocks, element_B, np.zeros(lanes, dtype=bool), lambda t: t[:, None] * step_B + offsets)


def size_problems(most: int = LARGEST, **sizes: int) -> list[Problem]:
    """A problem for each size that is not 1 to ``most``."""
    return [
        Problem(f"{value} is too {'small' if value < 1 else 'large'}", name, f"1 to {most:,}")
        for name, value in sizes.items()
        if not 1 <= value <= most
    ]


def _check(**sizes: int) -> None:
    problems = size_problems(**sizes)
    UsageError.raise_for(problems)


def _whole(stride_B: int, element_B: int) -> None:
    if not 0 <= stride_B <= LARGEST_STRIDE_B or stride_B % element_B:
        what = f"a stride of {stride_B} B between rows of elements of {element_B} B"
        expected = f"a multiple of {element_B}, at most {LARGEST_STRIDE_B:,}"
        raise UsageError(what, "stride_B", expected)
