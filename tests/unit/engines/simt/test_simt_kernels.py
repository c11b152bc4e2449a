"""Kernels of products and of other nodes: tiles and clocks, by hand and in order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from accelsim.engines.simt.convolutions import forms
from accelsim.engines.simt.kernels import Kernel, choose, columns, epilogue_paces, fitting_kernels, lanes_clocks
from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.products import ChipRates, cut, dense, ragged
from accelsim.engines.simt.waves import Grid, Times
from accelsim.errors import Infeasible
from tests.helpers.simt_cases import AROUND, GPU, product

LARGE, MIDDLE, THIN = GPU.tiles
ENDS = 20 + 30


def kernel(p: Product, tile: Any, splits: int = 1, around: ChipRates = AROUND, spec: Any = GPU) -> Kernel:
    """The kernel with one tile and one cut of K."""
    return next(fitting_kernels(spec, around, p, cut(spec, p.format, columns(spec, p), [tile], splits)))


def test_the_best_tile_runs_at_the_sustained_rate():
    assert kernel(product(64, 32, 9), LARGE).grid.times.work == 16 * 64 * 32 / 64 / 0.5  # steps of 8


def test_smaller_tiles_wait_for_their_operands():
    """8 multiplications an element: 1 + 8 (1/64 + 1/32) = 1.375 with the large tile, 1.5 with the middle one."""
    found = kernel(product(32, 32, 16), MIDDLE).grid.times.work
    assert found == pytest.approx(16 * 32 * 32 / 64 / 0.5 * 1.5 / 1.375, abs=1)


def test_a_tile_with_steps_of_its_own_wastes_less():
    wide = AROUND._replace(l2_width_B=Fraction(1 << 20))
    plain = GPU.model_copy(
        update={"formats": {"fp32": GPU.formats["fp32"].model_copy(update={"feed": 0.0, "sustained": 1.0})}}
    )
    found = [kernel(product(32, 8, 9, "fp32"), tile, 1, wide, plain).grid.times.work for tile in (THIN, MIDDLE)]
    assert found == [9 * 32 * 8 / 16, 12 * 32 * 32 / 16]


def test_the_cache_feeds_all_multiprocessors():
    """Two blocks of 64 rows and 32 columns of 64 of K, 2 B each, at a byte a clock."""
    narrow = AROUND._replace(l2_width_B=Fraction(1))
    assert kernel(product(64, 64, 64), LARGE, 1, narrow).grid.times.work == 2 * 64 * 96 * 2


def test_what_is_fused_is_in_the_epilogue():
    """Two clocks of a lane for each of 2,048 results on 16 lanes; a special function for each on 4."""
    assert kernel(product(64, 32, 8, lane_clocks=2), LARGE).grid.times.epilogue == 30 + 256
    assert kernel(product(64, 32, 8, lane_clocks=2, special=1), LARGE).grid.times.epilogue == 30 + 512


def test_blocks_that_share_a_tile_are_added_up_by_another_kernel():
    """Four blocks of 32 of K instead of one of 128; 4 x 64 x 32 sums of 4 B, two thirds of them through the memory."""
    whole, parts = (kernel(product(64, 32, 128), LARGE, splits) for splits in (1, 4))
    assert (whole.grid.blocks, parts.grid.blocks) == (1, 4)
    assert parts.grid.times.work * 4 == whole.grid.times.work
    assert whole.adds == 0
    assert parts.adds == pytest.approx(1e9 * (GPU.reduction + 4 * 64 * 32 * 4 * 2 / 3 / 64e9), abs=1)


def test_sparse_weights_take_half_of_the_loop():
    dense, sparse = (kernel(product(64, 32, 128, sparse=pattern), LARGE) for pattern in ((1, 1), (2, 4)))
    assert sparse.grid.times.work * 2 == dense.grid.times.work


def test_k_is_cut_where_there_are_few_tiles():
    """Cuts are worth it for one tile with a long loop, and not where all multiprocessors have several."""
    spec = GPU.model_copy(update={"splits": [1, 2, 4, 8]})
    few, many = (choose(spec, AROUND, product(M, 32, 65536), "y", "l2").best for M in (32, 32 * 64))
    assert (few.splits, few.grid.blocks) == (4, 4)
    assert many.splits == 1
    assert choose(spec, AROUND, product(32, 32, 8), "y", "l2").best.splits == 1  # one step


def test_a_kernel_takes_launch_the_longer_of_computing_and_moving_and_a_piece_of_the_shorter():
    """Four blocks, one each: 64 of K at 64 x 0.5 a clock; no page, no droop."""
    plain = GPU.model_copy(update={"droop": 0.0, "stride": 0.0})
    found = kernel(product(128, 64, 64), LARGE, spec=plain)
    assert found.grid == Grid(4, 4, 2, Times(20, 4096, 30), plain.softness)
    assert found.clocks == 4146
    assert found.read_B == 128 * 64 * 2 + 64 * 64 * 2
    moving = (found.read_B + 128 * 64 * 2) / 64e9
    assert found.seconds == pytest.approx(1e-6 + 4146e-9 + moving / 4)
    slow = kernel(product(128, 64, 64), LARGE, 1, AROUND._replace(dram_Bps=1e9), plain)
    assert slow.seconds == pytest.approx(1e-6 + 40960e-9 + 4146e-9 / 4)


def test_a_clock_that_falls_and_rows_that_lie_apart_take_longer():
    base = GPU.model_copy(update={"droop": 0.0, "stride": 0.0})
    plain = kernel(product(128, 64, 65536), LARGE, spec=base)
    far = kernel(product(128, 64, 65536), LARGE, spec=base.model_copy(update={"stride": 0.5}))
    assert far.clocks == pytest.approx(plain.clocks * (1 + 0.5 * (1 - 24_000 / 131_072)), rel=1e-6)
    warm = kernel(product(128, 64, 65536), LARGE, spec=base.model_copy(update={"droop": 1.0}))
    seconds = plain.clocks / 1e9
    assert warm.clocks == pytest.approx(plain.clocks * (1 + seconds / (seconds + 500e-6)), rel=1e-6)


def test_the_tile_with_the_least_time_is_chosen():
    assert choose(GPU, AROUND, product(512, 128, 512), "y", "l2").best.tile == LARGE
    assert choose(GPU, AROUND, product(64, 64, 512), "y", "l2").best.tile == MIDDLE  # four blocks instead of two
    assert choose(GPU, AROUND, product(4096, 1, 9, "fp32", groups=8), "y", "l2").best.tile == THIN


def test_a_cache_that_holds_no_block_is_told():
    with pytest.raises(Infeasible, match=r"y does not fit: l2 needs [\d,]+ B, 100 B are available \(tile 32x8x1\)"):
        choose(GPU, AROUND._replace(l2_B=100), product(256, 128, 512), "y", "l2")


def test_other_nodes_are_bound_by_lanes_special_functions_or_the_cache():
    assert lanes_clocks(GPU, AROUND, [("Add", 6400)], 100) == ENDS + 100
    assert lanes_clocks(GPU, AROUND, [("Exp", 6400)], 100) == ENDS + 400
    assert lanes_clocks(GPU, AROUND, [("Softmax", 6400)], 100) == ENDS + 400
    assert lanes_clocks(GPU, AROUND, [("Add", 6400)], 256_000) == ENDS + 1000
    assert lanes_clocks(GPU, AROUND, [], 0) == ENDS + 1


def test_paces_of_what_is_fused():
    assert epilogue_paces(GPU, ["Add", "Exp"]) == (3, 1)
    assert epilogue_paces(GPU, []) == (0, 0)


def test_rows_begin_where_both_sides_allow():
    """Rows along K and N of elements of 2 B: the largest power of two up to 16 B that divides both."""
    k, n = (each.ravel().astype(float) for each in np.mgrid[1:33, 1:33])
    largest = [
        max(size for size in (2, 4, 8, 16) if 2 * a % size == 0 == 2 * b % size) for a, b in zip(k, n, strict=True)
    ]
    assert ragged(k, n, 2.0) == pytest.approx(np.log2(16 / np.array(largest)) / 3)


def test_bytes_of_products_side_by_side():
    found = dense("fp16", *(np.array([size]) for size in (3.0, 4.0, 5.0, 6.0)))
    assert (found.a_B, found.b_B, found.y_B) == (3 * 4 * 6 * 2, 3 * 6 * 5 * 2, 3 * 4 * 5 * 2)
    assert found.row_B == 6 * 2


def test_bytes_of_a_convolution_have_channels_as_they_are_filled_up():
    """Channels of 3 inputs and 7 results are filled up to 8: images, filters and results of 4 B."""
    sizes = {"n": 2, "c": 3, "h": 8, "w": 9, "k": 7, "r": 3, "s": 2, "p": 6, "q": 8, "stride": 1, "backward": 0}
    found = forms(GPU, "fp32", {name: np.array([float(size)]) for name, size in sizes.items()})
    assert found.bytes == (2 * 8 * 72 + 8 * 8 * 6 + 2 * 8 * 48) * 4
    assert found.least_B == (2 * 3 * 72 + 7 * 3 * 6 + 2 * 7 * 48) * 4
