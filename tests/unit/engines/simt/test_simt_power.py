"""What computing draws: the energy around an operation, busy multiprocessors, and design power as a cap."""

from __future__ import annotations

import pytest

from accelsim.account.critical_path import by_blame
from accelsim.account.energy import HOST_IDLE, energy_table
from accelsim.engines.simt import words
from accelsim.engines.simt.drawn import (
    AROUND_J,
    WHOLE_J,
    active_W,
    around_J,
    around_operation_J,
    whole_J,
)
from accelsim.engines.simt.spec import Simt
from accelsim.machine.run import Run
from accelsim.program.actions import ACTIVE, mac
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
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


def test_formats_of_twice_the_rate_draw_half_as_much() -> None:
    whole = whole_J(A100, sm(A100))
    assert (
        whole["fp16"]
        == 2 * WHOLE_J["tensor"][7]
        == 2 * whole["int8"]
        == 4 * whole["int4"]
        == whole["tf32"] / 2
    )
    assert whole["fp32"] == 2 * WHOLE_J["lanes"][7]


def test_what_is_around_arithmetic_is_that_of_the_measured_node_by_the_ratio_of_nodes() -> None:
    around = around_J(A100, sm(A100))
    ratio = {unit: WHOLE_J[unit][7] / WHOLE_J[unit][5] for unit in WHOLE_J}
    assert (
        around["fp16"]
        == pytest.approx(ratio["tensor"] * AROUND_J["tensor"], rel=1e-9, abs=0)
        == pytest.approx(2 * around["int8"], rel=1e-9, abs=0)
    )
    assert around["fp32"] == pytest.approx(ratio["lanes"] * AROUND_J["lanes"], rel=1e-9, abs=0)
    assert around_operation_J(A100, sm(A100)) > around["fp32"] > 5 * around["fp16"]


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


def test_half_the_clock_takes_a_quarter_of_the_energy_of_an_operation() -> None:
    """And an eighth of the power of busy multiprocessors: voltage falls with the clock."""
    chip, half = load_chip("h100-sxm"), load_chip("h100-sxm", ["sm.sustained_clock=0.5"])
    whole, less = (words.prices(each, Unit("sm", "simt", sm(each))) for each in (chip, half))
    assert whole[mac("fp16")].energy_J == pytest.approx(4 * less[mac("fp16")].energy_J, rel=1e-9, abs=0)
    assert whole[ACTIVE].energy_J == pytest.approx(8 * less[ACTIVE].energy_J, rel=1e-9, abs=0)


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
    working = sum(
        fs for blame, fs in by_blame(run).items() if blame.resource == "sm" and blame.kind != "launch"
    )
    assert working <= row.count < 1.2 * working
    assert row.energy_J == pytest.approx(89 * row.count * 1e-15, rel=1e-9, abs=0)
    few = simulated("gemm?M=64,K=4096,N=64", load_chip("h100-sxm", ["sm.splits=[1]"]), "fp16")
    (row,) = [row for row in energy_table(few) if row.action == ACTIVE]
    assert row.count < 0.05 * few.time_fs, "one block is on one of 132 multiprocessors"


def test_a_node_that_is_not_known_has_only_its_table() -> None:
    chip = A100.model_copy(update={"process": "3 nm"})
    assert (
        whole_J(chip, sm(chip)) == {} == around_J(chip, sm(chip)) and around_operation_J(chip, sm(chip)) == 0
    )


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
