"""Copies of alike blocks: what is replayed is what the simulation of every command gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.replays import assert_replay_is_right, assert_replayed_is_simulated, both

BUFFERS = {
    "edu-4x4": ("act_sram", "accumulators"),
    "edu-mixed": ("act_sram", "accumulators"),
    "edu-tensor-core": ("act_sram", "accumulators"),
    "haswell-e5-2699v3": (),
    "systolic-generic": ("act_sram", "accumulators"),
    "tpu-v1": ("unified_buffer", "accumulators"),
}
"""Chip -> its buffers of activations and of sums, whose sizes decide whether the state of the compiler recurs."""

CLOCKS = ("", "700 MHz", "933 MHz", "1.12 GHz")
"""Clocks to choose from, '' for the chip's own; a period of these is no whole number of femtoseconds."""


@st.composite
def networks(draw: Any) -> tuple[str, str, list[str]]:
    """A network of alike blocks, a chip with small buffers and any clocks."""
    chip = draw(st.sampled_from(sorted(BUFFERS)))
    sizes = [draw(st.sampled_from([16, 32, 64, 128])), draw(st.sampled_from([2, 4, 8, 16]))]
    sets = [f"{name}.capacity={size} KiB" for name, size in zip(BUFFERS[chip], sizes, strict=False)]
    for name in ("clock", "vector.clock") if BUFFERS[chip] else ():
        if rate := draw(st.sampled_from(CLOCKS)):
            sets += [f"{name}={rate}", "peak={}"]
    layers, hidden = draw(st.integers(7, 14)), draw(st.sampled_from([64, 128, 192]))
    seq, kind = draw(st.sampled_from([8, 16, 33])), draw(st.sampled_from(["gpt", "bert", "mlp", "llama"]))
    size = f"layers={layers},hidden={4 * hidden if kind == 'mlp' else hidden}"
    more = {"mlp": "", "llama": f",seq={seq}"}.get(kind, f",seq={seq},heads=4")
    return f"{kind}?{size}{more}", chip, sets


@settings(max_examples=8)
@given(networks())
def test_what_is_replayed_is_what_is_simulated(network: tuple[str, str, list[str]]) -> None:
    """With those of the networks whose state does not recur."""
    assert_replayed_is_simulated(*network)


@pytest.mark.parametrize(
    "model, chip, sets",
    [
        ("gpt?layers=9,hidden=192,heads=4,seq=64", "edu-4x4",
         ["act_sram.capacity=64 KiB", "accumulators.capacity=16 KiB"]),
        ("mlp?hidden=512,layers=21", "edu-mixed",
         ["act_sram.capacity=32 KiB", "accumulators.capacity=2 KiB"]),
        ("bert?layers=16,hidden=192,heads=4,seq=8", "edu-tensor-core",
         ["act_sram.capacity=256 KiB", "accumulators.capacity=8 KiB"]),
        ("gpt?layers=18,hidden=256,heads=4,seq=16", "systolic-generic",
         ["act_sram.capacity=16 KiB", "accumulators.capacity=2 KiB"]),
        ("gpt?layers=11,hidden=512,heads=8,seq=32", "tpu-v1",
         ["unified_buffer.capacity=64 KiB", "accumulators.capacity=2 KiB"]),
        ("llama?layers=13,hidden=192,seq=64", "haswell-e5-2699v3", []),
        ("gpt3?layers=9,seq=512", "a100-80-sxm", []),
    ],
)  # fmt: skip
def test_it_is_replayed(model: str, chip: str, sets: list[str]) -> None:
    """One network for each chip whose state is known to recur."""
    run, whole = both(model, chip, sets)
    assert run.replay is not None and run.replay.equal and run.replay.commands > 0
    assert_replay_is_right(run, whole)


@pytest.mark.parametrize(
    "model, chip, sets",
    [
        ("gpt?layers=9,hidden=192,heads=4,seq=64", "edu-4x4",
         ["clock=70 MHz", "act_sram.capacity=64 KiB", "accumulators.capacity=16 KiB"]),
        ("gpt?layers=9,hidden=64,heads=4,seq=33", "edu-4x4",
         ["clock=700 MHz", "act_sram.capacity=16 KiB", "accumulators.capacity=2 KiB"]),
        ("mlp?hidden=512,layers=32", "edu-mixed",
         ["clock=933 MHz", "act_sram.capacity=32 KiB", "accumulators.capacity=2 KiB"]),
        ("gpt?layers=18,hidden=256,heads=4,seq=16", "systolic-generic",
         ["clock=700 MHz", "act_sram.capacity=16 KiB", "accumulators.capacity=2 KiB"]),
        ("bert?layers=14,hidden=128,heads=4,seq=8", "tpu-v1",
         ["unified_buffer.capacity=16 KiB", "accumulators.capacity=4 KiB"]),
    ],
)  # fmt: skip
def test_clocks_that_are_no_whole_femtoseconds(model: str, chip: str, sets: list[str]) -> None:
    """A block takes a whole number of edges and no whole number of femtoseconds."""
    run, whole = both(model, chip, ["peak={}", *sets])
    assert run.replay is not None and run.replay.equal and run.replay.shift.denominator > 1
    assert_replay_is_right(run, whole)


def test_values_change_nothing() -> None:
    """A run with values simulates every command; times, counts and path are those of the replay."""
    chip, graph = load_chip("haswell-e5-2699v3"), load_model("mlp?hidden=64,layers=20")
    feeds = {name: np.ones(graph.tensors[name].shape, np.float32) for name in graph.inputs}
    replayed = simulate(compile(graph, chip, Options(values="off")))
    run = simulate(compile(graph, chip, Options(values="exact")), feeds, "exact")
    assert replayed.replay is not None and run.replay is None
    assert list(replayed.slices) == list(run.slices) and replayed.ledger == run.ledger
    assert simulate(replayed.program, feeds, "fast").outputs.keys() == run.outputs.keys()
