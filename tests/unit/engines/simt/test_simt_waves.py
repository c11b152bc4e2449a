"""Waves of blocks by hand, and grids that make no sense."""

from __future__ import annotations

import pytest

from accelsim.engines.simt.oracle import Chip, Ran
from accelsim.engines.simt.waves import Grid, Times, Wave, clocks, occupancy, waves
from accelsim.errors import UsageError

ENDS = Times(10, 100, 20)


def test_one_block():
    assert clocks(Grid(1, 4, 2, ENDS)) == 130
    assert waves(Grid(1, 4, 2, ENDS)) == [Wave(1, 1, 130)]


def test_the_ends_of_a_block_hide_behind_the_work_of_another():
    """10 + 100 + 100 + 20; with one block at a time the second begins when the first has left."""
    assert clocks(Grid(8, 4, 2, ENDS)) == 230
    assert clocks(Grid(8, 4, 1, ENDS)) == 260


def test_a_block_too_many_takes_a_wave_of_its_own():
    """9 blocks on 4 multiprocessors are 3 rounds, as 12 are."""
    assert clocks(Grid(9, 4, 2, ENDS)) == clocks(Grid(12, 4, 2, ENDS)) == 330
    assert occupancy(Grid(12, 4, 2, ENDS)) == 300 / 330


def test_equal_waves_are_one_group():
    assert waves(Grid(8 * 1000 + 3, 4, 2, ENDS)) == [Wave(1, 8, 230), Wave(999, 8, 200), Wave(1, 3, 100)]


def test_where_work_does_not_hide_the_ends_a_wave_takes_as_long_as_a_block():
    assert waves(Grid(16, 4, 2, Times(500, 100, 0))) == [Wave(1, 8, 700), Wave(1, 8, 600)]


def test_blocks_one_by_one():
    ran = list(Chip(Grid(3, 1, 2, ENDS)).run())
    assert ran == [Ran(0, 0, 0, 10, 130), Ran(1, 0, 0, 110, 230), Ran(2, 0, 130, 210, 330)]


def test_what_is_no_grid_is_told_at_once():
    with pytest.raises(UsageError) as error:
        Chip(Grid(0, 1, -1, Times(-1, 0, 0)))
    assert [problem.what for problem in error.value.problems] == [
        "blocks is 0", "residents is -1", "prologue is -1", "work is 0",
    ]  # fmt: skip
