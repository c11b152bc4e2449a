"""Vertical strips of an image that tiles of a convolution may go through: which widths are worth a search."""

from __future__ import annotations

from dataclasses import replace

from accelsim.engines.systolic.mapping.shape import Step
from accelsim.program.mapping import Mapping
from accelsim.program.tiles import slabs
from accelsim.workload.ops.base import Conv

FEW = 2
"""Widths of strips that a fast search tries."""


def strips(step: Step, flat: Mapping | None, beat_B: int, most: int | None) -> list[int]:
    """Widths of strips: halves, quarters, ... of the image, a row of them no shorter than what its memory moves at a
    time. None of anything but images, nor where a fused pooling needs these whole.

    Beside the best tiling through whole rows, ``flat`` (None where none fits), ``most`` of those that in blocks as
    large as its tiles read least, and less than it. So there is none where it reads no row of an image twice.
    """
    gemm, conv = step.shape.gemm, step.shape.gemm.conv
    if conv is None or step.rows[False] > 1:
        return []
    halves = [-(-conv.out[1] // 2**power) for power in range(1, (conv.out[1] - 1).bit_length() + 1)]
    wide = [width for width in halves if width * conv.stride[1] * step.shape.a_B >= beat_B]
    if flat is None:
        return wide
    once, read = (slabs(conv, gemm.M, tm)[0] for tm in (conv.out[0] * conv.out[1], flat.tm))
    if flat.a_resident or read <= once:
        return []
    words = {width: _in_blocks(conv, width, flat.tm) for width in wide}
    return sorted((width for width in wide if words[width] < read), key=words.__getitem__)[:most]


def _in_blocks(conv: Conv, width: int, pixels: int) -> int:
    rows = min(max(1, round(pixels / width)), conv.out[0])
    return slabs(replace(conv, strip=width), conv.batch * conv.out[0] * conv.out[1], rows * width)[0]
