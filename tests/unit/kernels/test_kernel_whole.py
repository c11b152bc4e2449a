"""The interval of a network from those of its kernels."""

from __future__ import annotations

from math import log, sqrt

import pytest

import accelsim
from accelsim.account.interval import parts
from accelsim.account.latency import summary
from accelsim.kernels.uncalibrated import CORRELATION_OTHER, CORRELATION_OWN, ENERGY, UNCALIBRATED
from accelsim.kernels.whole import Part, Width, together
from accelsim.report.table import energy_text, latency_text

OWN, OTHER = Width(1.2, True), Width(1.5, False)


def test_kernels_of_one_shape_err_together() -> None:
    one = together([Part(6.0, OWN, "a")])
    several = together([Part(1.0, OWN, "a")] * 6)
    assert one.high_s == pytest.approx(6 * 1.2) and one.low_s == pytest.approx(5.0)
    assert several == pytest.approx(one)


@pytest.mark.parametrize(("width", "r"), [(OWN, CORRELATION_OWN), (OTHER, CORRELATION_OTHER)])
def test_others_average_out_as_far_as_they_do_not_go_together(width: Width, r: float) -> None:
    found = together([Part(1.0, width, number) for number in range(100)])
    half = log(width.factor) * sqrt(r + (1 - r) / 100)
    assert log(found.high_s / 100) == pytest.approx(half) == -log(found.low_s / 100)


def test_the_share_that_is_calibrated_is_one_of_time() -> None:
    assert together([Part(3.0, OWN, "a"), Part(1.0, OTHER, "b")]).calibrated == 0.75
    assert together([]).high_s == 0


def test_a_run_on_a_calibrated_gpu_has_a_narrower_one_than_on_another() -> None:
    own, other = (
        summary(accelsim.run("gemm?M=4096,N=4096,K=4096", on, dtype="fp16", values="off", edges="outside"))
        for on in ("a100-80-sxm", "h100-pcie")
    )
    width = [facts["latency_interval"]["high_s"] / facts["latency_s"] for facts in (own, other)]
    assert width[0] < width[1] <= UNCALIBRATED["product"] * (1 + 1e-9)
    assert own["latency_interval"]["calibrated"] > 0.5 and other["latency_interval"]["calibrated"] == 0
    assert latency_text(other).endswith("uncalibrated") and "90 %: " in latency_text(own)


def test_the_energy_of_a_gpu_has_one_too() -> None:
    facts = summary(accelsim.run("gemm?M=512,N=512,K=512", "h200-sxm", dtype="fp16", values="off"))
    found = facts["energy_interval"]
    assert found["high_J"] / facts["energy_J"] == pytest.approx(ENERGY, rel=1e-9, abs=0)
    assert facts["energy_J"] / found["low_J"] == pytest.approx(ENERGY, rel=1e-9, abs=0)
    assert " mJ, 90 %: " in energy_text(facts) or " uJ, 90 %: " in energy_text(facts)


def test_where_nothing_was_compared_there_is_none() -> None:
    facts = summary(accelsim.run("cnn", "edu-4x4", values="off"))
    assert facts["latency_interval"] is None and "90 %" not in latency_text(facts)
    assert facts["energy_interval"] is None and "90 %" not in energy_text(facts)


def test_the_only_kernel_of_a_run_has_the_width_of_its_family() -> None:
    run = accelsim.run("gemm?M=64,N=64,K=64", on="a100-80-sxm", values="off")
    (part,) = parts(run) or ()
    assert part.like == ("MatMul", (64, 64), 64**3)
