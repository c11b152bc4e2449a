"""A training step of a tiny model on every cluster that comes with the tool, and what its chips keep."""

from __future__ import annotations

import pytest

from accelsim.account.energy import STATIC, energy_table, total_J
from accelsim.account.spans import peak_mac_rate
from accelsim.cluster.step.asked import Asked, ready, step
from accelsim.cluster.step.costs import Costs, cost_of
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.memory import bandwidth_Bps, capacity_B
from accelsim.cluster.step.segments import Split, block
from accelsim.cluster.step.transformer import transformer_of
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.machine.simulate import simulate
from accelsim.report.step import energy_rows
from accelsim.spec.yaml.clusters import clusters, load_cluster
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.one_machine import one_machine

FOUND = transformer_of("gpt?layers=1,hidden=32,heads=2,kv_heads=2,ffn=128,vocab=32,seq=32")
assert FOUND is not None
MODEL = FOUND
FEW = {name: f"2x-{name}" for name in clusters() if name.startswith("tpu-")}
"""Pods and slices with fewer chips."""


@pytest.mark.parametrize("name", clusters())
def test_a_step_runs_on_every_cluster(name: str) -> None:
    result = step(Asked("digits-mlp?hidden=16,layers=2", FEW.get(name, name)))
    assert result.check() == []
    assert 0 < result.mfu < 1
    assert result.parts_fs["compute"] > 0 and result.parts_fs["optimiser"] > 0 and result.parts_fs["data"] > 0
    assert result.energy_J["forward"] > 0 and sum(result.by_link_B.values()) > 0


def test_a_step_tells_boards_and_the_wall_apart() -> None:
    found = step(Asked("digits-mlp?hidden=16,layers=2", "dgx-h100"))
    server = fleet_of(load_cluster("dgx-h100")).wall
    assert server is not None and found.wall_J == pytest.approx(
        server.joules(found.total_J, 8, found.time_s), rel=1e-9, abs=0
    )
    assert found.wall_ends_J is not None and found.wall_ends_J[0] < found.wall_J < found.wall_ends_J[1]
    told, facts = dict(energy_rows(found)), found.as_dict()
    assert told["at the wall, of a step"].endswith("W") and facts["wall_J"] == found.wall_J
    tiny = step(Asked("digits-mlp?hidden=16,layers=2", "4x-edu"))
    assert tiny.wall_J is None and tiny.as_dict()["wall_interval_J"] is None
    assert all("wall" not in name for name, _ in energy_rows(tiny))


def test_a_chip_without_memory_of_its_own_keeps_all_on_its_tiles() -> None:
    ipu = load_chip("ipu-gc200")
    assert capacity_B(ipu) == 1472 * (624 - 64) * 1024
    assert bandwidth_Bps(ipu) == 1472 * 8 * 1_325_000_000


def test_what_lies_on_tiles_is_not_loaded() -> None:
    """Of the time of a run the tiles' part; nothing comes from the host or goes there."""
    costs = Costs(load_chip("ipu-gc200"))
    (segment, *_) = block(Split(MODEL, 1))
    graph = costs.passes(segment).forward
    cost, run = costs.cost(graph), simulate(costs.compiled(graph), None, "off")
    assert 0 < cost.time_fs < run.time_fs and cost.moved_B == 0
    tiles = [run.slices[command.id] for command in run.program.commands if command.engine == "tiles"]
    assert cost.time_fs == sum(each.end - each.start for each in tiles)


def test_all_cores_of_a_device_work_on_each_layer() -> None:
    """The same multiplications in less time, though not in half."""
    b = Builder("product")
    graph = b.finish(b.project(b.input("x", (256, 64)), 64, "y", bias=False))
    one, two = (Costs(load_chip("edu-4x4").with_cores(cores)) for cores in (1, 2))
    alone, shared = one.cost(graph), two.cost(graph)
    assert shared.macs == alone.macs == 256 * 64 * 64
    assert shared.time_fs < alone.time_fs <= 2 * shared.time_fs
    assert peak_mac_rate(two.working, two.dtype) == 2 * peak_mac_rate(one.working, one.dtype)


def test_of_several_kinds_of_cores_the_first_works() -> None:
    chip = load_chip("edu-two-kinds")
    costs = Costs(chip)
    assert list(costs.working.cores) == ["big"]
    assert peak_mac_rate(costs.working, costs.dtype) < peak_mac_rate(chip, costs.dtype)
    assert costs.block(Split(MODEL, 1)).forward.time_fs > 0


def test_one_machine_refuses_tiles_without_another_memory() -> None:
    """Tiles would load again what lies on them."""
    asked = ready(Asked("digits-mlp?hidden=16,layers=2", "ipu-pod16"))
    with pytest.raises(UsageError, match=r"tiles of ipu-gc200.*a memory of their own"):
        one_machine(asked.work, asked.fleet, asked.plan, asked.batch)


@pytest.mark.parametrize("chip", ["a100-80-sxm", "tpu-v1", "ipu-gc200"])
def test_a_piece_draws_all_that_a_run_draws_but_static_power(chip: str) -> None:
    run = simulate(compile(load_model("mlp?hidden=256,layers=2"), load_chip(chip), Options(values="off")), None, "off")
    rows = energy_table(run)
    static = sum(row.energy_J for row in rows if row.component == STATIC)
    assert cost_of(run).energy_J == pytest.approx(total_J(rows) - static, rel=1e-9, abs=0)
