"""Times of convolutions, in closed form: the algorithms that cuDNN has, and the one of them that takes the least.

**Implicit GEMM.** The product of n p q rows, k columns and c r s of K, whose operands come from the tensors as they
are. **Winograd F(2x2, 3x3), fused.** The same with 4/9 of the multiplications, at a share (``fused``) of the rate.
**Winograd F(4x4, 3x3).** 36 products of one group each of a quarter of the results, with kernels before and behind
that transform inputs, filters and outputs through memory (Lavin and Gray, 2016). The transforms of inputs and outputs
are bound by the multiprocessors, which hold few threads for their many registers: ``transforms`` clocks of a lane for
an element that they move. That of filters reaches over all channels and is bound by memory (``filters``). Both of
Winograd's need 3 x 3 filters and a stride of 1.

A format with a block ``convolution`` has kernels of implicit GEMM of its own (cuDNN 9 on Hopper), whose blocks never
share a tile along K and which have a smallest tile, and no Winograd. **FFT.** Where images, channels and results are
many enough (``fft``; fewer images take as long as those that are enough), filters larger than 3 x 3 that move by 1
become products of complex numbers, one for each point of the transform of a piece of 16 x 16 or 32 x 32, four real ones
each; transforms pass memory as Winograd's do.

Gradients are convolutions with other sides; ``backward`` says how much longer their implicit GEMM takes, Winograd's
algorithms take as long as forward. Those of filters are plain products, whose K (places of the results of all images)
is cut whatever kernels the format has, and which wait longer for operands (``OF_FILTERS_LONGER``). Those of inputs
that 1 x 1 filters read by steps are zeros at most places, some of which kernels multiply (``OF_STEPS_LONGER``). Inputs
of few channels would leave tiles empty: **columns**, the product of results and filters, one column for each channel
and place of the filter, are added up to gradients by a second kernel. Tensor Cores take
channels by eights; where there are fewer, each place of the filter is a step of the loop over K of its own, most of it
empty. A library's heuristic chooses by its own estimate, here the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.products import POINT, STRIDED, ChipRates, Products
from accelsim.engines.simt.spec import Simt
from accelsim.spec.multiplying import operands_B
from accelsim.types import Bools, Floats

COLUMNS = ("n", "c", "h", "w", "k", "r", "s", "p", "q", "stride", "backward")
"""Images, channels, their height and width, filters and their height and width, height and width of results, stride;
0: forward, 1: gradient of the inputs, 2: of the filters."""
IMPLICIT, WINOGRAD_2X2, WINOGRAD_4X4, FFT = "implicit GEMM", "Winograd 2x2", "Winograd 4x4", "FFT"
ADDED = "columns"
CHANNELS = 8
"""Tensor Cores take so many channels at a time."""
SAVED_2X2 = 4 / 9
"""Multiplications of F(2x2, 3x3) per multiplication of the convolution: 16 for 4 results of 9 each."""
POINTS_4X4 = 36
"""Multiplications of a tile of F(4x4, 3x3)."""
FEWEST = 0.25
"""Multiplications of the fastest algorithms that libraries have, per multiplication of the convolution: F(4x4, 3x3),
and FFTs of filters that are larger, but for those of many images and channels."""
KERNELS_4X4 = 4
"""Kernels that it takes: transforms of inputs, filters and outputs, products; as many for an FFT."""
PIECE, SMALL_PIECE = 32, 16
"""Sides of the pieces of an image that are transformed: the small one where the whole image fits in."""
COMPLEX = 4
"""Real multiplications of a complex one."""
COMPLEX_B, ELEMENT_B = 8, 4
"""Bytes of a complex number of two FP32, and of one of them."""


class Algorithm(NamedTuple):
    """One way to compute convolutions: its products, where it applies, elements that its transforms of inputs and
    outputs move, and bytes that those of filters do; how many kernels they are; bytes that a kernel after the products
    moves."""

    name: str
    products: Products
    fits: Bools
    elements: Floats
    filters_B: Floats
    kernels: int = 0
    after_B: Floats | float = 0.0

    @property
    def moves_once(self) -> bool:
        """True where its products read and write the tensors themselves, each byte once."""
        return self.name in (IMPLICIT, WINOGRAD_2X2)


class Forms(NamedTuple):
    """Convolutions as the products of each algorithm, the first of which always applies; the least multiplications that
    any algorithm needs; what gradients take by implicit GEMM, 1 being those of inputs, and 0 for what is no gradient;
    multiplications of the convolution; distinct bytes with what channels are filled up to, and without it and without
    what strides leave out."""

    algorithms: tuple[Algorithm, ...]
    fewest: Floats
    gradients: Floats
    macs: Floats
    bytes: Floats
    least_B: Floats


def forms(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Forms:
    """Return convolutions as the products of each algorithm."""
    n, h, w, r, s, p, q = (columns[key] for key in ("n", "h", "w", "r", "s", "p", "q"))
    c, k, element_B = columns["c"], columns["k"], max(map(float, operands_B(name)))
    macs = n * p * q * k * c * r * s
    least_B = (n * c * np.minimum(h * w, p * q * r * s) + k * c * r * s + n * k * p * q) * element_B
    form, own, deep = spec.formats[name], spec.formats[name].convolution, c
    if form.unit == "tensor":
        few, wide = c < CHANNELS, own.channels if own else CHANNELS
        c, k = (np.ceil(each / CHANNELS) * CHANNELS for each in (c, k))
        deep = np.where(few, form.step, np.ceil(c / wide) * wide)
    sizes = {**columns, "c": c, "k": k}
    none = np.zeros(len(macs))
    first = Algorithm(IMPLICIT, _implicit(sizes, deep, element_B), none == 0, none, none)
    moving = columns["stride"] == 1
    if own is None:
        others = _winograd(sizes, first.products, (r == 3) & (s == 3) & moving, element_B)
        few = (columns["backward"] == OF_INPUTS) & (columns["c"] < CHANNELS)
        others += [_columns(columns, few, element_B)] if few.any() else []
    elif own.fft is not None:
        enough = np.maximum(n, np.ceil(1000 * own.fft / (columns["c"] * columns["k"])))
        fits = (np.minimum(r, s) > 3) & moving & (columns["backward"] == 0)
        others = [_fft({**sizes, "n": enough}, fits)]
    else:
        others = []
    least = np.minimum(FEWEST, _of_fft(columns)) if own and own.fft else FEWEST
    fewest = np.where((r > 1) & (s > 1) & moving, least, 1.0)
    elements = n * c * h * w + k * c * r * s + n * k * p * q
    return Forms((first, *others), fewest * macs, _gradients(columns), macs, elements * element_B, least_B)


CALL = 5.0
"""Work of a framework's host for a convolution, that for an addition being 1: the shortest of NeuSight's convolutions
by PyTorch take 2.4 to 5.2 of its shortest additions, on five GPUs, and others of a few hundred microseconds more."""


OF_INPUTS, OF_FILTERS = 1, 2
"""``backward`` of gradients of inputs, and of filters, which are plain products: their K is cut."""
OF_FILTERS_LONGER, OF_STEPS_LONGER = 1.25, 2.0
"""Time relative to other gradients of inputs by implicit GEMM: gradients of filters, and gradients of inputs that 1 x 1
filters read by steps above 1. The latter would be 4 if all places were multiplied, not only those that a result reads.
Both fit the middle of DeepBench's gradients on V100, T4, P100 and MI25, in FP32 and FP16."""


def _gradients(columns: Mapping[str, Floats]) -> Floats:
    """Return the time of gradients by implicit GEMM relative to those of inputs; 0 where there is no gradient."""
    way, steps = columns["backward"], (columns["r"] * columns["s"] == 1) & (columns["stride"] > 1)
    of_inputs = np.where(steps, OF_STEPS_LONGER, 1.0)
    found: Floats = np.where(way == OF_FILTERS, OF_FILTERS_LONGER, of_inputs) * (way > 0)
    return found


def _implicit(sizes: Mapping[str, Floats], deep: Floats, element_B: float) -> Products:
    """Implicit GEMM; ``deep``: channels of a place of the filter as the loop over K takes them."""
    n, c, h, w, k, r, s, p, q, stride = (sizes[key] for key in COLUMNS[:-1])
    way = sizes["backward"].astype(int)
    x, weights, y = (size * element_B for size in (n * c * h * w, k * c * r * s, n * k * p * q))
    found = _products(
        np.choose(way, (n * p * q, n * h * w, k)),
        np.choose(way, (k, c, deep * r * s)),
        np.ceil(np.choose(way, (deep * r * s, k * r * s / stride**2, n * p * q))),
        np.choose(way, (x, y, x)),
        np.choose(way, (weights, weights, y)),
        np.choose(way, (y, x, weights)),
    )
    beyond = (p > (h - r) // stride + 1) | (q > (w - s) // stride + 1) | (stride > 1)
    kind = 1.0 + POINT * ((r == 1) & (s == 1) & beyond) + STRIDED * (stride > 1)
    return found._replace(kind=np.where(way == OF_FILTERS, 0.0, kind))


def _winograd(sizes: Mapping[str, Floats], implicit: Products, fits: Bools, element_B: float) -> list[Algorithm]:
    """Return both Winograd algorithms."""
    n, c, h, w, k, _, _, p, q = (sizes[key] for key in COLUMNS[:9])
    way, none = sizes["backward"].astype(int), np.zeros(len(n))
    tiles = n * np.ceil(p / 4) * np.ceil(q / 4)
    inputs, outputs, filters = (POINTS_4X4 * size * element_B for size in (tiles * c, tiles * k, c * k))
    large = _products(
        np.choose(way, (tiles, tiles, k)),
        np.choose(way, (k, c, c)),
        np.choose(way, (c, k, tiles)),
        np.choose(way, (inputs, outputs, inputs)),
        np.choose(way, (filters, filters, outputs)),
        np.choose(way, (outputs, inputs, filters)),
        POINTS_4X4,
    )
    fused = implicit._replace(density=implicit.density * SAVED_2X2)
    moved = n * c * h * w + n * k * p * q + (inputs + outputs) / element_B
    return [
        Algorithm(WINOGRAD_2X2, fused, fits, none, none),
        Algorithm(WINOGRAD_4X4, large, fits, moved, filters, KERNELS_4X4 - 1),
    ]


def _columns(sizes: Mapping[str, Floats], fits: Bools, element_B: float) -> Algorithm:
    """Gradients of inputs: results by filters, a column for each channel and place, which a second kernel adds up."""
    n, c, h, w, k, r, s, p, q = (sizes[key] for key in COLUMNS[:9])
    y, weights, wide = n * k * p * q * element_B, k * c * r * s * element_B, n * p * q * c * r * s * element_B
    found = _products(n * p * q, c * r * s, k, y, weights, wide)
    none = np.zeros(len(n))
    return Algorithm(ADDED, found, fits, none, none, 1, wide + n * c * h * w * element_B)


def _fft(sizes: Mapping[str, Floats], fits: Bools) -> Algorithm:
    """Fast Fourier transforms: a complex product of images and channels, channels and results, for each point."""
    n, c, k = (sizes[key] for key in ("n", "c", "k"))
    pieces, points = _pieces(sizes)
    inputs, outputs, filters = (points * COMPLEX_B * size for size in (n * pieces * c, n * pieces * k, c * k))
    found = _products(n * pieces, k, c, inputs, filters, outputs, COMPLEX * points)
    elements, found = (inputs + outputs) / ELEMENT_B, found._replace(kind=found.kind + 1)
    return Algorithm(FFT, found, fits, elements, filters, KERNELS_4X4 - 1)


def _pieces(sizes: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Pieces of an image, and points of the transform of each, about half of them since numbers are real."""
    r, s, p, q = (sizes[key] for key in ("r", "s", "p", "q"))
    side = np.where(np.maximum(p + r, q + s) - 1 <= SMALL_PIECE, SMALL_PIECE, PIECE)
    within = (np.maximum(1, side - each + 1) for each in (r, s))
    pieces = np.ceil(p / next(within)) * np.ceil(q / next(within))
    return pieces, side * (side / 2 + 1)


def _of_fft(sizes: Mapping[str, Floats]) -> Floats:
    """Multiplications of an FFT per multiplication of the convolution."""
    pieces, points = _pieces(sizes)
    found: Floats = COMPLEX * pieces * points / (sizes["p"] * sizes["q"] * sizes["r"] * sizes["s"])
    return found


def _products(
    m: Floats, n: Floats, k: Floats, a_B: Floats, b_B: Floats, y_B: Floats, groups: Floats | float = 1
) -> Products:
    none = np.zeros(len(m))
    return Products(none + groups, m, n, k, a_B, b_B, y_B, none, none, none, none, none + 1, none + 1, none, none)


def algorithm_seconds(spec: Simt, rates: ChipRates, found: Forms, seconds: Sequence[Floats]) -> Floats:
    """Return the seconds of each algorithm (rows) for each convolution, infinite where it does not apply; ``seconds``:
    those of their products, with launch."""
    ways, rows = spec.convolution, []
    lanes = spec.lanes * spec.multiprocessors * rates.clock_Hz
    longer = np.where(found.gradients > 0, ways.backward * found.gradients, 1.0)
    for each, taken in zip(found.algorithms, seconds, strict=True):
        own = (taken - spec.launch) * (longer if each.name == IMPLICIT else 1.0)
        own = own / (ways.fused if each.name == WINOGRAD_2X2 else 1.0)
        own = own + ways.transforms * each.elements / lanes
        own = own + (ways.filters * each.filters_B + each.after_B) / rates.dram_Bps
        rows.append(np.where(each.fits, own + each.kernels * spec.reduction, np.inf))
    result: Floats = spec.launch + called(spec) + np.stack(rows)
    return result


def called(spec: Simt) -> float:
    """Return what a library and a framework's host need for the call of a convolution, s."""
    return float(spec.convolution.call) + CALL * float(spec.dispatch)
