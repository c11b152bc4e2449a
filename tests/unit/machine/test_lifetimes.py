"""From when to when each region is in use, in clock edges worked out by hand; clock edge n is at n clocks of 10 ns."""

from __future__ import annotations

from accelsim.machine.contents import Contents
from accelsim.machine.lifetimes import lifetimes, occupancy
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.machine.values.effects import Off
from accelsim.program.commands import Command, Effect, Use, Wait
from accelsim.program.work import Folds
from tests.helpers.fold_edges import folds_of
from tests.helpers.hand_programs import HOME, load, program, region, store, vector

CLOCK_FS = 10 * 10**6
"""Of edu-4x4; its memory moves 4 B per clock, the first of them 10 clocks after the request."""


def full(*commands: int) -> tuple[Wait, ...]:
    return tuple(Wait(command, "done", "full") for command in commands)


def alive(run: Run) -> dict[tuple[int, int], tuple[float, float]]:
    """(region, version) -> from its first written to its last used byte, edges."""
    return {(live.region, live.version): (live.start / CLOCK_FS, live.end / CLOCK_FS) for live in lifetimes(run)}


def test_load_vector_and_store() -> None:
    """The load fills from the first beat, between edge 11 and edge 12; the vector unit works at the edges 16 to 20, so
    its first result is there at edge 16; the store reads until its last beat has left.
    """
    commands = [load(0, 1), vector(1, 1, 2, 5, full(0)), store(2, 2, 3, 16, full(1))]
    run = simulate(program(commands, [HOME, region(1), region(2, offset=64), region(3, "dram", -1)]))
    assert alive(run) == {(1, 1): (11, 20), (2, 1): (16, 35), (3, 1): (31, 35)}


def test_a_region_is_in_use_until_the_last_of_its_readers_is_done() -> None:
    """Also when a later command has read it for a shorter time: the slow vector command ends at edge 65."""
    late = (*full(0), Wait(1, "done", "empty"))
    commands = [load(0, 1), vector(1, 1, 2, 50, full(0)), load(2, 4), store(3, 1, 3, 4, full(0))]
    regions = [HOME, region(1), region(2, offset=64), region(3, "dram", -1), region(4, offset=128)]
    assert alive(simulate(program(commands, regions)))[1, 1] == (11, 65)
    commands[3] = store(3, 1, 3, 4, late)  # a request at edge 66, a clock after that; its only beat ends at edge 77
    assert alive(simulate(program(commands, regions)))[1, 1] == (11, 77)


def test_a_result_that_nobody_reads_is_in_use_while_it_is_written() -> None:
    run = simulate(program([load(0, 1)], [HOME, region(1)]))
    assert alive(run) == {(1, 1): (11, 15)}


def test_a_version_that_is_written_in_pieces_begins_with_the_first() -> None:
    """Three loads of 16 B follow each other without a gap: beats from edge 11 to 15, 19 and 23."""
    roles = ("begin", "part", "end")
    commands = [load(index, 1) for index in range(3)]
    for command, role in zip(commands, roles, strict=True):
        command.writes = (Use(1, 1, role),)
    assert alive(simulate(program(commands, [HOME, region(1)]))) == {(1, 1): (11, 23)}


def test_each_version_of_a_region_has_a_time_of_its_own() -> None:
    """The second load asks at edge 21, a token after the vector command that read the first version."""
    again = load(2, 1, 16, (Wait(1, "done", "empty"),), 2)
    commands = [load(0, 1), vector(1, 1, 2, 5, full(0)), again, vector(3, 1, 2, 3, full(2), (2, 2))]
    run = simulate(program(commands, [HOME, region(1), region(2, offset=64)]))
    assert alive(run) == {(1, 1): (11, 20), (2, 1): (16, 20), (1, 2): (31, 38), (2, 2): (36, 38)}
    edges = [(time / CLOCK_FS, used) for time, used in occupancy(run)["act_sram"]]
    assert edges == [(11, 64), (16, 128), (20, 0), (31, 64), (36, 128), (38, 0)]  # both end at one edge


def product(index: int, folds: int, rows: int, waits: tuple[Wait, ...]) -> Command:
    """A MatMul that streams region 1 through the weights of region 2 into region 3."""
    return Command(
        index, "MatMul", "matrix", 0, f"product {index}", Folds(folds, rows, 1), Effect("none"), waits,
        (Use(1, 1, "a"), Use(2, 1, "w")), (Use(3, 1, "whole"),),
    )  # fmt: skip


def multiplied(folds: int, rows: int = 8) -> Run:
    """Loads of the streamed operand (data until edge 15) and of the weights (until edge 19), then the product."""
    waits = (Wait(0, "done", "a"), Wait(1, "done", "w"))
    regions = [HOME, region(1), region(2, "weight_sram"), region(3, "accumulators"), region(4, offset=64)]
    commands = [load(0, 1), load(1, 2), product(2, folds, rows, waits)]
    return simulate(program([*commands, vector(3, 3, 4, 5, full(2))], regions))


def test_the_operands_of_a_product_are_free_before_its_sums_are_there() -> None:
    """Four rows of weights enter at the edges 20 to 23, eight rows are streamed at 24 to 31. A sum of the first row
    passes four PEs down, and the last column is three edges behind the first: the last row has left 4 + 4 - 2 edges after
    it began, and the accumulator is written one clock later. The vector unit starts a token later and works five edges.
    """
    run = multiplied(folds=1)
    (record,) = folds_of(run)
    last = 31 + (4 + 4 - 2) + 1
    assert (record.load_first, record.stream_first, record.done) == (20, 24, last)
    found = alive(run)
    assert found[2, 1] == (15, 23)
    assert found[1, 1] == (11, 31)
    assert found[3, 1] == (24, last + 5)
    assert found[4, 1] == (last + 1, last + 5)


def test_with_two_folds_the_weights_are_read_until_the_second_has_been_shifted_in() -> None:
    """The array lets the second shift begin four edges (its rows) after the first fold began to stream: at the edges 28
    to 31; the eight rows of the second fold are streamed at 32 to 39.
    """
    found = alive(multiplied(folds=2))
    assert found[2, 1] == (15, 31)
    assert found[1, 1] == (11, 39)


def test_the_bytes_in_use_are_those_of_the_regions_that_are_alive() -> None:
    """Off-chip regions take none; at an edge at which one ends and another begins there is one figure."""
    commands = [load(0, 1), vector(1, 1, 2, 5, full(0)), store(2, 2, 3, 16, full(1))]
    regions = [HOME, region(1), region(2, offset=64, size_B=16), region(3, "dram", -1)]
    run = simulate(program(commands, regions))
    edges = [(time / CLOCK_FS, used) for time, used in occupancy(run)["act_sram"]]
    assert edges == [(11, 64), (16, 80), (20, 16), (35, 0)]
    assert set(occupancy(run)) == {"act_sram"}


def test_values_are_forgotten_that_lie_where_a_command_begins_to_write() -> None:
    """Those of regions that overlap its destination; its own it may still need."""
    written = load(0, 1)
    whole = program([written], [HOME, region(1, overlaps=(2,)), region(2, overlaps=(1,))])
    forgotten: list[int] = []
    effects = Off()
    effects.forget = forgotten.append  # type: ignore[method-assign]
    Contents(whole, effects).begin(written, 0)
    assert forgotten == [2]
