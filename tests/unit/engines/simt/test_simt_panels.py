"""Panels of products: rectangles of a wave, what is kept in the cache, bytes from DRAM."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.simt.panels import Panel, panel_for, panels, read_B, room_B, smallest
from tests.helpers.simt_cases import product

TILE, STEP = (64, 32), 8


def test_a_product_of_one_wave_reads_each_operand_once():
    p = product(256, 64, 512)
    panel = panel_for(p, TILE, STEP, 8, 1 << 20)
    assert panel == Panel(1, 256, 64, 128)  # 4 pieces of K
    assert read_B(p, panel) == p.a.nbytes + p.b.nbytes


def test_an_operand_that_fits_is_kept():
    """The weights take a tenth of the cache: they stay while rows of activations go by."""
    p = product(8192, 64, 64)
    panel = panel_for(p, TILE, STEP, 8, 80_000)
    assert panel is not None and panel.kept == "b"
    assert read_B(p, panel) == p.a.nbytes + p.b.nbytes
    assert room_B(p, panel) <= 80_000


def test_what_does_not_fit_is_read_by_each_rectangle():
    """16 x 32 blocks, 8 at a time: rectangles of 2 x 4 blocks read A 8 times and B 8 times."""
    p = product(1024, 1024, 1024)
    panel = panel_for(p, TILE, STEP, 8, 200_000)
    assert panel is not None and panel[:3] == (1, 128, 128) and panel.kept == ""
    assert read_B(p, panel) == 8 * p.a.nbytes + 8 * p.b.nbytes
    assert panels(p.gemm, panel) == 64


def test_small_products_go_by_groups():
    panel = panel_for(product(64, 32, 16, groups=64), TILE, STEP, 8, 1 << 20)
    assert panel == Panel(8, 64, 32, 16)


def test_a_convolution_is_cut_at_whole_channels():
    p = product(196, 32, 72, channels=8)
    panel = panel_for(p, TILE, STEP, 2, 20_000)
    assert panel is not None and panel.depth % 9 == 0


def test_without_room_for_a_block_there_is_none():
    p = product(1024, 1024, 1024)
    assert panel_for(p, TILE, STEP, 8, room_B(p, smallest(p, TILE, STEP)) - 1) is None


sizes = st.integers(1, 900)


@given(sizes, sizes, sizes, st.integers(1, 5), st.integers(1, 40), st.integers(10, 22))
def test_panels_fit_and_read_no_less_than_there_is(M: int, N: int, K: int, groups: int, wave: int, bits: int) -> None:
    p = product(M, N, K, groups=groups)
    found = panel_for(p, TILE, STEP, wave, 1 << bits)
    if found is None:
        assert room_B(p, smallest(p, TILE, STEP)) > 1 << bits
        return
    assert room_B(p, found._replace(depth=min(STEP, K))) <= 1 << bits
    assert read_B(p, found) >= p.a.nbytes + p.b.nbytes
    blocks = found.groups * ceil(found.rows / TILE[0]) * ceil(found.cols / TILE[1])
    assert blocks <= wave
    assert 1 <= found.depth <= K and found.groups <= groups


@pytest.mark.parametrize("size", [(900, 700, 300), (4096, 64, 64), (64, 4096, 256), (33, 33, 33)])
def test_more_cache_never_reads_more(size: tuple[int, int, int]) -> None:
    p = product(*size)
    found = [panel_for(p, TILE, STEP, 8, 1 << bits) for bits in range(12, 24)]
    reads = [read_B(p, panel) for panel in found if panel is not None]
    assert reads == sorted(reads, reverse=True)
