"""Kernels of products and of other nodes: tiles and clocks, by hand and in order."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accelsim.engines.simt.kernels import (
    block_l2_B,
    choose,
    grid_of,
    kernel,
    lanes_clocks,
    loop_clocks,
    paces,
)
from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.errors import Infeasible
from tests.helpers.simt_cases import AROUND, GPU, product

LARGE, MIDDLE, THIN = GPU.tiles


def test_the_best_tile_runs_at_the_sustained_rate():
    assert loop_clocks(GPU, LARGE, "fp16", 16) == 16 * 64 * 32 / 64 / 0.5
    assert grid_of(GPU, AROUND, product(64, 32, 9), LARGE).times.work == 16 * 64 * 32 / 64 / 0.5  # steps of 8


def test_smaller_tiles_wait_for_their_operands():
    """8 multiplications an element: 1 + 8 (1/64 + 1/32) = 1.375 with the large tile, 1.5 with the middle one."""
    assert loop_clocks(GPU, MIDDLE, "fp16", 16) == pytest.approx(16 * 32 * 32 / 64 / 0.5 * 1.5 / 1.375)


def test_a_tile_with_steps_of_its_own_wastes_less():
    assert grid_of(GPU, AROUND, product(32, 8, 9, "fp32"), THIN).times.work == 9 * 32 * 8 / 16
    assert grid_of(GPU, AROUND, product(32, 8, 9, "fp32"), MIDDLE).times.work == 12 * 32 * 32 / 16


def test_the_cache_feeds_all_multiprocessors():
    narrow = AROUND._replace(l2_width_B=Fraction(1))
    grid = grid_of(GPU, narrow, product(64, 64, 64), LARGE)
    assert grid.times.work == 2 * sum(block_l2_B(LARGE, product(64, 64, 64), 64)) == 2 * 64 * 96 * 2


def test_what_is_fused_is_in_the_epilogue():
    """Two clocks of a lane for each of 2,048 results on 16 lanes; a special function for each on 4."""
    assert grid_of(GPU, AROUND, product(64, 32, 8, lane_clocks=2), LARGE).times.epilogue == 30 + 256
    assert (
        grid_of(GPU, AROUND, product(64, 32, 8, lane_clocks=2, special=1), LARGE).times.epilogue == 30 + 512
    )


def test_blocks_that_share_a_tile_add_up_in_the_cache():
    """Four blocks of 32 of K instead of one of 128; each writes and reads 64 x 32 sums of 4 B, 256 B a clock."""
    whole, cut = (grid_of(GPU, AROUND, product(64, 32, 128), LARGE, splits) for splits in (1, 4))
    assert (whole.blocks, cut.blocks) == (1, 4)
    assert cut.times.work * 4 == whole.times.work
    assert cut.times.epilogue - whole.times.epilogue == 30 + 2 * 4 * 64 * 32 * 4 / 256


def test_sparse_weights_take_half_of_the_loop():
    """Of each four weights two are multiplied; they come with two bits each: 32 columns of 2.25 B instead of 4."""
    dense, sparse = (
        grid_of(GPU, AROUND, product(64, 32, 128, sparse=pattern), LARGE) for pattern in ((1, 1), (2, 4))
    )
    assert sparse.times.work * 2 == dense.times.work
    assert block_l2_B(LARGE, product(64, 32, 128, sparse=(2, 4)), 128) == (128 * 64 * 2, 128 * 32 * 2.25 / 2)


def test_k_is_cut_where_there_are_few_tiles():
    """Cuts are worth it for one tile with a long loop, and not where all multiprocessors have a tile."""
    spec = GPU.model_copy(update={"splits": [1, 2, 4, 8]})
    few, many = (choose(spec, AROUND, product(M, 32, 4096), "y", "l2").best for M in (32, 32 * 64))
    assert (few.splits, few.grid.blocks) == (4, 4)
    assert many.splits == 1
    assert choose(spec, AROUND, product(32, 32, 8), "y", "l2").best.splits == 1  # one step


def test_a_kernel_takes_launch_and_the_longer_of_clocks_and_memory():
    found = kernel(GPU, AROUND, product(128, 64, 64), LARGE)
    assert found is not None
    assert found.grid == Grid(4, 4, 2, Times(20, 4096, 30))
    assert found.clocks == clocks(found.grid) == 4146
    assert found.read_B == 128 * 64 * 2 + 64 * 64 * 2
    assert found.seconds == pytest.approx(1e-6 + 4146e-9)
    slow = kernel(GPU, AROUND._replace(dram_Bps=1e9), product(128, 64, 64), LARGE)
    assert slow is not None and slow.seconds == pytest.approx(1e-6 + 40960e-9)


def test_the_tile_with_the_least_time_is_chosen():
    assert choose(GPU, AROUND, product(256, 128, 512), "y", "l2").best.tile == LARGE
    assert (
        choose(GPU, AROUND, product(64, 64, 512), "y", "l2").best.tile == MIDDLE
    )  # four blocks instead of two
    assert choose(GPU, AROUND, product(4096, 1, 9, "fp32", groups=8), "y", "l2").best.tile == THIN


def test_a_cache_that_holds_no_block_is_told():
    """32 x 8 results of 2 B and operands of one step, (32 + 8) x 2 B, all twice."""
    with pytest.raises(
        Infeasible, match=r"y does not fit: l2 needs 1,184 B, 1,000 B are available \(tile 32x8x1\)"
    ):
        choose(GPU, AROUND._replace(l2_B=1000), product(256, 128, 512), "y", "l2")


def test_other_nodes_are_bound_by_lanes_special_functions_or_the_cache():
    ends = 20 + 30
    assert lanes_clocks(GPU, AROUND, [("Add", 6400)], 100) == ends + 100
    assert lanes_clocks(GPU, AROUND, [("Exp", 6400)], 100) == ends + 400
    assert lanes_clocks(GPU, AROUND, [("Softmax", 6400)], 100) == ends + 400
    assert lanes_clocks(GPU, AROUND, [("Add", 6400)], 256_000) == ends + 1000
    assert lanes_clocks(GPU, AROUND, [], 0) == ends + 1


def test_paces_of_what_is_fused():
    assert paces(GPU, ["Add", "Exp"]) == (3, 1)
    assert paces(GPU, []) == (0, 0)
