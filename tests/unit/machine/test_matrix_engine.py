"""The matrix unit of the event machine against the closed forms and the register-level model of the array."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.account.critical_path import Blame, by_blame, by_key
from accelsim.engines.systolic import registers
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.pace import Pace, folds
from accelsim.engines.systolic.process import MatrixEngine
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import cycles, fold_timing
from accelsim.explore.levers import levers
from accelsim.machine.contents import Contents
from accelsim.machine.context import Context
from accelsim.machine.milestones import Milestones
from accelsim.machine.sram import Buffers
from accelsim.machine.values.effects import Off
from accelsim.program.commands import Command, Effect
from accelsim.program.work import Folds
from accelsim.time import Clock
from tests.helpers.fold_edges import FoldEdges, fold_edges
from tests.helpers.hand_programs import chip, program


def unit(**fields: object) -> MatrixUnit:
    matrix = chip().matrix
    assert matrix is not None
    return matrix.model_copy(update={"accumulator_latency": 0, **fields})


def executed(array: MatrixUnit, works: list[Folds]) -> list[FoldEdges]:
    """Run MatMuls back to back, all operands at hand."""
    env = simpy.Environment()
    queue = [Command(i, "MatMul", "matrix", 0, "product", work, Effect("none")) for i, work in enumerate(works)]
    whole = program(list(queue), [])
    clock = Clock(1e9)
    context = Context(env, whole.chip, clock, Milestones(env, clock.at(1)), Contents(whole, Off()), Buffers(env, whole))
    MatrixEngine(context, "matrix", array, clock, queue).start()
    env.run()
    return fold_edges(clock, context.slices, context.histories)


ARRAYS = st.builds(
    unit, rows=st.integers(1, 6), cols=st.integers(1, 6), dataflow=st.sampled_from(["ws", "os", "is"]),
    schedule=st.sampled_from(["sequential", "overlapped"]), shadow_load=st.sampled_from(["column", "diagonal"]),
    load_rows_per_clock=st.integers(1, 2), min_interval=st.sampled_from([0, 7]),
)  # fmt: skip
SIZES = st.integers(1, 13)


@given(ARRAYS, SIZES, SIZES, SIZES)
def test_a_product_alone_takes_what_the_closed_form_says(array: MatrixUnit, M: int, N: int, K: int) -> None:
    (record,) = executed(array, [folds(array, 1, M, N, K, Pace(1))])
    assert record.load_first == 1
    assert record.done == cycles(
        array.rows, array.cols, array.dataflow, array.schedule, array.shadow_load, M, N, K,
        load_rows_per_clock=array.load_rows_per_clock, min_interval=array.min_interval,
    )  # fmt: skip


@settings(max_examples=25)
@given(ARRAYS, SIZES, SIZES, SIZES, st.integers(0, 6))
def test_a_product_alone_takes_what_the_registers_take(array: MatrixUnit, M: int, N: int, K: int, words: int) -> None:
    """Every operand through every register of every PE, one edge at a time; ``words``: sums that leave per edge."""
    setup = Setup(
        array.rows, array.cols, array.dataflow, array.schedule, array.shadow_load, array.load_rows_per_clock,
        0, words,
    )  # fmt: skip
    array, row = array.model_copy(update={"min_interval": 0}), -(-array.cols // setup.port_words)
    pace = Pace(row, 1, "accumulators") if array.flow.stationary else Pace(1, 1, "", row, "accumulators")
    a, b = np.ones((M, K), np.int8), np.ones((K, N), np.int8)
    (record,) = executed(array, [folds(array, 1, M, N, K, pace)])
    assert record.done == int(registers.simulate([a], [b], setup).cycles[0])


@given(ARRAYS, st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=2, max_size=5))
def test_products_in_a_row_follow_each_other_as_folds_do(array: MatrixUnit, sizes: list[tuple[int, int, int]]) -> None:
    """Commands are cut where the program wants; the array does not notice: every fold keeps its distance."""
    works = [folds(array, 1, *size, Pace(1)) for size in sizes]
    records = executed(array, works)
    for before, after in itertools.pairwise(records):
        timing = fold_timing(
            array.rows, array.cols, array.dataflow, array.schedule, array.shadow_load, before.stream.rows,
            array.load_rows_per_clock, array.min_interval,
        )  # fmt: skip
        last = before.last
        assert after.load_first == last + timing.reload
        assert after.stream_first == max(last + timing.interval, after.load_first + after.stream.load)
        assert after.free == last + before.stream.rows
    assert records[-1].done == max(record.done for record in records)


@given(ARRAYS, SIZES, SIZES, SIZES, st.integers(0, 4))
def test_the_accumulator_is_written_so_much_later(array: MatrixUnit, M: int, N: int, K: int, latency: int) -> None:
    work = folds(array, 1, M, N, K, Pace(1))
    (near,) = executed(array, [work])
    (far,) = executed(array.model_copy(update={"accumulator_latency": latency}), [work])
    assert far.done == near.done + latency
    assert far.stream_first == near.stream_first


@pytest.mark.parametrize("rate", [2, 4])
def test_a_format_at_part_of_the_rate_streams_so_many_clocks_per_row(rate: int) -> None:
    array = unit()
    (record,) = executed(array, [folds(array, 1, 8, 4, 4, Pace(rate))])
    assert record.stream.rows == 8 * rate
    assert record.done == 4 + 8 * rate + 4 + 4 - 2


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_a_narrow_buffer_of_sums_holds_up_what_passes_it(dataflow: str) -> None:
    """Each row of sums takes two clocks: one per streamed row, or (os) one per row of PEs at the end of a fold."""
    wide, narrow = (
        accelsim.run(
            "gemm?M=8,N=8,K=48", "edu-4x4", dtype="int8", values="off",
            set=[f"matrix.dataflow={dataflow}", f"accumulators.write_width={width} B"],
            mapping={"y": {"tm": 8, "tn": 8, "tk": 48}},
        )
        for width in (16, 8)
    )  # fmt: skip
    (work,) = [command.work for command in narrow.program.commands if isinstance(command.work, Folds)]
    waits = work.held * work.n if DATAFLOWS[dataflow].stationary else 4 * work.n
    assert work.held in (0, work.rows)
    assert narrow.time_fs - wide.time_fs == waits * 10**7
    assert by_blame(narrow)[Blame("port_width", "accumulators")] == waits * 10**7
    assert "port_width" not in by_key(by_blame(wide))
    assert "twice the width of accumulators" in [lever.change for lever in levers(narrow)]
