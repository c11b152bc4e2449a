"""Laws of a grid of thread blocks on multiprocessors: the closed form is that of the blocks, one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engines.simt.waves import Grid, Times, clocks
from accelsim.spec.residency import Limits, Needs, residents
from tests.validation.oracles import simt as oracle

small = st.integers(0, 12)
times = st.builds(Times, small | st.integers(0, 300), st.integers(1, 12) | st.integers(1, 300), small)
softness = st.sampled_from((0.0, 0.25, 0.6, 1.0)) | st.floats(0, 1)
grids = st.builds(Grid, st.integers(1, 90), st.integers(1, 9), st.integers(1, 6), times, softness)


@settings(max_examples=1500)
@given(grids)
def test_clocks_are_those_of_the_blocks_one_by_one(grid: Grid) -> None:
    assert clocks(grid) == oracle.clocks(grid)


@given(grids)
def test_blocks_go_round_the_multiprocessors(grid: Grid) -> None:
    ran = list(oracle.Chip(grid).run())
    assert sorted(block.block for block in ran) == list(range(grid.blocks))
    assert all(block.multiprocessor == block.block % grid.multiprocessors for block in ran)


@given(grids, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_less_work_and_more_room_are_never_slower(grid: Grid, fewer: int, more: int, room: int) -> None:
    better = grid._replace(
        blocks=max(1, grid.blocks - fewer), multiprocessors=grid.multiprocessors + more, residents=grid.residents + room
    )
    assert clocks(better) <= clocks(grid)


@given(grids, st.floats(0, 1))
def test_the_last_wave_takes_at_most_a_whole_one_and_at_least_its_share(grid: Grid, softer: float) -> None:
    hard, fluid = (clocks(grid._replace(softness=value)) for value in (1.0, 0.0))
    assert fluid <= clocks(grid) <= hard
    assert clocks(grid._replace(softness=grid.softness * softer)) <= clocks(grid)
    assert hard - fluid <= grid.times.work


sizes, takes = st.integers(1, 64), st.integers(0, 64)


@given(st.builds(Limits, sizes, sizes, sizes, sizes), st.builds(Needs, takes, takes, takes))
def test_residents_are_the_most_that_fit(limits: Limits, needs: Needs) -> None:
    def fits(count: int) -> bool:
        of_all = zip((limits.threads, limits.registers_B, limits.shared_B), needs, strict=True)
        return count <= limits.blocks and all(count * need <= have for have, need in of_all)

    found = residents(limits, needs)
    assert fits(found) and not fits(found + 1)
