"""What computing draws: the energy around an operation, busy multiprocessors, and design power as a cap."""

from __future__ import annotations

import pytest

from accelsim.account.critical_path import by_blame
from accelsim.account.energy import HOST_IDLE, energy_table
from accelsim.engines.registry import ENGINES
from accelsim.engines.simt.actions import AROUND, FUSED, OPERATION
from accelsim.engines.simt.drawn import active_W, around_J, around_operations_J, operation_J, shipped, whole_J
from accelsim.engines.simt.spec import Simt
from accelsim.machine.run import Run
from accelsim.program.actions import ACTIVE, ActionName, mac
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.zoo.build import Builder
from tests.helpers.chips import GPUS
from tests.validation.gpu_rows import simulated

A100 = load_chip("a100-80-sxm")


def board_W(run: Run) -> float:
    """Return what the board draws: without host and links."""
    near = [row for row in energy_table(run) if "pcie" not in row.component and row.component != "host"]
    return sum(row.energy_J for row in near if row.action != HOST_IDLE) / run.seconds


def sm(chip: Chip) -> Simt:
    """The multiprocessors of a chip."""
    found = next(iter(next(iter(chip.cores.values())).engines.values()))
    assert isinstance(found, Simt)
    return found


def energy(unit: str, node: int) -> float:
    """Energy of an operation on a node that is known."""
    found = operation_J(node, unit)
    assert found is not None
    return found


def test_formats_of_twice_the_rate_draw_half_as_much() -> None:
    whole = whole_J(A100, sm(A100))
    assert whole["fp16"] == 2 * energy("tensor", 7) == 2 * whole["int8"] == 4 * whole["int4"] == whole["tf32"] / 2
    assert whole["fp32"] == 2 * energy("lanes", 7)


def test_what_is_around_arithmetic_is_that_of_the_measured_node_by_the_ratio_of_nodes() -> None:
    around = around_J(A100, sm(A100))
    ratio = {unit: energy(unit, 7) / energy(unit, 5) for unit in ("lanes", "tensor")}
    assert (
        around["fp16"]
        == pytest.approx(ratio["tensor"] * shipped().around_tensor, rel=1e-9, abs=0)
        == pytest.approx(2 * around["int8"], rel=1e-9, abs=0)
    )
    assert around["fp32"] == pytest.approx(ratio["lanes"] * shipped().around_lanes, rel=1e-9, abs=0)
    assert around_operations_J(A100)[0] > around["fp32"] > 5 * around["fp16"]


def test_a_board_that_would_draw_more_than_it_may_lowers_its_voltage() -> None:
    """A layer of GPT-3 at the highest clock of an H100 draws more than 700 W; the board draws as much as it may."""
    chip = load_chip("h100-sxm")
    assert chip.power is not None
    free = chip.model_copy(update={"power": chip.power.model_copy(update={"tdp": None})})
    drawn_W = {
        name: board_W(simulated("gpt3?layers=1,seq=1024", on, "fp16", batch=4))
        for name, on in (("limited", chip), ("free", free))
    }
    assert drawn_W["free"] > 800
    assert drawn_W["limited"] == pytest.approx(700, rel=0.01)


@pytest.mark.parametrize(("clock", "energy"), [(0.8, 0.64), (0.5, 0.48), (0.3, 0.48)])
def test_voltage_falls_with_the_clock_until_it_is_at_its_lowest(clock: float, energy: float) -> None:
    """An operation takes the square of the clock, busy multiprocessors draw the cube."""
    chips = [load_chip("h100-sxm", [f"sm.sustained_clock={each}"]) for each in (1.0, clock)]
    whole, less = (ENGINES["simt"].prices(each, Unit("sm", "simt", sm(each))) for each in chips)
    assert less[mac("fp16")].energy_J == pytest.approx(energy * whole[mac("fp16")].energy_J, rel=1e-9, abs=0)
    assert less[ACTIVE].energy_J == pytest.approx(energy * clock * whole[ACTIVE].energy_J, rel=1e-9, abs=0)


def test_operations_behind_a_product_take_what_an_instruction_has_around_it() -> None:
    """Operations of a function bring its elements from the cache and back, or are several instructions."""
    count: dict[str, int] = {}
    for row in simulated("cnn?resolution=32", "a100-80-sxm", "int8", batch=4).ledger:
        if row.action.kind == AROUND:
            count[row.action.of] = count.get(row.action.of, 0) + row.count
    assert count[FUSED] > 0
    assert around_operations_J(A100)[1] < around_operations_J(A100)[0] / 4


def test_the_first_operation_on_each_element_brings_it_into_registers() -> None:
    """An addition alone is one operation of a function; of two in one kernel the second is on what is there."""
    build = Builder("sums")
    names = [build.input(name, (64, 64)) for name in "abc"]
    sums = build.op("Add", [build.op("Add", names[:2], "s"), names[2]], "y")
    counts = {}
    for fusion in ("eager", "compiled"):
        run = simulated(build.finish(sums), "a100-80-sxm", "fp16", fusion=fusion)
        for of in (OPERATION, FUSED):
            of_kind = [row.count for row in run.ledger if row.action == ActionName(AROUND, of)]
            counts[fusion, of] = sum(of_kind)
    assert counts == {
        ("eager", OPERATION): 2 * 64**2, ("eager", FUSED): 0,
        ("compiled", OPERATION): 64**2, ("compiled", FUSED): 64**2,
    }  # fmt: skip


def test_active_power_is_that_of_the_spec_or_a_share_of_the_design_power() -> None:
    h100 = load_chip("h100-sxm")
    assert active_W(h100, sm(h100)) == 89
    assert A100.power is not None and A100.power.idle == 66
    assert active_W(A100, sm(A100)) == pytest.approx(0.15 * (400 - 66))
    assert active_W(A100.model_copy(update={"power": None}), sm(A100)) == 0


def test_busy_multiprocessors_are_charged_while_they_work_and_not_while_they_are_launched() -> None:
    chip = load_chip("h100-sxm")
    run = simulated("gemm?M=4096,K=4096,N=4096", chip, "fp16")
    (row,) = [row for row in energy_table(run) if row.action == ACTIVE]
    working = sum(fs for blame, fs in by_blame(run).items() if blame.resource == "sm" and blame.kind != "launch")
    assert working <= row.count < 1.2 * working
    assert row.energy_J == pytest.approx(89 * row.count * 1e-15, rel=1e-9, abs=0)
    few = simulated("gemm?M=64,K=4096,N=64", load_chip("h100-sxm", ["sm.splits=[1]"]), "fp16")
    (row,) = [row for row in energy_table(few) if row.action == ACTIVE]
    assert row.count < 0.05 * few.time_fs, "one block is on one of 132 multiprocessors"


def test_a_node_that_is_not_known_has_only_its_table() -> None:
    chip = A100.model_copy(update={"process": "3 nm"})
    assert whole_J(chip, sm(chip)) == {} == around_J(chip, sm(chip)) and around_operations_J(chip) == (0, 0)


@pytest.mark.parametrize("name", GPUS)
def test_no_gpu_draws_more_than_its_design_power(name: str) -> None:
    chip = load_chip(name)
    assert chip.power is not None and chip.power.tdp is not None
    for dtype in sorted({"fp32", "fp16", "int8"} & set(sm(chip).formats)):
        run = simulated("gemm?M=4096,K=4096,N=4096", name, dtype)
        assert 0.05 < board_W(run) / float(chip.power.tdp) < 1 + 1e-9


@pytest.mark.parametrize("name", GPUS)
def test_nor_in_a_network_whose_functions_run_on_the_lanes(name: str) -> None:
    chip = load_chip(name)
    assert chip.power is not None and chip.power.tdp is not None
    dtype = next(iter(sm(chip).formats))
    run = simulated("cnn?resolution=112", name, dtype, batch=16)
    assert board_W(run) < float(chip.power.tdp)
