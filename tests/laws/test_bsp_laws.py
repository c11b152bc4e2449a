"""Laws of runs on machines of tiles: random graphs, tiles, formats."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import by_component, by_op, energy_table, total_J
from accelsim.engines.bsp.lower import STAGES
from accelsim.errors import OverCapacity
from accelsim.machine.check import check
from accelsim.machine.critical_path import critical_path
from accelsim.program.work import Stages
from accelsim.spec.chip import Chip
from accelsim.time import Clock
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from tests.helpers.bsp_cases import chips
from tests.helpers.law_cases import cached_graphs, compiled, expert_graphs, graphs

GRAPHS = st.one_of(graphs(), graphs(), cached_graphs(), expert_graphs())
FORMATS = st.sampled_from(["fp16", "fp32"])


@settings(max_examples=80)
@given(GRAPHS, chips(), FORMATS)
def test_every_policy_gives_one_timeline_and_the_values_of_the_graph(graph: Graph, chip: Chip, dtype: str) -> None:
    case = compiled(graph, chip, dtype)
    exact, fast, off = (case.run(values, keep=values != "off") for values in ("exact", "fast", "off"))
    check(exact, thorough=True)
    for other in (fast, off):
        assert (other.slices, other.ledger, other.engines) == (exact.slices, exact.ledger, exact.engines)
    whole = execute.run(case.program.graph, case.feeds, keep=True)
    for run in (exact, fast):
        for name, values in run.tensors.items():
            np.testing.assert_array_equal(values, whole[name].reshape(values.shape), err_msg=name)


@settings(max_examples=60)
@given(GRAPHS, chips(), FORMATS)
def test_parts_equal_the_total(graph: Graph, chip: Chip, dtype: str) -> None:
    run = compiled(graph, chip, dtype).run("off")
    rows = energy_table(run)
    for parts in (by_component(rows), by_op(rows), by_category(run.chip, rows)):
        assert fsum(parts.values()) == pytest.approx(total_J(rows), rel=1e-12, abs=0)
    stages = [command.work for command in run.program.commands if isinstance(command.work, Stages)]
    clock = Clock(next(iter(chip.engines.values())).clock or chip.clock)
    busy = sum(entry.busy for entry in run.engines if entry.engine in chip.engines)
    clocks = sum(work.clocks for work in stages)
    assert abs(busy - clock.at(clocks)) <= len(stages)  # each end of a superstep is a whole number of fs
    path = sum(piece.end - piece.start for piece in critical_path(run) if piece.kind in STAGES)
    assert path <= busy + len(stages)


@settings(max_examples=60)
@given(GRAPHS, chips(), FORMATS, st.integers(1, 60_000))
def test_a_tile_never_holds_more_than_its_memory(graph: Graph, chip: Chip, dtype: str, part_B: int) -> None:
    """What does not fit is refused with its terms; what fits is never faster than with more room."""
    (name, buffer), (unit,) = next(iter(chip.buffers.items())), chip.engines.values()
    less = chip.with_core(memories={name: buffer.model_copy(update={"capacity": part_B * unit.tiles})})
    try:
        tight = compiled(graph, less, dtype)
    except OverCapacity as error:
        (need,) = error.needs
        assert need.available_B == part_B - (unit.reserve or 0) < need.needed_B
        return
    assert compiled(graph, chip, dtype).run().time_fs <= tight.run().time_fs
