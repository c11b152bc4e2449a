"""Waves of blocks by hand, and grids that make no sense."""

from __future__ import annotations

import pytest

from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.errors import UsageError
from tests.validation.oracles.simt import Chip, Ran

ENDS = Times(10, 100, 20)


def test_one_block():
    assert clocks(Grid(1, 4, 2, ENDS)) == 130


def test_residents_begin_and_end_together():
    """10 + 2 x 100 + 20; with one block at a time each has its own ends."""
    assert clocks(Grid(8, 4, 2, ENDS)) == 230
    assert clocks(Grid(8, 4, 1, ENDS)) == 260


def test_a_block_too_many_takes_a_wave_of_its_own():
    """9 blocks on 4 multiprocessors are 3 on one of them, as 12 are."""
    assert clocks(Grid(9, 4, 2, ENDS)) == clocks(Grid(12, 4, 2, ENDS)) == 360


def test_a_soft_last_wave_takes_less_for_fewer_blocks():
    """One of four multiprocessors is at work: 0.5 + 0.5 / 4 of 100 clocks."""
    assert clocks(Grid(9, 4, 2, ENDS, softness=0.5)) == 360 - 37
    assert clocks(Grid(11, 4, 2, ENDS, softness=0.5)) == 360 - 12
    assert clocks(Grid(12, 4, 2, ENDS, softness=0.5)) == 360


def test_the_only_wave_is_never_soft():
    assert clocks(Grid(3, 4, 2, ENDS, softness=0.0)) == 130


def test_blocks_one_by_one():
    ran = list(Chip(Grid(3, 1, 2, ENDS)).run())
    assert ran == [Ran(0, 0, 0, 10, 230), Ran(1, 0, 0, 10, 230), Ran(2, 0, 230, 240, 360)]


def test_what_is_no_grid_is_told_at_once():
    with pytest.raises(UsageError) as error:
        Chip(Grid(0, 1, -1, Times(-1, 0, 0), 1.5))
    assert [problem.what for problem in error.value.problems] == [
        "blocks is 0", "residents is -1", "prologue is -1", "work is 0", "softness is 1.5",
    ]  # fmt: skip
