"""Which algorithm a convolution of a network takes: implicit GEMM, or one of Winograd's where that is faster."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.simt.convolutions import ALGORITHMS, FEWEST, SAVED_2X2
from accelsim.engines.simt.kernels import Kernel
from accelsim.engines.simt.model import ConvolutionFamily, Device
from accelsim.engines.simt.panels import Product
from accelsim.program.tiles import DENSE
from accelsim.workload.ops.base import Gemm

FILTER, ONE = (3, 3), (1, 1)
"""Winograd's algorithms here are those of 3 x 3 filters that move by 1."""
MULTIPLIED = (Fraction(1), Fraction(SAVED_2X2).limit_denominator(9), Fraction(FEWEST))
"""Multiplications of each algorithm, per multiplication of the convolution."""


def with_algorithm(step: Lowering, product: Product, kernels: list[Kernel]) -> list[Kernel]:
    """The kernels of a product with the clocks of the fastest algorithm. What transforms move counts as their time."""
    if product.sparse != DENSE or not _is_winograd(product.gemm):
        return kernels
    device = Device(step.layout.roles.chip, step.unit.name)
    columns = {name: np.array([float(value)]) for name, value in _columns(product.gemm)}
    prepared = ConvolutionFamily().prepared(device, product.format, columns)
    seconds = prepared.algorithms(device, [part.times(step.layout.roles.chip) for part in prepared.parts])[
        :, 0
    ]
    spec, way = device.spec, int(np.argmin(seconds))
    if way == 0:
        return kernels
    begin = spec.launch + spec.dispatch + spec.convolution.call
    share = (seconds[way] - begin) / (seconds[0] - begin)
    clocks = [ceil(float(share) * kernel.clocks) for kernel in kernels]
    return [
        kernel._replace(clocks=taken, adds=0, algorithm=ALGORITHMS[way], multiplied=MULTIPLIED[way])
        for kernel, taken in zip(kernels, clocks, strict=True)
    ]


def _is_winograd(gemm: Gemm) -> bool:
    conv = gemm.conv
    return (
        conv is not None
        and gemm.groups == 1
        and (conv.kernel, conv.stride, conv.dilation) == (FILTER, ONE, ONE)
    )


def _columns(gemm: Gemm) -> Iterator[tuple[str, int]]:
    conv = gemm.conv
    assert conv is not None
    yield from zip(
        ("n", "c", "h", "w", "k", "r", "s", "p", "q", "stride", "backward"),
        (conv.batch, conv.channels, conv.height, conv.width, gemm.N, *conv.kernel, *conv.out, conv.stride[0], 0),
        strict=True,
    )  # fmt: skip
