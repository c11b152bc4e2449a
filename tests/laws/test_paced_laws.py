"""Laps at whatever pace, where nobody competes for a port: times without events are those of the events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.critical_path import critical_path
from accelsim.machine.paced import Paced, timed
from accelsim.machine.sequences import Repeated
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.light import LIGHT
from tests.helpers.replays import assert_equal, assert_replayed_is_simulated, both

SMALL = [
    "matrix.rows=16", "matrix.cols=16", "weight_fifo.slot_capacity=256 B", "weight_fifo.capacity=1 KiB",
    "accumulators.capacity=16 KiB", "peak={}",
]  # fmt: skip
"""A TPU v1 whose tiles are so small that there are many."""


@st.composite
def paced_loops(draw: Any) -> tuple[str, str, list[str], dict[str, dict[str, Any]]]:
    """A small network on such a chip, with odd rates, latencies and clocks, and tiles of its first products."""
    sets = [
        *SMALL,
        f"clock={draw(st.sampled_from(['700 MHz', '700.1 MHz', '1 GHz', '333 MHz']))}",
        f"memories.ddr3.memory.bandwidth={draw(st.sampled_from([0.37, 1.1, 5, 34]))} GB/s",
        f"memories.ddr3.memory.latency={draw(st.sampled_from([1, 37, 400]))} ns",
        f"matrix.clock={draw(st.sampled_from(['700 MHz', '350 MHz', '1 GHz']))}",
    ]
    hidden, layers = draw(st.sampled_from([128, 192])), draw(st.sampled_from([1, 1, 7]))
    pinned = {
        "order": draw(st.sampled_from(["nkm", "nmk", "mnk"])), "tn": 16, "tk": 16,
        "tm": draw(st.sampled_from([8, 33])),
    }  # fmt: skip
    model = f"gpt?layers={layers},hidden={hidden},heads=4,seq=33"
    return model, "tpu-v1", sets, {"l0.q.product": pinned, "l0.ff1.product": pinned}


@settings(max_examples=4)
@given(paced_loops())
def test_laps_at_any_pace_are_those_that_are_simulated(case: Any) -> None:
    assert_replayed_is_simulated(*case)


@pytest.mark.parametrize(
    "model, sets, blocks",
    [
        ("gpt?layers=1,hidden=256,heads=4,seq=64", ["memories.ddr3.memory.bandwidth=0.37 GB/s"], False),
        ("gpt?layers=8,hidden=256,heads=4,seq=33", ["memories.ddr3.memory.bandwidth=5 GB/s"], True),
        ("gpt?layers=8,hidden=256,heads=4,seq=64",
         ["memories.ddr3.memory.bandwidth=0.7 GB/s", "matrix.clock=350 MHz"], True),
    ],
)  # fmt: skip
def test_laps_are_left_out_whatever_binds(model: str, sets: list[str], blocks: bool) -> None:
    """Also in blocks that are replayed, which take no whole number of femtoseconds."""
    run, whole = both(model, "tpu-v1", [*SMALL, *sets])
    replay = run.replay
    assert isinstance(replay, Paced) and replay.commands > 1000
    assert (replay.base is not None) == blocks == isinstance(critical_path(run), Repeated)
    assert_equal(run, whole)


@pytest.mark.parametrize(
    "model, blocks", [("gemm?M=64,N=256,K=256", False), ("gpt?layers=7,hidden=64,heads=4,seq=16", True)]
)
@pytest.mark.gate  # other tests of laps take so long that few or none of their cases run in the core
def test_few_laps_are_left_out(model: str, blocks: bool) -> None:
    """Small enough for every run of the core; blocks that are replayed have another shift than laps."""
    run, whole = both(model, "tpu-v1", [*SMALL, "memories.ddr3.memory.bandwidth=5 GB/s"])
    assert isinstance(run.replay, Paced) and (run.replay.base is not None) == blocks
    assert_equal(run, whole)


@pytest.mark.parametrize("model", LIGHT)
@pytest.mark.parametrize("chip", ["tpu-v1", "haswell-e5-2699v3"])
def test_times_without_events_are_those_of_the_events(model: str, chip: str) -> None:
    program = compile(load_model(model), load_chip(chip), Options(values="off", repeat=False))
    run, table = simulate(program), timed(program, "bandwidth")
    assert table is not None
    assert (list(table.slices), table.engines, table.step_spans) == (run.slices, run.engines, run.step_spans)
    assert table.ledger == run.ledger and table.step_stalls == run.step_stalls
    assert list(table.folds) == list(run.folds) and set(table.by_link) == set(run.by_link)


def test_where_somebody_competes_events_decide() -> None:
    program = compile(load_model("cnn"), load_chip("edu-4x4"), Options(values="off"))
    assert timed(program, "bandwidth") is None
