"""Laws of runs on random GPUs: every law of a run, values that do not depend on tiles, parts that equal totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import by_component, by_op, energy_table, total_J
from accelsim.compiler.state import FUSIONS
from accelsim.engines.simt.spec import TileShape
from accelsim.errors import Infeasible
from accelsim.machine.values.fast import by_library
from accelsim.program.actions import MAC, PADDING
from accelsim.program.work import Cycles
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import SimtFormat, Sparse
from accelsim.types import Array
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from tests.fuzz.graphs import right_values
from tests.helpers.law_cases import (
    Case,
    Draw,
    base_chip,
    cached_graphs,
    changed,
    compiled,
    expert_graphs,
    graphs,
    larger,
    lone_products,
)
from tests.helpers.pruned import pruned

QUICK = settings(max_examples=60)
TILES = [(16, 8, 32), (8, 16, 32), (8, 8, 32), (4, 1, 32)]


@st.composite
def gpus(draw: Draw) -> Chip:
    """A small GPU, with a cache in which not everything fits."""
    chip = base_chip("a100-80-sxm")
    tiles = draw(st.lists(st.sampled_from(TILES), min_size=1, max_size=3, unique=True))
    shared: dict[str, Any] = {
        "sustained": draw(st.sampled_from([1.0, 0.5])),
        "feed": draw(st.sampled_from([0.0, 6.0])),
        "step": draw(st.sampled_from([1, 4, 32])),
        "sparse": draw(st.sampled_from([None, Sparse(n=2, m=4), Sparse(n=1, m=3)])),
    }
    chip = changed(
        chip, "cores.core.engines.sm", multiprocessors=draw(st.integers(1, 5)), threads=draw(st.sampled_from([32, 64, 1024])),
        tiles=[TileShape(m=m, n=n, threads=threads) for m, n, threads in tiles],
        splits=draw(st.sampled_from([[1], [1, 2, 3]])), prologue=draw(st.integers(0, 50)), epilogue=draw(st.integers(0, 50)),
        launch=draw(st.sampled_from([0.0, 1e-6])), lanes=draw(st.sampled_from([1, 16])),
        clock=draw(st.sampled_from([None, 0.9e9])), streams=draw(st.sampled_from([1, 1, 2, 3])),
        hold=draw(st.sampled_from([0.5, 1.0, 2.0])), spacing=draw(st.sampled_from([0.0, 0.7e-6])),
        formats={
            "fp32": SimtFormat(macs=4, accumulate="fp32", **shared),
            "fp16": SimtFormat(macs=16, accumulate="fp32", dot=draw(st.sampled_from([None, "tensor-core-a100"])), **shared),
            "int8": SimtFormat(macs=1, clocks=2, accumulate="int32", **shared),
        },
    )  # fmt: skip
    chip = changed(chip, "l2", capacity=draw(st.sampled_from([3000, 20000, 1 << 22])))
    memory = {"bandwidth": draw(st.sampled_from([1e9, 50e9, 2e12])), "latency": draw(st.sampled_from([0.0, 1e-7]))}
    return changed(changed(chip, "memories.hbm.memory", **memory), "", peak={}, token_delay=draw(st.integers(0, 2)))


@st.composite
def cases(draw: Draw, models: Any = graphs) -> Case:
    """A compiled random graph on a random GPU, whose cache grows until it fits."""
    chip, graph, dtype = draw(gpus()), draw(models()), draw(st.sampled_from(["fp32", "fp16", "int8"]))
    options = {"fusion": draw(st.sampled_from(FUSIONS)), "sparsity": draw(st.sampled_from(["", "", "2:4", "1:3"]))}
    while True:
        try:
            return compiled(graph.copy(), chip, dtype, **options)
        except Infeasible:
            chip = larger(chip)


@QUICK
@given(cases())
def test_values_do_not_depend_on_tiles(case: Case) -> None:
    """Layer by layer the values of the graph; where blocks of products have a rule, sums of the library."""
    plain = case.program.graph.copy()
    plain.nodes = [by_library(node) for node in plain.nodes]
    whole = execute.run(plain, case.feeds, keep=True)
    exact, fast = case.run("exact", keep=True), case.run("fast", keep=True)
    for name, values in fast.tensors.items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)
    if case.program.dtype != "fp16" or steady(plain, case.feeds, whole):
        right_values({"exact": exact, "fast": fast}, pruned(case))


def steady(graph: Graph, feeds: Mapping[str, Array], whole: Mapping[str, Array]) -> bool:
    """Whether inputs and weights that are rounded otherwise in FP16 give about the same values, all of them finite.

    Products of products may not, nor sums that cancel.
    """
    rng = np.random.default_rng(0)

    def moved(values: Array) -> Array:
        if values.dtype.kind != "f":
            return values
        return (values * rng.choice([1 - 2**-10, 1 + 2**-10], values.shape)).astype(values.dtype)

    other = graph.copy()
    other.tensors = {
        name: replace(tensor, data=moved(tensor.value())) if tensor.is_constant else tensor
        for name, tensor in graph.tensors.items()
    }
    found = execute.run(other, {name: moved(values) for name, values in feeds.items()}, keep=True)
    return all(
        np.isfinite(values).all()
        and np.isfinite(found[name]).all()
        and np.abs(found[name] - values).max(initial=0) <= 5e-3 * np.abs(values).max(initial=0)
        for name, values in whole.items()
    )


@settings(QUICK, max_examples=25)
@given(cases(lambda: st.one_of(cached_graphs(), expert_graphs())))
def test_states_and_experts_hold_every_law(case: Case) -> None:
    case.run("exact")


@QUICK
@given(cases())
def test_values_never_change_time(case: Case) -> None:
    exact, off = case.run("exact"), case.run("off")
    assert (exact.slices, exact.ledger, exact.time_fs) == (off.slices, off.ledger, off.time_fs)


@QUICK
@given(cases(), st.integers(2, 4))
def test_streams_change_no_value_and_add_no_work(case: Case, streams: int) -> None:
    chip = changed(case.chip, "cores.core.engines.sm", streams=streams)
    chip = changed(chip, "l2", capacity=streams * case.chip.buffers["l2"].capacity)
    beside = compiled(case.graph.copy(), chip, case.program.dtype, **case.options)
    runs = case.run("exact"), beside.run("exact")
    for name, value in runs[0].outputs.items():  # parts of K are added in FP32, and may be cut elsewhere
        close = 0 if case.program.dtype == "int8" else 5e-3
        np.testing.assert_allclose(value, runs[1].outputs[name], rtol=close, atol=close, err_msg=name)
    macs = [sum(row.count for row in run.ledger if row.action.kind == MAC and row.action != PADDING) for run in runs]
    assert macs[0] == macs[1]


@QUICK
@given(cases())
def test_parts_equal_the_total(case: Case) -> None:
    run = case.run()
    rows = energy_table(run)
    for parts in (by_component(rows), by_op(rows), by_category(run.chip, rows)):
        assert fsum(parts.values()) == pytest.approx(total_J(rows), rel=1e-12, abs=0)


@QUICK
@given(cases(lone_products))
def test_a_run_is_no_faster_than_its_kernels(case: Case) -> None:
    """Launches and clocks of waves, and each byte of operands at the bandwidth of the memory; of several streams each
    product has these clocks of its own."""
    run = case.run()
    clocks = sum(command.work.clocks for command in case.program.commands if isinstance(command.work, Cycles))
    sm: Any = case.chip.engines["sm"]
    assert run.time_fs >= clocks * 1e15 / (sm.clock or case.chip.clock) - 1
    memory = case.chip.memories["hbm"]
    moved = sum(row.count for row in run.ledger if row.component == "hbm")
    assert run.time_fs >= ceil(moved * 1e15 / memory.rate_Bps) - 1e6
