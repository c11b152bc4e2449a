"""Laws of the critical path on random graphs, chips and options: it explains every instant, and what could be saved."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.critical_path import KEYS, OUTSIDE, by_blame, by_step
from accelsim.account.latency import layers
from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import list_chips, load_chip
from accelsim.workload.graph import Graph
from tests.helpers.law_cases import Case, cases, changed, compiled, graphs, small_chip

QUICK = settings(max_examples=60)


def assert_explained(run: Run) -> None:
    """From 0 to the end without gap or overlap, every part somebody's, all parts the whole."""
    path = critical_path(run)  # the walk itself checks each start against its cause
    assert path[0].start == 0 and path[-1].end == run.time_fs
    assert all(before.end == after.start for before, after in pairwise(path))
    assert all(piece.end > piece.start for piece in path)
    assert sum(by_blame(run).values()) == run.time_fs
    assert sum(sum(times.values()) for times in by_step(run).values()) == run.time_fs
    table = layers(run)
    assert sum(row.added_fs for row in table) == run.time_fs - sum(by_step(run).get(OUTSIDE, {}).values())
    for row in table:
        assert sum(row.path.values()) == sum(row.reasons.values()) == row.added_fs <= row.own_fs
        assert all(fs > 0 for fs in row.path.values()) and set(row.reasons) <= set(KEYS)
        assert row.utilisation is None or 0 < row.utilisation <= 1


@settings(QUICK, max_examples=50)
@given(cases())
def test_the_path_covers_the_run_and_its_parts_add_up(case: Case) -> None:
    assert_explained(case.run())


@settings(QUICK, max_examples=25)
@given(cases(bases=("systolic-generic", "tpu-v1")), st.sampled_from(["ideal", "pattern", "bank"]))
def test_so_it_does_under_every_memory_model(case: Case, memory_model: str) -> None:
    chip = case.chip
    for name, attached in load_chip(chip.name).memories.items():  # what a DRAM is does not change by hand
        chip = changed(chip, f"memories.{name}", memory=attached.memory)
    assert_explained(simulate(replace(case.program, chip=chip), memory_model=memory_model))


@settings(QUICK, max_examples=25)
@given(graphs(), small_chip(), st.integers(2, 3))
def test_so_it_does_on_several_cores(graph: Graph, chip: Chip, cores: int) -> None:
    case = compiled(graph, chip.with_cores(cores), "fp32")
    assert_explained(case.run())


@pytest.mark.parametrize("edges", ["host", "outside"])
@pytest.mark.parametrize("name", [chip.name for chip in list_chips()])
def test_so_it_does_on_every_chip_of_the_registry(name: str, edges: str) -> None:
    from accelsim import run

    if load_chip(name).host is None:
        return  # nobody there turns inputs into codes
    assert_explained(run("mlp", name, values="off", edges=edges))


@settings(QUICK, max_examples=40)
@given(cases(bases=("tpu-v1",)), st.sampled_from(["bandwidth", "latency"]), st.integers(2, 4))
def test_a_share_of_the_path_is_the_most_that_less_of_it_can_save(case: Case, field: str, factor: int) -> None:
    """The same commands with a faster memory: the old path still exists, and only its own part is shorter.

    Ports that both directions share may serve in another order then, so that they are left out.
    """
    run = case.run()
    for name, attached in case.chip.memories.items():
        ways = {
            command.work.write
            for command in case.program.commands
            if isinstance(command.work, Transfer) and command.work.memory == name
        }
        if attached.link is not None or len(ways) > 1:
            continue
        value = getattr(attached.memory, field)
        faster = value * factor if field == "bandwidth" else value / factor
        chip = changed(case.chip, f"memories.{name}.memory", **{field: faster})
        after = simulate(replace(case.program, chip=chip))
        kind = {"bandwidth": "transfer", "latency": "latency"}[field]
        part = sum(fs for blame, fs in by_blame(run).items() if (blame.resource, blame.kind) == (name, kind))
        slack = len(critical_path(run)) * round(1e15 / case.chip.clock + 1)  # each link ends at a clock edge
        assert after.time_fs >= run.time_fs - part * (factor - 1) // factor - slack
