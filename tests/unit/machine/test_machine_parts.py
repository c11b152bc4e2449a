"""Clock, milestones, port and contents, each alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.device import Asked
from accelsim.errors import HazardError
from accelsim.machine.check import check
from accelsim.machine.contents import Contents
from accelsim.machine.context import Progress
from accelsim.machine.memory_models import Port
from accelsim.machine.milestones import Milestones
from accelsim.machine.rates import Bandwidth, Lane
from accelsim.machine.run import LawError
from accelsim.machine.simulate import simulate
from accelsim.machine.values.effects import Off, policy
from accelsim.program.commands import Wait
from accelsim.time import FS_PER_S, Clock, transfer_fs
from tests.helpers.hand_programs import HOME, chip, load, program, region, store, vector

FREQUENCIES = st.one_of(st.sampled_from([100e6, 700e6, 1e9, 1.41e9, 2.8e9]), st.floats(1e5, 5e9))
NS = 10**6


@given(FREQUENCIES, st.integers(0, 10**9))
def test_edges_come_from_the_exact_period(frequency: float, cycle: int) -> None:
    clock = Clock(frequency)
    exact = cycle * FS_PER_S / Fraction(frequency)
    assert 0 <= exact - clock.at(cycle) < 1
    assert clock.edge(clock.at(cycle)) == cycle
    assert clock.edge(clock.at(cycle) + 1) == cycle + 1


@given(FREQUENCIES, st.integers(1, 64), st.integers(0, 1000), st.integers(0, 1000))
def test_a_transfer_of_whole_clocks_ends_at_its_edge(frequency: float, width: int, start: int, beats: int) -> None:
    """The machine never loses an edge to rounding."""
    clock = Clock(frequency)
    end = clock.at(start) + transfer_fs(beats * width, width, width * frequency)
    rounded = Fraction(width * frequency) != width * Fraction(frequency)  # the product as a float
    assert rounded or clock.edge(end) == start + beats


def test_a_transfer_takes_whole_beats() -> None:
    assert transfer_fs(1, 8, 8e9) == transfer_fs(8, 8, 8e9) == NS
    assert transfer_fs(9, 8, 8e9) == 2 * NS


def test_whoever_waits_goes_on_when_the_time_is_known() -> None:
    """It is told at once, also of a time that has not come; the delay is added; the last one missing is named."""
    env = simpy.Environment()
    milestones = Milestones(env, 3)
    heard: list[tuple[int, tuple[int, str]]] = []

    def waiter() -> object:
        found = yield from milestones.available([Wait(1, "a", "empty"), Wait(2, "done", "full")])
        heard.append((int(env.now), found))

    def publisher() -> object:
        yield env.timeout(10)
        milestones.publish(1, "a", 50)
        yield env.timeout(10)
        milestones.publish(2, "done", 40)

    env.process(waiter())
    env.process(publisher())
    env.run()
    assert heard == [(20, (53, Wait(1, "a", "empty")))]
    assert milestones.known(2, "done") == 40
    assert milestones.known(2, "a") is None


def served(
    pipelined: bool, asks: list[tuple[int, tuple[int, str], int]], latency: int = 10
) -> dict[str, tuple[int, ...]]:
    """Serve requests (time, rank, bytes) at 4 B/ns on a clock of 1 GHz; engine -> (accepted, data, end) in ns."""
    env = simpy.Environment()
    port = Port(env, Clock(1e9), Bandwidth(Lane(4e9, 4, latency * NS, pipelined)))
    found: dict[str, tuple[int, ...]] = {}

    def ask(at: int, rank: tuple[int, str], nbytes: int) -> object:
        yield env.timeout(at * NS)
        times = yield port.request(rank, Asked(nbytes))
        found[rank[1]] = tuple(time // NS for time in times[:3])

    for each in asks:
        env.process(ask(*each))
    env.run()
    return found


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_requests_of_one_instant_are_ranked_not_raced(order: tuple[int, ...]) -> None:
    """Whatever runs first: the lower rank is accepted, then by name; the others at the next edges, one per edge."""
    asks = [(5, (0, "b"), 16), (5, (0, "a"), 16), (5, (1, "0"), 16)]
    found = served(True, [asks[index] for index in order])
    assert found == {"a": (5, 15, 19), "b": (6, 19, 23), "0": (7, 23, 27)}


def test_latency_overlaps_data_only_where_it_is_pipelined() -> None:
    asks = [(1, (0, "a"), 8), (1, (0, "b"), 8)]
    assert served(True, asks) == {"a": (1, 11, 13), "b": (2, 13, 15)}
    assert served(False, asks) == {"a": (1, 11, 13), "b": (2, 23, 25)}


def test_a_late_better_rank_does_not_overtake_what_was_accepted() -> None:
    found = served(True, [(1, (1, "store"), 40), (2, (0, "load"), 4)])
    assert found == {"store": (1, 11, 21), "load": (2, 21, 22)}


def test_a_right_program_runs_and_its_times_are_those_by_hand() -> None:
    """Load of 4 beats at edge 1: data after 10 clocks; the vector unit one token later; the store behind it."""
    done = (Wait(0, "done", "full"),)
    commands = [load(0, 1), vector(1, 1, 2, 5, done), store(2, 2, 3, 16, (Wait(1, "done", "full"),))]
    regions = [HOME, region(1), region(2, offset=64), region(3, "dram", -1)]
    run = simulate(program(commands, regions))
    clock_fs = 10 * NS
    times = [(piece.start // clock_fs, piece.data // clock_fs, piece.end // clock_fs) for piece in run.slices]
    assert times == [(1, 11, 15), (15, 15, 20), (21, 31, 35)]
    check(run, thorough=True)


WRONG = {
    "reads before it is there": [load(0, 1), vector(1, 1, 2)],
    "overwritten while it is read": [
        load(0, 1), vector(1, 1, 2, 50, (Wait(0, "done", "full"),)), load(2, 1, 16, (Wait(0, "done", "empty"),), 2),
    ],
    "its bytes were given away while it was read": [
        load(0, 1), vector(1, 1, 2, 50, (Wait(0, "done", "full"),)), load(2, 4, 16, (Wait(0, "done", "empty"),)),
    ],
    "an old version": [
        load(0, 1), load(1, 1, 16, (Wait(0, "done", "empty"),), 2), vector(2, 1, 2, 5, (Wait(1, "done", "full"),)),
    ],
    "nobody ever wrote it": [vector(0, 3, 2)],
}  # fmt: skip


def test_a_version_is_there_until_its_bytes_are_written_again() -> None:
    """From the completion of its writer to the start of the next, both included."""
    first, second = load(0, 1), load(1, 1, version=2)
    contents = Contents(program([first, second], [HOME, region(1)]), Off())
    contents.commit(first, 10)
    contents.begin(second, 20)
    reader = vector(2, 1, 2)
    contents.read(reader, reader.reads[0], 10, 20)
    for times in ((9, 20), (10, 21)):
        with pytest.raises(HazardError, match=r"r1 version 1"):
            contents.read(reader, reader.reads[0], *times)


@pytest.mark.parametrize("why", WRONG)
@pytest.mark.parametrize("values", ["off", "fast"])
def test_a_wrong_program_raises_a_hazard(why: str, values: str) -> None:
    """Each command is named, with the region and who wrote it; the value policy makes no difference."""
    regions = [HOME, region(1), region(2, offset=64), region(3, offset=128), region(4, offset=32, overlaps=(1,))]
    with pytest.raises(HazardError, match="vector") as caught:
        simulate(program(WRONG[why], regions), {"x": np.zeros(16, np.int8)}, values)
    assert caught.value.command.startswith("vector")
    assert caught.value.region.startswith("act_sram:r")


def test_a_deadlock_is_a_broken_law() -> None:
    """Two commands that wait for each other: nothing more happens, and the check says who is waiting."""
    commands = [vector(0, 1, 2, 5, (Wait(1, "done", "full"),)), load(1, 1, 16, (Wait(0, "done", "empty"),))]
    with pytest.raises(LawError, match=r"0 of 2 commands completed; waiting for ever: vector 0 \(0\), load 1 \(1\)"):
        simulate(program(commands, [HOME, region(1), region(2, offset=64)]))


def test_two_things_in_the_same_bytes_are_a_broken_law() -> None:
    """Even where the program does not say that two regions overlap."""
    done = (Wait(0, "done", "full"),)
    commands = [load(0, 1), load(1, 2), vector(2, 1, 3, 5, done), vector(3, 2, 3, 5, done, (1, 2))]
    run = simulate(program(commands, [HOME, region(1), region(2, offset=60), region(3, offset=512)]))
    with pytest.raises(LawError, match=r"r1 v1 and r2 v1 share bytes"):
        check(run, thorough=True)


def test_a_tile_larger_than_its_region_is_a_broken_law() -> None:
    run = simulate(program([load(0, 1, 32)], [HOME, region(1, size_B=16)]))
    with pytest.raises(LawError, match="moves 32 B into 16 B of r1"):
        check(run, thorough=True)


@pytest.mark.parametrize(("field", "value", "law"), [
    ("time_fs", 10, "every command runs once"),
    ("ledger", [], "traffic is in the ledger"),
    ("chip", chip(bandwidth=1e6), "ports stay below their peak"),
])  # fmt: skip
def test_a_tampered_run_breaks_a_law(field: str, value: object, law: str) -> None:
    run = simulate(program([load(0, 1)], [HOME, region(1)]))
    setattr(run, field, value)
    with pytest.raises(LawError, match=law):
        check(run)


def test_a_run_says_in_a_line_what_ran_where_and_for_how_long() -> None:
    run = simulate(program([load(0, 1)], [HOME, region(1)]))
    assert repr(run) == f"Run({run.program.graph.name} on edu-4x4, int8: {run.seconds:.4g} s)"


def test_progress_is_told_a_hundred_times_and_ends_with_one() -> None:
    told: list[float] = []
    progress = Progress(1000, told.append)
    for _ in range(1000):
        progress.one_more()
    assert told == [share / 100 for share in range(1, 101)]
    few = Progress(3, told.append)
    told.clear()
    for _ in range(3):
        few.one_more()
    assert told == [1 / 3, 2 / 3, 1]


def test_without_values_there_are_none() -> None:
    off = policy("off", program([], []), {}, True)
    assert off.outputs() == {} == off.kept()
