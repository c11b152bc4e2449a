"""Closed forms of mappings and of ports, against counting by hand (against the machine: tests/laws)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelsim.engines.systolic.mapping.estimate import Estimator
from accelsim.engines.systolic.mapping.extents import Rows, axes
from accelsim.engines.systolic.mapping.ports import Ports
from accelsim.engines.systolic.mapping.shape import Bounds, Buffers, Homes, Shape, Side, Step
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.engines.systolic.pace import ONE_ROW, Pace
from accelsim.program.mapping import ORDERS
from accelsim.program.roles import Roles
from accelsim.spec.chip import Chip
from accelsim.spec.link import Link
from accelsim.workload.ops.base import Gemm
from tests.helpers.pass_graphs import chip

M, N, K = 12, 8, 8
SHAPE = Shape(
    gemm=Gemm(1, M, N, K, "a", "b"), a_B=1, b_B=1, y_B=1, sum_B=4, alone=ONE_ROW, results_share=1.0, functions=(1,),
    sides=(), parameters_B=0, b_streamed=True,
)  # fmt: skip
HOMES = Homes("dram", "dram", "dram", True)


def edu(**memory: object) -> Chip:
    """4 x 4, 4 B per clock, 10 clocks of latency."""
    base = chip("edu-4x4")
    attached = base.memories["dram"]
    changed = attached.model_copy(update={"memory": attached.memory.model_copy(update=memory)})
    return base.model_copy(update={"memories": {"dram": changed}})


def columns(*rows: tuple[int, int, int], y_resident: bool = True) -> Candidates:
    """Candidates of these tiles (tm, tn, tk)."""
    table = np.array([(ORDERS.index("nmk"), 1, *row) for row in rows], np.int64)
    one = np.ones(len(rows), np.int64)
    return Candidates(table[:, 0], True, one == 0, y_resident, 2 * one, *table.T[1:])


def bounds(c: Candidates, shape: Shape = SHAPE, on: Chip | None = None) -> Bounds:
    chip = on or edu()
    return Estimator(Roles(chip), chip.vector).bounds(shape, c, HOMES)


def test_one_tile_by_hand() -> None:
    """Weights at 1 + 10 + 16 clocks, activations 24 more, 4 folds of 12 rows, drain, 24 clocks for 96 results."""
    start = 1 + 10 + 16 + 24
    array = 4 * 12 + (4 + 4 - 2) + 1
    assert bounds(columns((M, N, K))).total()[0] == start + array + 96 // 4


def test_all_candidates_at_once_are_as_each_alone() -> None:
    rows = [(12, 8, 8), (4, 8, 8), (5, 4, 4), (12, 3, 8), (1, 1, 1)]
    together = bounds(columns(*rows)).total()
    assert list(together) == [bounds(columns(row)).total()[0] for row in rows]


def test_the_longest_path_is_the_estimate_and_has_a_name() -> None:
    found = bounds(columns((M, N, K)))
    assert found.binds(0) == "compute"
    assert found.total()[0] == max(path[0] for path in found.paths.values())
    slow = bounds(columns((M, 4, 4)), on=edu(bandwidth=1e6))
    assert slow.binds(0) == "traffic of dram"


def test_bytes_that_cross_the_pins() -> None:
    """Weights again for every tile of rows where K is cut; the result only where it leaves."""
    c = columns((12, 8, 8), (4, 8, 4))
    assert list(bounds(c).offchip_B) == [M * K + N * K, M * K + 3 * N * K]
    leaving = columns((12, 8, 8), y_resident=False)
    assert list(bounds(leaving).offchip_B) == [M * K + N * K + M * N]


def test_more_of_anything_never_lowers_the_estimate() -> None:
    rows = columns((12, 8, 8), (4, 8, 4), (3, 3, 3))
    base = bounds(rows).total()
    for change in (
        {"parameters_B": 64},
        {"sides": (Side("dram", 1.0, M * N),)},
        {"functions": (3, 2)},
        {"alone": Pace(2)},
        {"reuse": False},
    ):
        more = Shape(**{**vars(SHAPE), **change})
        assert (bounds(rows, more).total() >= base).all()


def test_the_score_counts_what_others_wait_for() -> None:
    """The step; the mean of what its array (36 clocks behind the first fold), vector unit (24) and memory are busy; a
    clock for the token of its tile."""
    found = bounds(columns((M, N, K)))
    memory = (M * K + N * K) // 4
    assert found.score()[0] == found.total()[0] + (3 * 12 + 24 + memory) / 3 + 1


@pytest.mark.parametrize("pipelined", [True, False])
def test_arrivals_are_those_of_the_port(pipelined: bool) -> None:
    """One request per clock and engine; data one after the other; the latency each time where it is not hidden."""
    ports = Ports(Roles(edu(pipelined=pipelined)), 100e6)
    sizes = [np.array([float(size)]) for size in (16, 3, 40)]
    found = [float(time[0]) for time in ports.arrivals([("dram", size) for size in sizes])]
    assert found == ([15, 16, 26] if pipelined else [15, 26, 46])
    whole = ports.all_through("dram", sum(sizes), np.array([3.0]))
    assert float(whole[0]) <= found[-1]


def test_a_clock_of_its_own_is_counted_in() -> None:
    """An array at twice the clock of the chip: transfers take twice as many of its clocks, folds as many as before."""
    base = edu()
    assert base.matrix is not None
    fast = base.with_engine(base.matrix.model_copy(update={"clock": 2 * base.clock}))
    start, array, results = 2 * (1 + 10 + 16 + 24), 4 * 12 + 4 + 4 - 2 + 1, 2 * 24
    waits = 1 + 0  # a token takes two clocks of the array, of which one is the first row's own
    assert bounds(columns((M, N, K)), on=fast).total()[0] == start + waits + array + results


def test_a_slot_for_sums_is_held_until_the_vector_unit_has_taken_them() -> None:
    """Three tiles: each is 4 folds of 16 rows, the drain, and 32 clocks of the vector unit; of two slots each has half."""
    own, c = edu(), columns((16, N, K))
    shape = replace(SHAPE, gemm=Gemm(1, 48, N, K, "a", "b"))

    def paths(slots: int) -> dict[str, float]:
        found = bounds(replace(c, y_slots=np.array([slots])), shape, own).paths
        return {name: float(path[0]) for name, path in found.items()}

    drain, vector = (4 + 4 - 2) + 1, 16 * N // 4
    start = paths(1)["compute"] - (3 * 4 * 16 + drain + vector)
    assert paths(1)["accumulators"] == start + 3 * (4 * 16 + drain + vector)
    assert paths(2)["accumulators"] == start + 3 * (4 * 16 + drain + vector) / 2


def test_sums_that_stay_open_are_held_through_all_rounds() -> None:
    """Two tiles of rows inside two of the reduction: each is held for the round of both, and its own last part."""
    c = replace(columns((8, N, 4)), order=np.array([ORDERS.index("nkm")]), y_slots=np.array([2]))
    own, drain, vector = 2 * 8, (4 + 4 - 2) + 1, 8 * N // 4  # folds of one part of a tile
    found = bounds(c, replace(SHAPE, gemm=Gemm(1, 16, N, K, "a", "b"))).paths
    start = float(found["compute"][0]) - (4 * own + drain + vector)
    assert float(found["accumulators"][0]) == start + 2 * (2 * own + own + drain + vector) / 2


def test_a_side_operand_comes_from_its_own_memory_in_two_slots() -> None:
    """Six tiles of 16 results: each side tile waits 10 clocks, 4 for its data, and 4 for the vector unit."""
    shape = replace(SHAPE, sides=(Side("dram", 1.0, M * N),))
    alone, found = bounds(columns((4, 4, K))), bounds(columns((4, 4, K)), shape)
    assert float(found.offchip_B[0] - alone.offchip_B[0]) == M * N
    assert float(found.paths["latency of dram"][0]) >= 6 * (10 + 4 + 4) / 2


def test_each_tile_has_a_token_and_one_clock_of_the_vector_unit_at_least() -> None:
    """Twelve tiles of 16 sums, of which two add up to a result; 96 tiles of one sum without functions or with one."""
    slow = edu().model_copy(update={"token_delay": edu().token_delay + 5})
    tiles = columns((4, 4, 4))
    assert bounds(tiles, on=slow).held[0] - bounds(tiles).held[0] == 5 * 12
    paths = [
        bounds(columns((1, 1, K)), replace(SHAPE, functions=functions)).paths["vector unit"][0]
        for functions in ((), (1,), (2,), (2, 3))
    ]
    assert list(np.diff(paths)) == [0, M * N, 3 * M * N]


def test_results_that_bypass_the_vector_unit_hold_their_slots_for_both_hand_overs() -> None:
    """To the memory, and back to the array: 24 tiles of four sums in two slots."""
    base = edu()
    assert base.matrix is not None
    chip = base.with_engine(base.matrix.model_copy(update={"epilogue": False}))
    found = [
        bounds(columns((4, 1, K), y_resident=False), on=chip.model_copy(update={"token_delay": delay})).paths[
            "latency of results to dram"
        ][0]
        for delay in (1, 6)
    ]
    assert found[1] - found[0] == 5 * 2 * 24 / 2


def test_a_link_of_two_ways_is_busy_with_the_larger_of_loads_and_stores() -> None:
    """Three memories, array and vector unit share what others wait for; stores are a third of all bytes."""
    base = edu()
    leaving, held = columns((M, N, K), y_resident=False), []
    for duplex in ("half", "full"):
        link = Link.model_validate(
            {"kind": "wire", "bandwidth": "1 TB/s", "latency": "0 s", "duplex": duplex, "energy": "0 pJ/B"}
        )
        attached = base.memories["dram"].model_copy(update={"link": link})
        held.append(bounds(leaving, on=base.model_copy(update={"memories": {"dram": attached}})).held[0])
    assert held[0] - held[1] == M * N / 4 / 3


def test_results_leave_on_a_way_of_their_own_once_the_first_is_there() -> None:
    """One tile over a link of two ways: when its last sum has come out of the array, tokens to the vector unit and from
    there to the port (one clock each, of which the unit's own first clock is one), the latency, the data."""
    base = edu()
    attached = base.memories["dram"]
    link = Link.model_validate(
        {"kind": "wire", "bandwidth": "1 TB/s", "latency": "0 s", "duplex": "full", "energy": "0 pJ/B"}
    )
    for token in (1, 4):
        own = base.model_copy(
            update={"memories": {"dram": attached.model_copy(update={"link": link})}, "token_delay": token}
        )
        paths = bounds(columns((M, N, K), y_resident=False), on=own).paths
        last_sum = paths["compute"][0] - (token - 1 + M * N / 4) - (token + 10 + M * N / 4)
        first = paths["results to dram"][0] - (10 + M * N / 4)
        assert first == last_sum + token - 1 + token


def test_extents_of_tiles_are_cuts_in_units_of_the_array_or_the_least_in_powers_of_two() -> None:
    chip = edu()
    assert chip.matrix is not None
    rows = Rows(M, 1)
    step = Step(chip.matrix, SHAPE, SHAPE, HOMES, (1, 1), Buffers((), ()), 1, ())
    least = axes(step, {rows}, {}, 1, thorough=False, least=True)
    assert [each.tolist() for each in (least.tm[rows], least.tn, least.tk)] == [
        [1, 2, 4, 8, M], [1, 2, 4, N], [1, 2, 4, K],
    ]  # fmt: skip
    every = axes(step, {rows}, {}, 1, thorough=True)
    assert every.tm[rows].tolist() == list(range(1, M + 1)) and every.tn.tolist() == list(range(1, N + 1))
