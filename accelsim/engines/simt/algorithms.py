"""Choose the algorithm of a convolution: implicit GEMM, Winograd where that is faster, or the direct algorithm for
groups of few channels, whose products would be too thin for tiles.

**Direct.** Each thread adds up results of its own, channel by channel, on the lanes, whatever the format: inputs pass
from the L2 cache once, filters stay in registers, and of the two ports that a multiplication would need the one for
inputs is shared by all lanes (``direct``, a share of their rate). So a depthwise convolution is bound by what it moves,
as a function is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.kernel_times import Columns
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.convolutions import (
    CHANNELS,
    COLUMNS,
    FEWEST,
    FFT,
    IMPLICIT,
    SAVED_2X2,
    WINOGRAD_2X2,
    WINOGRAD_4X4,
    algorithm_seconds,
    called,
)
from accelsim.engines.simt.kernels import DIRECT, Kernel, is_of_filters, lanes_clocks, on_lanes
from accelsim.engines.simt.model import convolution_parts
from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.spec import Simt
from accelsim.program.tiles import DENSE
from accelsim.workload.ops.base import Gemm

FILTER, ONE = (3, 3), (1, 1)
"""Winograd's algorithms here are those of 3 x 3 filters that move by 1; others are of larger ones."""
MULTIPLIED = {
    IMPLICIT: Fraction(1),
    WINOGRAD_2X2: Fraction(SAVED_2X2).limit_denominator(9),
    WINOGRAD_4X4: Fraction(FEWEST),
    FFT: Fraction(FEWEST),
}
"""Multiplications of each algorithm, per multiplication of the convolution."""


def with_algorithm(step: Lowering, product: Product, kernels: list[Kernel]) -> list[Kernel]:
    """Return the kernels of a product with the clocks of the fastest algorithm, transforms included."""
    if product.sparse == DENSE and has_others(step.unit.spec, product.format, product.gemm):
        return _as_fastest(step, product, kernels)
    if product.sparse == DENSE and _is_thin(product.gemm):
        return _as_direct(step, product, kernels)
    return kernels


def _as_fastest(step: Lowering, product: Product, kernels: list[Kernel]) -> list[Kernel]:
    device = Device(step.layout.roles.chip, step.unit.name)
    ((share, name),) = fastest(device, product.format, [product.gemm])
    if name == IMPLICIT:
        return kernels
    return [
        kernel._replace(clocks=ceil(share * kernel.clocks), adds=0, algorithm=name, multiplied=MULTIPLIED[name])
        for kernel in kernels
    ]


def fastest(device: Device, dtype: str, products: Sequence[Gemm]) -> list[tuple[float, str]]:
    """Return the algorithm of each convolution that takes the least, and its time as a share of implicit GEMM's."""
    every = [_columns(gemm) for gemm in products]
    found, parts = convolution_parts(
        device, dtype, {name: np.concatenate([each[name] for each in every]) for name in COLUMNS}
    )
    times = [part.times(device.roles.chip).seconds for part in parts]
    seconds, launch = algorithm_seconds(device.spec, device.rates, found, times), device.spec.launch
    shares = (seconds - (launch + called(device.spec))) / (times[0] - launch)
    ways = np.argmin(seconds, axis=0)
    return [(float(shares[way, at]) if way else 1.0, found.algorithms[way].name) for at, way in enumerate(ways)]


def _as_direct(step: Lowering, product: Product, kernels: list[Kernel]) -> list[Kernel]:
    """Blocks that add up on the lanes; their ends, which others hide, take what is fused alone."""
    device = Device(step.layout.roles.chip, step.unit.name)
    spec, rates, results = device.spec, device.rates, product.y.elements
    multiplied = ceil(product.gemm.macs / spec.convolution.direct)
    fused = on_lanes(spec, results * product.lane_clocks, results * product.special, spec.multiprocessors)
    moved_B = sum(tensor.nbytes for tensor in (product.a, product.b, product.y, *product.sides))
    clocks = lanes_clocks(spec, rates, [(DIRECT, multiplied)], moved_B) + fused
    return [
        kernel._replace(
            clocks=clocks,
            adds=0,
            algorithm=DIRECT,
            grid=kernel.grid._replace(times=kernel.grid.times._replace(epilogue=fused)),
        )
        if clocks < kernel.clocks
        else kernel
        for kernel in kernels
    ]


def _is_thin(gemm: Gemm) -> bool:
    """Return whether groups have so few channels that a tile would be mostly empty."""
    return gemm.conv is not None and gemm.groups > 1 and max(gemm.conv.channels, gemm.N) < CHANNELS


def has_others(spec: Simt, dtype: str, gemm: Gemm) -> bool:
    """Return whether implicit GEMM is not the only algorithm."""
    conv = gemm.conv
    if conv is None or gemm.groups > 1 or conv.dilation != ONE or is_of_filters(conv):
        return False
    if spec.formats[dtype].convolution is not None:
        return min(conv.kernel) > min(FILTER)
    return (conv.kernel, conv.stride) == (FILTER, ONE)


def _columns(gemm: Gemm) -> Columns:
    """A convolution as columns, one row."""
    conv = gemm.conv
    assert conv is not None
    image = (conv.batch, conv.channels, conv.height, conv.width, gemm.N)
    sizes = (*image, *conv.kernel, *conv.out, conv.stride[0], 0)
    return {name: np.array([float(size)]) for name, size in zip(COLUMNS, sizes, strict=True)}
