"""Random small arrays, convolutions and legal mappings, and the plain convolution that values are compared with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping


@st.composite
def problems(draw: st.DrawFn) -> tuple[Conv, Geometry, Mapping]:
    """An array, a convolution whose filters are no taller than it, and a mapping that keeps all laws."""

    def upto(most: int, least: int = 1) -> int:
        return draw(st.integers(least, most))

    R, S = upto(4), upto(4)
    conv = Conv(upto(2), upto(6), upto(5), R + upto(4, 0), S + upto(3, 0), R, S, upto(4), upto(2))
    array = Geometry(rows=upto(8, R), cols=upto(7), ifmap_words=upto(3), filter_words=upto(4), psum_words=upto(4))
    return conv, array, draw(legal_mappings(conv, array))


@st.composite
def legal_mappings(draw: st.DrawFn, conv: Conv, array: Geometry) -> Mapping:
    """A mapping that keeps all laws, those of the global buffer as long as the convolution is small."""

    def upto(most: int, least: int = 1) -> int:
        return draw(st.integers(least, most))

    r = upto(min(array.rows // conv.R, conv.C))
    q = upto(min(-(-conv.C // r), array.ifmap_pad // conv.S))
    lanes = array.rows // (conv.R * r) * array.cols
    e = upto(min(conv.E, lanes))
    t = upto(min(conv.M, lanes // e))
    m = upto(conv.M, t)
    p = upto(min(-(-m // t), array.psum_pad, array.filter_pad // (q * conv.S)))
    return Mapping(m, upto(conv.N), e, p, q, r, t)


def operands(conv: Conv, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An ifmap and weights of small integers."""
    rng = np.random.default_rng(seed)
    ifmap = rng.integers(-9, 10, (conv.N, conv.G, conv.C, conv.H, conv.W))
    return ifmap, rng.integers(-9, 10, (conv.G, conv.M, conv.C, conv.R, conv.S))


def convolve(conv: Conv, ifmap: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution by its definition, [N, G, M, E, F]."""
    windows = np.lib.stride_tricks.sliding_window_view(ifmap, (conv.R, conv.S), axis=(3, 4))
    return np.einsum("ngcefrs,gmcrs->ngmef", windows[:, :, :, :: conv.U, :: conv.U], weights)
