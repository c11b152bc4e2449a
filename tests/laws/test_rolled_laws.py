"""Exact repetition inside a layer: laps that are replayed are those that the simulation of every command gives."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.machine.critical_path import critical_path
from accelsim.machine.unrolling import Unrolling
from accelsim.program.rolled import Unrolled
from tests.helpers.replays import assert_equal, assert_places_agree, assert_replayed_is_simulated, both

BINDS = "accelsim.engines.systolic.lower.ON_THE_CHIP"
BUFFERS = {
    "edu-4x4": ("act_sram", "accumulators", "dram"),
    "edu-mixed": ("act_sram", "accumulators", "hbm"),
    "edu-tensor-core": ("act_sram", "accumulators", "hbm"),
    "systolic-generic": ("act_sram", "accumulators", "dram"),
}
"""Chip -> its buffers of activations and sums, small ones make many tiles, and its memory."""

Case = tuple[str, str, list[str], dict[str, dict[str, Any]]]


@st.composite
def tile_loops(draw: Any) -> Case:
    """A small network, a chip with odd memories and ports, tiles and loop orders of its first product."""
    chip = draw(st.sampled_from(sorted(BUFFERS)))
    activations, sums, memory = BUFFERS[chip]
    sets = [
        f"{activations}.capacity={draw(st.sampled_from([8, 32, 64]))} KiB",
        f"{sums}.capacity={draw(st.sampled_from([1, 2, 4]))} KiB",
        f"{sums}.ports={draw(st.sampled_from([1, 2]))}",
        f"memories.{memory}.memory.latency={draw(st.sampled_from([1, 37, 400]))} ns",
        f"memories.{memory}.arbitration={draw(st.sampled_from(['loads_first', 'stores_first']))}",
    ]
    hidden = draw(st.sampled_from([96, 128, 200, 256]))
    size = draw(st.sampled_from([4, 8, 16]))
    pinned = {
        "order": draw(st.sampled_from(["mnk", "nmk", "nkm", "mkn"])),
        "tn": size, "tk": draw(st.sampled_from([16, 32, 64])), "tm": draw(st.sampled_from([4, 8, 32])),
    }  # fmt: skip
    layers = draw(st.sampled_from([1, 1, 7]))
    return (
        f"bert?layers={layers},hidden={hidden},heads=2,seq=32",
        chip,
        sets,
        {"l0.q.product": pinned, "l0.ff1.product": pinned},
    )


@settings(max_examples=4)
@given(tile_loops())
def test_laps_that_are_replayed_are_those_that_are_simulated(case: Case) -> None:
    """Also where transfers bind and the state of the machine never recurs."""
    with mock.patch(BINDS, mock.MagicMock(__contains__=lambda *_: True)):
        assert_replayed_is_simulated(*case)


@pytest.mark.parametrize(
    "model, chip, sets",
    [
        ("gpt?layers=7,hidden=128,seq=64,heads=4", "edu-4x4",
         ["act_sram.capacity=16 KiB", "accumulators.capacity=1 KiB"]),
        ("gpt?layers=1,hidden=128,seq=128,heads=4", "edu-tensor-core",
         ["act_sram.capacity=64 KiB", "accumulators.capacity=1 KiB"]),
        ("gpt?layers=1,hidden=192,seq=128,heads=4", "systolic-generic",
         ["act_sram.capacity=16 KiB", "accumulators.capacity=1 KiB"]),
    ],
)  # fmt: skip
def test_laps_are_replayed(model: str, chip: str, sets: list[str]) -> None:
    """Loops that are known to recur, the first in blocks that are copies."""
    run, whole = both(model, chip, sets)
    assert isinstance(run.replay, Unrolling) and run.replay.commands > 0
    assert isinstance(critical_path(run), Unrolled)
    assert_equal(run, whole)


@pytest.mark.parametrize(
    "model, chip, sets",
    [
        ("gemm?M=256,N=64,K=256", "edu-tensor-core", ["act_sram.capacity=64 KiB"]),
        ("gpt?layers=1,hidden=64,seq=32,heads=4", "edu-4x4", ["act_sram.capacity=8 KiB"]),
    ],
)
@pytest.mark.gate  # other tests of laps take so long that few or none of their cases run in the core
def test_few_laps_are_replayed(model: str, chip: str, sets: list[str]) -> None:
    """Small enough for every run of the core."""
    run, whole = both(model, chip, [*sets, "accumulators.capacity=1 KiB"])
    assert isinstance(run.replay, Unrolling) and run.replay.commands > 100
    assert_equal(run, whole)
    assert_places_agree(run)
