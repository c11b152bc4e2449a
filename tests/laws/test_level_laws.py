"""Laws of levels between buffers and memories: whatever is random, values and counts stay what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.account.latency import traffic_by_level, traffic_by_memory
from accelsim.errors import ModelError, SpecError
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.machine.lifetimes import occupancy
from accelsim.program.roles import Roles
from accelsim.spec.chip import Chip
from accelsim.spec.levels import managed
from accelsim.spec.memory import Attachment
from accelsim.spec.yaml.load import list_chips, load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.law_cases import Case, changed, chips, fitted, formats, graphs, options, pins, products
from tests.helpers.pruned import pruned
from tests.helpers.replays import assert_equal, both

QUICK = settings(max_examples=40)


def with_level(chip: Chip, name: str, feeder: str, capacity_B: int, latency: float = 2.0, pace: float = 1.0) -> Chip:
    """The chip with an SRAM that the compiler manages before ``feeder``, ``pace`` times as fast."""
    level = load_chip("edu-three-levels").memories["global_sram"]
    behind = chip.memories[feeder]
    memory = level.memory.model_copy(
        update={"capacity": capacity_B, "bandwidth": pace * behind.rate_Bps, "latency": latency / chip.clock}
    )
    entry = level.model_copy(update={"memory": memory, "fed_by": feeder})
    return changed(chip, "", memories={**chip.memories, name: entry})


def home(chip: Chip) -> str:
    """The memory of the activations."""

    def holds(entry: Attachment) -> bool:
        return "activations" in entry.holds and entry.fed_by is None

    return next(name for name, entry in chip.memories.items() if holds(entry))


@st.composite
def leveled(draw: Any) -> Case:
    """A random graph on one or two cores of small buffers, with one or two levels."""
    chip, graph = draw(chips(tight=True)), draw(graphs())
    chip = chip.with_cores(draw(st.sampled_from([1, 1, 2])))
    feeder = home(chip)
    for name in draw(st.sampled_from([["far"], ["far", "near"]])):
        capacity = draw(st.sampled_from([64, 500, 2000, 100_000]))
        chip = with_level(chip, name, feeder, capacity, draw(st.integers(0, 9)), draw(st.sampled_from([1, 3.7])))
        feeder = name
    dtype = draw(st.sampled_from(formats(chip)))
    mapping = {name: draw(pins()) for name in products(graph)} if draw(st.booleans()) else {}
    case = fitted(graph, chip, dtype, mapping, **draw(options(graph, chip)))
    feeds = {name: np.concatenate([value] * case.program.cores) for name, value in case.feeds.items()}
    return replace(case, feeds=feeds)


@QUICK
@given(leveled())
def test_a_level_changes_where_results_lie_and_nothing_of_what_they_are(case: Case) -> None:
    """All laws of a run hold; values are those of the reference; nothing beyond its capacity is ever in it."""
    run = case.run("exact", keep=True)
    verdict = check_run(run, pruned(case))
    assert verdict.holds, verdict.wrong
    for name in managed(case.chip):
        most = max((held for _, held in occupancy(run).get(name, [])), default=0)
        assert most <= case.chip.memories[name].memory.capacity
        assert case.program.needs[name].fits
    assert_constants_inputs_and_results_live_at_home(case)


def assert_constants_inputs_and_results_live_at_home(case: Case) -> None:
    """Whatever the levels could hold."""
    for region in case.program.regions:
        if region.memory in managed(case.chip):
            tensor = case.program.graph.tensors[region.name]
            assert not tensor.is_constant and region.name not in case.graph.inputs
    for homes in case.program.results.values():
        assert not {case.program.regions[region].memory for region in homes} & set(managed(case.chip))


@pytest.mark.parametrize("model", ["cnn", "gpt?seq=8,layers=2", "moe"])
def test_a_large_level_takes_all_the_traffic_of_activations(model: str) -> None:
    """By its closed form: each result that leaves the buffers is written once, and the memory is left with weights,
    inputs and outputs."""
    sets = ["memories.global_sram.memory.capacity=1 MiB"]
    run = accelsim.run(model, "edu-three-levels", values="off", set=sets)
    graph, regions = run.program.graph, run.program.regions
    there = [region for region in regions if region.memory == "global_sram"]
    flow = traffic_by_level(run)["global_sram"]
    assert flow["write_B"] == sum(graph.tensors[region.name].nbytes for region in there) > 0
    steps = [step.node for step in run.program.steps if step.engine == "host"]
    ends = {*graph.outputs, *graph.inputs, *(name for node in steps for name in (*node.reads, *node.writes))}
    moved = {row.tensor for row in run.ledger if row.component == "dram" and row.tensor in graph.tensors}
    assert {name for name in moved if not graph.tensors[name].is_constant} <= ends
    assert traffic_by_memory(run)["dram"]["read_B"] > 0


CHIPS = [chip.name for chip in list_chips() if load_chip(chip.name).memories]


@pytest.mark.parametrize("kind", ["holds: [activations]", "cache: {line: 128 B, ways: 16}"])
@pytest.mark.parametrize("on", CHIPS)
def test_every_chip_may_have_a_level(on: str, kind: str) -> None:
    """Whatever its engines, before the memory of its activations; values are right, and all laws hold."""
    chip = load_chip(on)
    feeder = Roles(chip).activations_home
    memory = "{kind: sram, capacity: 16 KiB, bandwidth: 9 TB/s, beat: 32 B, latency: 10 ns}"
    more = [f"memories.more={{memory: {memory}, fed_by: {feeder}, {kind}}}"]
    more += [f"{view.called(name)}.fed_by=null" for view in chip.views() for name in view.buffers]
    try:
        run = accelsim.run("cnn", on, set=more, edges="outside", keep=True)
    except (SpecError, ModelError) as error:  # it has one, a link has two directions, operators lack a host
        assert any(text in str(error) for text in ("feeds two", "one port", "has none")), error
        return
    check(run, thorough=True)
    assert check_run(run, load_model("cnn")).holds


def test_blocks_that_repeat_are_replayed_with_a_level() -> None:
    """Equal to the last femtosecond."""
    run, whole = both("gpt?layers=10,hidden=64,heads=4,seq=16", "edu-three-levels")
    assert run.replay is not None
    assert_equal(run, whole)


def test_cores_that_share_a_level_repeat_nothing_and_say_so() -> None:
    run, whole = both("gpt?layers=10,hidden=64,heads=4,seq=16", "edu-three-levels", ["cores=2"])
    assert run.replay is None and run.time_fs == whole.time_fs
    assert any(note.startswith("repeat: ") and "global_sram" in note for note in run.program.notes)
    assert not any(note.startswith("repeat: ") for note in whole.program.notes)
