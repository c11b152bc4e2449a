"""How long convolutions take, in closed form: the algorithms that cuDNN has, and the one of them that takes the least.

**Implicit GEMM.** The product of n p q rows, k columns and c r s of K, whose operands come from the tensors as they
are. **Winograd F(2x2, 3x3), fused.** The same with 4/9 of the multiplications, at a share (``fused``) of the rate.
**Winograd F(4x4, 3x3).** 36 products of one group each of a quarter of the results, with kernels before and behind
that transform inputs, filters and outputs through memory (Lavin and Gray, 2016): ``transforms`` says how much of what
these move comes from DRAM, ``filters`` the same of the filters, whose transform reaches over all channels. Both of
Winograd's need 3 x 3 filters and a stride of 1.

Gradients are convolutions with other sides; ``backward`` says how much longer they take. Tensor Cores take channels by
eights; where there are fewer, each place of the filter is a step of the loop over K of its own, most of it empty. A
library's heuristic chooses by its own estimate, here the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.products import Around, Products
from accelsim.engines.simt.spec import Simt, operands_B
from accelsim.types import Bools, Floats

COLUMNS = ("n", "c", "h", "w", "k", "r", "s", "p", "q", "stride", "backward")
"""Images, channels, their height and width, filters and their height and width, height and width of results, stride;
0: forward, 1: gradient of the inputs, 2: of the filters."""
ALGORITHMS = ("implicit GEMM", "Winograd 2x2", "Winograd 4x4")
CHANNELS = 8
"""Tensor Cores take so many channels at a time."""
SAVED_2X2 = 4 / 9
"""Multiplications of F(2x2, 3x3) per multiplication of the convolution: 16 for 4 results of 9 each."""
POINTS_4X4 = 36
"""Multiplications of a tile of F(4x4, 3x3)."""
FEWEST = 0.25
"""Multiplications of the fastest algorithms that libraries have, per multiplication of the convolution: F(4x4, 3x3),
and FFTs of filters that are larger."""
KERNELS_4X4 = 4
"""Kernels that it takes: transforms of inputs, filters and outputs, products."""


class Forms(NamedTuple):
    """Convolutions as the products of each algorithm; where Winograd's apply, and where some algorithm multiplies
    less than the convolution says; what its transforms move, in bytes: of inputs and outputs, and of filters; whether
    they are gradients; multiplications of the convolution; distinct bytes with what channels are filled up to, and
    without it and without what strides leave out."""

    products: tuple[Products, Products, Products]
    winograd: Bools
    fast: Bools
    transforms_B: Floats
    filters_B: Floats
    gradients: Bools
    macs: Floats
    bytes: Floats
    least_B: Floats


def forms(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Forms:
    """Convolutions as products."""
    n, h, w, r, s, p, q = (columns[key] for key in ("n", "h", "w", "r", "s", "p", "q"))
    c, k = columns["c"], columns["k"]
    element_B = max(map(float, operands_B(name)))
    strides = columns["stride"] ** 2
    macs = n * p * q * k * c * r * s
    least_B = (n * c * np.minimum(h * w, p * q * r * s) + k * c * r * s + n * k * p * q) * element_B
    deep = c
    if spec.formats[name].unit == "tensor":
        few = c < CHANNELS
        c, k = (np.ceil(each / CHANNELS) * CHANNELS for each in (c, k))
        deep = np.where(few, spec.formats[name].step, c)
    x, weights, y = (size * element_B for size in (n * c * h * w, k * c * r * s, n * k * p * q))
    way = columns["backward"].astype(int)
    implicit = _products(
        np.choose(way, (n * p * q, n * h * w, k)), np.choose(way, (k, c, deep * r * s)),
        np.ceil(np.choose(way, (deep * r * s, k * r * s / strides, n * p * q))),
        np.choose(way, (x, y, x)), np.choose(way, (weights, weights, y)), np.choose(way, (y, x, weights)),
    )  # fmt: skip
    tiles = n * np.ceil(p / 4) * np.ceil(q / 4)
    inputs, outputs, filters = (POINTS_4X4 * size * element_B for size in (tiles * c, tiles * k, c * k))
    large = _products(
        np.choose(way, (tiles, tiles, k)), np.choose(way, (k, c, c)), np.choose(way, (c, k, tiles)),
        np.choose(way, (inputs, outputs, inputs)), np.choose(way, (filters, filters, outputs)),
        np.choose(way, (outputs, inputs, filters)), POINTS_4X4,
    )  # fmt: skip
    fused = implicit._replace(density=implicit.density * SAVED_2X2)
    fast = (r > 1) & (s > 1) & (columns["stride"] == 1)
    fits: Bools = (r == 3) & (s == 3) & (columns["stride"] == 1)
    return Forms(
        (implicit, fused, large),
        fits,
        fast,
        x + y + inputs + outputs,
        filters,
        way > 0,
        macs,
        x + weights + y,
        least_B,
    )


def _products(
    m: Floats, n: Floats, k: Floats, a_B: Floats, b_B: Floats, y_B: Floats, groups: float = 1
) -> Products:
    none = np.zeros(len(m))
    return Products(none + groups, m, n, k, a_B, b_B, y_B, none, none, none, none, none + 1, none + 1, none)


def of_algorithms(spec: Simt, around: Around, found: Forms, seconds: tuple[Floats, Floats, Floats]) -> Floats:
    """Seconds of each algorithm (rows) for each convolution, infinite where it does not apply, from those of their
    products (with launch)."""
    ways = spec.convolution
    implicit, fused, large = (each - spec.launch for each in seconds)
    moved = ways.transforms * found.transforms_B + ways.filters * found.filters_B
    large = large + moved / around.dram_Bps + (KERNELS_4X4 - 1) * spec.reduction
    table = np.stack(
        [
            implicit,
            np.where(found.winograd, fused / ways.fused, np.inf),
            np.where(found.winograd, large, np.inf),
        ]
    )
    longer = np.where(found.gradients, ways.backward, 1.0)
    result: Floats = spec.launch + spec.dispatch + ways.call + table * longer
    return result
