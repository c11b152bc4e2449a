"""Laws of every run: parts equal the total, values do not change time, tiling does not change values.

``simulate`` itself asserts the cheap laws of ``machine.check`` on each of these runs.
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import by_component, by_op, energy_table, total_J
from accelsim.machine.check import THOROUGH, check
from accelsim.machine.lifetimes import occupancy
from accelsim.machine.run import Run
from accelsim.workload import execute
from accelsim.workload.graph import Array
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.ops import base
from tests.fuzz.graphs import right_values
from tests.helpers.law_cases import Case, cases, changed, compiled, graphs, matrix_graphs, scaled_energy, small_chip
from tests.helpers.pruned import pruned

QUICK = settings(max_examples=60)
FLOAT_TOLERANCE = 1e-5
"""Relative to the largest element of a tensor: float sums depend on the order of accumulation."""


def kernel(node: Any, values: list[Array | None]) -> list[Array]:
    return base.get(node.op).kernel(node, values)


def assert_same(name: str, ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name
    if ours.dtype.kind in "iub":
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    else:
        scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
        np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=FLOAT_TOLERANCE, err_msg=name)


@settings(QUICK, max_examples=80)
@given(cases())
def test_every_run_keeps_the_laws(case: Case) -> None:
    """Three runs of one program for all of them: to draw and compile it takes the most of the time."""
    exact, fast, off = (case.run(values, keep=True) for values in ("exact", "fast", "off"))
    values_do_not_depend_on_the_tiling(case, exact, fast)
    for other in (fast, off):
        same_timeline_and_ledger(exact, other)
    parts_equal_the_total(off)
    no_buffer_ever_holds_more_than_its_capacity(case, off)


def values_do_not_depend_on_the_tiling(case: Case, exact: Run, fast: Run) -> None:
    """Tile by tile = whole ops = plain execution; int8 to the last bit, also against the plain integer reference."""
    graph = case.program.graph
    whole = execute.run(graph, case.feeds, keep=True)
    for name, values in fast.tensors.items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)
    assert list(exact.outputs) == list(fast.outputs) == graph.outputs
    if {case.program.dtype, *case.options.get("layers", {}).values()} != {"int8"}:
        right_values({"exact": exact, "fast": fast}, pruned(case))  # what errors of sums grow to, layer by layer
        return
    plain = integer_reference(graph, case.feeds, kernel)
    for name, values in exact.tensors.items():
        assert_same(name, values, whole[name])
        assert_same(name, values, plain[name])  # codes are whole numbers; what the host computes is float


def same_timeline_and_ledger(one: Run, other: Run) -> None:
    assert other.slices == one.slices
    assert other.ledger == one.ledger
    assert other.engines == one.engines
    assert other.histories == one.histories
    assert other.time_fs == one.time_fs


def parts_equal_the_total(run: Run) -> None:
    """Energy by component = by op = by tensor = by category, and time by engine."""
    rows = energy_table(run)
    total = total_J(rows)
    assert total > 0 and all(row.energy_J >= 0 for row in rows)
    for parts in (by_component(rows), by_op(rows), by_category(run.chip, rows)):
        assert fsum(parts.values()) == pytest.approx(total, rel=1e-12, abs=0)
    for entry in run.engines:
        assert entry.busy + sum(entry.stalled.values()) + entry.idle == run.time_fs
        assert min(entry.busy, entry.idle, *entry.stalled.values(), 0) == 0


def no_buffer_ever_holds_more_than_its_capacity(case: Case, run: Run) -> None:
    """At every instant of a run, whichever roles share a buffer, and whatever was pinned."""
    for name, points in occupancy(run).items():
        most = max(held_B for _, held_B in points)
        assert 0 < most <= case.chip.buffers[name].capacity, name
        assert min(held_B for _, held_B in points) >= 0 == points[-1][1]


@QUICK
@given(graphs(), st.data())
def test_same_input_same_bytes(graph: Any, data: st.DataObject) -> None:
    """Compiled twice and run twice: the same program, timeline, ledger and values, to the last byte."""
    chip = data.draw(small_chip())
    one, two = (compiled(graph.copy(), chip) for _ in range(2))
    assert one.program.commands == two.program.commands
    assert one.program.regions == two.program.regions
    assert [step.mapping for step in one.program.steps] == [step.mapping for step in two.program.steps]
    first, second = one.run("exact"), two.run("exact")
    assert repr((first.slices, first.ledger, first.engines, first.step_stalls, occupancy(first))) == repr(
        (second.slices, second.ledger, second.engines, second.step_stalls, occupancy(second))
    )
    assert {k: v.tobytes() for k, v in first.outputs.items()} == {k: v.tobytes() for k, v in second.outputs.items()}


@settings(QUICK, max_examples=20)
@given(matrix_graphs(), small_chip(), st.floats(0.1, 10))
def test_energy_tables_never_change_time(graph: Any, chip: Any, factor: float) -> None:
    one, two = compiled(graph, chip).run(), compiled(graph, scaled_energy(chip, factor)).run()
    assert one.slices == two.slices and one.ledger == two.ledger
    dynamic = [sum(row.energy_J for row in energy_table(run) if row.component == "matrix") for run in (one, two)]
    assert dynamic[1] == pytest.approx(factor * dynamic[0])


@settings(QUICK, max_examples=20)
@given(cases())
def test_check_holds_again_on_a_finished_run(case: Case) -> None:
    """``Run.check`` is the same check that ``simulate`` makes; it changes nothing."""
    run = case.run()
    before = repr((run.slices, run.ledger))
    check(run)
    check(run, thorough=True)
    assert repr((run.slices, run.ledger)) == before
    assert all(not list(law(run)) for law in THOROUGH)


def test_a_chip_can_be_changed_field_by_field() -> None:
    from tests.helpers.law_cases import base_chip

    chip = changed(base_chip("edu-4x4"), "memories.dram.memory", latency=0.0)
    assert chip.memories["dram"].memory.latency == 0.0
    assert base_chip("edu-4x4").memories["dram"].memory.latency > 0
