"""What computing draws: the energy around an operation, and design power as a cap."""

from __future__ import annotations

import pytest

from accelsim.account.latency import summary
from accelsim.engines.simt.power import SHARE, WHOLE_J, around_J, around_operation_J, droops, whole_J
from accelsim.engines.simt.spec import Simt
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.validate.gpu_rows import simulated
from tests.helpers.chips import GPUS

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


def test_arithmetic_and_what_is_around_it_are_the_whole() -> None:
    around, mac = around_J(A100, sm(A100)), A100.energy.mac
    assert around["fp16"] + float(mac["fp16"]) == pytest.approx(whole_J(A100, sm(A100))["fp16"])
    assert around_operation_J(A100, sm(A100)) > around["fp32"] > 10 * around["fp16"]


def test_idle_power_is_not_counted_twice() -> None:
    """At the clock that its design power leaves, a T4 draws what it may: 56 W, of which 36 W are idle power."""
    t4 = load_chip("t4")
    spec, mac = sm(t4), float(t4.energy.mac["fp32"])
    assert t4.power is not None and t4.power.idle is not None and t4.power.tdp is not None
    rate = SHARE * t4.power.tdp / whole_J(t4, spec)["fp32"]
    assert rate * (around_J(t4, spec)["fp32"] + mac) + t4.power.idle == pytest.approx(SHARE * t4.power.tdp)
    assert droops(t4, spec)["fp32"] > 0


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
    """Lanes that compute FP64 slowly do not draw more for that in every other operation."""
    chip = load_chip(name)
    assert chip.power is not None and chip.power.tdp is not None
    dtype = next(iter(sm(chip).formats))
    run = simulated("cnn?resolution=112", name, dtype, batch=16)
    assert summary(run)["energy_J"] / run.seconds < float(chip.power.tdp)
    unit, mac = sm(chip), load_chip(name).energy.mac
    if "fp32" in unit.formats and unit.formats["fp32"].unit == "lanes":
        whole = around_J(chip, unit)["fp32"] + float(mac.get("fp32", 0.0))
        assert around_operation_J(chip, unit) == pytest.approx(
            whole - float(chip.energy.vector["fp32"]), rel=1e-6
        )
