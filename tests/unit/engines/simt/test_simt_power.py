"""What computing draws: the energy around an operation, busy multiprocessors, and design power as a cap."""

from __future__ import annotations

import pytest

from accelsim.account.critical_path import by_blame
from accelsim.account.energy import energy_table
from accelsim.account.latency import summary
from accelsim.engines.simt.actions import Units, product_actions
from accelsim.engines.simt.drawn import (
    AROUND_J,
    TRAFFIC,
    WHOLE_J,
    active_W,
    around_J,
    around_operation_J,
    droops,
    whole_J,
)
from accelsim.engines.simt.kernels import Kernels, columns, step_of
from accelsim.engines.simt.products import cut
from accelsim.engines.simt.spec import Simt
from accelsim.program.actions import ACTIVE
from accelsim.program.commands import Tile
from accelsim.spec.chip import Chip
from accelsim.spec.energy import sram_J_per_B
from accelsim.spec.yaml.load import load_chip
from tests.helpers.chips import GPUS
from tests.helpers.simt_cases import AROUND, product
from tests.validation.gpu_rows import simulated

A100 = load_chip("a100-80-sxm")


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
    assert 0.8 * ratio["lanes"] * AROUND_J["lanes"] < around["fp32"] <= ratio["lanes"] * AROUND_J["lanes"]
    assert around_operation_J(A100, sm(A100)) > around["fp32"] > 10 * around["fp16"]


def test_at_full_load_a_chip_draws_what_it_may() -> None:
    """A T4 has 70 W, of which 36 W are idle power: instructions get what is left."""
    t4 = load_chip("t4")
    ratio = WHOLE_J["lanes"][12] / WHOLE_J["lanes"][5]
    assert 0 < around_J(t4, sm(t4))["fp32"] < 0.5 * ratio * AROUND_J["lanes"]
    assert droops(t4, sm(t4))["fp32"] > 0


def test_what_is_around_arithmetic_at_full_load_is_what_operands_leave() -> None:
    """A T4 with a block of its largest tile at a time: energy of all that its actions book, and of what is around."""
    t4 = load_chip("t4", ["calibration=null"])
    spec, table, power = sm(t4), t4.energy, t4.power
    assert power is not None and power.tdp is not None
    tile, form = spec.tiles_of("fp32")[0], spec.formats["fp32"]
    made = product(tile.m, tile.n, step_of(spec, tile, "fp32"), "fp32")
    gemm = made.gemm
    kernel = next(iter(Kernels(spec, AROUND, made, cut(spec, "fp32", columns(spec, made), [tile], 1))))
    booked = product_actions(
        spec, Units("sm", "l2"), made, kernel, Tile(0, 1, 0, gemm.M, 0, gemm.N, 0, gemm.K)
    )
    prices = {
        f"{name}.{way}": price
        for way in ("read", "write")
        for name, price in (
            ("shared", sram_J_per_B(table.sram, float(spec.shared), way == "write")),
            ("register", float(table.register)),
        )
    } | {"mac.fp32": float(table.mac["fp32"])}
    each_J = sum(entry.count * prices.get(str(entry.action), 0.0) for entry in booked) / gemm.macs
    rate = (
        float(form.rate) * spec.multiprocessors * t4.clock * form.sustained / (1 + droops(t4, spec)["fp32"])
    )
    rest_W = float(power.idle or 0) + active_W(t4, spec) + TRAFFIC * float(power.tdp)
    rest_W += sum(float(attached.memory.static_power) for attached in t4.memories.values())
    assert (each_J + around_J(t4, spec)["fp32"]) * rate + rest_W == pytest.approx(
        float(power.tdp), rel=1e-9, abs=0
    )


def test_active_power_is_that_of_the_spec_or_a_share_of_the_design_power() -> None:
    h100 = load_chip("h100-sxm")
    assert active_W(h100, sm(h100)) == 118
    assert A100.power is not None and A100.power.idle == 66
    assert active_W(A100, sm(A100)) == pytest.approx(0.2 * (400 - 66))
    assert active_W(A100.model_copy(update={"power": None}), sm(A100)) == 0


def test_busy_multiprocessors_are_charged_while_they_work_and_not_while_they_are_launched() -> None:
    chip = load_chip("h100-sxm")
    run = simulated("gemm?M=4096,K=4096,N=4096", chip, "fp16")
    (row,) = [row for row in energy_table(run) if row.action == ACTIVE]
    working = sum(
        fs for blame, fs in by_blame(run).items() if blame.resource == "sm" and blame.kind != "launch"
    )
    assert working <= row.count < 1.2 * working
    assert row.energy_J == pytest.approx(118 * row.count * 1e-15, rel=1e-9, abs=0)
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
        assert 0.05 < summary(run)["energy_J"] / run.seconds / float(chip.power.tdp) < 1


@pytest.mark.parametrize("name", GPUS)
def test_nor_in_a_network_whose_functions_run_on_the_lanes(name: str) -> None:
    chip = load_chip(name)
    assert chip.power is not None and chip.power.tdp is not None
    dtype = next(iter(sm(chip).formats))
    run = simulated("cnn?resolution=112", name, dtype, batch=16)
    assert summary(run)["energy_J"] / run.seconds < float(chip.power.tdp)
