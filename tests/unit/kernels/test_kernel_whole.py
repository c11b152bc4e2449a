"""The interval of a network from those of its kernels."""

from __future__ import annotations

from math import log, sqrt

import pytest

import accelsim
from accelsim.account.interval import key_of, parts
from accelsim.account.latency import layers, summary
from accelsim.kernels.whole import (
    KERNELS,
    Interval,
    KernelSeconds,
    Width,
    added,
    correlation,
    ends,
    shipped,
    together,
    uncalibrated,
    widened,
)
from accelsim.report.intervals import basis_text
from accelsim.report.table import energy_text, latency_text, summary_rows
from accelsim.report.words import sentences

OWN, OTHER = Width(1.2, True), Width(1.5, False)


def test_kernels_of_one_shape_err_together() -> None:
    one = together([KernelSeconds(6.0, OWN, "a")])
    several = together([KernelSeconds(1.0, OWN, "a")] * 6)
    assert one.high_s == pytest.approx(6 * 1.2) and one.low_s == pytest.approx(5.0)
    assert several == pytest.approx(one)


@pytest.mark.parametrize(("width", "r"), [(OWN, correlation(True)), (OTHER, correlation(False))])
def test_others_average_out_as_far_as_they_do_not_go_together(width: Width, r: float) -> None:
    found = together([KernelSeconds(1.0, width, number) for number in range(100)])
    half = log(width.factor) * sqrt(r + (1 - r) / 100)
    assert log(found.high_s / 100) == pytest.approx(half) == -log(found.low_s / 100)


def test_the_share_that_is_calibrated_is_one_of_time() -> None:
    assert together([KernelSeconds(3.0, OWN, "a"), KernelSeconds(1.0, OTHER, "b")]).calibrated == 0.75
    assert together([]).high_s == 0


def test_a_run_on_a_calibrated_gpu_has_a_narrower_one_than_on_another() -> None:
    own, other = (
        summary(accelsim.run("gemm?M=4096,N=4096,K=4096", on, dtype="fp16", values="off", edges="outside"))
        for on in ("a100-80-sxm", "h100-pcie")
    )
    width = [facts["latency_interval"]["high_s"] / facts["latency_s"] for facts in (own, other)]
    assert width[0] < width[1] <= uncalibrated("product") * (1 + 1e-9)
    assert own["latency_interval"]["calibrated"] > 0.5 and other["latency_interval"]["calibrated"] == 0
    assert latency_text(other).endswith("uncalibrated") and "90 %: " in latency_text(own)


def test_the_energy_of_a_gpu_has_one_too() -> None:
    facts = summary(accelsim.run("gemm?M=512,N=512,K=512", "h200-sxm", dtype="fp16", values="off"))
    found = facts["energy_interval"]
    assert found["basis"] == "joules"
    assert (found["low_J"], found["high_J"]) == ends("joules", facts["energy_J"])
    assert facts["power_interval_W"] is None
    facts = summary(accelsim.run("mlp?hidden=64", "h200-sxm", dtype="fp16", values="off"))
    assert facts["power_interval_W"] == ends("watts", facts["power_average_W"])
    assert " mJ, 90 %: " in energy_text(facts) or " uJ, 90 %: " in energy_text(facts)


def test_where_nothing_was_compared_there_is_none() -> None:
    facts = summary(accelsim.run("cnn", "edu-4x4", values="off"))
    assert facts["latency_interval"] is None and "90 %" not in latency_text(facts)
    assert facts["energy_interval"] is None and "90 %" not in energy_text(facts)


def test_the_only_kernel_of_a_run_has_the_width_of_its_family() -> None:
    run = accelsim.run("gemm?M=64,N=64,K=64", on="a100-80-sxm", values="off")
    (part,) = parts(run) or ()
    assert part.like == ("MatMul", (64, 64), 64**3)


def test_the_family_that_most_of_the_width_comes_of_is_named() -> None:
    wide, narrow = (
        KernelSeconds(1.0, Width(2.0, False), "a", "attention"),
        KernelSeconds(5.0, Width(1.05, True), "b", "product"),
    )
    assert together([narrow, wide]).family == "attention"
    assert together([narrow, KernelSeconds(0.1, Width(2.0, False), "a", "attention")]).family == "product"


def test_the_wider_of_kernels_and_wholes_is_printed() -> None:
    whole = ends("step: many nodes", 1.0)
    assert whole is not None and whole[0] < 1 < whole[1] and ends("no such key", 1.0) is None
    narrow = widened(Interval(0.99, 1.01, 1.0, kernels=1.01), 1.0, "step: many nodes")
    assert narrow is not None and narrow.basis == "step: many nodes"
    assert (narrow.low_s, narrow.high_s) == whole and narrow.kernels == 1.01
    wide = Interval(0.1, 10.0, 0.0, family="convolution")
    assert widened(wide, 1.0, "step: many nodes") is wide and wide.basis == KERNELS
    assert widened(wide, 1.0, "no such key") is wide and widened(None, 1.0, "network") is None


def test_times_one_after_the_other_err_together() -> None:
    found = added([Interval(1.0, 4.0, 1.0, family="product"), Interval(2.0, 3.0, 0.0, family="decode")])
    assert (found.low_s, found.high_s, found.family) == (3.0, 7.0, "product")
    assert 0 < found.calibrated < 1


def test_what_is_exact_beside_kernels_narrows_their_interval() -> None:
    found = Interval(0.5, 2.0, 1.0).scaled(0.5, 10.0, 1.0)
    assert (found.low_s, found.high_s, found.calibrated) == (7.5, 15.0, 0.5)
    assert found.kernels == pytest.approx(2**0.5)


def test_rates_have_the_interval_of_the_time_turned_over() -> None:
    assert Interval(0.5, 2.0, 1.0).rates(10.0) == (5.0, 20.0)
    facts = summary(accelsim.run("mlp?hidden=64", on="a100-80-sxm", dtype="fp16", values="off", batch=8))
    low, high = facts["throughput_interval_per_s"]
    assert low == 8 / facts["latency_interval"]["high_s"] < facts["throughput_per_s"] < high
    assert "/s, 90 %: " in dict(summary_rows(facts))["throughput"]
    assert ", 90 %: " in dict(summary_rows(facts))["average power"]


@pytest.mark.parametrize(("batch", "key"), [(1, "network: eager, host"), (65536, "network: eager, GPU")])
def test_what_waits_for_its_host_is_a_kind_of_its_own(batch: int, key: str) -> None:
    run = accelsim.run(
        "mlp?hidden=512", "a100-80-sxm", dtype="fp32", batch=batch, fusion="eager", site="pytorch-eager",
        values="off", edges="outside",
    )  # fmt: skip
    assert key_of(run) == key


@pytest.mark.parametrize("key", sorted(shipped().wholes))
def test_what_an_interval_stands_on_can_be_said(key: str) -> None:
    text = basis_text(key)
    assert text.startswith("that of ") and shipped().wholes[key].fitted_on in text


def test_a_run_says_what_its_interval_stands_on() -> None:
    run = accelsim.run("mlp?hidden=256", on="a100-80-sxm", dtype="fp16", values="off")
    facts = summary(run)
    assert facts["latency_interval"]["basis"] in (*shipped().wholes, KERNELS)
    assert "The 90 % interval of the latency is that of " in " ".join(sentences(run, layers(run), facts))
